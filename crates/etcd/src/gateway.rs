//! One call of etcd's JSON gateway: a POST over TLS with our certificate, and its answer in time.
//!
//! Owns transport and time limit. Must not know what a call means. Certificates are read anew for every
//! call, so that a renewed one counts at once; calls are rare.

use std::path::PathBuf;
use std::time::Duration;

use http::{Method, Request, header};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};

/// How to reach members.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub(crate) ca_file: PathBuf,
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
    pub(crate) timeout: Duration,
}

impl Gateway {
    /// Asks one member, by the path of the call.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        path: &'static str,
        question: &Value,
    ) -> Result<T> {
        let no_answer = |message: String| Error::NoAnswer {
            endpoint: endpoint.to_owned(),
            what: path,
            message,
        };
        let client = self.client(endpoint)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(question.to_string().into_bytes())
            .map_err(|error| Error::Unusable(error.to_string()))?;
        let answer = tokio::time::timeout(self.timeout, client.request_text(request)).await;
        let text = match answer {
            Err(_) => return Err(no_answer(format!("none within {:?}", self.timeout))),
            Ok(Ok(text)) => text,
            Ok(Err(kube::Error::Api(status))) => {
                return Err(Error::Refused {
                    endpoint: endpoint.to_owned(),
                    what: path,
                    code: status.code,
                    message: reason(&status.message),
                });
            }
            Ok(Err(error)) => return Err(no_answer(in_full(&error))),
        };
        serde_json::from_str(&text).map_err(|error| no_answer(error.to_string()))
    }

    /// An HTTP client like any other; nothing of Kubernetes is spoken through it.
    fn client(&self, endpoint: &str) -> Result<Client> {
        let unusable = |error: &dyn std::error::Error| {
            Error::Unusable(format!("{endpoint}: {}", in_full(error)))
        };
        let address = endpoint.trim_end_matches('/').parse::<http::Uri>();
        let mut config = Config::new(address.map_err(|error| unusable(&error))?);
        config.connect_timeout = Some(self.timeout);
        config.default_retry = false;
        config.root_cert_file = Some(self.ca_file.clone());
        config.auth_info.client_certificate = Some(self.cert_file.display().to_string());
        config.auth_info.client_key = Some(self.key_file.display().to_string());
        Client::try_from(config).map_err(|error| unusable(&error))
    }
}

/// What the gateway says of a refusal: the words without their wrapping, where it has one.
fn reason(body: &str) -> String {
    let told: Value = serde_json::from_str(body).unwrap_or_default();
    let words = told.get("message").or_else(|| told.get("error"));
    words
        .and_then(Value::as_str)
        .unwrap_or(body)
        .trim()
        .to_owned()
}

/// An error and all its causes; some tell their cause themselves.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}
