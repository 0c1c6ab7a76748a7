//! Who is at the other end of a Unix socket, by the machine's own lists of users and groups.
//!
//! Which user and which group a process had when it connected, the kernel says. Which other groups it has is not to be
//! had without a race; so what counts is which groups that user has.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Uid, User, getgrouplist};

/// A user as the machine's lists have him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// His name, where he has one.
    pub name: Option<String>,
    /// The numbers of his groups; only the one that he was asked about with, where he has no name.
    pub groups: Vec<u32>,
}

/// What is known of a user whose process has this group. It may take a while, where users are kept elsewhere.
///
/// # Errors
/// Where the lists cannot be read.
pub fn look_up(uid: u32, gid: u32) -> io::Result<Known> {
    let Some(user) = User::from_uid(Uid::from_raw(uid))? else {
        return Ok(Known { name: None, groups: vec![gid] });
    };
    let name = CString::new(user.name.as_str())?;
    let mut groups: Vec<u32> = getgrouplist(&name, user.gid)?.into_iter().map(Gid::as_raw).collect();
    if !groups.contains(&gid) {
        groups.push(gid);
    }
    Ok(Known { name: Some(user.name), groups })
}

/// The number of a user of this machine, by his name or by the number itself; `None` where there is no such user.
///
/// # Errors
/// Where the machine's list of users cannot be read.
pub fn user_number(user: &str) -> io::Result<Option<u32>> {
    if let Ok(number) = user.parse() {
        return Ok(Some(number));
    }
    Ok(User::from_name(user)?.map(|user| user.uid.as_raw()))
}

/// The user that this process acts for.
#[must_use]
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nobody_in_particular_is_not() {
        let root = look_up(0, 7).unwrap();
        assert_eq!(root.name.as_deref(), Some("root"));
        assert!(root.groups.contains(&0) && root.groups.contains(&7), "{root:?}");
        assert_eq!(look_up(3_999_999_999, 17).unwrap(), Known { name: None, groups: vec![17] });
        assert_eq!(user_number("root").unwrap(), Some(0));
        assert_eq!(user_number("4711").unwrap(), Some(4711));
        assert_eq!(user_number("no such user").unwrap(), None);
    }
}
