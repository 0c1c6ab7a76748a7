//! Noticing changes: told by the kernel, and where it cannot tell all of them, by looking.

use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use asat_host::store::{Signature, is_local};
use asat_host::watching::{Noticed, Watching, sleep};

/// How often it is looked whether anything was missed; nothing is read then that has not changed.
const LOOK: Duration = Duration::from_secs(60);

/// What sees a store change.
pub(super) struct StoreWatcher {
    path: PathBuf,
    /// How often the files are looked at where changes to them are not told.
    poll: Duration,
    watching: Option<Watching>,
    /// Why they are looked at.
    why: Option<String>,
    /// What they were like.
    last: Option<Signature>,
    glanced: Instant,
    looked: Instant,
}

impl StoreWatcher {
    pub(super) fn open(path: &Path, poll: Duration) -> Self {
        let now = Instant::now();
        let mut watcher = Self {
            path: path.to_owned(),
            poll,
            watching: None,
            why: None,
            last: Signature::glance(path),
            glanced: now,
            looked: now,
        };
        watcher.begin();
        watcher
    }

    /// Why the store's files are looked at again and again; nothing where changes to them are told.
    pub(super) fn why_polling(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Waits until the store may have changed, or the time is over, or the daemon stops.
    pub(super) fn wait(&mut self, timeout: Option<Duration>, end: &PipeReader) -> Noticed {
        let (since, interval) =
            if self.why.is_some() { (self.glanced, self.poll) } else { (self.looked, LOOK) };
        let left = interval.saturating_sub(since.elapsed());
        if left.is_zero() && timeout.is_none_or(|timeout| !timeout.is_zero()) {
            return self.look();
        }
        let timeout = timeout.map_or(left, |timeout| timeout.min(left));
        let Some(watching) = &mut self.watching else {
            return if sleep(timeout, end).unwrap_or(true) { Noticed::End } else { Noticed::Nothing };
        };
        watching.wait(Some(timeout), end).unwrap_or_else(|problem| {
            (self.watching, self.why) = (None, Some(problem.detail));
            Noticed::Change
        })
    }

    /// Looks at the files, and now and then whether what is watched is still where they are.
    fn look(&mut self) -> Noticed {
        self.glanced = Instant::now();
        let found = Signature::glance(&self.path);
        let mut is_changed = found != self.last;
        self.last = found;
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.begin();
            is_changed = true;
        }
        if is_changed { Noticed::Change } else { Noticed::Nothing }
    }

    /// Watches the store where it is now.
    fn begin(&mut self) {
        let watched = match &mut self.watching {
            Some(watching) => watching.look_again().map(drop),
            none => Watching::begin(&self.path).map(|watching| *none = Some(watching)),
        };
        self.why = match watched {
            Ok(()) => {
                let ground = self.path.ancestors().find_map(is_local);
                (ground == Some(false)).then(|| {
                    "its file system may be written by other machines, of whose commits nobody tells"
                        .to_owned()
                })
            }
            Err(problem) => {
                self.watching = None;
                Some(problem.detail)
            }
        };
    }
}
