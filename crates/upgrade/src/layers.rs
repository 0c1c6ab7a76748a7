//! The files of an archive of format 4: their names say which layers there are, and whose version lives.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::rc::Rc;

use asat_archive::Error;

use crate::pack::{ENTRY_MIN_BYTES, Pack};
use crate::place::Place;

/// So many files are kept open at most.
const MOST_OPEN: usize = 256;

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    name: String,
    /// The lowest version that it stands for.
    pub(crate) from: u64,
    /// The highest, by which it is ordered.
    pub(crate) number: u64,
    /// Whether that lives.
    pub(crate) is_live: bool,
    bytes: u64,
}

/// An archive of format 4.
pub(crate) struct Layers {
    folder: PathBuf,
    pub(crate) all: BTreeMap<u64, Layer>,
    /// Files that are no layers of it. They were left alone always.
    pub(crate) foreign: Vec<String>,
    open: RefCell<BTreeMap<u64, Rc<Pack>>>,
}

impl Layers {
    pub(crate) fn of(place: &Place) -> Result<Self, Error> {
        let (mut all, mut foreign, mut found) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (name, bytes) in place.list()? {
            match bytes.and_then(|bytes| Layer::parse(&name, bytes)) {
                Some(layer) => found.push(layer),
                None if is_unfinished(&name) => {}
                None => foreign.push(name),
            }
        }
        // The widest first: what lies within the range of another was merged into that, and left by a crash.
        found.sort_by_key(|layer| (layer.from, Reverse(layer.number), !layer.is_live));
        let mut merged_up_to = 0;
        for layer in found {
            let is_inside = layer.number <= merged_up_to;
            merged_up_to = merged_up_to.max(layer.number);
            match all.entry(layer.number) {
                Entry::Vacant(place) if !is_inside => _ = place.insert(layer),
                Entry::Vacant(_) if !layer.is_live => {}
                Entry::Occupied(same) if same.get().from < layer.from => {}
                _ => foreign.push(layer.name),
            }
        }
        Ok(Self { folder: place.path.clone(), all, foreign, open: RefCell::default() })
    }

    /// The numbers of live versions.
    pub(crate) fn live(&self) -> impl Iterator<Item = u64> {
        self.all.values().filter(|layer| layer.is_live).map(|layer| layer.number)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.all.values().map(|layer| layer.bytes).sum()
    }

    /// The highest layer up to this number: what the layer of that number showed is there, if it is not its own any more.
    pub(crate) fn below(&self, number: u64) -> Option<&Layer> {
        self.all.range(..=number).next_back().map(|(_, layer)| layer)
    }

    pub(crate) fn open(&self, number: u64) -> Result<Rc<Pack>, Error> {
        let mut open = self.open.borrow_mut();
        if let Some(pack) = open.get(&number) {
            return Ok(Rc::clone(pack));
        }
        let Some(layer) = self.all.get(&number) else {
            return Err(Error::NoSuchVersion { number, folder: self.folder.clone() });
        };
        let pack = Pack::open(&self.folder.join(&layer.name), (layer.from, layer.number))?;
        // A page count that all layers together cannot hold must not be believed, let alone allocated for.
        if u64::from(pack.meta.page_count) > self.bytes() / ENTRY_MIN_BYTES {
            return Err(pack.damaged("it has more pages than all layers can hold"));
        }
        if open.len() >= MOST_OPEN {
            open.clear();
        }
        Ok(Rc::clone(open.entry(number).or_insert(Rc::new(pack))))
    }
}

impl Layer {
    /// `12.pack` or `7-12.pack` is the layer of a live version, and `.layer` of one that was given up. What is spelled otherwise is foreign.
    fn parse(name: &str, bytes: u64) -> Option<Self> {
        let (stem, extension) = name.split_once('.')?;
        let is_live = match extension {
            "pack" => true,
            "layer" => false,
            _ => return None,
        };
        let (from, number) = stem.split_once('-').unwrap_or((stem, stem));
        let (from, number): (u64, u64) = (from.parse().ok()?, number.parse().ok()?);
        let spelled = if from == number { number.to_string() } else { format!("{from}-{number}") };
        let is_sound = from > 0 && from <= number && spelled == stem;
        is_sound.then(|| Self { name: name.to_owned(), from, number, is_live, bytes })
    }
}

/// Whether a file's name is that of a layer.
pub(crate) fn is_layer(name: &str) -> bool {
    Layer::parse(name, 0).is_some()
}

/// Whether a file is one that was never finished, in this format or the next.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(".tmp")
        .is_some_and(|stem| !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_layers_have_one_spelling() {
        for (name, layer) in [("1.pack", (1, 1, true)), ("7-12.layer", (7, 12, false))] {
            let parsed = Layer::parse(name, 0).unwrap();
            assert_eq!((parsed.from, parsed.number, parsed.is_live), layer);
        }
        for name in [
            "0.pack",
            "007.pack",
            "+7.pack",
            "7-7.pack",
            "12-7.layer",
            "7.pack.bak",
            "7.tmp",
            "000000000001.segment",
        ] {
            assert_eq!(Layer::parse(name, 0), None, "{name}");
        }
    }
}
