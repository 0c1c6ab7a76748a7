//! What the last verification of each store has found, since the daemon was started.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use asat_core::StoreName;
use jiff::Timestamp;

use asat_wire::Verification;

/// The last whole verification of each store.
#[derive(Default)]
pub struct Verified(RwLock<BTreeMap<StoreName, LastVerified>>);

/// When a store was verified, and what came of it.
#[derive(Clone)]
pub(super) struct LastVerified {
    /// When it ended.
    pub(super) at: Timestamp,
    /// What it found, in a sentence.
    pub(super) said: String,
    /// Whether everything was as it was written.
    pub(super) ok: bool,
}

impl Verified {
    /// The last one of a store, if there was one.
    pub(super) fn last(&self, store: &StoreName) -> Option<LastVerified> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(store).cloned()
    }

    /// Notes what a verification of all of a store has found.
    pub(super) fn note(&self, store: StoreName, at: Timestamp, found: &Verification) {
        let last = LastVerified { at, said: said(found), ok: found.ok };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(store, last);
    }
}

fn said(found: &Verification) -> String {
    let read = format!("{} versions, {} read", found.versions, crate::text::size(found.bytes));
    if found.ok {
        return format!("{read}: everything is as it was written");
    }
    let first = found.findings.first().map(|finding| format!(": {}", finding.what)).unwrap_or_default();
    let (damaged, repaired, lost) = (found.findings.len(), found.repaired.len(), found.lost.len());
    format!("{read}: {damaged} damaged, {repaired} files repaired, {lost} versions lost{first}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_verification_of_a_store_is_remembered_with_what_it_found() {
        let (verified, store) = (Verified::default(), "report".parse::<StoreName>().unwrap());
        assert!(verified.last(&store).is_none());
        let found = |ok: bool, findings: serde_json::Value| -> Verification {
            let found = json!({ "ok": ok, "versions": 3, "bytes": 2048, "findings": findings, "repaired": [], "lost": [] });
            serde_json::from_value(found).unwrap()
        };
        let finding = json!([{ "file": "a", "what": "a block is torn", "versions": [], "repaired": false, "hint": "" }]);
        verified.note(store.clone(), Timestamp::UNIX_EPOCH, &found(false, finding));
        let last = verified.last(&store).unwrap();
        let said = "3 versions, 2.0 KiB read: 1 damaged, 0 files repaired, 0 versions lost: a block is torn";
        assert_eq!((last.said.as_str(), last.ok), (said, false));
        verified.note(store.clone(), Timestamp::UNIX_EPOCH, &found(true, json!([])));
        let last = verified.last(&store).unwrap();
        assert_eq!(
            (last.said.as_str(), last.ok),
            ("3 versions, 2.0 KiB read: everything is as it was written", true)
        );
    }
}
