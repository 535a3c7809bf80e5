//! The API as a tower service, in this process and over HTTP on loopback.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use jiff::fmt::rfc2822::DateTimePrinter;
use shipshape_cluster::Clock;
use tower::Service;

use super::{
    ApiServer,
    failure::Failure,
    request::RequestInfo,
    state::{Answer, Payload},
};

/// Longest body of a request, in bytes.
const BODY_MAX: usize = 3 * 1024 * 1024;

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

/// The API behind tower's interface.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: ApiServer,
    user_agent: Option<String>,
}

impl ApiService {
    pub(super) fn new(server: ApiServer, user_agent: Option<String>) -> Self {
        Self { server, user_agent }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let answer = match read(body).await {
                Ok(body) => service.answer(&head, &body),
                Err(failure) => Answer::failure(&failure),
            };
            Ok(respond(answer, service.server.clock))
        })
    }
}

/// Reads a body up to its end, or to the limit.
async fn read<B>(body: B) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Failure::bad_request(format!("could not read the body: {error}")))?;
        let Ok(part) = frame.into_data() else {
            continue;
        };
        if whole.len() + part.len() > BODY_MAX {
            return Err(Failure::too_large_body(BODY_MAX));
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.into())
}

impl ApiService {
    fn answer(&self, head: &http::request::Parts, body: &[u8]) -> Answer {
        match RequestInfo::read(head) {
            Ok(mut info) => {
                if let Some(name) = &self.user_agent {
                    info.user_agent.clone_from(name);
                }
                self.server.handle(&info, body)
            }
            Err(failure) => Answer::failure(&failure),
        }
    }
}

fn respond(answer: Answer, clock: Clock) -> Response<AnswerBody> {
    let mut response = Response::builder().status(answer.code);
    // Readers tell ages by the server's clock, which need not be the machine's.
    if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&clock.now()) {
        response = response.header(header::DATE, date);
    }
    if let Some(seconds) = answer.retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    for warning in &answer.warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        response = response.header(header::WARNING, format!("299 - \"{escaped}\""));
    }
    let (media, body) = match answer.payload {
        Payload::Json(json) => ("application/json", Full::new(json).boxed_unsync()),
        Payload::Typed(media, json) => (media, Full::new(json).boxed_unsync()),
        Payload::Text(text) => (
            "text/plain; charset=utf-8",
            Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync(),
        ),
        Payload::Watch(stream) => {
            let frames = stream.lines(clock).map(|line| Ok(Frame::data(line)));
            ("application/json", StreamBody::new(frames).boxed_unsync())
        }
    };
    response
        .header(header::CONTENT_TYPE, media)
        .header("Audit-Id", "embedded")
        .body(body)
        .unwrap_or_else(|_| Response::new(Full::default().boxed_unsync()))
}
