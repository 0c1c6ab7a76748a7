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
    /// When it was started, from 1970 on.
    pub started: Duration,
    /// How many files it has open.
    pub open_files: u64,
    /// How many it may have open; `None` where there is no limit.
    pub most_open_files: Option<u64>,
}

/// Looks at this process; `None` where the kernel does not say.
#[must_use]
pub fn own() -> Option<Process> {
    let Stat { cpu, started, pages } = Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
    let booted = booted(&std::fs::read_to_string("/proc/stat").ok()?)?;
    Some(Process {
        resident_bytes: pages.saturating_mul(u64::try_from(page_size()).ok()?),
        cpu: time(cpu)?,
        started: booted.checked_add(time(started)?)?,
        open_files: u64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()?,
        most_open_files: getrlimit(Resource::Nofile).current,
    })
}

/// What `/proc/PID/stat` says (proc(5)).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The ticks that the process has run: the fields utime and stime, the 14th and the 15th.
    pub(crate) cpu: u64,
    /// The ticks between the start of the machine and its own: starttime, the 22nd.
    started: u64,
    /// The pages that it has: rss, the 24th.
    pages: u64,
}

impl Stat {
    /// The second field, the process' name, may have spaces and parentheses in it.
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu: field(14)?.checked_add(field(15)?)?, started: field(22)?, pages: field(24)? })
    }
}

/// When the machine was started, from 1970 on: `btime` of `/proc/stat`, in seconds.
pub(crate) fn booted(stat: &str) -> Option<Duration> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// The time that so many of the kernel's ticks are.
pub(crate) fn time(ticks: u64) -> Option<Duration> {
    let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(clock_ticks_per_second().max(1));
    Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 9 0 12345 99999 321 18446744073709551615";
        assert_eq!(Stat::parse(stat), Some(Stat { cpu: 200, started: 12345, pages: 321 }));
        for odd in ["", "42 asat S", "42 (asat) S 1 2", &stat.replace("150", "-1"), &stat[..60]] {
            assert_eq!(Stat::parse(odd), None, "{odd}");
        }
        assert_eq!(
            booted("cpu 1 2\nbtime 1763600000\nprocesses 9\n"),
            Some(Duration::from_secs(1_763_600_000))
        );
        for odd in ["", "btime", "btime -1", "btime soon", "xbtime 1"] {
            assert_eq!(booted(odd), None, "{odd}");
        }
    }

    #[test]
    fn this_process_has_memory_and_files_and_was_started_not_long_ago() {
        let own = own().unwrap();
        let age = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().abs_diff(own.started);
        assert!(age < Duration::from_secs(24 * 3600), "{own:?}");
        assert!(own.resident_bytes > 1 << 16 && own.open_files > 2, "{own:?}");
    }
}
