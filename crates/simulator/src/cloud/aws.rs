//! The services of Amazon Web Services that `provider-aws` calls, played on loopback from the one
//! model of the cloud: EC2 and Auto Scaling, in their query form.
//!
//! Owns the outside of both services: requests, errors, lost answers. Must not keep state of its
//! own. It knows the caller by the access key of the signature, which it does not verify.

mod autoscaling;
mod ec2;
mod form;
mod xml;

use std::fmt;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use shipshape_provider::Error;

use super::CloudHandle;
use form::Form;

/// Version of EC2's query form, by which its requests are known.
const EC2_VERSION: &str = "2016-11-15";

/// What the services can do.
#[derive(Clone, Copy, Debug)]
pub struct Services {
    /// Whether a group launches machines when asked (`LaunchInstances`).
    pub group_launch: bool,
    /// Instances on one page of a list.
    pub page: usize,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            group_launch: true,
            page: 100,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug)]
enum Fault {
    /// The service says so.
    Said { code: &'static str, message: String },
    /// The connection is cut before the answer.
    Cut,
}

impl Fault {
    fn said(code: &'static str, message: impl Into<String>) -> Self {
        Self::Said {
            code,
            message: message.into(),
        }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::said("ValidationError", message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said { code, message } => write!(formatter, "{code}: {message}"),
            Self::Cut => formatter.write_str("the connection was closed"),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound { what } => Self::said(
                "InvalidInstanceID.NotFound",
                format!("{what} does not exist"),
            ),
            Error::NoCapacity { message, .. } => {
                Self::said("InsufficientInstanceCapacity", message)
            }
            Error::Refused { message, .. } => Self::invalid(message),
            Error::Throttled { message } => Self::said("RequestLimitExceeded", message),
            Error::NoAnswer { .. } => Self::Cut,
            Error::Denied { message, .. } => Self::said("UnauthorizedOperation", message),
        }
    }
}

/// The inside of an answer, or why there is none.
type Answer = Result<String, Fault>;

#[derive(Clone)]
struct Front {
    cloud: CloudHandle,
    services: Services,
}

/// Serves both services on a loopback listener until the future is dropped.
pub async fn serve(
    cloud: CloudHandle,
    services: Services,
    listener: tokio::net::TcpListener,
) -> std::io::Result<()> {
    let front = Front { cloud, services };
    let routes = Router::new().route("/", post(answer)).with_state(front);
    axum::serve(listener, routes).await
}

async fn answer(State(front): State<Front>, headers: HeaderMap, body: Bytes) -> Response {
    let form = Form::parse(&body);
    let action = form.get("Action").unwrap_or_default().to_owned();
    let is_ec2 = form.get("Version") == Some(EC2_VERSION);
    let Some(caller) = caller(&headers) else {
        let fault = Fault::said("MissingAuthenticationToken", "the request is not signed");
        return failed(&fault, is_ec2);
    };
    let cloud = front.cloud.called_by(&caller);
    let result = if is_ec2 {
        ec2::answer(&cloud, front.services, &action, &form)
    } else {
        autoscaling::answer(&cloud, front.services, &action, &form)
    };
    match result {
        Ok(inner) => document(StatusCode::OK, &whole(&action, &inner, is_ec2)),
        Err(fault) => failed(&fault, is_ec2),
    }
}

/// The access key in the signature.
fn caller(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let signed = value.strip_prefix("AWS4-HMAC-SHA256 Credential=")?;
    Some(signed.split('/').next()?.to_owned())
}

fn whole(action: &str, inner: &str, is_ec2: bool) -> String {
    let name = format!("{action}Response");
    if is_ec2 {
        let request = xml::text("requestId", "00000000-0000-0000-0000-000000000000");
        return xml::element(&name, &format!("{request}{inner}"));
    }
    let result = xml::element(&format!("{action}Result"), inner);
    xml::element(&name, &result)
}

fn failed(fault: &Fault, is_ec2: bool) -> Response {
    let Fault::Said { code, message } = fault else {
        return cut();
    };
    let code = match (*code, is_ec2) {
        ("RequestLimitExceeded", false) => "Throttling",
        (code, _) => code,
    };
    let error = format!(
        "{}{}",
        xml::text("Code", code),
        xml::text("Message", message)
    );
    let error = xml::element("Error", &error);
    let text = if is_ec2 {
        xml::element("Response", &xml::element("Errors", &error))
    } else {
        xml::element("ErrorResponse", &error)
    };
    let status = if code == "RequestLimitExceeded" {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::BAD_REQUEST
    };
    document(status, &text)
}

fn document(status: StatusCode, text: &str) -> Response {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{text}");
    (status, [(header::CONTENT_TYPE, "text/xml")], body).into_response()
}

/// An answer that breaks off.
fn cut() -> Response {
    let broken = futures::stream::once(async {
        Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
    });
    Body::from_stream(broken).into_response()
}
