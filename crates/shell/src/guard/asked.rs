//! Which snapshots LVM was asked about: it is not asked without pause.

use std::collections::BTreeMap;

use asat_core::VersionId;

/// After this time, in milliseconds, it is asked again about a snapshot that the kernel knows nothing of.
const AGAIN_MS: u64 = 10_000;

/// When LVM was asked, for as long as that matters.
#[derive(Debug, Default)]
pub(super) struct Asked(BTreeMap<VersionId, u64>);

impl Asked {
    /// Whether to ask about this one now; then it counts as asked.
    pub(super) fn is_due(&mut self, id: &VersionId, now_ms: u64) -> bool {
        self.0.retain(|_, asked| now_ms.saturating_sub(*asked) < AGAIN_MS);
        let is_due = !self.0.contains_key(id);
        if is_due {
            self.0.insert(id.clone(), now_ms);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_asked_about_now_and_then_and_is_forgotten_once_nobody_asks() {
        let mut asked = Asked::default();
        let cases = [
            (0, "report@1", true, 1),
            (1, "report@1", false, 1),
            (2, "report@2", true, 2),
            (9, "report@1", false, 2),
            (10, "report@1", true, 2),
            (19, "report@1", false, 1),
            (100, "report@3", true, 1),
        ];
        for (second, id, is_due, known) in cases {
            assert_eq!(asked.is_due(&id.parse().unwrap(), second * 1000), is_due, "{id} after {second} s");
            assert_eq!(asked.0.len(), known, "after {second} s");
        }
    }
}
