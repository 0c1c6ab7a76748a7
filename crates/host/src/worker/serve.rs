//! The worker itself: it takes one order after the other, and says what came of it.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use asat_core::check::Check;
use asat_core::{Code, PageSize, Problem};
use rustix::process::DumpableBehavior;

use super::bounds;
use super::frames::{Output, read_words};
use super::identity::Identity;
use super::words::{Order, Reply, Said};
use crate::store::{
    self, Checks, Error, Following, Limits, Moment, PageSink, Restoring, Still, Take as _, Taking, Target,
    Tracker,
};

/// How long a worker whose daemon has gone may take to close the store, before it ends as it is.
const LEAVING: Duration = Duration::from_secs(1);

/// Takes orders from a socket and answers there, until the other end has gone. It acts as this user from then on.
///
/// # Errors
/// Where it cannot become that user or set its bounds, and where the socket fails.
pub fn serve(socket: impl AsFd, user: Option<&Identity>) -> io::Result<()> {
    let socket = UnixStream::from(socket.as_fd().try_clone_to_owned()?);
    let mut output = Output::new(socket.try_clone()?);
    if let Err(error) = get_ready(user) {
        let problem = Problem::new(Code::Internal, error.to_string(), "");
        output.say(&Said::Failed { problem, is_busy: false })?;
        return Err(error);
    }
    let cancel = Arc::new(AtomicBool::new(false));
    let (tell, orders) = mpsc::channel();
    let heard = Arc::clone(&cancel);
    thread::Builder::new().name("orders".to_owned()).spawn(move || listen(&socket, tell, &heard))?;
    output.say(&Said::Ready)?;
    Worker { output, orders, cancel }.run()
}

/// Becomes the user, and sets the bounds. There is one thread still.
fn get_ready(user: Option<&Identity>) -> io::Result<()> {
    let _ = rustix::thread::set_name(c"asat-store");
    user.map_or(Ok(()), Identity::assume)?;
    // Nobody may trace it but root, although it acts as the store's owner.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    bounds::set(bounds::HEAP).map_err(io::Error::other)
}

/// Hears orders while another one is carried out, so that this can be ended.
fn listen(socket: &UnixStream, tell: Sender<Order>, cancel: &AtomicBool) {
    while let Ok(Some(order)) = read_words(socket) {
        if matches!(order, Order::Cancel) {
            cancel.store(true, Ordering::Relaxed);
        } else if tell.send(order).is_err() {
            return;
        }
    }
    // The daemon has gone, or has no use for this worker any more.
    cancel.store(true, Ordering::Relaxed);
    drop(tell);
    thread::sleep(LEAVING);
    std::process::exit(0);
}

/// How a store that is tracked is to be read.
type Follow = (Following, Limits, Vec<Check>);

struct Worker {
    output: Output,
    orders: Receiver<Order>,
    cancel: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self) -> io::Result<()> {
        while let Ok(order) = self.orders.recv() {
            let Some(said) = self.perform(order)? else { break };
            self.output.say(&said)?;
        }
        Ok(())
    }

    /// Carries an order out; nothing where no other is to come, or one that has no sense.
    fn perform(&mut self, order: Order) -> io::Result<Option<Said>> {
        let cancel = Arc::clone(&self.cancel);
        Ok(Some(match order {
            Order::Ping => Said::Ready,
            Order::Read { store, limits, checks } => {
                let checks = Checks { checks: &checks, cancel: &cancel };
                let sink = &mut Pages(&mut self.output);
                let read = store::read_checked(store, &limits, &checks, sink);
                read.map(|(read, results)| Reply::Read(read, results)).into()
            }
            Order::Follow { store, following, limits, checks } => {
                let tracker = Tracker::new(Target::from(store));
                return self.follow(tracker, (following, limits, checks));
            }
            Order::ReadFrozen { path, with_wal } => {
                let sink = &mut Pages(&mut self.output);
                let read = store::read_frozen(&PathBuf::from(path), with_wal, &cancel, sink);
                read.map(Reply::Frozen).into()
            }
            Order::CheckFrozen { path, with_wal, checks } => {
                let checks = Checks { checks: &checks, cancel: &cancel };
                let checked = store::check_frozen(&PathBuf::from(path), with_wal, &checks);
                Said::of(checked.map(Reply::Checked))
            }
            Order::Ask { store, sql, deadline, most_hold } => {
                let rows = store::ask(store, &sql, deadline, most_hold, &cancel);
                Said::of(rows.map(Reply::Rows))
            }
            Order::Still { store, limits, must_hold } => {
                match store::still(store, &limits, &cancel, must_hold) {
                    Ok(still) => return self.hold(still),
                    Err(error) => Said::of(Err(error)),
                }
            }
            Order::Join { store, limits, by_snapshot } => {
                return self.join(Taking::new(store.into(), limits, by_snapshot, &cancel));
            }
            Order::Restore { store, source, limits, user } => {
                let source = PathBuf::from(source);
                let restoring = Restoring { source: &source, limits: &limits, cancel: &cancel };
                Said::of(self.restore(&store.into(), &restoring, user.as_deref()).map(Reply::Took))
            }
            _ => return Ok(None),
        }))
    }

    /// Tracks a store until the daemon has no use for that any more.
    fn follow(&mut self, mut tracker: Tracker, first: Follow) -> io::Result<Option<Said>> {
        let cancel = Arc::clone(&self.cancel);
        let mut wanted = Some(first);
        loop {
            if let Some((following, limits, checks)) = wanted.take() {
                let checks = Checks { checks: &checks, cancel: &cancel };
                let sink = &mut Pages(&mut self.output);
                let read = tracker.read(following, &limits, &checks, sink);
                let reply = read.map(|(read, results, followed)| Reply::Followed(read, results, followed));
                self.output.say(&Said::from(reply))?;
            }
            match self.orders.recv_timeout(tracker.pause()) {
                Ok(Order::Follow { following, limits, checks, .. }) => {
                    wanted = Some((following, limits, checks));
                }
                Err(RecvTimeoutError::Timeout) => tracker.tick(&cancel),
                _ => return Ok(None),
            }
        }
    }

    /// Holds a store still until it is to be released.
    fn hold(&mut self, still: Still) -> io::Result<Option<Said>> {
        self.output.say(&Said::Done(Reply::Still(Box::new(still.state().clone()))))?;
        match self.orders.recv() {
            Ok(Order::Release) => Ok(Some(Said::of(still.release().map(Reply::Took)))),
            _ => Ok(None),
        }
    }

    /// Takes the steps of a set's member as they are ordered.
    fn join(&mut self, mut taking: Taking<'_>) -> io::Result<Option<Said>> {
        let mut done = taking.prepare();
        loop {
            self.output.say(&Said::of(done.map(|()| Reply::Nothing)))?;
            done = match self.orders.recv() {
                Ok(Order::Hold { others_held }) => taking.hold(others_held),
                Ok(Order::Free) => taking.free(),
                Ok(Order::Fix) => taking.fix(),
                Ok(Order::LetGo { cut_at }) => {
                    return match taking.let_go(cut_at) {
                        Ok(Moment::Still(still)) => self.hold(*still),
                        Ok(Moment::Read(fixed)) => {
                            self.output.say(&Said::Done(Reply::Fixed))?;
                            let Ok(Order::ReadFixed { checks }) = self.orders.recv() else { return Ok(None) };
                            Ok(Some(self.read_fixed(fixed, &checks)))
                        }
                        Err(error) => Ok(Some(Said::of(Err(error)))),
                    };
                }
                _ => return Ok(None),
            };
        }
    }

    fn read_fixed(&mut self, fixed: store::Fixed, checks: &[Check]) -> Said {
        let checks = Checks { checks, cancel: &self.cancel };
        let read = fixed.read(&checks, &mut Pages(&mut self.output));
        read.map(|(read, results)| Reply::Read(read, results)).into()
    }

    /// Writes a version, which the daemon alone may read, over a store, and that as the store's owner.
    fn restore(
        &mut self,
        store: &Target,
        restoring: &Restoring<'_>,
        user: Option<&str>,
    ) -> Result<Duration, Error> {
        let source = store::open_source(restoring.source)?;
        let user = user.map(str::parse::<Identity>).transpose().map_err(io::Error::other);
        user.and_then(|user| user.map_or(Ok(()), |user| user.assume()))
            .map_err(|error| Error::from_io("act as the owner of", &store.path, error))?;
        let (output, orders) = (RefCell::new(&mut self.output), &self.orders);
        let gone = || Problem::new(Code::Stopping, "the restore was given up", "");
        let say = |said: &Said| output.borrow_mut().say(said).map_err(|_| gone());
        let unchanged = || {
            say(&Said::IsUnchanged)?;
            match orders.recv() {
                Ok(Order::Unchanged(answer)) => answer,
                _ => Err(gone()),
            }
        };
        // Where the daemon does not hear it, it has gone, which ends the restore in any case.
        let mut told = |done, of| drop(say(&Said::Progress(done, of)));
        store::restore_from(&source, store, restoring, unchanged, &mut told)
    }
}

/// Hands pages over to the daemon.
struct Pages<'a>(&'a mut Output);

impl PageSink for Pages<'_> {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.0.say(&Said::Begin(page_size, page_count)).map_err(gone)
    }

    fn hurry(&mut self) -> Result<(), Problem> {
        self.0.say(&Said::Hurry).map_err(gone)
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        self.0.pages(page).map_err(gone)
    }

    fn pages(&mut self, _: u32, pages: &[u8], _: PageSize) -> Result<(), Problem> {
        self.0.pages(pages).map_err(gone)
    }

    fn same_run(&mut self, first: u32, last: u32) -> Result<bool, Problem> {
        // A daemon that does not have them ends this worker.
        self.0.add(&Said::Same(last.saturating_sub(first).saturating_add(1))).map_err(gone)?;
        Ok(true)
    }

    fn claim(&mut self, pages: u32) -> Result<(), Problem> {
        self.0.add(&Said::Claim(pages)).map_err(gone)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "errors are mapped so")]
fn gone(error: io::Error) -> Problem {
    Problem::new(Code::Stopping, format!("the daemon takes no more pages: {error}"), "")
}
