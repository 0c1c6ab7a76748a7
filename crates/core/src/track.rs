//! Following a store's WAL, so that a publication reads only the pages that changed since an earlier one.
//!
//! A tracker holds a read transaction on the store, its *mark*. While it does, SQLite lets nobody overwrite what was committed
//! after the mark before the tracker has seen it: so all pages that changed are in the frames between the mark and the next one. What is
//! decided of that is here, in pure functions; the files are read elsewhere. Why no page can be missed is argued in
//! `docs/decisions/26-changed-pages-from-the-wal.md`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// So many pages are noted together.
const GROUP: u32 = 4096;
/// So many reads are kept apart at most.
const MOST_PARTS: usize = 16;
/// The words of a group.
const WORDS: usize = 64;

/// Numbers of pages. What it takes grows with how many there are, and not with how large they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(BTreeMap<u32, Box<[u64; WORDS]>>);

impl Pages {
    /// Takes a page in.
    pub fn insert(&mut self, page: u32) {
        let group = self.0.entry(page / GROUP).or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = place(page);
        if let Some(word) = group.get_mut(word) {
            *word |= bit;
        }
    }

    /// Whether a page was taken in.
    #[must_use]
    pub fn contains(&self, page: u32) -> bool {
        let (word, bit) = place(page);
        let found = self.0.get(&(page / GROUP)).and_then(|group| group.get(word));
        found.is_some_and(|word| word & bit != 0)
    }

    /// Takes all pages of another set in.
    pub fn extend(&mut self, other: &Self) {
        for (&number, from) in &other.0 {
            let group = self.0.entry(number).or_insert_with(|| Box::new([0; WORDS]));
            group.iter_mut().zip(from.iter()).for_each(|(word, from)| *word |= from);
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = |(number, group): (u32, [u64; WORDS])| {
            let words = (0_u32..).zip(group).filter(|(_, word)| *word != 0);
            words.map(move |(nth, word)| (number * GROUP + nth * 64, word)).collect::<Vec<_>>()
        };
        let bits = |(first, word): (u32, u64)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| first + bit)
        };
        self.0.iter().map(|(number, group)| (*number, **group)).flat_map(words).flat_map(bits)
    }
}

/// The word of a page in its group, and its bit there.
fn place(page: u32) -> (usize, u64) {
    let within = page % GROUP;
    (usize::try_from(within / 64).unwrap_or_default(), 1 << (within % 64))
}

/// Which pages changed since which read. Each read has a token; the later one has the greater.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    parts: Vec<Part>,
    last: u64,
}

/// What changed from one read to the next.
#[derive(Clone, Debug)]
struct Part {
    token: u64,
    pages: Pages,
    /// The least number of pages that the store had since the read.
    least: u32,
}

/// The pages that may differ from those of an earlier read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    pages: Pages,
    /// All pages after this one may, too: the store was no longer than that once.
    least: u32,
}

impl Changes {
    /// Begins what changes from now on, when the store has so many pages; answers the token.
    pub fn begin(&mut self, page_count: u32) -> u64 {
        // Reads that led to no version are named by nobody. A version that is compared with one of them is read whole.
        if self.parts.len() >= MOST_PARTS {
            let next = self.parts.remove(1);
            if let Some(first) = self.parts.first_mut() {
                first.pages.extend(&next.pages);
                first.least = first.least.min(next.least);
            }
        }
        self.last += 1;
        self.parts.push(Part { token: self.last, pages: Pages::default(), least: page_count });
        self.last
    }

    /// Takes note of a page that was written. Of the last one of a transaction the number of pages that the store has then is known.
    pub fn note(&mut self, page: u32, page_count: Option<u32>) {
        let Some(part) = self.parts.last_mut() else { return };
        part.pages.insert(page);
        if let Some(count) = page_count {
            part.least = part.least.min(count);
        }
    }

    /// What may differ from the read with this token; nothing if that is not known. What changed before it is forgotten.
    pub fn since(&mut self, token: u64) -> Option<Differing> {
        let at = self.parts.iter().position(|part| part.token == token)?;
        self.parts.drain(..at);
        let mut differing = Differing { pages: Pages::default(), least: u32::MAX };
        for part in &self.parts {
            differing.pages.extend(&part.pages);
            differing.least = differing.least.min(part.least);
        }
        Some(differing)
    }

    /// Forgets all that is known: something was missed.
    pub fn forget(&mut self) {
        self.parts.clear();
    }

    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.parts.is_empty()
    }
}

impl Differing {
    /// The pages that may differ of a store that has so many, in order. The first one is always among them: what is kept of it is not
    /// what is in the file.
    pub fn pages(&self, page_count: u32) -> impl Iterator<Item = u32> + '_ {
        let (least, end) = (self.least.max(1), page_count.saturating_add(1));
        let within = self.pages.iter().filter(move |page| (2..=least).contains(page) && *page < end);
        std::iter::once(1).chain(within).chain(least.saturating_add(1)..end)
    }
}

/// A place in a WAL: after how many frames, and of which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the frames of the generation have in common, as it is in the file.
    pub salts: [u8; 8],
    /// The last frame before this place; nothing comes before 0.
    pub frame: u32,
    /// The checksum that this frame ends with.
    pub sums: (u32, u32),
}

impl Place {
    /// The start of the generation of this place.
    #[must_use]
    pub fn start(self) -> Self {
        Self { frame: 0, sums: (0, 0), ..self }
    }

    /// Whether this is a place in the generation that SQLite makes of the other one's: the first salt counts them.
    fn is_next_of(&self, other: &Self) -> bool {
        count_of(self.salts) == count_of(other.salts).wrapping_add(1)
    }
}

fn count_of([a, b, c, d, ..]: [u8; 8]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// What has kept others from overwriting frames that were not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A mark in the WAL: no generation begins.
    Mark,
    /// A mark before the WAL, in a state that is in the database file alone: one generation may begin, and no frame comes into the database file
    /// from then on.
    Outside,
    /// Nothing: a writer may begin as many generations as there are.
    Nothing,
}

/// What of a WAL is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The end of the generation before: all that is still there of it after this place. The frame at this place must be as it was when all
    /// of that was read: then nothing after it was overwritten. And a frame of an older generation must come after it: then nothing of it was cut off.
    pub tail: Option<Place>,
    /// Before the first frame of today's generation.
    pub from: Place,
    /// After the last.
    pub to: Place,
}

/// Why it is not known what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Nothing was read yet.
    New,
    /// The store is in no WAL mode.
    NoWal,
    /// Its file system is written by other machines, too.
    Remote,
    /// The process may only read it.
    ReadOnly,
    /// The WAL was begun anew, and what was in it before was not seen.
    Reset,
    /// The WAL was begun anew, and its file ends where more of it may have been.
    Cut,
    /// The WAL is shorter than it was.
    Shorter,
    /// A frame is not what it has to be.
    Broken,
    /// The WAL or its index are other files than they were.
    Sidecars,
    /// The database file is another one, or was written by other means than the WAL.
    Written,
    /// A file could not be read.
    Unread,
    /// The database is not as it was opened: its pages have another size, for example.
    Shape,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "nothing was read before",
            Self::NoWal => "the store is not in WAL mode",
            Self::Remote => "other machines may write to its file system",
            Self::ReadOnly => "this process may not write to it, and could not close it properly",
            Self::Reset => "its WAL was begun anew before all of it was seen",
            Self::Cut => {
                "its WAL was begun anew and may have been cut short (`PRAGMA journal_size_limit`) before all of it was seen"
            }
            Self::Shorter => "its WAL is shorter than it was",
            Self::Broken => "its WAL has a frame that does not belong there",
            Self::Sidecars => "its WAL or wal-index is another file than before",
            Self::Written => "its file was replaced, or written by other means than its WAL",
            Self::Unread => "its WAL could not be read",
            Self::Shape => "its pages have another size than before",
        })
    }
}

/// What is to be looked at to know all that was committed since a place, up to another one.
///
/// # Errors
/// If it is not certain that all of it is still there.
pub fn span(since: &Place, guard: Guard, now: &Place) -> Result<Span, Gap> {
    if since.salts == now.salts {
        let is_same = since.frame < now.frame || since == now || (since.frame, now.frame) == (0, 0);
        return match is_same {
            true => Ok(Span { tail: None, from: *since, to: *now }),
            false if since.frame > now.frame => Err(Gap::Shorter),
            false => Err(Gap::Broken),
        };
    }
    let anew = |tail| Span { tail, from: now.start(), to: *now };
    match guard {
        Guard::Outside => Ok(anew(None)),
        // A mark that holds lets nobody do this. Who gets around it is not relied on.
        Guard::Mark => Err(Gap::Reset),
        Guard::Nothing if since.frame > 0 && now.is_next_of(since) => Ok(anew(Some(*since))),
        Guard::Nothing => Err(Gap::Reset),
    }
}

/// When a mark is moved on, and when it is let go for a moment.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest that the WAL may become by the mark's doing, in bytes.
    pub bound: u64,
}

/// What is seen of a WAL from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether there is anything after the mark.
    pub is_moved: bool,
    /// Whether the WAL was begun anew since then.
    pub is_anew: bool,
    /// Whether all of the WAL is in the database file.
    pub is_backfilled: bool,
    /// Whether a checkpoint came as far as the mark, and no further.
    pub is_held_up: bool,
    /// What holds the place.
    pub guard: Guard,
    /// How long the frames that count are, in bytes.
    pub length: u64,
    /// How long the file is, with what is left of older generations, in bytes.
    pub file_length: u64,
    /// How long they were when the mark was let go last in this generation and that did not help.
    pub let_go_at: u64,
    /// For how long nothing holds the place.
    pub loose: Duration,
}

/// What is to be done with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Stay,
    /// It is moved to the newest state.
    Move,
    /// It is let go, so that the WAL can be begun anew.
    LetGo,
}

impl Pace {
    /// For how long a mark is let go at most. To move the WAL into the database file may take as long as a slow disk does; if it is not there by
    /// then, somebody else keeps it.
    const LOOSE: Duration = Duration::from_secs(5);

    /// How often a WAL is looked at that nothing keeps.
    pub const GLANCE: Duration = Duration::from_millis(2);

    /// What is to be done now.
    #[must_use]
    pub fn next(&self, seen: &Seen) -> Step {
        let long = self.long(seen);
        match seen.guard {
            // The WAL was begun anew; or it can be, and a mark outside of it does not keep it from that.
            Guard::Nothing if seen.is_anew || seen.is_backfilled => Step::Move,
            Guard::Nothing if seen.loose >= Self::LOOSE => Step::Move,
            Guard::Nothing => Step::Stay,
            // If letting go did not help, another one keeps the WAL. It is tried again when that has grown by much.
            _ if seen.length >= long
                && (seen.let_go_at == 0 || seen.length >= seen.let_go_at + self.bound / 8) =>
            {
                Step::LetGo
            }
            _ if seen.is_moved => Step::Move,
            // The next writer can begin the WAL anew then.
            Guard::Mark if seen.is_backfilled => Step::Move,
            _ => Step::Stay,
        }
    }

    /// From which length on a WAL is to begin anew: half the bound. If the file is so much longer that what is still written until then ends
    /// within it, that is sooner, as it is certain then that nothing of it was cut off. It is at a sixteenth of the bound if a checkpoint is held up,
    /// since each commit makes another one until the WAL begins anew; 4 MiB of 64 is where SQLite makes the first one.
    fn long(&self, seen: &Seen) -> u64 {
        let (half, within) = (self.bound / 2, seen.file_length - seen.file_length / 4);
        match seen.length <= within && seen.is_held_up {
            true => self.bound / 16,
            false if seen.file_length < half => half,
            false => half.min(within),
        }
    }

    /// How long to wait before looking again.
    #[must_use]
    pub fn pause(seen: Option<&Seen>, before: Duration) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(25);
        const LONGEST: Duration = Duration::from_millis(200);
        match seen {
            Some(seen) if seen.guard == Guard::Nothing => Self::GLANCE,
            Some(seen) if seen.is_moved => SHORTEST,
            _ => (before * 2).clamp(SHORTEST, LONGEST),
        }
    }
}
