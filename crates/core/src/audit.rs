//! The audit trail: who did what to which version, and why.
//!
//! The engine makes an entry of every deed among the changes that do it, so nothing can be done without being written
//! down. The catalogue numbers and chains the entries as it commits them; nothing is decided by them.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;

use crate::version::{Pin, Publication, State, Version};
use crate::{By, Code, Problem, StoreName, VersionId};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A store was published.
    Publish,
    /// A version was taken over from another installation.
    Import,
    /// A version was pinned, or its pin was changed.
    Pin,
    /// A version is pinned no longer.
    Unpin,
    /// A version was given up.
    Retire,
    /// A version that was given up was brought back.
    Unretire,
    /// The pages of a version that was given up were let go, after its grace or before its end.
    Purge,
    /// A store was brought back to a version, or that was tried.
    Restore,
    /// A tag was led to a version.
    Tag,
    /// A tag was deleted.
    Untag,
    /// A lease was ended against its holder's will.
    Revoke,
    /// A version was found to be lost.
    Lose,
    /// A version that had been lost was found again, or put back.
    Recover,
    /// What the machine's clock says was accepted, although it was doubted: by that, versions may go. It stands at the newest
    /// version of each store.
    Accept,
    /// What is kept of a version was damaged, and was put right, or nothing has its content any more.
    Repair,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 15] = [
        Self::Publish,
        Self::Import,
        Self::Pin,
        Self::Unpin,
        Self::Retire,
        Self::Unretire,
        Self::Purge,
        Self::Restore,
        Self::Tag,
        Self::Untag,
        Self::Revoke,
        Self::Lose,
        Self::Recover,
        Self::Accept,
        Self::Repair,
    ];

    /// The action as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Import => "import",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Retire => "retire",
            Self::Unretire => "unretire",
            Self::Purge => "purge",
            Self::Restore => "restore",
            Self::Tag => "tag",
            Self::Untag => "untag",
            Self::Revoke => "revoke",
            Self::Lose => "lose",
            Self::Recover => "recover",
            Self::Accept => "accept",
            Self::Repair => "repair",
        }
    }
}

impl FromStr for Action {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::ALL.into_iter().find(|action| action.text() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|action| action.text()).collect();
            let hint = format!("use one of: {}", known.join(", "));
            Problem::new(Code::Invalid, "action names nothing that is written down", hint)
        })
    }
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: By,
    /// What.
    pub action: Action,
    /// To which version.
    pub version: VersionId,
    /// What else is to be said, by name. No value is empty.
    pub details: BTreeMap<String, String>,
}

impl Deed {
    /// A deed of which nothing else is said yet.
    #[must_use]
    pub fn new(at: Timestamp, by: By, action: Action, version: VersionId) -> Self {
        Self { at, by, action, version, details: BTreeMap::new() }
    }

    /// Says something else of it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.details.insert(name.to_owned(), value);
        }
        self
    }

    /// The same, where there is something to say.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// That a publication was recorded, or taken over from elsewhere.
    #[must_use]
    pub fn of_publication(at: Timestamp, by: By, action: Action, publication: &Publication) -> Self {
        let Publication { number, version, attributes, key, of_set, reused, .. } = publication;
        let free = (!attributes.free.is_empty())
            .then(|| serde_json::to_string(&attributes.free).unwrap_or_default());
        Self::new(at, by, action, version.clone())
            .with("publication", number.to_string())
            .with_some("label", attributes.label.as_deref())
            .with_some("certified_by", attributes.certified_by.as_deref())
            .with_some("business_date", attributes.business_date.map(|date| date.to_string()))
            .with_some("note", attributes.note.as_deref())
            .with_some("attributes", free)
            .with_some("key", key.as_deref())
            .with_some("set", of_set.as_ref().map(|of_set| of_set.set.as_str()))
            .with_some("set_cut_at", of_set.as_ref().map(|of_set| format!("{:.6}", of_set.cut_at)))
            .with_some("reused", reused.then_some("true"))
    }
}

/// What it means for the trail that a version becomes another, by whoever has that done: nothing for most changes. That
/// versions are lost or found again is nobody's will.
#[must_use]
pub fn deeds(at: Timestamp, by: &By, old: Option<&Version>, new: &Version) -> Vec<Deed> {
    let mut deeds = Vec::new();
    let deed = |by: &By, action| Deed::new(at, by.clone(), action, new.id.clone());
    let reason = |version: &Version| version.end.as_ref().map(|end| end.reason.clone());
    match (old.map(|old| old.state), new.state) {
        _ if old.is_some_and(|old| old.grace().is_some() && new.grace().is_none()) => match new.state {
            State::Ready => deeds.push(deed(by, Action::Unretire)),
            _ => deeds.push(deed(by, Action::Purge).with_some("reason", reason(new))),
        },
        (Some(before), now) if before == now => {}
        (_, State::Retiring) => deeds.push(deed(by, Action::Retire).with_some("reason", reason(new))),
        (_, State::Retired) if new.grace().is_some() => {
            let until = new.grace().map(|until| format!("{until:.6}"));
            let deed = deed(by, Action::Retire).with_some("reason", reason(new));
            deeds.push(deed.with_some("purge_after", until));
        }
        (_, State::Lost) => deeds.push(deed(&By::asat(), Action::Lose).with_some("reason", reason(new))),
        (Some(State::Lost), State::Ready) => deeds.push(deed(&By::asat(), Action::Recover)),
        _ => {}
    }
    match (old.and_then(|old| old.pin.as_ref()), &new.pin) {
        (before, now) if before == now.as_ref() => {}
        (_, Some(pin)) => deeds.push(of_pin(deed(by, Action::Pin), pin)),
        (Some(pin), None) => {
            let expired = (!pin.counts(at)).then_some("true");
            deeds.push(of_pin(deed(by, Action::Unpin), pin).with_some("expired", expired));
        }
        (None, None) => {}
    }
    deeds
}

fn of_pin(deed: Deed, pin: &Pin) -> Deed {
    deed.with("reason", pin.reason.as_str())
        .with_some("owner", pin.owner.as_deref())
        .with_some("expires_at", pin.expires_at.map(|end| format!("{end:.6}")))
        .with_some("hot", pin.hot.then_some("true"))
}

/// The chain's value at an entry: the SHA-256 of the value before it and of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(pub [u8; 32]);

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).map_or('0', |digit| char::from(*digit));
        let text: String = self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        f.write_str(&text)
    }
}

impl FromStr for Link {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = || {
            let detail = "a value of the chain has 64 hexadecimal digits in lower case";
            Problem::new(Code::Invalid, detail, "write it exactly as you got it")
        };
        let digit = |byte: &u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(wrong()),
        };
        let mut link = [0; 32];
        if text.len() != 64 {
            return Err(wrong());
        }
        for (byte, digits) in link.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            if let [high, low] = digits {
                *byte = (digit(high)? << 4) | digit(low)?;
            }
        }
        Ok(Self(link))
    }
}

/// A place in the trail: an entry's number, and the chain's value there. It may be noted down elsewhere, and held against
/// the trail later. It is written as `37:` and the value's digits; the place before the first entry has the number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The entry's number.
    pub number: u64,
    /// The chain's value.
    pub chain: Link,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.number, self.chain)
    }
}

impl FromStr for Place {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let (number, chain) = text.split_once(':').unwrap_or_default();
        let number = number.parse::<u64>().ok().filter(|parsed| parsed.to_string() == number);
        let (Some(number), Ok(chain)) = (number, chain.parse()) else {
            let detail = "a place in the audit trail is an entry's number, a colon and 64 hexadecimal digits";
            return Err(Problem::new(Code::Invalid, detail, "write it exactly as you got it"));
        };
        Ok(Self { number, chain })
    }
}

/// An entry of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailEntry {
    /// Its number: 1 for the first, without gaps.
    pub number: u64,
    /// What was done.
    pub deed: Deed,
    /// The chain's value here.
    pub chain: Link,
}

/// Which entries are wanted. What is left out does not restrict them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those about this store.
    pub store: Option<StoreName>,
    /// Only those about this version.
    pub version: Option<VersionId>,
    /// Only what this one did.
    pub actor: Option<String>,
    /// Only this.
    pub action: Option<Action>,
    /// Only what was done at or after this instant.
    pub from: Option<Timestamp>,
    /// Only what was done at or before this instant.
    pub to: Option<Timestamp>,
}

/// A page of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries, newest first.
    pub entries: Vec<TrailEntry>,
    /// Whether older ones match as well.
    pub more: bool,
    /// Where the trail ends, as the catalogue keeps it apart from the entries.
    pub head: Place,
}

/// What came of following the chain from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How many entries are as they were written.
    pub sound: u64,
    /// The first number at which the trail is not what was written, and what is wrong there.
    pub broken: Option<(u64, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_actions_are_read_as_they_are_written() {
        let place = Place { number: 37, chain: Link([0xa7; 32]) };
        assert_eq!(place.to_string().parse(), Ok(place));
        for action in Action::ALL {
            assert_eq!(action.text().parse(), Ok(action));
        }
        let digits = "a7".repeat(32);
        for text in [
            String::new(),
            ":".to_owned(),
            digits.clone(),
            format!(":{digits}"),
            format!("+1:{digits}"),
            format!("01:{digits}"),
            format!("-1:{digits}"),
            format!("99999999999999999999:{digits}"),
            format!("1:{}", digits.to_uppercase()),
            format!("1:{}", &digits[1..]),
            format!("1:{digits}0"),
            format!("1: {digits}"),
            format!("1:{}", "ü".repeat(32)),
        ] {
            assert_eq!(text.parse::<Place>().map_err(|problem| problem.code), Err(Code::Invalid), "{text:?}");
        }
        assert_eq!("Publish".parse::<Action>().map_err(|problem| problem.code), Err(Code::Invalid));
    }

    #[test]
    fn nobody_can_be_taken_for_somebody_else() {
        assert_eq!(By::asat().actor, "asat");
        assert_eq!(By::token("asat").actor, "token asat");
        assert_eq!(By::token("uid 0 (root)").actor, "token uid 0 (root)");
        assert_eq!(By::user(1000, Some("ann")).actor, "uid 1000 (ann)");
        assert_eq!(By::user(4711, None).actor, "uid 4711");
    }
}
