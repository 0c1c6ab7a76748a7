//! What the kernel says of this process.

use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// This process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The memory that it has, in bytes.
    pub resident_bytes: u64,
    /// The time that its threads have run, for it and in the kernel for it.
    pub cpu: Duration,
    /// How many files it has open.
    pub open_files: u64,
    /// How many it may have open; `None` where there is no limit.
    pub most_open_files: Option<u64>,
}

/// Looks at this process; `None` where the kernel does not say.
#[must_use]
pub fn own() -> Option<Process> {
    let (cpu_ticks, pages) = parse(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
    let nanoseconds = u128::from(cpu_ticks) * 1_000_000_000 / u128::from(clock_ticks_per_second().max(1));
    Some(Process {
        resident_bytes: pages.saturating_mul(u64::try_from(page_size()).ok()?),
        cpu: Duration::from_nanos(u64::try_from(nanoseconds).ok()?),
        open_files: u64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()?,
        most_open_files: getrlimit(Resource::Nofile).current,
    })
}

/// The ticks that the process has run, and the pages that it has, from `/proc/PID/stat` (proc(5)): the fields utime, stime and
/// rss, the 14th, 15th and 24th. The second one, its name, may have spaces and parentheses in it.
fn parse(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok();
    Some((field(14)?.checked_add(field(15)?)?, field(24)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 9 0 12345 99999 321 18446744073709551615";
        assert_eq!(parse(stat), Some((200, 321)));
        for odd in ["", "42 asat S", "42 (asat) S 1 2", &stat.replace("150", "-1"), &stat[..60]] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let own = own().unwrap();
        assert!(own.resident_bytes > 1 << 16 && own.open_files > 2, "{own:?}");
    }
}
