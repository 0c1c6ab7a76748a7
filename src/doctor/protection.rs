//! Whether the history in a bucket could be destroyed by somebody who has taken this machine over, judged.

use asat_remote::{Protection, Removal, Retention};

use super::finding::{Finding, Group, Level};

/// What follows if something can be destroyed.
const DESTROYED: &str = "somebody who breaks into this machine can destroy the history";
/// What to do: without that right, old versions stay.
const TAKE_AWAY: &str = "give the daemon credentials without s3:DeleteObjectVersion";

/// What of the history these credentials can destroy.
pub(super) fn judge(url: &str, protection: &Protection) -> Finding {
    match protection {
        Protection::Folder => note(
            format!("{url} is a folder, which protects nothing: {DESTROYED}"),
            "to be safe from that, publish to a bucket that keeps versions".to_owned(),
        ),
        Protection::Unknown { why, may_delete } => {
            let may = if *may_delete == Ok(true) { "; they may delete what is there now" } else { "" };
            note(
                format!("it is not known whether these credentials can destroy the history{may}: {why}"),
                "use a bucket that keeps versions, and credentials that may neither delete them nor change its rules"
                    .to_owned(),
            )
        }
        Protection::Plain { may_replace, may_delete } => plain(may_replace, may_delete),
        Protection::Versioned { removal, retention } => versioned(removal, retention),
    }
}

fn about(level: Level, what: String) -> Finding {
    Finding::new(Group::Remote, "may-destroy", level, what)
}

fn note(what: String, advice: String) -> Finding {
    about(Level::Note, what).advise(format!("{advice} (docs/remote.md)"))
}

/// Of a bucket that keeps nothing of what is replaced or deleted.
fn plain(may_replace: &Result<bool, String>, may_delete: &Result<bool, String>) -> Finding {
    let may = match (may_replace, may_delete) {
        (Ok(true), Ok(true)) => "replace and delete",
        (Ok(true), _) => "replace",
        (_, Ok(true)) => "delete",
        (Ok(false), Ok(false)) => {
            return about(
                Level::Ok,
                "these credentials can neither replace nor delete what is stored".to_owned(),
            );
        }
        (Err(why), _) | (_, Err(why)) => {
            let what = format!("it is not known whether these credentials can destroy the history: {why}");
            return note(what, "turn the bucket's versioning on".to_owned());
        }
    };
    note(
        format!(
            "the bucket keeps no old versions, and these credentials may {may} what is there: {DESTROYED}"
        ),
        format!("turn the bucket's versioning on, and {TAKE_AWAY}"),
    )
}

/// Of a bucket that keeps old versions.
fn versioned(removal: &Removal, retention: &Result<Option<Retention>, String>) -> Finding {
    let locked = retention.as_ref().ok().copied().flatten();
    match (removal, locked) {
        (Removal::NoRight, locked) => {
            let lock =
                locked.map(|time| format!("Object Lock keeps each for {time}, in mode {}; ", time.mode));
            let what = format!(
                "these credentials cannot destroy the history: the bucket keeps what is replaced or deleted, and they may not delete old \
                 versions ({}rights over the bucket's own rules were not tried)",
                lock.unwrap_or_default()
            );
            about(Level::Ok, what)
        }
        (Removal::Done, _) => note(
            format!(
                "the bucket keeps old versions, but these credentials may delete them for good: {DESTROYED}"
            ),
            format!("{TAKE_AWAY}, or have Object Lock keep what is stored for a time"),
        ),
        (Removal::Bypassed, _) => note(
            format!(
                "these credentials may delete old versions for good, in spite of Object Lock: {DESTROYED}"
            ),
            format!("{TAKE_AWAY} and s3:BypassGovernanceRetention"),
        ),
        (Removal::Locked, Some(time)) => note(
            format!(
                "these credentials can destroy what is older than {time}: until then, Object Lock keeps it"
            ),
            format!("{TAKE_AWAY}, or have Object Lock keep it for as long as it is needed"),
        ),
        (Removal::Locked, None) => note(
            "these credentials may not delete what was stored a moment ago; for how long is not known"
                .to_owned(),
            TAKE_AWAY.to_owned(),
        ),
        (Removal::Unknown(why), _) => note(
            format!("it is not known whether these credentials can delete old versions for good: {why}"),
            TAKE_AWAY.to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use asat_remote::LockMode;

    use super::*;

    fn said(protection: &Protection) -> (Level, String) {
        let found = judge("s3://history/reports", protection);
        assert_eq!(found.advice.is_none(), found.level == Level::Ok, "{found:?}");
        (found.level, found.what)
    }

    fn versions(removal: Removal, days: u32) -> (Level, String) {
        let retention = Retention { mode: LockMode::Governance, days, years: 0 };
        said(&Protection::Versioned { removal, retention: Ok((days > 0).then_some(retention)) })
    }

    #[test]
    fn what_can_be_destroyed_without_versions() {
        let plain = |may_replace, may_delete| said(&Protection::Plain { may_replace, may_delete });
        let both = "the bucket keeps no old versions, and these credentials may replace and delete what is there: \
                    somebody who breaks into this machine can destroy the history";
        assert_eq!(plain(Ok(true), Ok(true)), (Level::Note, both.to_owned()));
        let (level, what) = plain(Ok(true), Ok(false));
        assert!(level == Level::Note && what.contains("may replace what"), "{what}");
        // Whatever else is not known.
        let (level, what) = plain(Err("503".to_owned()), Ok(true));
        assert!(level == Level::Note && what.contains("may delete what"), "{what}");
        let (level, what) = plain(Ok(false), Err("503".to_owned()));
        assert!(level == Level::Note && what.contains("not known") && what.ends_with("503"), "{what}");
        assert_eq!(plain(Ok(false), Ok(false)).0, Level::Ok);
        assert_eq!(said(&Protection::Folder).0, Level::Note);
    }

    #[test]
    fn old_versions_are_safe_only_from_those_without_the_right() {
        for days in [0, 30] {
            let (level, what) = versions(Removal::NoRight, days);
            assert_eq!(
                (level, what.contains("for 30 days, in mode GOVERNANCE")),
                (Level::Ok, days > 0),
                "{what}"
            );
            for removal in [Removal::Done, Removal::Bypassed] {
                let (level, what) = versions(removal, days);
                assert!(level == Level::Note && what.ends_with(DESTROYED), "{what}");
            }
            let (level, what) = versions(Removal::Unknown("501".to_owned()), days);
            assert!(level == Level::Note && what.ends_with("for good: 501"), "{what}");
        }
        let (level, what) = versions(Removal::Locked, 30);
        assert!(level == Level::Note && what.contains("older than 30 days"), "{what}");
        assert_eq!(versions(Removal::Locked, 0).0, Level::Note);
    }

    #[test]
    fn what_is_not_known_is_not_claimed() {
        let unknown = |may_delete| said(&Protection::Unknown { why: "403".to_owned(), may_delete });
        let (level, what) = unknown(Ok(true));
        assert!(level == Level::Note && what.contains("they may delete"), "{what}");
        let claims = [Ok(false), Err("503".to_owned())].map(unknown);
        assert!(claims.iter().all(|(level, what)| *level == Level::Note && !what.contains("may delete")));
    }
}
