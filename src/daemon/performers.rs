//! The threads on which effects are performed.
//!
//! The driver says which effects may be performed at the same time. A thread that has none to perform waits for the next. What takes long
//! and can wait has threads of its own, which are nicer: a publication beside a compaction gets most of the processors.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use asat_core::event::{Effect, EffectId, Intent};
use asat_host::machine;
use asat_shell::caused_by;

use super::host::Host;
use super::message::Message;

/// How nice the threads of compactions are. Beside others that want a processor too, they get a tenth of it: space is waited for sometimes.
const NICENESS: i32 = 10;

/// One thread for each effect that is performed, and those that wait for one.
pub(super) struct Performers<H: Host> {
    host: Arc<H>,
    finished: Sender<Message>,
    busy: HashMap<EffectId, Performer>,
    idle: Vec<Performer>,
}

struct Performer {
    /// Whether its thread is nicer than others. It cannot become less nice again.
    gives_way: bool,
    tasks: Sender<Intent>,
    thread: JoinHandle<()>,
}

impl<H: Host> Performers<H> {
    /// No threads yet; each tells a driver what came of an effect.
    pub(super) fn new(host: Arc<H>, finished: Sender<Message>) -> Self {
        Self { host, finished, busy: HashMap::new(), idle: Vec::new() }
    }

    /// Has an effect performed.
    ///
    /// # Errors
    /// If the machine gives no thread.
    pub(super) fn begin(&mut self, intent: Intent) -> io::Result<()> {
        let gives_way = matches!(intent.effect, Effect::Compact { .. } | Effect::Weigh { .. });
        let idle = self.idle.iter().position(|idle| idle.gives_way == gives_way);
        let performer = match idle {
            Some(idle) => self.idle.swap_remove(idle),
            None => self.start(gives_way)?,
        };
        let id = intent.id;
        // Only a thread that was abandoned hears nothing any more, and none of those is idle.
        let _ = performer.tasks.send(intent);
        self.busy.insert(id, performer);
        Ok(())
    }

    /// An effect is over: its thread may perform another one.
    pub(super) fn over(&mut self, effect: EffectId) {
        self.idle.extend(self.busy.remove(&effect));
    }

    fn start(&self, gives_way: bool) -> io::Result<Performer> {
        let (tasks, to_do) = channel();
        let (host, finished) = (Arc::clone(&self.host), self.finished.clone());
        let work = move || {
            if gives_way {
                machine::give_way_by(NICENESS);
            }
            perform(&*host, &to_do, &finished);
        };
        let name = if gives_way { "effect-later" } else { "effect" };
        Ok(Performer { gives_way, tasks, thread: Builder::new().name(name.to_owned()).spawn(work)? })
    }

    /// Ends the threads, which have nothing to perform any more.
    pub(super) fn end(&mut self) {
        for Performer { tasks, thread, .. } in self.idle.drain(..) {
            drop(tasks);
            // Whatever it did was told.
            let _ = thread.join();
        }
    }
}

/// Performs one effect after another.
fn perform<H: Host>(host: &H, to_do: &Receiver<Intent>, finished: &Sender<Message>) {
    for Intent { id, by, effect, .. } in to_do {
        let performed = caused_by(&by).in_scope(|| catch_unwind(AssertUnwindSafe(|| host.perform(&effect))));
        let (message, goes_on) = match performed {
            Ok(outcome) => (Message::Finished(id, outcome), true),
            Err(_) => (Message::Abandoned(id), false),
        };
        // A driver that is gone settles the open intent at the next start.
        if finished.send(message).is_err() || !goes_on {
            return;
        }
    }
}
