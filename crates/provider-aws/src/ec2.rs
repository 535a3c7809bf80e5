//! The few calls of EC2 that are needed, over its query protocol, signed by the official signer.
//!
//! Owns one request and its answer. Must not repeat: `pace` does. Why not the official client:
//! docs/adr/0005.

pub(crate) mod calls;
pub(crate) mod xml;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::http::{HttpConnector, SharedHttpConnector};
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use shipshape_cluster::Clock;

use crate::failure::Failure;

/// The version of the protocol.
const VERSION: &str = "2016-11-15";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
/// Credentials are fetched anew this long before they end.
const RENEW_BEFORE: Duration = Duration::from_mins(5);

/// Names and values of a request's form, in order.
pub(crate) type Form = Vec<(String, String)>;

/// The client.
pub(crate) struct Ec2 {
    connector: SharedHttpConnector,
    credentials: SharedCredentialsProvider,
    /// The latest credentials: a provider may ask the metadata service each time it is asked.
    latest: Mutex<Option<Credentials>>,
    endpoint: String,
    region: String,
    clock: Clock,
}

impl Ec2 {
    pub(crate) fn new(
        connector: SharedHttpConnector,
        credentials: SharedCredentialsProvider,
        endpoint: String,
        region: String,
    ) -> Self {
        Self {
            connector,
            credentials,
            latest: Mutex::new(None),
            endpoint,
            region,
            // Signatures are about the machine's own time, in tests as well.
            clock: Clock::System,
        }
    }

    /// Sends one action; the answer is a whole document.
    async fn send(&self, action: &'static str, form: &Form) -> Result<String, Failure> {
        let body = encode(action, form);
        let now = SystemTime::from(self.clock.now());
        let identity: Identity = self.credentials(now).await?.into();
        let request = self.request(&identity, now, body)?;
        let request = request.try_into().map_err(Failure::lost)?;
        let response = self
            .connector
            .call(request)
            .await
            .map_err(|error| Failure::lost(chain(&error)))?;
        let status = response.status();
        let body = ByteStream::new(response.into_body())
            .collect()
            .await
            .map_err(|error| Failure::lost(chain(&error)))?;
        let text = String::from_utf8(body.to_vec()).map_err(Failure::lost)?;
        if status.is_success() {
            return Ok(text);
        }
        let failure = error_of(&text, status.as_u16());
        if failure.meaning() == crate::failure::Meaning::Denied {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Err(failure)
    }

    fn request(
        &self,
        identity: &Identity,
        now: SystemTime,
        body: String,
    ) -> Result<Request<SdkBody>, Failure> {
        let url = format!("{}/", self.endpoint.trim_end_matches('/'));
        let uri: http::Uri = url.parse().map_err(Failure::lost)?;
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        let params = v4::SigningParams::builder()
            .identity(identity)
            .region(&self.region)
            .name("ec2")
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(Failure::lost)?
            .into();
        let headers = [("host", host.as_str()), ("content-type", FORM)];
        let signable = SignableRequest::new(
            "POST",
            url.as_str(),
            headers.into_iter(),
            SignableBody::Bytes(body.as_bytes()),
        )
        .map_err(Failure::lost)?;
        let (instructions, _) = sign(signable, &params).map_err(Failure::lost)?.into_parts();
        let mut request = Request::post(uri)
            .header(HOST, &host)
            .header(CONTENT_TYPE, FORM)
            .body(SdkBody::from(body))
            .map_err(Failure::lost)?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(request)
    }

    async fn credentials(&self, now: SystemTime) -> Result<Credentials, Failure> {
        let latest = self
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let lasts = |it: &Credentials| it.expiry().is_none_or(|end| end > now + RENEW_BEFORE);
        if let Some(latest) = latest.filter(lasts) {
            return Ok(latest);
        }
        let fresh = self
            .credentials
            .provide_credentials()
            .await
            .map_err(|error| Failure::answered("AuthFailure", chain(&error)))?;
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh.clone());
        Ok(fresh)
    }
}

fn encode(action: &str, form: &Form) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair("Action", action)
        .append_pair("Version", VERSION)
        .extend_pairs(form)
        .finish()
}

/// The error in a document that came with a bad status.
fn error_of(text: &str, status: u16) -> Failure {
    let document = roxmltree::Document::parse(text).ok();
    let error = document.as_ref().and_then(|document| {
        let errors = xml::child(document.root_element(), "Errors")?;
        let error = xml::child(errors, "Error")?;
        let code = xml::text(error, &["Code"])?;
        let message = xml::text(error, &["Message"]).unwrap_or_default();
        Some(Failure::answered(code, message))
    });
    match error {
        // Whatever it says, a server that is at fault may have done what it was asked.
        Some(Failure::Answered { code, message })
            if status >= 500
                && Failure::answered(&code, "").meaning() == crate::failure::Meaning::Refused =>
        {
            Failure::lost(format!("{code}: {message}"))
        }
        Some(error) => error,
        None => Failure::lost(format!("status {status} without an error that can be read")),
    }
}

/// An error with all its causes, which the SDK's errors keep to themselves.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_error_document_is_found() {
        let text = "<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code>\
                    <Message>no &lt;such&gt;</Message></Error></Errors></Response>";
        assert_eq!(
            error_of(text, 400),
            Failure::answered("InvalidInstanceID.NotFound", "no <such>")
        );
    }

    #[test]
    fn half_a_document_is_a_lost_answer() {
        assert!(matches!(
            error_of("<Response><Errors>", 400),
            Failure::Lost { .. }
        ));
    }

    #[test]
    fn a_server_at_fault_may_have_done_it() {
        let text = "<Response><Errors><Error><Code>Odd</Code></Error></Errors></Response>";
        assert!(matches!(error_of(text, 500), Failure::Lost { .. }));
    }
}
