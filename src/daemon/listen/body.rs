//! Bodies: a request's has to arrive in time, and an answer's keeps its connection from being taken for one that waits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::slots::{Busy, Slot};

/// A request's body, which is an error from a moment on. As long as it does not come, its connection waits for its client.
pub(super) struct InTime {
    body: Incoming,
    slot: Option<Arc<Slot>>,
    within: Duration,
    /// Begins as somebody waits for more of it.
    end: Option<Pin<Box<Sleep>>>,
}

impl InTime {
    /// A body that has to be whole within so long, once it is asked for.
    pub(super) fn new(body: Incoming, slot: Option<Arc<Slot>>, within: Duration) -> Self {
        Self { body, slot, within, end: None }
    }
}

impl hyper::body::Body for InTime {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(slot) = &self.slot {
            slot.waits(polled.is_pending());
        }
        if let Poll::Ready(frame) = polled {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let within = self.within;
        ready!(self.end.get_or_insert_with(|| Box::pin(sleep(within))).as_mut().poll(context));
        let late = format!("it took longer than {within:?} (listen.request_timeout)");
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, late).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, with the note that it is being sent.
pub(super) struct BodyInFlight {
    body: Body,
    _busy: Busy,
}

impl BodyInFlight {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl hyper::body::Body for BodyInFlight {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
