//! Bodies of watches that go wrong: events that come late, streams that break.
//!
//! Owns two wrappers around a body. Must not look into the events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::BoxError;

use super::AnswerBody;

/// The same body, each part of it so much later.
pub(super) fn lagging(body: AnswerBody, lag: Duration) -> AnswerBody {
    Lagging {
        inner: Some(body),
        lag,
        waiting: VecDeque::new(),
        timer: Box::pin(sleep(Duration::ZERO)),
    }
    .boxed_unsync()
}

/// The same body, until it breaks after so long.
pub(super) fn breaking(body: AnswerBody, after: Duration) -> AnswerBody {
    Breaking {
        inner: body,
        timer: Box::pin(sleep(after)),
    }
    .boxed_unsync()
}

type Part = Result<Frame<Bytes>, BoxError>;

struct Lagging {
    /// `None` once it has ended.
    inner: Option<AnswerBody>,
    lag: Duration,
    waiting: VecDeque<(Instant, Part)>,
    timer: Pin<Box<Sleep>>,
}

impl Body for Lagging {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Part>> {
        while let Some(inner) = &mut self.inner {
            match Pin::new(inner).poll_frame(context) {
                Poll::Ready(Some(part)) => {
                    let due = Instant::now() + self.lag;
                    self.waiting.push_back((due, part));
                }
                Poll::Ready(None) => self.inner = None,
                Poll::Pending => break,
            }
        }
        let Some((due, _)) = self.waiting.front() else {
            return match self.inner {
                None => Poll::Ready(None),
                Some(_) => Poll::Pending,
            };
        };
        if Instant::now() < *due {
            self.timer = Box::pin(sleep_until(*due));
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.waiting.pop_front().map(|(_, part)| part))
    }
}

struct Breaking {
    inner: AnswerBody,
    timer: Pin<Box<Sleep>>,
}

impl Body for Breaking {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Part>> {
        if self.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err("the connection was reset".into())));
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }
}
