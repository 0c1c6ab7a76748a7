//! Which connections are open at a listener, and which of them makes room for another.
//!
//! A connection that waits for its client, between two requests or amid one, costs memory and a file, and nothing is lost
//! with it: whoever answers reads all of a request before. So where there are as many as there may be, the one that has waited for longest goes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The open connections of one listener.
pub(super) struct Slots {
    most: usize,
    open: Mutex<BTreeMap<u64, Arc<Slot>>>,
    /// Numbers connections, and moments at which one begins to wait.
    next: AtomicU64,
}

/// One connection.
pub(super) struct Slot {
    number: u64,
    /// Since when it waits for its client; 0 while a request is answered.
    waits_since: AtomicU64,
    /// Whether its client has not taken all of an answer yet.
    is_sending: AtomicBool,
    gone: Notify,
    slots: Arc<Slots>,
}

/// A request that is being answered, for as long as this lives.
pub(super) struct Busy(Arc<Slot>);

impl Slots {
    /// For so many connections at once.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default(), next: AtomicU64::new(1) })
    }

    /// A place for one more connection; `None` where all that there may be are being answered.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Arc<Slot>> {
        let now = self.now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= self.most {
            let waits = |slot: &&Arc<Slot>| !slot.is_answered();
            let longest =
                open.values().filter(waits).min_by_key(|slot| slot.waits_since.load(Ordering::Acquire));
            let longest = longest?.number;
            if let Some(slot) = open.remove(&longest) {
                slot.gone.notify_one();
            }
        }
        let slot = Slot {
            number: now,
            waits_since: AtomicU64::new(now),
            is_sending: AtomicBool::new(false),
            gone: Notify::new(),
            slots: Arc::clone(self),
        };
        let slot = Arc::new(slot);
        open.insert(now, Arc::clone(&slot));
        Some(slot)
    }

    fn now(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }
}

impl Slot {
    /// Notes that a request is being answered.
    pub(super) fn answer(self: &Arc<Self>) -> Busy {
        self.waits_since.store(0, Ordering::Release);
        Busy(Arc::clone(self))
    }

    /// Notes whether more of a request is waited for.
    pub(super) fn waits(&self, waits: bool) {
        match (waits, self.waits_since.load(Ordering::Acquire)) {
            (true, 0) => self.waits_since.store(self.slots.now(), Ordering::Release),
            (true, _) => {}
            (false, _) => self.waits_since.store(0, Ordering::Release),
        }
    }

    /// Notes whether there is more of an answer than its client takes at the moment.
    pub(super) fn sends(&self, sends: bool) {
        self.is_sending.store(sends, Ordering::Release);
    }

    /// Whether a request is being answered.
    pub(super) fn is_answered(&self) -> bool {
        self.waits_since.load(Ordering::Acquire) == 0 || self.is_sending.load(Ordering::Acquire)
    }

    /// Waits until the connection has to make room.
    pub(super) async fn gone(&self) {
        self.gone.notified().await;
    }

    /// Gives the place back.
    pub(super) fn leave(&self) {
        self.slots.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Self(slot) = self;
        slot.waits_since.store(slot.slots.now(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn is_gone(slot: &Slot) -> bool {
        slot.gone().now_or_never().is_some()
    }

    #[test]
    fn who_has_waited_for_longest_makes_room_and_who_is_answered_does_not() {
        let slots = Slots::new(3);
        let [first, second, third] = [(); 3].map(|()| slots.enter().unwrap());
        let busy = first.answer();
        // It has begun to wait anew.
        drop(second.answer());
        let _fourth = slots.enter().unwrap();
        assert!([&first, &second].iter().all(|slot| !is_gone(slot)) && is_gone(&third));
        let _fifth = slots.enter().unwrap();
        assert!(is_gone(&second) && !is_gone(&first));
        drop(busy);
        assert!(!first.is_answered());
    }

    #[test]
    fn where_all_are_answered_there_is_no_room_until_one_leaves() {
        let slots = Slots::new(2);
        let [first, second] = [(); 2].map(|()| slots.enter().unwrap());
        let (_one, _other) = (first.answer(), second.answer());
        assert!(slots.enter().is_none());
        second.leave();
        assert!(slots.enter().is_some());
        assert!(slots.enter().is_some(), "the one that came last waits");
    }
}
