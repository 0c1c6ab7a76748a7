//! A chunk of a store's history as bytes: the versions of [`SPAN`] numbers in a row, with their publications.
//!
//! A long history is hardly ever looked at, so it is kept like this, about 250 bytes a version, until somebody does. What a list, a start
//! and the indexes ask of a version stands before all versions, as [`Headline`]s, and is read without the rest.
//!
//! ```text
//! format │ count │ for each version: headline, its publications' numbers and digests, length │ for each version: the rest
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;

use super::Digest;
use super::bytes::{Reader, Writer};
use super::history::Entry;
use crate::check::CheckResult;
use crate::labels::folded;
use crate::snapshot::{Cost, Hold};
use crate::version::{Attributes, Content, End, Holding, Publication, SetPublication, State, Version};
use crate::{Fingerprint, PageSize, StoreName, VersionId};

/// How many numbers a chunk spans.
pub const SPAN: u64 = 128;

/// The first byte of a chunk. If chunks are written otherwise one day, a migration of the catalogue deletes those that there are: they are
/// made anew from their rows.
const FORMAT: u64 = 1;

/// A chunk of a store's history, all of which is at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The store.
    pub store: StoreName,
    /// Which one: it has the versions from `SPAN` times this number on.
    pub number: u64,
    /// The versions and their publications.
    pub packed: Arc<[u8]>,
}

/// What is often asked of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headline {
    /// Its number.
    pub number: u64,
    /// Where it stands in its life.
    pub state: State,
    /// The instant by which lists are ordered.
    pub listed_at: Timestamp,
    /// Whether it is known what was cut, and when.
    pub is_dated: bool,
    /// Whether its pages are recorded as archived.
    pub is_archived: bool,
    /// Whether it was given up and can be brought back.
    pub is_in_grace: bool,
    /// The newest instant at which it was published.
    pub published_at: Option<Timestamp>,
}

/// What the indexes know of a publication.
pub(super) struct Indexed {
    pub(super) number: u64,
    pub(super) version: u64,
    pub(super) label: Option<Digest>,
    pub(super) key: Option<Digest>,
}

impl Headline {
    /// Whether the version's data can be had.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_dated && self.state == State::Ready
    }

    /// The headline of a version.
    pub(super) fn of(version: &Version, published_at: Option<Timestamp>) -> Self {
        Self {
            published_at,
            number: version.id.number,
            state: version.state,
            listed_at: version.listed_at(),
            is_dated: version.content.is_some(),
            is_archived: version.is_archived(),
            is_in_grace: version.grace().is_some(),
        }
    }
}

impl Indexed {
    pub(super) fn of(publication: &Publication) -> Self {
        Self {
            number: publication.number,
            version: publication.version.number,
            label: publication.attributes.label.as_ref().map(|label| Digest::of(&folded(label))),
            key: publication.key.as_ref().map(|key| Digest::of(key)),
        }
    }
}

/// Whether a version can be in a chunk: nothing is to be done about it, now or later, until somebody asks.
pub(super) fn can_be_packed(version: &Version) -> bool {
    let is_over = matches!(version.state, State::Ready | State::Failed | State::Retired);
    is_over && version.is_at_rest() && version.grace().is_none()
}

/// Packs versions, which come by their numbers and of which each [`can_be_packed`].
pub(super) fn pack(headlines: &[Headline], entries: &[Entry]) -> Arc<[u8]> {
    let (mut head, mut all) = (Writer::default(), Writer::default());
    head.number(FORMAT);
    head.length(entries.len());
    for (headline, Entry { version, publications, .. }) in headlines.iter().zip(entries) {
        let mut body = Writer::default();
        write_version(&mut body, version);
        publications.iter().for_each(|publication| write_publication(&mut body, publication));
        write_headline(&mut head, headline);
        head.length(publications.len());
        publications.iter().for_each(|publication| write_indexed(&mut head, &Indexed::of(publication)));
        head.length(body.0.len());
        all.0.extend_from_slice(&body.0);
    }
    head.0.extend_from_slice(&all.0);
    head.0.into()
}

/// What stands before the versions of a chunk.
#[derive(Default)]
pub(super) struct Outline {
    pub(super) headlines: Vec<Headline>,
    /// Where each version is.
    pub(super) places: Vec<Offsets>,
    /// All publications of all versions.
    pub(super) indexed: Vec<Indexed>,
}

/// Where a version is in the bytes of its chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    /// Its headline.
    head: usize,
    /// The rest of it.
    body: usize,
}

/// What stands before the versions; `None` if the bytes are no chunk.
pub(super) fn read_outline(packed: &[u8]) -> Option<Outline> {
    let mut reader = Reader(packed);
    (reader.number()? == FORMAT).then_some(())?;
    let mut outline = Outline::default();
    let mut length = 0_usize;
    for _ in 0..reader.number().filter(|count| *count <= SPAN)? {
        outline.places.push(Offsets { head: packed.len() - reader.0.len(), body: length });
        let headline = read_head(&mut reader, &mut outline.indexed)?;
        let is_first =
            |last: &Headline| last.number < headline.number && last.number / SPAN == headline.number / SPAN;
        outline.headlines.last().is_none_or(is_first).then_some(())?;
        outline.headlines.push(headline);
        length = length.checked_add(reader.length()?)?;
    }
    // Until here, bodies were counted from the end of all headlines.
    let bodies = packed.len() - reader.0.len();
    (reader.0.len() == length).then_some(())?;
    outline.places.iter_mut().for_each(|place| place.body += bodies);
    Some(outline)
}

/// One version with its publications; `None` if it is not at this place.
pub(super) fn read_entry(store: &StoreName, packed: &[u8], place: Offsets) -> Option<Entry> {
    let mut indexed = Vec::new();
    let mut head = Reader(packed.get(place.head..)?);
    let headline = read_head(&mut head, &mut indexed)?;
    let mut body = Reader(packed.get(place.body..)?.get(..head.length()?)?);
    let id = VersionId { store: store.clone(), number: headline.number };
    let mut entry = Entry::new(read_version(&mut body, id.clone(), headline.state)?);
    entry.publications.reserve_exact(indexed.len());
    for Indexed { number, .. } in indexed {
        entry.publish(read_publication(&mut body, id.clone(), number)?);
    }
    body.0.is_empty().then_some(entry)
}

/// A headline, and what the indexes are to know of its publications.
fn read_head(reader: &mut Reader<'_>, indexed: &mut Vec<Indexed>) -> Option<Headline> {
    let headline = read_headline(reader)?;
    for _ in 0..reader.number()? {
        indexed.push(read_indexed(reader, headline.number)?);
    }
    Some(headline)
}

fn write_headline(writer: &mut Writer, headline: &Headline) {
    let Headline { number, state, listed_at, is_dated, is_archived, is_in_grace: _, published_at } =
        *headline;
    let (is_retired, has_failed) = (state == State::Retired, state == State::Failed);
    writer.number(number);
    writer.flags([is_retired, has_failed, is_dated, is_archived, published_at.is_some()]);
    writer.instant(listed_at);
    published_at.into_iter().for_each(|at| writer.instant(at));
}

fn read_headline(reader: &mut Reader<'_>) -> Option<Headline> {
    let number = reader.number()?;
    let [is_retired, has_failed, is_dated, is_archived, is_published] = reader.flags()?;
    let state = match (is_retired, has_failed) {
        (false, false) => State::Ready,
        (true, false) => State::Retired,
        (false, true) => State::Failed,
        (true, true) => return None,
    };
    let listed_at = reader.instant()?;
    let published_at = if is_published { Some(reader.instant()?) } else { None };
    Some(Headline { number, state, listed_at, is_dated, is_archived, is_in_grace: false, published_at })
}

fn write_indexed(writer: &mut Writer, indexed: &Indexed) {
    writer.number(indexed.number);
    writer.flags([indexed.label.is_some(), indexed.key.is_some()]);
    for digest in [indexed.label, indexed.key].into_iter().flatten() {
        writer.0.extend_from_slice(&digest.0);
    }
}

fn read_indexed(reader: &mut Reader<'_>, version: u64) -> Option<Indexed> {
    let number = reader.number()?;
    let [has_label, has_key] = reader.flags()?;
    let label = if has_label { Some(Digest(reader.array()?)) } else { None };
    let key = if has_key { Some(Digest(reader.array()?)) } else { None };
    Some(Indexed { number, version, label, key })
}

fn write_version(writer: &mut Writer, version: &Version) {
    // What is at rest has no copy and no pin, and no snapshot among its holdings.
    let Version { id: _, state: _, begun_at, content, holdings, copy: _, pin: _, end } = version;
    let fingerprint = content.as_ref().and_then(|content| content.fingerprint);
    let wal = content.as_ref().is_some_and(|content| content.wal);
    writer.flags([content.is_some(), fingerprint.is_some(), wal, end.is_some()]);
    writer.instant(*begun_at);
    if let Some(content) = content {
        writer.instant(content.cut_at);
        writer.number(u64::from(content.page_size.bytes()));
        writer.number(u64::from(content.page_count));
    }
    if let Some(Fingerprint(bytes)) = fingerprint {
        writer.0.extend_from_slice(&bytes);
    }
    writer.length(holdings.len());
    for holding in holdings {
        match holding {
            Holding::Archive { bytes } => writer.number(*bytes),
            Holding::Snapshot(_) => {}
        }
    }
    if let Some(end) = end {
        writer.instant(end.at);
        writer.text(&end.reason);
    }
}

fn read_version(reader: &mut Reader<'_>, id: VersionId, state: State) -> Option<Version> {
    let [has_content, has_fingerprint, wal, has_ended] = reader.flags()?;
    let begun_at = reader.instant()?;
    let content = match has_content {
        true => Some(Content {
            cut_at: reader.instant()?,
            page_size: PageSize::new(u32::try_from(reader.number()?).ok()?)?,
            page_count: u32::try_from(reader.number()?).ok()?,
            fingerprint: if has_fingerprint { Some(Fingerprint(reader.array()?)) } else { None },
            wal,
        }),
        false => None,
    };
    let holdings = (0..reader.number()?)
        .map(|_| Some(Holding::Archive { bytes: reader.number()? }))
        .collect::<Option<_>>()?;
    let end = match has_ended {
        true => {
            let (at, reason) = (reader.instant()?, reader.text()?.to_owned());
            Some(Box::new(End { at, reason, purge_after: None }))
        }
        false => None,
    };
    Some(Version { id, state, begun_at, content, holdings, copy: None, pin: None, end })
}

fn write_publication(writer: &mut Writer, publication: &Publication) {
    let Publication { number: _, version: _, at, attributes, key, of_set, reused, cost, elapsed_us, checks } =
        publication;
    let Attributes { label, certified_by, business_date, note, free } = attributes;
    let texts = [label, certified_by, note, key];
    let [has_label, has_certifier, has_note, has_key] = texts.map(Option::is_some);
    writer.flags([
        has_label,
        has_certifier,
        has_note,
        has_key,
        business_date.is_some(),
        !free.is_empty(),
        of_set.is_some(),
        *reused,
    ]);
    writer.instant(*at);
    texts.into_iter().flatten().for_each(|text| writer.text(text));
    business_date.iter().for_each(|date| writer.text(&date.to_string()));
    if !free.is_empty() {
        // Maps of texts, numbers and truth values can always be written.
        writer.text(&serde_json::to_string(free).unwrap_or_default());
    }
    if let Some(of_set) = of_set {
        writer.text(of_set.set.as_str());
        writer.instant(of_set.cut_at);
    }
    let hold = Hold::ALL.iter().position(|hold| *hold == cost.hold).unwrap_or(0);
    writer.length(hold);
    [cost.writer_blocked_us, cost.snapshot_us, *elapsed_us].into_iter().for_each(|us| writer.number(us));
    writer.length(checks.len());
    for CheckResult { name, passed, found, took_us } in checks {
        writer.flags([*passed]);
        writer.text(name);
        writer.text(found);
        writer.number(*took_us);
    }
}

fn read_publication(reader: &mut Reader<'_>, version: VersionId, number: u64) -> Option<Publication> {
    let [has_label, has_certifier, has_note, has_key, has_date, has_free, is_of_set, reused] =
        reader.flags()?;
    let at = reader.instant()?;
    let mut text = |is_there| if is_there { reader.text().map(Some) } else { Some(None) };
    let texts = [text(has_label)?, text(has_certifier)?, text(has_note)?, text(has_key)?];
    let business_date = text(has_date)?.map(str::parse::<Date>).transpose().ok()?;
    let free = text(has_free)?.map(serde_json::from_str).transpose().ok()?.unwrap_or_default();
    let [label, certified_by, note, key] = texts.map(|text| text.map(str::to_owned));
    let of_set = match is_of_set {
        true => Some(SetPublication { set: reader.text()?.parse().ok()?, cut_at: reader.instant()? }),
        false => None,
    };
    let hold = *Hold::ALL.get(reader.length()?)?;
    let [writer_blocked_us, snapshot_us, elapsed_us] = [reader.number()?, reader.number()?, reader.number()?];
    let checks = (0..reader.number()?).map(|_| read_check(reader)).collect::<Option<_>>()?;
    let attributes = Attributes { label, certified_by, business_date, note, free };
    let cost = Cost { writer_blocked_us, hold, snapshot_us };
    Some(Publication { number, version, at, attributes, key, of_set, reused, cost, elapsed_us, checks })
}

fn read_check(reader: &mut Reader<'_>) -> Option<CheckResult> {
    let [passed] = reader.flags()?;
    let (name, found) = (reader.text()?.to_owned(), reader.text()?.to_owned());
    Some(CheckResult { name, passed, found, took_us: reader.number()? })
}
