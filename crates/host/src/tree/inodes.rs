//! The numbers by which the kernel knows the places of the tree.
//!
//! The kernel says how often it was told of a place, and when it forgets it; a place that it knows keeps its number. No
//! number is given twice, so that pages which the kernel kept of one place are never taken for another's.

use std::collections::HashMap;

use asat_core::tree::Node;

/// The number of the root, which the kernel knows from the beginning.
const ROOT: u64 = 1;

/// The places that the kernel knows.
#[derive(Debug)]
pub(super) struct Inodes {
    by_number: HashMap<u64, Known>,
    by_node: HashMap<Node, u64>,
    last: u64,
}

#[derive(Debug)]
struct Known {
    node: Node,
    /// How often the kernel was told of it and has not forgotten it.
    told: u64,
}

impl Inodes {
    pub(super) fn new() -> Self {
        let root = Known { node: Node::Root, told: 1 };
        Self {
            by_number: HashMap::from([(ROOT, root)]),
            by_node: HashMap::from([(Node::Root, ROOT)]),
            last: ROOT,
        }
    }

    /// The place with this number.
    pub(super) fn node(&self, number: u64) -> Option<&Node> {
        self.by_number.get(&number).map(|known| &known.node)
    }

    /// The number of a place of which the kernel is being told.
    pub(super) fn tell(&mut self, node: &Node) -> u64 {
        if let Some(&number) = self.by_node.get(node)
            && let Some(known) = self.by_number.get_mut(&number)
        {
            known.told += 1;
            return number;
        }
        self.last += 1;
        self.by_number.insert(self.last, Known { node: node.clone(), told: 1 });
        self.by_node.insert(node.clone(), self.last);
        self.last
    }

    /// The kernel has forgotten so many of the times that it was told.
    pub(super) fn forget(&mut self, number: u64, times: u64) {
        let Some(known) = self.by_number.get_mut(&number).filter(|_| number != ROOT) else { return };
        known.told = known.told.saturating_sub(times);
        if known.told == 0
            && let Some(known) = self.by_number.remove(&number)
        {
            self.by_node.remove(&known.node);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }
}
