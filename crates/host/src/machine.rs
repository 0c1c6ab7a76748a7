//! Limits of the machine that the daemon adjusts for itself.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the number of files that this process may have open to the most it may give itself, and returns
/// that number; `None` stands for no limit. An archive keeps one file open for each layer that a version is
/// made of, and the usual 1024 is too few for a long history.
pub fn raise_open_files_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let mut raised = limit;
    raised.current = limit.maximum;
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let raised = raise_open_files_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(raised, limit.maximum);
    }
}
