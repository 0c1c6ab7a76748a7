//! Exit codes: one number for each kind of error, so that a script can tell "try again" from "call somebody".

use asat_core::Code;

/// The arguments are wrong; the argument parser's own code.
pub(super) const USAGE: u8 = 2;
/// Two versions differ; what `diff` has for that.
pub(super) const DIFFER: u8 = 1;
/// Added to the number of the signal that stopped a command, as shells do.
pub(super) const INTERRUPTED: u8 = 128;

/// Somebody must look after the space that the guard watches; nothing went wrong with the question.
pub(super) const ALARM: u8 = 13;

/// What each exit code means, for the help and the manual pages.
pub(super) const MEANINGS: [(u8, &str); 17] = [
    (0, "done"),
    (1, "an unexpected error; from diff that the versions differ"),
    (USAGE, "the arguments are wrong; from diff also an unexpected error"),
    (3, "the request was refused as invalid"),
    (4, "no such store, version, lease or tag; or no version is that old"),
    (
        5,
        "held by somebody: leased, pinned, tagged, in use, or the key or the label was used for something else",
    ),
    (6, "busy, try again: store locked, writers held too long, LVM stuck, clock doubted, or daemon stopping"),
    (7, "the store's file is missing or cannot be read"),
    (8, "no room, or as many leases or files are open as may be"),
    (9, "stored data is damaged or lost, or was damaged and is put right"),
    (10, "the daemon cannot be reached"),
    (11, "not allowed: no token, or its role is too small"),
    (12, "the version was retired or cannot be read"),
    (ALARM, "something needs somebody: an alarm that nobody has acknowledged, or what `status` marks with !"),
    (14, "the store does not meet a check; nothing was published"),
    (78, "the configuration is wrong"),
    (INTERRUPTED + 2, "stopped by Ctrl-C; by another signal 128 and its number"),
];

/// The exit code of a kind of problem.
#[must_use]
pub fn exit_code(code: Code) -> u8 {
    match code {
        Code::Internal => 1,
        Code::Malformed
        | Code::Invalid
        | Code::TooLarge
        | Code::UnsupportedMediaType
        | Code::RangeNotSatisfiable
        | Code::CursorMismatch
        | Code::MethodNotAllowed => 3,
        Code::NotFound
        | Code::UnknownStore
        | Code::UnknownSet
        | Code::UnknownVersion
        | Code::UnknownLease
        | Code::UnknownTag
        | Code::BeforeFirst => 4,
        Code::KeyReused
        | Code::LabelTaken
        | Code::Leased
        | Code::Pinned
        | Code::Tagged
        | Code::InUse
        | Code::Fenced
        | Code::ReadOnly => 5,
        Code::StoreBusy
        | Code::HoldExceeded
        | Code::LvmStuck
        | Code::ClockDoubted
        | Code::Overloaded
        | Code::Stopping => 6,
        Code::StoreMissing | Code::StoreUnreadable | Code::MarkerFailed | Code::Late => 7,
        Code::StorageFull | Code::TooManyFiles | Code::TooManyLeases => 8,
        Code::Damaged => 9,
        Code::Unreachable | Code::RemoteUnavailable => 10,
        Code::Unauthenticated | Code::Forbidden | Code::CrossSite => 11,
        Code::Retired | Code::Purged | Code::NotReadable => 12,
        Code::CheckFailed => 14,
        Code::Configuration => 78,
    }
}

/// The exit codes as they stand below the help.
pub(super) fn help() -> String {
    let lines = MEANINGS.map(|(code, meaning)| format!("  {code:>3}  {meaning}"));
    format!("Exit codes:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_problem_has_a_documented_exit_code() {
        for code in Code::ALL {
            let number = exit_code(code);
            assert!(![0, USAGE, ALARM].contains(&number), "{code:?}");
            assert!(MEANINGS.iter().any(|(known, _)| *known == number), "{code:?} gives {number}");
        }
        for (number, meaning) in MEANINGS {
            let used = Code::ALL.into_iter().any(|code| exit_code(code) == number);
            assert!(
                used || [0, USAGE, ALARM, INTERRUPTED + 2].contains(&number),
                "{number} ({meaning}) is never given"
            );
        }
    }

    #[test]
    fn the_codes_are_these() {
        let given = Code::ALL.map(|code| (code.text().0, exit_code(code)));
        let expected = [
            ("malformed", 3),
            ("invalid", 3),
            ("too_large", 3),
            ("unsupported_media_type", 3),
            ("range_not_satisfiable", 3),
            ("cursor_mismatch", 3),
            ("key_reused", 5),
            ("unauthenticated", 11),
            ("forbidden", 11),
            ("cross_site", 11),
            ("not_found", 4),
            ("method_not_allowed", 3),
            ("unknown_store", 4),
            ("unknown_set", 4),
            ("unknown_version", 4),
            ("unknown_lease", 4),
            ("unknown_tag", 4),
            ("before_first", 4),
            ("retired", 12),
            ("purged", 12),
            ("not_readable", 12),
            ("leased", 5),
            ("pinned", 5),
            ("tagged", 5),
            ("in_use", 5),
            ("too_many_files", 8),
            ("too_many_leases", 8),
            ("label_taken", 5),
            ("store_busy", 6),
            ("hold_exceeded", 6),
            ("store_missing", 7),
            ("store_unreadable", 7),
            ("check_failed", 14),
            ("marker_failed", 7),
            ("late", 7),
            ("storage_full", 8),
            ("lvm_stuck", 6),
            ("clock_doubted", 6),
            ("damaged", 9),
            ("remote_unavailable", 10),
            ("fenced", 5),
            ("read_only", 5),
            ("stopping", 6),
            ("overloaded", 6),
            ("configuration", 78),
            ("unreachable", 10),
            ("internal", 1),
        ];
        assert_eq!(given, expected);
    }
}
