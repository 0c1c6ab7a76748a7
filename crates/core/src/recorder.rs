//! What an archive keeps beside the versions of its store: later publications of them, pins and tags, so that these outlive the catalogue
//! and come to everybody who has the archive.
//!
//! The catalogue counts, and an archive is brought up to it by and by. What is in an archive is a map of texts under keys, all JSON:
//!
//! | key | text |
//! |---|---|
//! | `publication/VERSION/MICROSECONDS/NTH` | a publication of a version that was there already, by when it was asked for, and counted if there are several of one instant |
//! | `pin/VERSION` | its pin |
//! | `tag/NAME` | a tag |
//! | `mark` | up to which commit of which catalogue this is all |

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::check::CheckResult;
use crate::event::Recorded;
use crate::register::{Headline, History, Register};
use crate::snapshot::Cost;
use crate::version::{Attributes, Pin, Publication, SetPublication, State, Tag};
use crate::{StoreName, VersionId};

/// Texts by their keys.
pub type Values = BTreeMap<String, String>;
/// What changes: a key without a text is deleted.
pub type Changes = BTreeMap<String, Option<String>>;

const PUBLICATION: &str = "publication/";
const PIN: &str = "pin/";
const TAG: &str = "tag/";
const MARK: &str = "mark";

/// So many publications are looked at at once, and so many are passed over that are of other stores.
const AT_ONCE: usize = 256;
const PASSED_AT_ONCE: usize = 100_000;
/// The publications that are kept are not longer than this together: an archive has a limit, and it is read as a whole.
const MOST_BYTES: usize = 32 << 20;
/// If so many were looked at after a start, it is noted how far, so that the next start looks at few.
const MANY: usize = 1000;

/// A commit of a catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Which catalogue it is: a copy, and one that is made anew, has another name.
    pub line: String,
    /// How many commits there were.
    pub number: u64,
}

impl Commit {
    /// Whether a catalogue that was opened at a commit has this one.
    fn is_in(&self, opened: &Self) -> bool {
        self.line == opened.line && self.number <= opened.number
    }
}

/// Up to which commit of which catalogue an archive has everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    commit: Commit,
    /// The newest publication of that catalogue.
    publication: u64,
    /// When it was so.
    at: Timestamp,
}

/// A publication of a version that was there already, as it is written. Its number is another one in another catalogue.
#[derive(Serialize, Deserialize)]
struct LaterPublication {
    at: Timestamp,
    attributes: Attributes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of_set: Option<SetPublication>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    checks: Vec<CheckResult>,
}

/// What an archive has, understood.
#[derive(Clone, Debug)]
pub struct Understood {
    /// What a catalogue can take over.
    pub recorded: Recorded,
    mark: Option<Mark>,
}

/// What brings one store's archive up to the catalogue.
#[derive(Clone, Debug)]
pub struct Recorder {
    store: StoreName,
    /// The pins and tags that the archive has.
    pins_and_tags: Values,
    /// The keys of the publications that it has, by version, and how long each text is.
    publications: BTreeMap<u64, BTreeMap<String, usize>>,
    /// How long all of these texts are.
    bytes: usize,
    /// The publications above this number may be missing there.
    after: u64,
    /// How many publications were looked at since it was noted how far, and how many of other stores were passed over.
    looked_at: usize,
    passed: usize,
    /// Whether something was recorded since then.
    is_unmarked: bool,
}

impl Understood {
    /// Understands what the archive of a store has.
    ///
    /// # Errors
    /// What cannot be understood of it.
    pub fn of(store: &StoreName, values: &Values) -> Result<Self, String> {
        let mark: Option<Mark> = values.get(MARK).map(|text| understand(MARK, text)).transpose()?;
        let mut recorded = Recorded { as_of: mark.as_ref().map(|mark| mark.at), ..Recorded::default() };
        for (key, text) in values {
            let of = |number| VersionId { store: store.clone(), number };
            if let Some(number) = version_of(key) {
                let LaterPublication { at, attributes, key, of_set, checks } = understand(key, text)?;
                let (version, cost) = (of(number), Cost::default());
                recorded.publications.push(Publication {
                    number: 0,
                    version,
                    at,
                    attributes,
                    key,
                    of_set,
                    reused: true,
                    cost,
                    elapsed_us: 0,
                    checks,
                });
            } else if let Some(number) = pinned(key) {
                let pin: Pin = understand(key, text)?;
                recorded.pins.insert(of(number), pin);
            } else if key.starts_with(TAG) {
                let tag: Tag = understand(key, text)?;
                let version = of(tag.version.number);
                recorded.tags.insert(tag.name.clone(), Tag { version, ..tag });
            }
        }
        recorded.publications.sort_by_key(|publication| publication.at);
        Ok(Self { recorded, mark })
    }

    /// Whether a catalogue that was opened at a commit has to take over what the archive has, as it does not have the commit of the mark: it is new,
    /// older, or a copy.
    #[must_use]
    pub fn must_be_taken_over(&self, store: &StoreName, register: &Register, opened: &Commit) -> bool {
        match &self.mark {
            Some(Mark { commit, .. }) => !commit.is_in(opened),
            // Not all came into the archive. To a new catalogue it is better than nothing.
            None => {
                let history = register.history(store).ok();
                !self.recorded.publications.is_empty()
                    && history.is_none_or(|history| history.versions.is_empty())
            }
        }
    }
}

impl Recorder {
    /// Begins with what a store's archive has.
    #[must_use]
    pub fn begin(store: &StoreName, values: &Values, understood: &Understood, opened: &Commit) -> Self {
        let mut recorder = Self::new(store);
        for (key, text) in values {
            if let Some(version) = version_of(key) {
                recorder.has(version, key.clone(), text.len());
            } else if pinned(key).is_some() || key.starts_with(TAG) {
                _ = recorder.pins_and_tags.insert(key.clone(), text.clone());
            }
        }
        match &understood.mark {
            Some(mark) if mark.commit.is_in(opened) => recorder.after = mark.publication,
            mark => recorder.is_unmarked = mark.is_some() || !values.is_empty(),
        }
        recorder
    }

    /// Begins with nothing: all that the catalogue has is recorded.
    #[must_use]
    pub fn new(store: &StoreName) -> Self {
        Self {
            store: store.clone(),
            pins_and_tags: Values::new(),
            publications: BTreeMap::new(),
            bytes: 0,
            after: 0,
            looked_at: 0,
            passed: 0,
            is_unmarked: false,
        }
    }

    /// The same, if not all may be there that was recorded before: every publication is looked at.
    #[must_use]
    pub fn looking_at_all(self) -> Self {
        Self { after: 0, is_unmarked: true, ..self }
    }

    /// What is to be recorded at a commit of the catalogue, and whether there may be more. It counts as recorded from then on: if it is not,
    /// begin again.
    pub fn changes(&mut self, register: &Register, commit: &Commit, now: Timestamp) -> (Changes, bool) {
        let Ok(history) = register.history(&self.store) else { return (Changes::new(), false) };
        let mut changes = self.given_up(history);
        let more = self.published(register, history, &mut changes);
        self.keep_within(&mut changes);
        if more {
            self.is_unmarked |= !changes.is_empty();
            return (changes, true);
        }
        // Pins and tags come with the mark: without that, they are not all.
        changes.extend(self.moved_pins_and_tags(history));
        let is_far = self.looked_at >= MANY || self.passed >= PASSED_AT_ONCE;
        if self.is_unmarked || is_far || !changes.is_empty() {
            (self.looked_at, self.passed, self.is_unmarked) = (0, 0, false);
            let mark = Mark { commit: commit.clone(), publication: self.after, at: now };
            changes.insert(MARK.to_owned(), written(&mark));
        }
        (changes, false)
    }

    /// The publications of versions of which nothing is kept any more.
    fn given_up(&mut self, history: &History) -> Changes {
        let is_over = |number: u64| history.versions.headline(number).is_some_and(is_over);
        let over = self.publications.extract_if(.., |number, _| is_over(*number));
        let over: Vec<(String, usize)> = over.flat_map(|(_, texts)| texts).collect();
        self.bytes -= over.iter().map(|(_, bytes)| bytes).sum::<usize>();
        over.into_iter().map(|(key, _)| (key, None)).collect()
    }

    /// Takes note of a publication that the archive has; answers whether it is new.
    fn has(&mut self, version: u64, key: String, bytes: usize) -> bool {
        let Entry::Vacant(place) = self.publications.entry(version).or_default().entry(key) else {
            return false;
        };
        place.insert(bytes);
        self.bytes += bytes;
        true
    }

    /// Deletes the oldest publications of the oldest versions, if all of them are too long.
    fn keep_within(&mut self, changes: &mut Changes) {
        while self.bytes > MOST_BYTES
            && let Some(mut oldest) = self.publications.first_entry()
        {
            match oldest.get_mut().pop_first() {
                Some((key, bytes)) => {
                    self.bytes -= bytes;
                    changes.insert(key, None);
                }
                None => _ = oldest.remove(),
            }
        }
    }

    /// Pins and tags that are other ones than the archive has. Of versions that the catalogue does not know, nothing is deleted.
    fn moved_pins_and_tags(&mut self, history: &History) -> Changes {
        let pins = history.moving().filter_map(|version| {
            let pin = version.pin.as_ref()?;
            Some((format!("{PIN}{}", version.id.number), written(pin)?))
        });
        let tags = history.tags.values();
        let now = tags.filter_map(|tag| Some((format!("{TAG}{}", tag.name), written(tag)?)));
        let now: Values = now.chain(pins).collect();
        let is_gone = |key: &String, text: &String| !now.contains_key(key) && is_known(history, key, text);
        let gone: Values = self.pins_and_tags.extract_if(.., |key, text| is_gone(key, text)).collect();
        let mut changes: Changes = gone.into_keys().map(|key| (key, None)).collect();
        for (key, text) in now {
            if self.pins_and_tags.get(&key) != Some(&text) {
                changes.insert(key.clone(), Some(text.clone()));
                self.pins_and_tags.insert(key, text);
            }
        }
        changes
    }

    /// The later publications with the next numbers; answers whether there are more.
    fn published(&mut self, register: &Register, history: &History, changes: &mut Changes) -> bool {
        let (mut left, mut passed) = (AT_ONCE, 0);
        for (number, version) in register.publications_after(self.after) {
            if left == 0 || passed == PASSED_AT_ONCE {
                return true;
            }
            self.after = number;
            if version.store != self.store {
                (passed, self.passed) = (passed + 1, self.passed + 1);
                continue;
            }
            (left, self.looked_at) = (left - 1, self.looked_at + 1);
            let is_kept =
                history.versions.headline(version.number).is_some_and(|headline| !is_over(headline));
            let entry = history.versions.get(version.number).filter(|_| is_kept);
            let Some((publication, before)) = entry.and_then(|entry| entry.publication_and_before(number))
            else {
                continue;
            };
            if !publication.reused {
                continue;
            }
            let (key, text) = (key_of(publication, before), as_written(publication));
            if text.as_ref().is_some_and(|text| self.has(version.number, key.clone(), text.len())) {
                changes.insert(key, text);
            }
        }
        false
    }
}

/// Whether nothing is kept of a version any more, for good.
fn is_over(headline: &Headline) -> bool {
    match headline.state {
        State::Retired => !headline.is_in_grace,
        State::Failed => true,
        State::Cutting | State::Ready | State::Retiring | State::Lost => false,
    }
}

/// Whether a catalogue knows the version that a pin or a tag is of.
fn is_known(history: &History, key: &str, text: &str) -> bool {
    let tagged = || understand::<Tag>(key, text).ok().map(|tag| tag.version.number);
    let version = pinned(key).or_else(tagged);
    version.is_some_and(|number| history.versions.headline(number).is_some())
}

fn understand<T: for<'a> Deserialize<'a>>(key: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("what is recorded as {key:?} says nothing readable: {error}"))
}

fn written(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn as_written(publication: &Publication) -> Option<String> {
    let Publication { at, attributes, key, of_set, checks, .. } = publication.clone();
    written(&LaterPublication { at, attributes, key, of_set, checks })
}

/// The key of a publication of a version that has had these before.
fn key_of(Publication { version, at, .. }: &Publication, before: &[Publication]) -> String {
    let nth = before.iter().rev().take_while(|other| other.at == *at && other.reused).count();
    format!("{PUBLICATION}{}/{}/{nth}", version.number, at.as_microsecond())
}

/// The version of a publication, by its key.
fn version_of(key: &str) -> Option<u64> {
    key.strip_prefix(PUBLICATION)?.split_once('/')?.0.parse().ok()
}

/// The version of a pin, by its key.
fn pinned(key: &str) -> Option<u64> {
    key.strip_prefix(PIN)?.parse().ok()
}
