//! The machine in numbers: limits that the daemon adjusts for itself, devices and what is written to them.

pub mod process;
pub(crate) mod watch;

use std::path::Path;

use rustix::process::{Resource, getrlimit, setrlimit};

pub use watch::Watch;

/// Raises the number of files that this process may have open to the most it may give itself, and returns
/// that number; `None` stands for no limit. A version that is open keeps the archive's files open that it needs,
/// and every connection is one: the usual 1024 is too few for many readers.
pub fn raise_open_files_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let mut raised = limit;
    raised.current = limit.maximum;
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Lets everything else that wants a processor go before this thread.
pub fn give_way() {
    give_way_by(19);
}

/// Lets others that want a processor go before this thread and before the threads that it starts from now on. With each step of niceness the
/// kernel gives them a fifth less of a processor that others want too (sched(7)). They never become less nice than they are.
pub fn give_way_by(niceness: i32) {
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    // It is as it was where that is not allowed.
    let _ = rustix::process::setpriority_process(None, niceness.max(now));
}

/// The device that a file or folder lies on, major and minor; `None` where it cannot be looked at.
#[must_use]
pub fn device_of(path: &Path) -> Option<(u32, u32)> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// What LVM's commands and asat's own processes read or write while they make room.
const NEEDED: [&str; 7] = ["/", "/usr", "/etc", "/etc/lvm", "/run", "/run/lock", "/var/lib/lvm"];

/// What lies on a device that LVM needs to make room on it; `None` if nothing does, so that its writers may be held meanwhile.
#[must_use]
pub fn needed_on(device: (u32, u32)) -> Option<&'static str> {
    NEEDED.into_iter().find(|path| device_of(Path::new(path)) == Some(device))
}

/// How many bytes have been written to a block device since it was made. The kernel counts sectors of 512 bytes,
/// whatever the device's own are (`Documentation/block/stat.rst`). `None` where the kernel does not say.
#[must_use]
pub fn bytes_written((major, minor): (u32, u32)) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    parse_written(&text)
}

/// The seventh number of the kernel's statistics: sectors written.
pub(crate) fn parse_written(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(6)?.parse::<u64>().ok()?.checked_mul(512)
}

/// The space that is free to everybody on the file system of a path, and all of it, in bytes.
///
/// # Errors
/// Where it cannot be looked at.
pub fn room(path: &Path) -> std::io::Result<(u64, u64)> {
    let space = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Ok((bytes(space.f_bavail), bytes(space.f_blocks)))
}

/// The size of a block device in bytes; `None` where the kernel does not say.
#[must_use]
pub fn device_size((major, minor): (u32, u32)) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts() {
        let line = " 12 0 800 5 7 0 4096 3 0 8 8 0 0 0 0 0 0\n";
        assert_eq!(parse_written(line), Some(4096 * 512));
        for hostile in
            ["", "1 2 3 4 5 6", "1 2 3 4 5 6 x", "1 2 3 4 5 6 -1", "1 2 3 4 5 6 18446744073709551615"]
        {
            assert_eq!(parse_written(hostile), None, "{hostile:?}");
        }
        assert_eq!((bytes_written((0, 0)), device_size((0, 0))), (None, None));
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let raised = raise_open_files_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(raised, limit.maximum);
    }
}
