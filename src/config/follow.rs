//! Which bucket this asat follows, if it is one that only reads.

use std::time::Duration;

use asat_core::{Problem, StoreName};
use asat_remote::LEAST_CACHE_BYTES;

use super::remote::{RepositoryPlace, place};
use super::validate::{duration, size, wrong};
use super::{Config, raw};

/// How often the bucket is asked whether there is something new, if nothing is configured.
const POLL: &str = "10s";
/// How much is kept of it on this machine.
const CACHE: &str = "10 GiB";
/// After how long a bucket that does not answer is an alarm.
const LATE_AFTER: &str = "10m";

/// A repository that another asat publishes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowConfig {
    /// Where it is.
    pub place: RepositoryPlace,
    /// The stores that are followed; all that there are if none is named.
    pub stores: Vec<StoreName>,
    /// How often the bucket is asked whether there is something new.
    pub poll: Duration,
    /// How many bytes are kept on this machine.
    pub cache: u64,
    /// After how long a bucket that does not answer is an alarm.
    pub late_after: Duration,
}

pub(super) fn validate(raw: &raw::Follow) -> Result<FollowConfig, Problem> {
    let stores = raw.stores.iter().map(|name| {
        name.parse().map_err(|error| {
            wrong("follow.stores", format!("{name:?}: {error}"), "write the names as the bucket has them")
        })
    });
    let poll = duration("follow.poll", raw.poll.as_deref().unwrap_or(POLL))?;
    if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&poll) {
        let what = "is not from one second to one hour".to_owned();
        return Err(wrong("follow.poll", what, "write for example \"10s\""));
    }
    let cache = size("follow.cache", raw.cache.as_deref().unwrap_or(CACHE))?;
    if cache < LEAST_CACHE_BYTES {
        let what = "is less than 64 MiB, which is needed to read at all".to_owned();
        return Err(wrong("follow.cache", what, "write for example \"10 GiB\""));
    }
    Ok(FollowConfig {
        place: place("follow", &raw.url, &raw.options, raw.identity.as_ref())?,
        stores: stores.collect::<Result<_, _>>()?,
        poll,
        cache,
        late_after: duration("follow.late_after", raw.late_after.as_deref().unwrap_or(LATE_AFTER))?,
    })
}

/// Refuses what an asat that only reads cannot have.
pub(super) fn check(config: &Config) -> Result<(), Problem> {
    if config.follow.is_none() {
        return Ok(());
    }
    let has = [
        (!config.stores.is_empty(), "[[store]]"),
        (config.remote.is_some(), "[remote]"),
        (!config.feed_command.is_empty(), "[feed]"),
    ];
    let Some((_, section)) = has.into_iter().find(|(is_there, _)| *is_there) else { return Ok(()) };
    let what = format!("an asat that follows a bucket only reads, and has no {section}");
    Err(wrong("follow", what, "give it a configuration and a state folder of its own"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Result<FollowConfig, Problem> {
        let config = Config::parse(&format!("[follow]\n{text}"), Path::new("/etc/asat"))?;
        Ok(config.follow.unwrap())
    }

    #[test]
    fn what_is_left_out_is_usual() {
        let config = parse("url = \"s3://history/reports\"\nstores = [\"report\"]").unwrap();
        assert_eq!(config.stores, ["report".parse().unwrap()]);
        assert_eq!((config.poll, config.cache), (Duration::from_secs(10), 10 << 30));
        assert_eq!(config.late_after, Duration::from_secs(600));
        assert!(Config::parse("", Path::new("/etc/asat")).unwrap().follow.is_none());
    }

    #[test]
    fn what_cannot_be_followed_is_refused_and_no_secret_is_repeated() {
        let wrong = [
            ("", "url"),
            ("url = \"ftp://host/x\"", "follow.url"),
            ("url = \"s3://user:hunter2@history/x\"", "follow.url"),
            ("url = \"s3://history\"\noptions = { secret = \"hunter2\" }", "follow.options"),
            ("url = \"s3://history\"\npoll = \"100ms\"", "follow.poll"),
            ("url = \"s3://history\"\npoll = \"2h\"", "follow.poll"),
            ("url = \"s3://history\"\ncache = \"1 MB\"", "follow.cache"),
            ("url = \"s3://history\"\nstores = [\"../x\"]", "follow.stores"),
            ("url = \"s3://history\"\nunknown = 1", "unknown"),
            ("url = \"s3://history\"\n[[store]]\nname = \"a\"\npath = \"/a/a.db\"", "[[store]]"),
            ("url = \"s3://history\"\n[remote]\nurl = \"s3://other\"", "[remote]"),
            ("url = \"s3://history\"\n[feed]\ncommand = [\"/bin/true\"]", "[feed]"),
        ];
        for (text, named) in wrong {
            let problem = parse(text).unwrap_err().to_string();
            assert!(problem.contains(named) && !problem.contains("hunter2"), "{text}: {problem}");
        }
    }
}
