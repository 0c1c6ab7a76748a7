//! Effect boundaries: the places at which a crash must be survivable. And steps: the places at which another thread may go on
//! first, and everything must be as right as before.
//!
//! Code that changes something durable announces each step here. In service nothing listens. A crash test
//! installs a listener that ends the process at the n-th step, for every n, and looks at what is left. A test that explores
//! schedules installs a scheduler, which has one thread run at a time and says at each step which one.

use std::sync::OnceLock;

static LISTENER: OnceLock<fn(&'static str)> = OnceLock::new();
static SCHEDULER: OnceLock<&'static dyn Scheduler> = OnceLock::new();

/// Says which of several threads goes on.
pub trait Scheduler: Sync {
    /// The calling thread is about to do something that others may see, or that depends on what they did.
    fn step(&self, name: &'static str);
    /// The calling thread cannot go on until another one has. Answers whether others went on meanwhile, so that it may try again;
    /// `false`: its threads are not this scheduler's.
    fn blocked(&self, name: &'static str) -> bool;
    /// The calling thread is about to start another; answers the number of that, if it is to be scheduled.
    fn fork(&self) -> Option<usize>;
    /// The calling thread is the one of this number, and waits for its turn.
    fn begin(&self, thread: usize);
    /// That thread ends.
    fn end(&self, thread: usize);
    /// The calling thread waits until the other has ended.
    fn join(&self, thread: usize);
}

/// Installs the listener of a crash test. The first one stays.
pub fn listen(listener: fn(&'static str)) {
    LISTENER.get_or_init(|| listener);
}

/// Installs the scheduler of a test. The first one stays.
pub fn schedule(scheduler: &'static dyn Scheduler) {
    SCHEDULER.get_or_init(|| scheduler);
}

/// Announces that the step called `name` is about to be taken or has just been taken.
#[inline]
pub fn pass(name: &'static str) {
    if let Some(listener) = LISTENER.get() {
        listener(name);
    }
    step(name);
}

/// Announces a step that has no effect outside the process, but what comes after it may depend on what other threads did.
#[inline]
pub fn step(name: &'static str) {
    if let Some(scheduler) = SCHEDULER.get() {
        scheduler.step(name);
    }
}

/// Announces that the calling thread cannot go on until another one has. Answers whether it is to try again; `false`: it waits itself.
#[inline]
#[must_use]
pub fn blocked(name: &'static str) -> bool {
    SCHEDULER.get().is_some_and(|scheduler| scheduler.blocked(name))
}

/// A thread that is about to be started, for the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Forked(Option<usize>);

/// Announces that the calling thread is about to start another one.
#[must_use]
pub fn fork() -> Forked {
    Forked(SCHEDULER.get().and_then(|scheduler| scheduler.fork()))
}

impl Forked {
    /// Does the work of the started thread, in that thread.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        struct End(Forked);
        impl Drop for End {
            fn drop(&mut self) {
                if let (Some(scheduler), Some(thread)) = (SCHEDULER.get(), self.0.0) {
                    scheduler.end(thread);
                }
            }
        }
        if let (Some(scheduler), Some(thread)) = (SCHEDULER.get(), self.0) {
            scheduler.begin(thread);
        }
        let _end = End(self);
        work()
    }

    /// Lets others go on until the started thread has ended, before the calling thread joins it.
    pub fn wait(self) {
        if let (Some(scheduler), Some(thread)) = (SCHEDULER.get(), self.0) {
            scheduler.join(thread);
        }
    }
}
