//! Room: what only LVM knows of the space that there is.

use std::collections::BTreeMap;

use super::observation::GroupSeen;

/// What LVM said of the room that there is, less what was taken since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The groups, with their free space.
    pub groups: Vec<GroupSeen>,
    /// For each pool, by its identity, how large what is in it looks.
    pub pools: BTreeMap<String, InPool>,
}

/// How large what is in a pool looks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InPool {
    /// The size at which its data cannot run out.
    pub most: u64,
    /// All volumes that are written together.
    pub writable: u64,
}

impl Room {
    /// So many bytes of a group were taken since LVM said what is free.
    pub fn take(&mut self, group: &str, bytes: u64) {
        for seen in self.groups.iter_mut().filter(|seen| seen.id == group) {
            seen.free = seen.free.saturating_sub(bytes);
        }
    }
}
