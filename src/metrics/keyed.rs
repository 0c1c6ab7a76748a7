//! Things that are counted apart.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

/// A value for each key. Keys are few, and stay: the first use of one copies the list, and all others take no lock.
#[derive(Debug)]
pub struct Keyed<K, V>(ArcSwap<BTreeMap<K, Arc<V>>>);

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Self {
        Self(ArcSwap::default())
    }
}

impl<K: Ord + Clone, V: Default> Keyed<K, V> {
    /// Hands over the value of a key.
    pub fn with<Q>(&self, key: &Q, act: impl FnOnce(&V))
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(value) = self.0.load().get(key) {
            return act(value);
        }
        let value = Arc::<V>::default();
        self.0.rcu(|values| {
            let mut values = BTreeMap::clone(values);
            values.entry(key.to_owned()).or_insert_with(|| Arc::clone(&value));
            values
        });
        // Somebody may have been first.
        act(self.0.load().get(key).unwrap_or(&value));
    }

    /// All values of this moment.
    #[must_use]
    pub fn all(&self) -> Arc<BTreeMap<K, Arc<V>>> {
        self.0.load_full()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn nothing_is_lost_where_many_begin_to_count_the_same() {
        let counters = Keyed::<String, AtomicU64>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000 {
                        counters.with(format!("{}", n % 50).as_str(), |counter| {
                            _ = counter.fetch_add(1, Ordering::Relaxed)
                        });
                    }
                });
            }
        });
        let all = counters.all();
        assert_eq!(all.len(), 50);
        assert!(all.values().all(|counter| counter.load(Ordering::Relaxed) == 80));
    }
}
