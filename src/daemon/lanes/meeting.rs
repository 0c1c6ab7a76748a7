//! Lanes that meet for one effect. Most effects have one lane, which waits for nobody.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use asat_core::event::{Effect, EffectId, Outcome};
use asat_core::{Code, Problem};

/// How long the first lane waits for the last one, which may be in a long cut. Its own store cannot be published meanwhile.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// An effect that is performed when all its lanes are there.
pub(super) struct Meeting {
    id: EffectId,
    effect: Effect,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// So many lanes are not there yet.
    Missing(usize),
    /// All are there, and one performs the effect.
    UnderWay,
    /// It was performed, or given up.
    Over,
}

impl Meeting {
    /// A meeting of so many lanes.
    pub(super) fn new(id: EffectId, effect: Effect, lanes: usize) -> Self {
        Self { id, effect, stage: Mutex::new(Stage::Missing(lanes)), changed: Condvar::new() }
    }

    /// Has a lane come, and returns when the effect is over. The last lane performs it, and tells its outcome before any of them
    /// goes on: what follows in a lane may depend on it. A lane for which the others are too late gives it up for all.
    pub(super) fn attend(
        &self,
        patience: Duration,
        perform: impl FnOnce(&Effect) -> Outcome,
        tell: impl FnOnce(EffectId, Outcome),
    ) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match *stage {
            Stage::Missing(1) => {
                *stage = Stage::UnderWay;
                drop(stage);
                // However the effect ends, the others go on.
                let _over = Over(self);
                return tell(self.id, perform(&self.effect));
            }
            Stage::Missing(lanes) => *stage = Stage::Missing(lanes.saturating_sub(1)),
            Stage::UnderWay | Stage::Over => {}
        }
        let deadline = Instant::now() + patience;
        while *stage != Stage::Over {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Stage::Missing(lanes) = *stage
                && left.is_zero()
            {
                tell(self.id, self.given_up(lanes, patience));
                *stage = Stage::Over;
                return self.changed.notify_all();
            }
            let wait = if *stage == Stage::UnderWay { patience } else { left };
            let woken = self.changed.wait_timeout(stage, wait);
            stage = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn given_up(&self, lanes: usize, patience: Duration) -> Outcome {
        let what = match &self.effect {
            Effect::CutSet { set, .. } => format!("the set {set} was not published: "),
            _ => String::new(),
        };
        let detail = format!(
            "{what}{lanes} of its stores were still being published, restored or retired after {} s",
            patience.as_secs()
        );
        Outcome::CutSet(Err(Problem::new(Code::StoreBusy, detail, "publish again when that is over")))
    }
}

/// Ends a meeting when it is dropped.
struct Over<'a>(&'a Meeting);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.stage.lock().unwrap_or_else(PoisonError::into_inner) = Stage::Over;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
