//! Runs threads one at a time, and chooses at each announced step which of them goes on.
//!
//! The threads are real ones; each waits until it is chosen. One that finds a lock held says so, and is chosen again only after
//! another has made a step. So a schedule is the row of choices, and the same choices give the same run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use asat_core::boundary::{self, Scheduler};

use crate::choices::Choices;

/// A schedule that is longer than this comes to no end.
const MOST_STEPS: usize = 20_000;

/// The scheduler of all runs of this process.
struct Explorer;

thread_local! {
    /// The run that this thread takes part in, and its number there.
    static PART: RefCell<Option<Part>> = const { RefCell::new(None) };
}

/// Threads that are about to begin, by the numbers that their parents were told.
static FORKED: Mutex<BTreeMap<usize, Part>> = Mutex::new(BTreeMap::new());
/// The number that the next of them is told.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A run, and a thread's number there.
type Part = (Arc<Run>, usize);

/// What a thread ends with whose run has failed elsewhere.
struct Stopped;

/// One run of several threads.
pub(crate) struct Run {
    state: Mutex<State>,
}

struct State {
    threads: Vec<Thread>,
    current: usize,
    choices: Choices,
    /// How many steps were made. What is blocked is tried again when there was one more.
    progress: usize,
    observer: Observer,
    failure: Option<String>,
}

struct Thread {
    status: Status,
    turn: Arc<Condvar>,
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Ready,
    /// It could not go on, when so many steps had been made.
    Blocked(usize),
    /// It waits for the end of another.
    Joins(usize),
    /// It was blocked, and is chosen to try again.
    Tries,
    Ended,
}

/// Hears of each step: the thread's number, and the step's name.
pub(crate) type Observer = Box<dyn FnMut(usize, &'static str) + Send>;

/// A thread's work; it answers what was wrong.
pub(crate) type Work = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// Runs all works side by side as the choices say. `observer` hears of each step. Answers the choices and what went wrong.
pub(crate) fn run(works: Vec<Work>, choices: Choices, observer: Observer) -> (Choices, Result<(), String>) {
    static EXPLORER: Explorer = Explorer;
    boundary::schedule(&EXPLORER);
    let threads = works.iter().map(|_| Thread::new()).collect();
    let state = State { threads, current: 0, choices, progress: 0, observer, failure: None };
    let run = Arc::new(Run { state: Mutex::new(state) });
    run.lock().choose();
    std::thread::scope(|scope| {
        for (number, work) in works.into_iter().enumerate() {
            let run = Arc::clone(&run);
            scope.spawn(move || run.take_part(number, work));
        }
    });
    let mut state = run.lock();
    let failure = state.failure.take();
    (std::mem::take(&mut state.choices), failure.map_or(Ok(()), Err))
}

/// Lets others go on first, as the code under test does at its own steps.
pub(crate) fn step(name: &'static str) {
    boundary::step(name);
}

impl Thread {
    fn new() -> Self {
        Self { status: Status::Ready, turn: Arc::default() }
    }
}

impl State {
    /// Chooses who goes on; answers whether there is anybody.
    fn choose(&mut self) -> bool {
        let can_go = |thread: &Thread| match thread.status {
            Status::Ready | Status::Tries => true,
            Status::Blocked(then) => then < self.progress,
            Status::Joins(other) => self.threads[other].status == Status::Ended,
            Status::Ended => false,
        };
        let is_blocked = |number: &usize| matches!(self.threads[*number].status, Status::Blocked(_));
        let can_go: Vec<usize> = (0..self.threads.len()).filter(|&nth| can_go(&self.threads[nth])).collect();
        // Those that may find out that they are blocked still are asked first: see `Choices::not_this`.
        let (mut options, ready): (Vec<usize>, Vec<usize>) = can_go.into_iter().partition(is_blocked);
        let blocked = options.len();
        options.extend(ready);
        let Some(chosen) = self.choices.next(&options, blocked, self.current) else { return false };
        self.current = chosen;
        let thread = &mut self.threads[chosen];
        thread.status = match thread.status {
            Status::Blocked(_) => Status::Tries,
            _ => Status::Ready,
        };
        thread.turn.notify_one();
        true
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
        self.threads.iter().for_each(|thread| thread.turn.notify_one());
    }
}

impl Run {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_part(self: &Arc<Self>, number: usize, work: Work) {
        PART.set(Some((Arc::clone(self), number)));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.wait(number, self.lock());
            work()
        }));
        PART.set(None);
        self.end(
            number,
            match ended {
                Ok(Ok(())) => None,
                Ok(Err(what)) => Some(what),
                Err(panic) if panic.is::<Stopped>() => None,
                Err(_) => Some(format!("thread {number} panicked")),
            },
        );
    }

    /// Waits for the thread's turn.
    fn wait(&self, number: usize, mut state: MutexGuard<'_, State>) {
        let turn = Arc::clone(&state.threads[number].turn);
        while state.current != number && state.failure.is_none() {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let has_failed = state.failure.is_some();
        drop(state);
        if has_failed && !std::thread::panicking() {
            resume_unwind(Box::new(Stopped));
        }
    }

    fn step(&self, number: usize, name: &'static str) {
        let mut state = self.lock();
        if state.failure.is_some() {
            return self.wait(number, state);
        }
        state.progress += 1;
        state.threads[number].status = Status::Ready;
        (state.observer)(number, name);
        if state.progress > MOST_STEPS {
            state.fail("the schedule comes to no end".to_owned());
        }
        if state.choices.is_choice(name) {
            state.choose();
        }
        self.wait(number, state);
    }

    fn blocked(&self, number: usize, name: &'static str, status: impl FnOnce(usize) -> Status) {
        let mut state = self.lock();
        match state.threads[number].status {
            Status::Tries => state.choices.not_this(),
            // It did something since its last step that others may have waited for.
            _ => state.progress += 1,
        }
        state.threads[number].status = status(state.progress);
        if state.failure.is_none() && !state.choose() {
            state.fail(format!("nobody can go on, and thread {number} waits for {name}"));
        }
        self.wait(number, state);
    }

    fn end(&self, number: usize, failure: Option<String>) {
        let mut state = self.lock();
        state.threads[number].status = Status::Ended;
        state.progress += 1;
        failure.into_iter().for_each(|failure| state.fail(failure));
        let is_over = state.threads.iter().all(|thread| thread.status == Status::Ended);
        if !is_over && state.failure.is_none() && !state.choose() {
            state.fail(format!("nobody can go on after the end of thread {number}"));
        }
    }
}

fn part() -> Option<Part> {
    PART.with_borrow(Clone::clone)
}

impl Scheduler for Explorer {
    fn step(&self, name: &'static str) {
        if let Some((run, number)) = part() {
            run.step(number, name);
        }
    }

    fn blocked(&self, name: &'static str) -> bool {
        let Some((run, number)) = part() else { return false };
        run.blocked(number, name, Status::Blocked);
        true
    }

    fn fork(&self) -> Option<usize> {
        let (run, _) = part()?;
        let number = {
            let mut state = run.lock();
            state.threads.push(Thread::new());
            state.threads.len() - 1
        };
        let ticket = NEXT.fetch_add(1, Ordering::Relaxed);
        FORKED.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket, (run, number));
        Some(ticket)
    }

    fn begin(&self, thread: usize) {
        let Some((run, number)) = forked(thread) else { return };
        PART.set(Some((Arc::clone(&run), number)));
        let state = run.lock();
        run.wait(number, state);
    }

    fn end(&self, thread: usize) {
        PART.set(None);
        let forked = FORKED.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread);
        if let Some((run, number)) = forked {
            run.end(number, None);
        }
    }

    fn join(&self, thread: usize) {
        if let (Some((run, number)), Some((_, other))) = (part(), forked(thread)) {
            run.blocked(number, "the end of a thread", |_| Status::Joins(other));
        }
    }
}

fn forked(thread: usize) -> Option<Part> {
    FORKED.lock().unwrap_or_else(PoisonError::into_inner).get(&thread).cloned()
}
