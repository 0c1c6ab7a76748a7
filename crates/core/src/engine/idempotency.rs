//! Idempotency keys: each names one publication, of a store or of a set.

use std::fmt;

use super::{Draft, Engine};
use crate::event::{Answer, Effect, Intent, Reply};
use crate::version::{Attributes, Publication, SetPublication};
use crate::{Code, Problem, SetName, StoreName};

impl Engine {
    /// The answer to a request whose key was seen before: the same again, now or when the first is through.
    pub(super) fn answer_again(
        &self,
        of: Of<'_>,
        said: &Attributes,
        key: Option<&str>,
    ) -> Result<Option<Answer>, Problem> {
        let Some(key) = key else { return Ok(None) };
        let same = |other: Of<'_>, other_said: &Attributes, answer| {
            if other == of && other_said == said {
                return Ok(Some(answer));
            }
            let detail = format!("the idempotency key {key:?} was used for another publication, of {other}");
            Err(Problem::new(Code::KeyReused, detail, "use a new key for a new publication"))
        };
        if let Some(earlier) = self.register.publication_by_key(key) {
            let answer = Answer::Now(Ok(Reply::Published(earlier.number)));
            return same(Of::publication(earlier), &earlier.attributes, answer);
        }
        for Intent { id, effect, .. } in self.register.intents() {
            let (other, attributes, other_key) = match effect {
                Effect::Cut { version, attributes, key, .. } => (Of::Store(&version.store), attributes, key),
                Effect::CutSet { set, attributes, key, .. } => (Of::Set(set), attributes, key),
                _ => continue,
            };
            if other_key.as_deref() == Some(key) {
                return same(other, attributes, Answer::After(*id));
            }
        }
        Ok(None)
    }
}

/// What a publication is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of<'a> {
    Store(&'a StoreName),
    Set(&'a SetName),
}

impl<'a> Of<'a> {
    fn publication(publication: &'a Publication) -> Self {
        match &publication.of_set {
            Some(SetPublication { set, .. }) => Self::Set(set),
            None => Self::Store(&publication.version.store),
        }
    }
}

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(store) => write!(f, "{store}"),
            Self::Set(set) => write!(f, "the set {set}"),
        }
    }
}

/// Whether a publication has this idempotency key, in the register or in the draft.
pub(super) fn is_taken(draft: &Draft<'_>, key: &str) -> bool {
    draft.register.publication_by_key(key).is_some() || draft.keys.contains(key)
}

/// Whether a publication that is under way will have this idempotency key.
pub(super) fn is_promised(draft: &Draft<'_>, key: &str) -> bool {
    let has = |intent: &Intent| match &intent.effect {
        Effect::Cut { key: promised, .. } | Effect::CutSet { key: promised, .. } => {
            promised.as_deref() == Some(key)
        }
        _ => false,
    };
    draft.register.intents().any(has)
}
