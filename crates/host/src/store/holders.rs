//! Who holds a lock on a store: read from the kernel's list of locks.
//!
//! "Busy" alone leaves people guessing. The kernel knows which process has which bytes of which file locked,
//! so the error can name it. This is an aid and no more: processes in other containers have no number here,
//! and some file systems (btrfs, overlays) show another device in the list than in `stat`.

use std::fs::File;
use std::io::Read as _;

use super::file::StoreFile;

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name; empty where it cannot be read.
    pub name: String,
}

/// A lock as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The process that holds it.
    pub pid: u32,
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// Whether nobody else may hold one on the same bytes.
    pub exclusive: bool,
}

/// How often the list of locks is read until a holder is found.
///
/// The kernel gives the list in pieces of a page and goes on at a line's number, so a lock that another process
/// releases between two pieces hides a line that is still there.
const READS: u32 = 20;

/// Finds the other processes that hold locks on the store: those with an exclusive one, or all if there are
/// none.
pub(super) fn find(file: &StoreFile) -> Vec<Holder> {
    (0..READS).map(|_| find_once(file)).find(|holders| !holders.is_empty()).unwrap_or_default()
}

fn find_once(file: &StoreFile) -> Vec<Holder> {
    // Generous for any machine's locks, and a bound in any case.
    let text = read_start("/proc/locks", 4 << 20);
    let own = std::process::id();
    let files: Vec<_> = file
        .identities()
        .into_iter()
        .map(|(device, inode)| ((rustix::fs::major(device), rustix::fs::minor(device)), inode))
        .collect();
    let mut locks = parse_locks(&text);
    locks.retain(|lock| lock.pid != own && files.contains(&(lock.device, lock.inode)));
    if locks.iter().any(|lock| lock.exclusive) {
        locks.retain(|lock| lock.exclusive);
    }
    let mut pids: Vec<u32> = locks.into_iter().map(|lock| lock.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().map(|pid| Holder { pid, name: name_of(pid) }).collect()
}

/// Reads the text of `/proc/locks`. Lines that are no lock held by a known process are passed over: those of
/// processes that wait, of open file descriptions, and of other process namespaces.
#[must_use]
pub fn parse_locks(text: &str) -> Vec<Lock> {
    text.lines().filter_map(parse_line).collect()
}

/// Reads a line such as `1: POSIX  ADVISORY  WRITE 812 fe:00:131090 1073741824 1073742335`.
fn parse_line(line: &str) -> Option<Lock> {
    let mut words = line.split_ascii_whitespace();
    words.next()?.strip_suffix(':')?.parse::<u64>().ok()?;
    if words.next()? != "POSIX" {
        return None;
    }
    words.next()?;
    let exclusive = match words.next()? {
        "WRITE" => true,
        "READ" => false,
        _ => return None,
    };
    let pid = words.next()?.parse().ok().filter(|&pid| pid > 0)?;
    let mut file = words.next()?.split(':');
    let major = u32::from_str_radix(file.next()?, 16).ok()?;
    let minor = u32::from_str_radix(file.next()?, 16).ok()?;
    let inode = file.next()?.parse().ok()?;
    file.next().is_none().then_some(Lock { pid, device: (major, minor), inode, exclusive })
}

/// A process's name, without the control characters that a process may put there.
fn name_of(pid: u32) -> String {
    let name = read_start(&format!("/proc/{pid}/comm"), 64);
    name.trim_end().chars().filter(|c| !c.is_control()).collect()
}

fn read_start(path: &str, most: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // What was read before an error is still worth looking at.
        let _ = file.take(most).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The holders, as the end of a sentence.
pub(super) fn list(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = holders.iter().take(5).map(Holder::to_string).collect();
    let more = if holders.len() > 5 { " and others" } else { "" };
    format!(" by {}{more}", shown.join(", "))
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if self.name.is_empty() { "a process" } else { &self.name };
        write!(f, "{name} (process {})", self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_as_the_kernel_writes_it() {
        let text = "\
1: POSIX  ADVISORY  WRITE 812 fe:00:131090 1073741824 1073742335
1: -> POSIX  ADVISORY  READ 900 fe:00:131090 1073741826 1073742335
2: POSIX  ADVISORY  READ 813 fe:0a:18446744073709551615 128 128
3: FLOCK  ADVISORY  WRITE 77 fe:00:131099 0 EOF
4: OFDLCK ADVISORY  READ -1 fe:00:131090 0 EOF
5: LEASE  ACTIVE    READ 814 fe:00:5 0 EOF
6: POSIX  ADVISORY  READ 0 fe:00:131090 124 124
7: POSIX  MSNFS     WRITE 815 100:0123:7 0 EOF
";
        let found: Vec<_> = parse_locks(text).into_iter().map(|l| (l.pid, l.exclusive)).collect();
        assert_eq!(found, [(812, true), (813, false), (815, true)]);
        assert_eq!(parse_locks(text)[0].device, (0xfe, 0));
        assert_eq!(parse_locks(text)[1].inode, u64::MAX);
    }

    #[test]
    fn hostile_lines_are_passed_over() {
        for line in [
            "",
            ":",
            "1:",
            "1: POSIX",
            "1: POSIX ADVISORY WRITE",
            "1: POSIX ADVISORY WRITE 812",
            "1: POSIX ADVISORY WRITE 812 fe:00",
            "1: POSIX ADVISORY WRITE 812 fe:00:1:2",
            "1: POSIX ADVISORY WRITE 812 xx:00:1",
            "1: POSIX ADVISORY WRITE -812 fe:00:1",
            "1: POSIX ADVISORY WRITE 99999999999 fe:00:1",
            "1: POSIX ADVISORY WRITE 812 fe:00:99999999999999999999999",
            "1: POSIX ADVISORY WRITE 812 fffffffff:00:1",
            "1 POSIX ADVISORY WRITE 812 fe:00:1",
            "1: posix ADVISORY WRITE 812 fe:00:1",
            "1: POSIX ADVISORY UNLCK 812 fe:00:1",
            "\0\u{1b}[31m\u{202e}: POSIX ADVISORY WRITE 812 fe:00:1",
        ] {
            assert_eq!(parse_locks(line), [], "{line:?}");
        }
        let start = "1: POSIX  ADVISORY  WRITE 812 fe:00:131090 0 EOF";
        for end in 0..start.len() {
            assert!(parse_locks(&start[..end]).len() < 2);
        }
        assert_eq!(parse_locks(&format!("{start}\r\n{start}")).len(), 2);
    }

    #[test]
    fn holders_are_listed_in_a_sentence() {
        let holder = |pid| Holder { pid, name: if pid == 1 { String::new() } else { "sqlite3".to_owned() } };
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[holder(1), holder(2)]), " by a process (process 1), sqlite3 (process 2)");
        let many: Vec<_> = (1..100).map(holder).collect();
        assert!(list(&many).ends_with("sqlite3 (process 5) and others"));
    }
}
