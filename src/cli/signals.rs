//! The signals that ask a command to end.
//!
//! A thread of its own listens for them and tells the command, which ends in its own way: it deletes what it has begun, and gives back its
//! lease. Only a command that waits for its input, or for somebody who reads its output, hears of nothing else meanwhile. It has nothing to
//! clean up then, and the thread ends the program.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::process::{Child, exit};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::exit::INTERRUPTED;
use super::output::Failure;

/// A command that has not heard a signal is looked at after each such time. If it waits for somebody outside at so many looks in a row, the
/// program ends.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 3;
/// How long what must not be left half done goes on after a signal.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// Signals that come so soon after one another are one wish: `timeout` and systemd send several.
const TOGETHER: Duration = Duration::from_millis(300);

/// How many calls wait for input, or for somebody who reads the output.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// The process of the pager that has the terminal, or 0.
static PAGER: AtomicI32 = AtomicI32::new(0);

/// While there is one, the command waits for somebody outside, and has nothing to clean up: a signal may end the program where it stands.
pub(super) struct Waiting(());

impl Waiting {
    pub(super) fn begin() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// While there is one, a pager has the terminal. What is typed to interrupt concerns the pager, as `git` and `man` have it; what asks asat
/// to end ends the pager, too.
pub(super) struct Paging(());

impl Paging {
    pub(super) fn begin(pager: &Child) -> Self {
        PAGER.store(Pid::from_child(pager).as_raw_nonzero().get(), Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Paging {
    fn drop(&mut self) {
        PAGER.store(0, Ordering::Relaxed);
    }
}

/// A signal that came, with its number.
struct Came {
    signal: Signal,
    number: u8,
    heard: oneshot::Sender<()>,
}

/// The signals as they come.
pub(super) struct Signals(mpsc::UnboundedReceiver<Came>);

impl Signals {
    /// Listens for all that are not ignored: after `nohup`, a command must go on as well.
    ///
    /// # Errors
    /// [`Code::Internal`] if the kernel allows neither a thread nor a handler.
    pub(super) fn listen() -> Result<Self, Problem> {
        let (tell, told) = mpsc::unbounded_channel();
        let (begin, begun) = sync_channel(1);
        let listen = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let listened: io::Result<Infallible> = runtime.and_then(|runtime| {
                runtime.block_on(async {
                    let mut listeners = Listeners::new()?;
                    // Nobody waits any more if the program ends already.
                    let _ = begin.send(Ok(()));
                    Ok(listeners.pass_on(&tell).await)
                })
            });
            let Err(error) = listened;
            let _ = begin.send(Err(error));
        };
        let spawned = thread::Builder::new().name("signals".to_owned()).spawn(listen).map(drop);
        let begun = spawned.and_then(|()| begun.recv().unwrap_or_else(|error| Err(io::Error::other(error))));
        match begun {
            Ok(()) => Ok(Self(told)),
            Err(error) => {
                Err(Problem::new(Code::Internal, format!("cannot listen for signals: {error}"), ""))
            }
        }
    }

    /// The next one, and its number.
    pub(super) async fn next(&mut self) -> (Signal, u8) {
        match self.0.recv().await {
            Some(Came { signal, number, heard }) => {
                // The thread that waits for this ends with the program only.
                let _ = heard.send(());
                (signal, number)
            }
            None => std::future::pending().await,
        }
    }

    /// Runs a command that cleans up behind itself if it is dropped.
    pub(super) async fn end<T>(
        &mut self,
        command: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = command => result,
            (_, number) = self.next() => Err(Failure::Interrupted(number)),
        }
    }

    /// Waits for what must not be left half done: after a signal only a while longer, and not after a second one. Answers what came
    /// of it, if it ended, and the number of the signal, if one came.
    pub(super) async fn outlast<T>(&mut self, work: impl Future<Output = T>) -> (Option<T>, Option<u8>) {
        let mut work = std::pin::pin!(work);
        let number = tokio::select! {
            result = &mut work => return (Some(result), None),
            (_, number) = self.next() => number,
        };
        let came = Instant::now();
        let patience = async {
            loop {
                self.next().await;
                if came.elapsed() > TOGETHER {
                    break;
                }
            }
        };
        tokio::select! {
            result = work => (Some(result), Some(number)),
            () = patience => (None, Some(number)),
            () = tokio::time::sleep(LAST_WAIT) => (None, Some(number)),
        }
    }
}

/// What listens for each signal.
struct Listeners(Vec<(Signal, u8, Listener)>);

impl Listeners {
    fn new() -> io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let all = [
            (Signal::HUP, 1, SignalKind::hangup()),
            (Signal::INT, 2, SignalKind::interrupt()),
            (Signal::QUIT, 3, SignalKind::quit()),
            (Signal::TERM, 15, SignalKind::terminate()),
        ];
        let wanted = all.into_iter().filter(|(_, number, _)| ignored >> (number - 1) & 1 == 0);
        wanted
            .map(|(name, number, kind)| Ok((name, number, signal(kind)?)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    async fn next(&mut self) -> (Signal, u8) {
        poll_fn(|context| {
            let came = self.0.iter_mut().find_map(|(name, number, listener)| {
                listener.poll_recv(context).is_ready().then_some((*name, *number))
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Tells the command of each signal, and ends the program if the command cannot hear of it.
    async fn pass_on(&mut self, command: &mpsc::UnboundedSender<Came>) -> Infallible {
        loop {
            let (signal, number) = self.next().await;
            if let Some(pager) = pager() {
                if [Signal::INT, Signal::QUIT].contains(&signal) {
                    continue;
                }
                // It may have ended by itself.
                let _ = kill_process(pager, Signal::TERM);
            }
            let (heard, is_heard) = oneshot::channel();
            // A command that has ended its work hears of nothing any more, and may still print.
            let _ = command.send(Came { signal, number, heard });
            tokio::select! {
                Ok(()) = is_heard => {}
                () = until_it_waits() => exit(i32::from(INTERRUPTED.saturating_add(number))),
            }
        }
    }
}

/// Returns if the command waits for somebody outside.
async fn until_it_waits() {
    let mut looks = 0;
    while looks < LOOKS {
        tokio::time::sleep(LOOK).await;
        looks = if WAITING.load(Ordering::Relaxed) == 0 { 0 } else { looks + 1 };
    }
}

/// The pager that has the terminal, if it still runs.
fn pager() -> Option<Pid> {
    let pager = Pid::from_raw(PAGER.load(Ordering::Relaxed))?;
    let has_ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pager), has_ended).is_ok_and(|ended| ended.is_none()).then_some(pager)
}

/// The signals that this process ignores, one a bit (`proc(5)`, `SigIgn`).
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_mask() {
        assert_eq!(ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!((ignored("SigIgn:\tx"), ignored("")), (0, 0));
    }
}
