//! Answers to those who publish again what is known already. They are made once, and are good until something is committed:
//! then any of what they say may be another.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use asat_core::event::Publish;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, Response};

use crate::wire::Published;

/// So many are kept at most. Where more is asked for, it begins anew.
const MOST: usize = 256;

/// The answers of this moment, for whoever asks the same; nobody waits for anybody.
#[derive(Default)]
pub struct Answers(ArcSwap<Book>);

/// What was answered while the engine had taken in so much.
#[derive(Clone, Default)]
struct Book {
    revision: u64,
    answers: HashMap<Publish, Arc<Prepared>>,
}

/// An answer but for the time that it took.
pub(super) struct Prepared {
    location: HeaderValue,
    /// Up to that time, which is the last of its fields.
    body: Vec<u8>,
}

impl Answers {
    /// What was answered to this request at this revision.
    pub(super) fn find(&self, revision: u64, request: &Publish) -> Option<Arc<Prepared>> {
        let book = self.0.load();
        book.answers.get(request).filter(|_| book.revision == revision).cloned()
    }

    /// Keeps what is answered to this request at this revision. Whoever says so sees to it that the revision stays meanwhile.
    pub(super) fn keep(&self, revision: u64, request: &Publish, prepared: &Arc<Prepared>) {
        self.0.rcu(|book| {
            let is_good = book.revision == revision && book.answers.len() < MOST;
            let mut book = if is_good { Book::clone(book) } else { Book { revision, ..Book::default() } };
            book.answers.insert(request.clone(), Arc::clone(prepared));
            book
        });
    }
}

impl Prepared {
    /// What this publication is answered with; nothing where it cannot be written so.
    pub(super) fn new(published: &Published) -> Option<Self> {
        let location = super::snapshots::location(&published.version.id)?;
        let mut body = serde_json::to_vec(&Published { elapsed_ms: 0.0, ..published.clone() }).ok()?;
        body.truncate(body.strip_suffix(b"0.0}")?.len());
        Some(Self { location, body })
    }

    /// The answer to who has asked at that time.
    pub(super) fn told(&self, began: Instant) -> Response<Body> {
        // Room for the time besides.
        let mut body = Vec::with_capacity(self.body.len() + 32);
        body.extend_from_slice(&self.body);
        // Writing to memory does not fail.
        let _ = write!(body, "{}}}", began.elapsed().as_secs_f64() * 1e3);
        let mut response = Response::new(Body::from(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(LOCATION, self.location.clone());
        response
    }
}
