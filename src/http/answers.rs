//! Answers that are made once, for all who ask the same: to those who publish again what is known already, and pages of the
//! list of versions. They are good until something is committed: then any of what they say may be another.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use asat_core::event::Publish;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, Response};

use asat_wire::Published;

/// What is answered to those who publish again what is known already.
pub type Known = Answers<Publish, Prepared, 256>;

/// Pages of the list of versions, by the query that asks for them. They take 8 MiB at most ([`MAX_PAGE`]).
pub type Pages = Answers<String, Bytes, 64>;

/// A page of more bytes is not kept.
pub(super) const MAX_PAGE: usize = 128 << 10;

/// The answers of this moment, for all who ask the same; nobody waits for anybody. So many are kept at most: if more is
/// asked for, it begins anew.
pub struct Answers<Question, Answer, const MOST: usize>(ArcSwap<Book<Question, Answer>>);

/// What was answered while the engine had taken in so much.
struct Book<Question, Answer> {
    revision: u64,
    answers: HashMap<Question, Arc<Answer>>,
}

impl<Question, Answer, const MOST: usize> Default for Answers<Question, Answer, MOST> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Book { revision: 0, answers: HashMap::new() }))
    }
}

impl<Question: Hash + Eq + Clone, Answer, const MOST: usize> Answers<Question, Answer, MOST> {
    /// What was answered to this question at this revision.
    pub(super) fn find(&self, revision: u64, question: &Question) -> Option<Arc<Answer>> {
        let book = self.0.load();
        book.answers.get(question).filter(|_| book.revision == revision).cloned()
    }

    /// Keeps what is answered to this question at this revision. The caller sees to it that the revision stays meanwhile.
    pub(super) fn keep(&self, revision: u64, question: &Question, answer: &Arc<Answer>) {
        self.0.rcu(|book| {
            let is_good = book.revision == revision && book.answers.len() < MOST;
            let mut answers = if is_good { book.answers.clone() } else { HashMap::new() };
            answers.insert(question.clone(), Arc::clone(answer));
            Book { revision, answers }
        });
    }
}

/// An answer but for the time that it took.
pub struct Prepared {
    location: HeaderValue,
    /// Up to that time, which is the last of its fields.
    body: Vec<u8>,
}

impl Prepared {
    /// What this publication is answered with; nothing if it cannot be written so.
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
