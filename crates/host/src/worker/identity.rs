//! As whom a worker acts.

use std::fmt;
use std::io;
use std::str::FromStr;

use nix::unistd::{Uid, User};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::peer;

/// A user with the groups that he has on this machine: `1000:1000:4,24,1000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

/// The user and the group that own nothing, by the kernel's own choice (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65534;

impl Identity {
    /// The user who owns nothing.
    #[must_use]
    pub(crate) fn nobody() -> Self {
        Self { user: NOBODY, group: NOBODY, groups: vec![NOBODY] }
    }

    /// The user's number.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// The number of its group.
    pub(crate) fn group(&self) -> u32 {
        self.group
    }

    /// The owner of a store, where this process is root and the owner is somebody else.
    ///
    /// # Errors
    /// Where the machine's lists of users cannot be read.
    pub(super) fn of_owner(user: u32) -> io::Result<Option<Self>> {
        if user == 0 || !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        // The group of the file says nothing: its owner may not be in it. A user whom the lists do not have has no group but his own.
        let group = User::from_uid(Uid::from_raw(user))?.map_or(user, |user| user.gid.as_raw());
        Ok(Some(Self { user, group, groups: peer::look_up(user, group)?.groups }))
    }

    /// Becomes this user for good. Threads that are started from here on are this user's too.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn assume(&self) -> io::Result<()> {
        use rustix::process::{Gid, Uid};
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        let (group, user) = (Gid::from_raw(self.group), Uid::from_raw(self.user));
        set_thread_groups(&groups)?;
        set_thread_res_gid(group, group, group)?;
        Ok(set_thread_res_uid(user, user, user)?)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.user, self.group)?;
        for (index, group) in self.groups.iter().enumerate() {
            write!(f, "{}{group}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Identity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a user, a group and all groups are numbers, as in 1000:1000:4,1000";
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong);
        let [user, group, groups] = text.split(':').collect::<Vec<_>>()[..] else { return Err(wrong) };
        let groups = groups.split(',').map(number).collect::<Result<_, _>>()?;
        Ok(Self { user: number(user)?, group: number(group)?, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        for text in ["1000:1000:4,24,1000", "1:2:3"] {
            assert_eq!(text.parse::<Identity>().unwrap().to_string(), text);
        }
        for text in ["", "1:2", "1:2:", "a:1:1", "1:1:1:1", "-1:1:1", "4294967296:1:1"] {
            assert!(text.parse::<Identity>().is_err(), "{text}");
        }
    }
}
