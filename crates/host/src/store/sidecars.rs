//! Whether the application can write what this process makes beside a store.
//!
//! SQLite makes `-wal`, `-shm` and `-journal` with the store's permissions, and they belong to the user who makes them (only
//! root gives them to the store's owner). A process that is killed leaves them behind. So a user whose files the
//! store's owner could not write must not make any: the application would be locked out of its own store.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use nix::unistd::{Gid, Group, Uid, User};
use rustix::thread::{CapabilitySet, capabilities};

use crate::peer;

/// To whom a file or folder belongs, and what they may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The number of its user.
    pub(crate) user: u32,
    /// The number of its group.
    pub(crate) group: u32,
    /// Its permissions.
    pub(crate) mode: u32,
}

/// A user who opens a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    /// The number of the user.
    pub(crate) user: u32,
    /// The group that files get where the folder does not say another.
    pub(crate) group: u32,
    /// Whether the user may give files to others, so that SQLite gives sidecars to the store's owner.
    pub(crate) gives: bool,
}

impl Rights {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { user: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 }
    }

    /// Whether a user with these groups may read and write it.
    pub(crate) fn let_write(self, user: u32, groups: &[u32]) -> bool {
        self.lets(0o6, user, groups)
    }

    /// Whether such a user may read it.
    pub(crate) fn let_read(self, user: u32, groups: &[u32]) -> bool {
        self.lets(0o4, user, groups)
    }

    fn lets(self, wanted: u32, user: u32, groups: &[u32]) -> bool {
        let bits = match (user == self.user, groups.contains(&self.group)) {
            _ if user == 0 => return true,
            (true, _) => self.mode >> 6,
            (false, true) => self.mode >> 3,
            (false, false) => self.mode,
        };
        bits & wanted == wanted
    }
}

impl Maker {
    /// The user of this process.
    pub(crate) fn own() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let gives =
            user == 0 && capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::CHOWN));
        Self { user, group: rustix::process::getegid().as_raw(), gives }
    }
}

/// Why sidecars that `maker` makes would lock out those who may write the store; nothing where they would not. `groups_of` knows
/// the groups of a user.
pub(crate) fn lock_out(
    store: Rights,
    folder: Rights,
    maker: Maker,
    groups_of: impl FnOnce(u32) -> Vec<u32>,
) -> Option<String> {
    if maker.gives || maker.user == store.user {
        return None;
    }
    let group = if folder.mode & 0o2000 == 0 { maker.group } else { folder.group };
    let made = Rights { user: maker.user, group, mode: store.mode & 0o777 };
    let owner = user_name(store.user);
    let (by, of) = (user_name(made.user), group_name(group));
    let files = format!("the `-wal` and `-shm` files that {by} makes beside it belong to {by} and {of}");
    if made.mode & 0o060 != 0o060 && made.mode & 0o006 != 0o006 {
        return Some(format!(
            "{files}, and have the store's permissions ({:03o}), by which {owner} could not write them",
            made.mode
        ));
    }
    if !made.let_write(store.user, &groups_of(store.user)) {
        return Some(format!("{files}, and {owner}, to whom the store belongs, is not in that group"));
    }
    let others = store.mode & 0o060 == 0o060 && store.mode & 0o006 != 0o006;
    (others && store.group != group).then(|| {
        format!("{files}, and those who write the store as {} could not write them", group_name(store.group))
    })
}

/// The groups of a user by the machine's lists; none of one that they do not have.
pub(crate) fn groups_of(user: u32) -> Vec<u32> {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(known)) => {
            peer::look_up(user, known.gid.as_raw()).map(|known| known.groups).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// A user, as a sentence names one.
pub(crate) fn user_name(user: u32) -> String {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(known)) => format!("the user {}", known.name),
        _ => format!("the user {user}"),
    }
}

fn group_name(group: u32) -> String {
    match Group::from_gid(Gid::from_raw(group)) {
        Ok(Some(known)) => format!("the group {}", known.name),
        _ => format!("the group {group}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLICATION: u32 = 1001;
    const ASAT: u32 = 1002;
    const THIRD: u32 = 1003;

    fn answer(store: (u32, u32), folder: (u32, u32), maker: u32) -> Option<String> {
        let rights = |(group, mode)| Rights { user: APPLICATION, group, mode };
        let maker = Maker { user: maker, group: maker, gives: maker == 0 };
        // Users have a group of their own number; the application is in the third one as well.
        lock_out(rights(store), rights(folder), maker, |user| match user {
            APPLICATION => vec![APPLICATION, THIRD],
            user => vec![user],
        })
    }

    #[test]
    fn the_owner_and_root_lock_nobody_out() {
        for mode in [0o600, 0o644, 0o664] {
            assert_eq!(answer((APPLICATION, mode), (APPLICATION, 0o755), APPLICATION), None);
            assert_eq!(answer((APPLICATION, mode), (APPLICATION, 0o755), 0), None);
        }
    }

    #[test]
    fn another_user_needs_a_group_of_the_owner_that_the_folder_hands_on() {
        for (store, folder, expected) in [
            ((APPLICATION, 0o664), (APPLICATION, 0o2775), None),
            ((THIRD, 0o660), (THIRD, 0o2770), None),
            ((APPLICATION, 0o666), (APPLICATION, 0o777), None),
            ((APPLICATION, 0o664), (APPLICATION, 0o775), Some("is not in that group")),
            ((ASAT, 0o664), (ASAT, 0o775), Some("is not in that group")),
            ((ASAT, 0o664), (ASAT, 0o2775), Some("is not in that group")),
            ((APPLICATION, 0o644), (APPLICATION, 0o2775), Some("have the store's permissions (644)")),
            ((APPLICATION, 0o606), (APPLICATION, 0o2775), Some("is not in that group")),
            ((THIRD, 0o664), (APPLICATION, 0o2775), Some("those who write the store as the group 1003")),
        ] {
            let found = answer(store, folder, ASAT);
            let is_so = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_so, "{store:?} {folder:?}: {found:?}");
        }
    }
}
