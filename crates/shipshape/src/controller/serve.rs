//! The two small servers of a controller: `/metrics`, and `/healthz` with `/readyz`.
//!
//! Owns addresses and answers. What they say comes from the controllers' vitals.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::Context;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use shipshape_controllers::Vitals;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What Prometheus must be told about the form of the metrics.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The same of a text in the older form.
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where to serve something, in the forms that Kubernetes controllers know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindAddress {
    /// Nowhere: `0`.
    Off,
    /// On every address of the machine: `:8080`.
    Everywhere(u16),
    /// On one address: `127.0.0.1:8080`.
    At(String),
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let wrong = || {
            format!("{text:?} is not an address such as :8080 or 127.0.0.1:8080, nor 0 for nowhere")
        };
        match text.strip_prefix(':') {
            Some(port) => port.parse().map(Self::Everywhere).map_err(|_| wrong()),
            None => {
                let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
                let is_port = port.parse::<u16>().is_ok();
                let is_right = is_port && !host.is_empty();
                is_right
                    .then(|| Self::At(text.to_owned()))
                    .ok_or_else(wrong)
            }
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("0"),
            Self::Everywhere(port) => write!(formatter, ":{port}"),
            Self::At(address) => formatter.write_str(address),
        }
    }
}

impl BindAddress {
    async fn listen(&self) -> std::io::Result<Option<TcpListener>> {
        let listener = match self {
            Self::Off => return Ok(None),
            Self::At(address) => TcpListener::bind(address).await?,
            Self::Everywhere(port) => {
                let at = |address: IpAddr| TcpListener::bind(SocketAddr::new(address, *port));
                match at(Ipv6Addr::UNSPECIFIED.into()).await {
                    Ok(listener) => listener,
                    // A machine without IPv6.
                    Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                        return Err(error);
                    }
                    Err(_) => at(Ipv4Addr::UNSPECIFIED.into()).await?,
                }
            }
        };
        Ok(Some(listener))
    }
}

/// A server at work; it ends when this is dropped.
pub(crate) struct Serving(JoinHandle<std::io::Result<()>>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves `/metrics`.
pub(super) async fn metrics(
    address: &BindAddress,
    vitals: &Vitals,
) -> anyhow::Result<Option<Serving>> {
    let vitals = vitals.clone();
    let router = Router::new().route("/metrics", get(async move || metrics_answer(&vitals)));
    serve("--metrics-bind-address", address, router).await
}

/// Serves one text as `/metrics`.
pub(crate) async fn text(address: &BindAddress, text: String) -> anyhow::Result<Option<Serving>> {
    let answer = async move || ([(header::CONTENT_TYPE, TEXT_TYPE)], text.clone());
    let router = Router::new().route("/metrics", get(answer));
    serve("--metrics-port", address, router).await
}

/// Serves `/healthz` and `/readyz`.
pub(super) async fn health(
    address: &BindAddress,
    vitals: &Vitals,
) -> anyhow::Result<Option<Serving>> {
    let vitals = vitals.clone();
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(async move || readiness_answer(&vitals)));
    serve("--health-probe-bind-address", address, router).await
}

async fn serve(
    flag: &'static str,
    address: &BindAddress,
    router: Router,
) -> anyhow::Result<Option<Serving>> {
    let listener = address.listen().await;
    let Some(listener) = listener.with_context(|| format!("cannot listen at {flag} {address}"))?
    else {
        return Ok(None);
    };
    let address = listener.local_addr()?.to_string();
    tracing::info!(flag, address, "listening");
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(Some(Serving(serving)))
}

fn metrics_answer(vitals: &Vitals) -> Response {
    match vitals.metrics() {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn readiness_answer(vitals: &Vitals) -> Response {
    let readiness = vitals.readiness();
    let code = if readiness.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (code, format!("{}\n", readiness.sentence())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_the_forms_that_other_controllers_know() {
        assert_eq!("0".parse(), Ok(BindAddress::Off));
        assert_eq!(":8080".parse(), Ok(BindAddress::Everywhere(8080)));
        for right in ["127.0.0.1:9", "[::1]:80", "localhost:80"] {
            assert_eq!(right.parse(), Ok(BindAddress::At(right.to_owned())));
        }
        for wrong in ["", "8080", ":", ":99999", "localhost:", "off"] {
            let words = wrong.parse::<BindAddress>().unwrap_err();
            assert!(words.contains("such as :8080"), "{words}");
        }
    }
}
