//! Turns: commands that change volumes wait for one another, and the guard's go first.
//!
//! What the guard does at the same time belongs together, an extension and the brake that makes it safe. Beside a brake a
//! classic snapshot may be removed too: for LVM a held origin is one that it has suspended already, and it resumes the
//! origin at the end, as it does after an extension. Any other command would find the volume suspended, and fail half-way.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Whose turn it is.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<Claims>,
    over: Condvar,
}

#[derive(Default)]
struct Claims {
    /// Whether somebody has it who shares it with nobody.
    taken: bool,
    /// Whether somebody has it who removes a classic snapshot.
    removing: bool,
    /// How many extensions have it.
    extending: usize,
    /// How many brakes have it.
    holding: usize,
    /// How many extensions wait for it.
    to_extend: usize,
    /// How many brakes wait for it.
    to_hold: usize,
}

/// What a turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum For {
    /// To extend something for the guard.
    Extending,
    /// To hold writers for the guard.
    Holding,
    /// To remove a classic snapshot.
    Removing,
    /// Anything else, beside nothing.
    Anything,
}

/// The guard's word that it may extend something again in a moment. Until it is dropped, nobody else begins.
pub(in crate::daemon) struct Reserved {
    turns: Arc<Turns>,
}

/// A turn, until it is dropped.
pub(in crate::daemon) struct Turn<'a> {
    turns: &'a Turns,
    purpose: For,
}

impl Claims {
    /// Whether somebody must wait who wants a turn for this.
    fn is_in_the_way(&self, purpose: For) -> bool {
        let extends = self.extending + self.to_extend > 0;
        match purpose {
            For::Extending => self.taken || self.removing,
            For::Holding => self.taken,
            For::Removing => self.taken || self.removing || extends,
            For::Anything => self.taken || self.removing || extends || self.holding + self.to_hold > 0,
        }
    }

    /// How many wait, where they go before others.
    fn waiting(&mut self, purpose: For) -> Option<&mut usize> {
        match purpose {
            For::Extending => Some(&mut self.to_extend),
            For::Holding => Some(&mut self.to_hold),
            For::Removing | For::Anything => None,
        }
    }
}

impl Turns {
    /// Waits for a turn: for extensions and brakes until the command that is running has ended, and for others until the
    /// guard has nothing to do besides.
    pub(super) fn take(&self, purpose: For) -> Turn<'_> {
        let mut state = self.state();
        if let Some(waiting) = state.waiting(purpose) {
            *waiting += 1;
        }
        while state.is_in_the_way(purpose) {
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(waiting) = state.waiting(purpose) {
            *waiting -= 1;
        }
        match purpose {
            For::Extending => state.extending += 1,
            For::Holding => state.holding += 1,
            For::Removing => state.removing = true,
            For::Anything => state.taken = true,
        }
        Turn { turns: self, purpose }
    }

    /// Keeps the next turn for an extension: between two of them nobody else begins, for whom the second would have to wait while
    /// writers are held.
    pub(super) fn reserve(self: &Arc<Self>) -> Reserved {
        self.state().to_extend += 1;
        Reserved { turns: Arc::clone(self) }
    }

    fn state(&self) -> MutexGuard<'_, Claims> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.turns.state().to_extend -= 1;
        self.turns.over.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        match self.purpose {
            For::Extending => state.extending -= 1,
            For::Holding => state.holding -= 1,
            For::Removing => state.removing = false,
            For::Anything => state.taken = false,
        }
        self.turns.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn the_guard_goes_before_those_who_came_earlier() {
        let turns = Turns::default();
        let (say, said) = channel();
        thread::scope(|scope| {
            let first = turns.take(For::Anything);
            for _ in 0..3 {
                let (turns, say) = (&turns, say.clone());
                scope.spawn(move || {
                    let _turn = turns.take(For::Anything);
                    say.send("in line").unwrap();
                });
            }
            let (waiting, say) = (&turns, say.clone());
            scope.spawn(move || {
                let _hold = waiting.take(For::Holding);
                say.send("held").unwrap();
                // Who holds does not keep the guard from what it is held for.
                drop(waiting.take(For::Extending));
                say.send("extended").unwrap();
                drop(waiting.take(For::Removing));
                say.send("removed").unwrap();
            });
            while turns.state().to_hold == 0 {
                thread::yield_now();
            }
            drop(first);
        });
        drop(say);
        let expected = ["held", "extended", "removed", "in line", "in line", "in line"];
        assert_eq!(said.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn nobody_begins_between_two_extensions() {
        let turns = Arc::new(Turns::default());
        let (say, said) = channel();
        thread::scope(|scope| {
            let reserved = turns.reserve();
            let extension = turns.take(For::Extending);
            let (waiting, say) = (&turns, &say);
            scope.spawn(move || {
                let _turn = waiting.take(For::Removing);
                say.send("removed").unwrap();
            });
            drop(extension);
            assert!(turns.state().is_in_the_way(For::Removing) && turns.state().is_in_the_way(For::Anything));
            drop(turns.take(For::Extending));
            say.send("extended again").unwrap();
            drop(reserved);
        });
        drop(say);
        assert_eq!(said.iter().collect::<Vec<_>>(), ["extended again", "removed"]);
    }

    #[test]
    fn who_waits_for_whom() {
        use For::{Anything, Extending, Holding, Removing};
        let cases = [
            (Extending, vec![Removing, Anything]),
            (Holding, vec![Anything]),
            (Removing, vec![Extending, Removing, Anything]),
            (Anything, vec![Extending, Holding, Removing, Anything]),
        ];
        for (mine, theirs) in cases {
            for their in [Extending, Holding, Removing, Anything] {
                let turns = Turns::default();
                let _turn = turns.take(mine);
                assert_eq!(
                    turns.state().is_in_the_way(their),
                    theirs.contains(&their),
                    "{their:?} beside {mine:?}"
                );
            }
        }
    }
}
