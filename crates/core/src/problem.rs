//! Problems: what went wrong, with which object, and what to do next.
//!
//! One vocabulary serves the whole house. A [`Code`] is stable: programs match on it, the HTTP face turns it
//! into a status and the client into an exit code. `detail` names the object and the measured facts; `hint`
//! says what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The stable name of a kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request's text cannot be read: malformed JSON, timestamp, version, cursor or range.
    Malformed,
    /// The request was read, but a value in it is out of its range or unknown.
    Invalid,
    /// The body is longer than this service takes.
    TooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// A byte range that the copy does not have.
    RangeNotSatisfiable,
    /// The cursor belongs to a list with other filters.
    CursorMismatch,
    /// The idempotency key was used with another body.
    KeyReused,
    /// No token, or one that is not known or has expired.
    Unauthenticated,
    /// The caller has no role, or one that does not allow this.
    Forbidden,
    /// A browser sent it on behalf of a page of another site.
    CrossSite,
    /// No such route or no such method.
    NotFound,
    /// The route exists, but not with this method.
    MethodNotAllowed,
    /// No store of that name is configured.
    UnknownStore,
    /// No set of stores of that name is configured.
    UnknownSet,
    /// No version of that number was ever made.
    UnknownVersion,
    /// No lease of that name is open.
    UnknownLease,
    /// The store has no tag of that name.
    UnknownTag,
    /// The instant lies before the store's first version.
    BeforeFirst,
    /// The version was given up.
    Retired,
    /// The version was given up, and its pages are gone or on their way out: it cannot be brought back.
    Purged,
    /// The version never became readable.
    NotReadable,
    /// A lease forbids it.
    Leased,
    /// A pin forbids it.
    Pinned,
    /// A tag forbids it.
    Tagged,
    /// Something under way forbids it for a moment.
    InUse,
    /// The daemon has as many files open as it may.
    TooManyFiles,
    /// As many leases are open as may be, in all or by one caller.
    TooManyLeases,
    /// Another publication of the store has the label.
    LabelTaken,
    /// The store could not be locked in time.
    StoreBusy,
    /// The writer hold would have exceeded its bound.
    HoldExceeded,
    /// The store's file is not there.
    StoreMissing,
    /// The store's file is there, but is no SQLite database, or is encrypted or damaged.
    StoreUnreadable,
    /// The store does not meet one of its checks.
    CheckFailed,
    /// The marker of watch mode gives nothing that could be published.
    MarkerFailed,
    /// A store was not published by when it is expected.
    Late,
    /// No room: on the disk, or within a configured bound.
    StorageFull,
    /// A command of LVM does not end, and no other may be started until it does.
    LvmStuck,
    /// After another boot the machine's clock is doubted: nobody knows which time it is.
    ClockDoubted,
    /// Something in the archive or catalogue is not what was written.
    Damaged,
    /// The bucket does not answer, or refuses.
    RemoteUnavailable,
    /// The bucket belongs to another publisher, or has what is missing here.
    Fenced,
    /// The daemon follows a bucket, and changes nothing.
    ReadOnly,
    /// The daemon is stopping.
    Stopping,
    /// As many connections are being answered as may be.
    Overloaded,
    /// The configuration or an argument on the command line is wrong.
    Configuration,
    /// The daemon cannot be reached.
    Unreachable,
    /// Anything else: an input or output error of the machine, or a defect of asat.
    Internal,
}

impl Code {
    /// Every code, in the order of their declaration.
    pub const ALL: [Self; 47] = [
        Self::Malformed,
        Self::Invalid,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::RangeNotSatisfiable,
        Self::CursorMismatch,
        Self::KeyReused,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::CrossSite,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::UnknownStore,
        Self::UnknownSet,
        Self::UnknownVersion,
        Self::UnknownLease,
        Self::UnknownTag,
        Self::BeforeFirst,
        Self::Retired,
        Self::Purged,
        Self::NotReadable,
        Self::Leased,
        Self::Pinned,
        Self::Tagged,
        Self::InUse,
        Self::TooManyFiles,
        Self::TooManyLeases,
        Self::LabelTaken,
        Self::StoreBusy,
        Self::HoldExceeded,
        Self::StoreMissing,
        Self::StoreUnreadable,
        Self::CheckFailed,
        Self::MarkerFailed,
        Self::Late,
        Self::StorageFull,
        Self::LvmStuck,
        Self::ClockDoubted,
        Self::Damaged,
        Self::RemoteUnavailable,
        Self::Fenced,
        Self::ReadOnly,
        Self::Stopping,
        Self::Overloaded,
        Self::Configuration,
        Self::Unreachable,
        Self::Internal,
    ];

    /// The code as it is written in an answer, and a short sentence for people.
    #[must_use]
    pub fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Malformed => ("malformed", "The request cannot be read"),
            Self::Invalid => ("invalid", "A value in the request is not allowed"),
            Self::TooLarge => ("too_large", "The request is too large"),
            Self::UnsupportedMediaType => ("unsupported_media_type", "The body is not JSON"),
            Self::RangeNotSatisfiable => ("range_not_satisfiable", "The copy has no such bytes"),
            Self::CursorMismatch => ("cursor_mismatch", "The cursor belongs to another list"),
            Self::KeyReused => ("key_reused", "The idempotency key was used for something else"),
            Self::Unauthenticated => ("unauthenticated", "A valid token is needed"),
            Self::Forbidden => ("forbidden", "The caller may not do this"),
            Self::CrossSite => ("cross_site", "A page of another site may not do this"),
            Self::NotFound => ("not_found", "There is nothing here"),
            Self::MethodNotAllowed => ("method_not_allowed", "This cannot be done here"),
            Self::UnknownStore => ("unknown_store", "No such store"),
            Self::UnknownSet => ("unknown_set", "No such set of stores"),
            Self::UnknownVersion => ("unknown_version", "No such version"),
            Self::UnknownLease => ("unknown_lease", "No such lease"),
            Self::UnknownTag => ("unknown_tag", "No such tag"),
            Self::BeforeFirst => ("before_first", "No version is that old"),
            Self::Purged => ("purged", "The version cannot be brought back"),
            Self::Retired => ("retired", "The version was retired"),
            Self::NotReadable => ("not_readable", "The version cannot be read"),
            Self::Leased => ("leased", "The version is leased"),
            Self::Pinned => ("pinned", "The version is pinned"),
            Self::Tagged => ("tagged", "The version has a tag"),
            Self::InUse => ("in_use", "The version is in use"),
            Self::TooManyFiles => ("too_many_files", "The daemon has as many files open as it may"),
            Self::TooManyLeases => ("too_many_leases", "As many leases are open as may be"),
            Self::LabelTaken => ("label_taken", "The label is taken"),
            Self::StoreBusy => ("store_busy", "The store is busy"),
            Self::HoldExceeded => ("hold_exceeded", "Writers would have been held too long"),
            Self::StoreMissing => ("store_missing", "The store's file is not there"),
            Self::StoreUnreadable => ("store_unreadable", "The store cannot be read"),
            Self::CheckFailed => ("check_failed", "The store does not meet a check"),
            Self::MarkerFailed => ("marker_failed", "The marker cannot be used"),
            Self::Late => ("late", "A store was not published in time"),
            Self::StorageFull => ("storage_full", "There is no room"),
            Self::LvmStuck => ("lvm_stuck", "A command of LVM does not end"),
            Self::ClockDoubted => ("clock_doubted", "Nobody knows which time it is"),
            Self::Damaged => ("damaged", "Stored data is damaged"),
            Self::Overloaded => ("overloaded", "The daemon does as much of this at once as it may"),
            Self::RemoteUnavailable => ("remote_unavailable", "The bucket cannot be used now"),
            Self::Fenced => ("fenced", "Another publisher has the bucket"),
            Self::ReadOnly => ("read_only", "This asat only reads"),
            Self::Stopping => ("stopping", "The daemon is stopping"),
            Self::Configuration => ("configuration", "The configuration is wrong"),
            Self::Unreachable => ("unreachable", "The daemon cannot be reached"),
            Self::Internal => ("internal", "An unexpected error"),
        }
    }

    /// Whether the machine or the daemon is in trouble, and whoever asked has asked for nothing wrong.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        matches!(
            self,
            Self::StoreBusy
                | Self::HoldExceeded
                | Self::TooManyFiles
                | Self::LvmStuck
                | Self::ClockDoubted
                | Self::Overloaded
                | Self::RemoteUnavailable
                | Self::Stopping
                | Self::Unreachable
                | Self::StorageFull
                | Self::Damaged
                | Self::Configuration
                | Self::Internal
        )
    }

    /// Finds a code by its written name.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.text().0 == text)
    }
}

/// A problem: its kind, what happened to which object, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The kind.
    pub code: Code,
    /// What happened, to which object, with the numbers that matter.
    pub detail: String,
    /// What to do next; empty where nothing can be done.
    pub hint: String,
}

impl Problem {
    /// Makes a problem from its three parts.
    pub fn new(code: Code, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: hint.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.detail)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, " ({})", self.hint) }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_written_once_and_found_again() {
        for code in Code::ALL {
            assert_eq!(Code::from_text(code.text().0), Some(code));
            assert_eq!(serde_json::to_value(code).ok(), Some(code.text().0.into()));
        }
        assert_eq!(Code::from_text("no such code"), None);
    }
}
