//! A bucket in memory, which fails in all ways in which services do.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use asat_remote::{Bucket, Entry, Error, Part, Parts};
use jiff::Timestamp;

/// Numbers that depend on a seed alone.
#[derive(Debug)]
pub(crate) struct Dice(Mutex<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Whether something happens that happens so often of a thousand times.
    pub(crate) fn per_mille(&self, often: u64) -> bool {
        self.below(1000) < often
    }
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done, and answered.
    Fine,
    /// It is refused: 503.
    Refused,
    /// It is done, and the connection is lost before the answer comes. Of what is read, half comes before.
    Lost,
    /// Of a part of an object half comes, as if that were all.
    Half,
    /// 409: of two creations at the same moment neither was done.
    Conflict,
    /// Nothing is answered, and it is done when something is [`Fault::Overtaken`].
    Late,
    /// What was late arrives just before it.
    Overtaken,
}

/// A creation or a storing that was sent, and whose time has not come.
struct Late {
    key: String,
    bytes: Vec<u8>,
    must_be_new: bool,
}

#[derive(Default)]
struct Inside {
    objects: BTreeMap<String, (Vec<u8>, Timestamp)>,
    /// What listings had a while ago.
    listed: BTreeMap<String, (u64, Timestamp)>,
    late: Vec<Late>,
    /// What comes late when a test says so.
    held: Vec<Late>,
    /// What happens to the next operations of each kind, in turn.
    next: BTreeMap<&'static str, VecDeque<Fault>>,
    /// What was asked for.
    asked: Vec<&'static str>,
    /// The parts of objects that were asked for, each time those that were asked for together.
    parts: Vec<Vec<Part>>,
    /// Seconds since the bucket was made.
    now: i64,
}

/// The bucket.
pub(crate) struct Model {
    inside: Mutex<Inside>,
    dice: Arc<Dice>,
    /// Of a thousand operations, so many fail in each way.
    pub(crate) faults: Mutex<u64>,
    /// What happens between two operations.
    pub(crate) between: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// Whether it replaces what it should create only.
    pub(crate) replaces: AtomicBool,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket in memory")
    }
}

thread_local! {
    /// How many operations were asked for on this thread.
    pub(crate) static ASKED: Cell<usize> = const { Cell::new(0) };
}

impl Model {
    pub(crate) fn new(dice: Arc<Dice>) -> Self {
        let (inside, faults, between) = (Mutex::default(), Mutex::new(0), Mutex::new(None));
        Self { inside, dice, faults, between, replaces: AtomicBool::new(false) }
    }

    /// What happens to the next operations of a kind: "create", "store", "read", "read part", "look at", "list" or "delete".
    pub(crate) fn next(&self, doing: &'static str, faults: &[Fault]) {
        self.inside.lock().unwrap().next.entry(doing).or_default().extend(faults);
    }

    /// Nothing happens any more that was to happen to the next operations.
    pub(crate) fn calm(&self) {
        self.inside.lock().unwrap().next.clear();
    }

    /// Everything that is late arrives.
    pub(crate) fn arrive(&self) {
        let mut inside = self.inside.lock().unwrap();
        for late in mem::take(&mut inside.late) {
            inside.put(&late.key, late.bytes, late.must_be_new);
        }
    }

    /// What was asked for since this was asked last.
    pub(crate) fn asked(&self) -> Vec<&'static str> {
        mem::take(&mut self.inside.lock().unwrap().asked)
    }

    /// The parts of objects that were asked for together, each time, since this was asked last.
    pub(crate) fn parts(&self) -> Vec<Vec<Part>> {
        mem::take(&mut self.inside.lock().unwrap().parts)
    }

    /// What an object has.
    pub(crate) fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        self.inside.lock().unwrap().objects.get(key).map(|(bytes, _)| bytes.clone())
    }

    /// Every key, with how many bytes it has.
    pub(crate) fn keys(&self) -> BTreeMap<String, usize> {
        self.inside
            .lock()
            .unwrap()
            .objects
            .iter()
            .map(|(key, (bytes, _))| (key.clone(), bytes.len()))
            .collect()
    }

    /// Changes an object, or removes it, as nobody should.
    pub(crate) fn damage(&self, key: &str, damage: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let mut inside = self.inside.lock().unwrap();
        let Some((bytes, at)) = inside.objects.remove(key) else { return };
        inside.objects.extend(damage(bytes).map(|bytes| (key.to_owned(), (bytes, at))));
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, seconds: i64) {
        self.inside.lock().unwrap().now += seconds;
    }

    /// Before an operation: others go on, what was late arrives, and the operation may be refused.
    fn begin(&self, doing: &'static str, key: &str) -> Result<Fault, Error> {
        ASKED.set(ASKED.get() + 1);
        let between = self.between.lock().unwrap().clone();
        between.iter().for_each(|between| between());
        let mut inside = self.inside.lock().unwrap();
        inside.now += 1;
        inside.asked.push(doing);
        let fault = inside.next.get_mut(doing).and_then(VecDeque::pop_front).unwrap_or(Fault::Fine);
        if fault == Fault::Overtaken {
            for late in mem::take(&mut inside.held) {
                inside.put(&late.key, late.bytes, late.must_be_new);
            }
        }
        while !inside.late.is_empty() && self.dice.per_mille(300) {
            let late = inside.late.remove(0);
            inside.put(&late.key, late.bytes, late.must_be_new);
        }
        if self.dice.per_mille(100) {
            inside.listed = inside.listing();
        }
        drop(inside);
        let is_refused = fault == Fault::Refused || self.fails();
        if is_refused { Err(self.failed(doing, key, "503 SlowDown")) } else { Ok(fault) }
    }

    fn fails(&self) -> bool {
        let faults = *self.faults.lock().unwrap();
        faults > 0 && self.dice.per_mille(faults)
    }

    fn failed(&self, doing: &'static str, key: &str, what: &str) -> Error {
        Error::Service { doing, key: key.to_owned(), url: self.url().to_owned(), what: what.to_owned() }
    }

    fn read_part(&self, part: &Part) -> Result<Option<Vec<u8>>, Error> {
        let fault = self.begin("read part", &part.key)?;
        let Some(mut bytes) = self.bytes(&part.key) else { return Ok(None) };
        bytes.truncate(usize::try_from(part.range.end).unwrap());
        bytes.drain(..usize::try_from(part.range.start).unwrap().min(bytes.len()));
        if fault == Fault::Lost || self.fails() {
            return Err(self.failed("read", &part.key, "half a body"));
        }
        if fault == Fault::Half || self.fails() {
            bytes.truncate(bytes.len() / 2);
        }
        Ok(Some(bytes))
    }

    /// Creates or stores: now, now with an answer that is lost, or later without one.
    fn write(
        &self,
        doing: &'static str,
        key: &str,
        bytes: Vec<u8>,
        must_be_new: bool,
    ) -> Result<bool, Error> {
        let fault = self.begin(doing, key)?;
        if must_be_new && (fault == Fault::Conflict || self.fails()) {
            // 409, where of two requests at the same moment neither was done.
            return Ok(false);
        }
        if fault == Fault::Late || self.fails() {
            let late = Late { key: key.to_owned(), bytes, must_be_new };
            let mut inside = self.inside.lock().unwrap();
            if fault == Fault::Late { &mut inside.held } else { &mut inside.late }.push(late);
            return Err(self.failed(doing, key, "no answer in time"));
        }
        let must_be_new = must_be_new && !self.replaces.load(Ordering::Relaxed);
        let is_done = self.inside.lock().unwrap().put(key, bytes, must_be_new);
        if fault == Fault::Lost || self.fails() {
            Err(self.failed(doing, key, "the connection was lost"))
        } else {
            Ok(is_done)
        }
    }
}

impl Inside {
    fn put(&mut self, key: &str, bytes: Vec<u8>, must_be_new: bool) -> bool {
        if must_be_new && self.objects.contains_key(key) {
            return false;
        }
        let at = Timestamp::from_second(self.now).unwrap();
        self.objects.insert(key.to_owned(), (bytes, at));
        true
    }

    fn listing(&self) -> BTreeMap<String, (u64, Timestamp)> {
        let entry = |(key, (bytes, at)): (&String, &(Vec<u8>, Timestamp))| {
            (key.clone(), (u64::try_from(bytes.len()).unwrap(), *at))
        };
        self.objects.iter().map(entry).collect()
    }
}

impl Bucket for Model {
    fn url(&self) -> &'static str {
        "model://bucket"
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, Error> {
        self.write("create", key, bytes.to_vec(), true)
    }

    fn store(&self, key: &str, bytes: u64, parts: &mut Parts<'_>) -> Result<(), Error> {
        let parts: Vec<Vec<u8>> = parts.collect::<Result<_, _>>()?;
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), usize::try_from(bytes).unwrap());
        self.write("store", key, parts.concat(), false).map(drop)
    }

    fn read(&self, key: &str, take: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<bool, Error> {
        let fault = self.begin("read", key)?;
        let found = self.inside.lock().unwrap().objects.get(key).map(|(bytes, _)| bytes.clone());
        let Some(bytes) = found else { return Ok(false) };
        if fault == Fault::Lost || self.fails() {
            take(&bytes[..bytes.len() / 2])?;
            return Err(self.failed("read", key, "half a body"));
        }
        take(&bytes).map(|()| true)
    }

    fn read_parts(&self, parts: &[Part]) -> Vec<Result<Option<Vec<u8>>, Error>> {
        self.inside.lock().unwrap().parts.push(parts.to_vec());
        parts.iter().map(|part| self.read_part(part)).collect()
    }

    fn look(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.begin("look at", key)?;
        let listing = self.inside.lock().unwrap().listing();
        Ok(listing.get(key).map(|(bytes, modified)| Entry {
            key: key.to_owned(),
            bytes: *bytes,
            modified: *modified,
        }))
    }

    fn list(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<Entry>, Error> {
        self.begin("list", prefix)?;
        let is_old = self.fails();
        let inside = self.inside.lock().unwrap();
        let listing = if is_old { inside.listed.clone() } else { inside.listing() };
        let entries = listing.into_iter().filter(|(key, _)| key.starts_with(prefix));
        let entries = entries.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        Ok(entries.take(most).map(|(key, (bytes, modified))| Entry { key, bytes, modified }).collect())
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let listed = self.list(prefix, None, usize::MAX)?;
        let name = |entry: &Entry| Some(entry.key.strip_prefix(prefix)?.split_once('/')?.0.to_owned());
        Ok(listed.iter().filter_map(name).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn delete(&self, key: &str) -> Result<(), Error> {
        let fault = self.begin("delete", key)?;
        self.inside.lock().unwrap().objects.remove(key);
        if fault == Fault::Lost || self.fails() {
            Err(self.failed("delete", key, "the connection was lost"))
        } else {
            Ok(())
        }
    }
}
