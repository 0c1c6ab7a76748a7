//! An exported folder, read with suspicion: nothing of it is used before all of it was checked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use asat_archive::Fingerprinter;
use asat_core::check::CheckResult;
use asat_core::version::{Attributes, Content, SetPublication};
use asat_core::{Code, Fingerprint, PageSize, Problem, StoreName, VersionId, check_line};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use asat_wire::{self as wire, ExportedVersion, Manifest, Publication, exported_name, hex};

/// The longest manifest and the longest list of checksums, in bytes: enough for a million versions.
const MOST_TEXT: u64 = 1 << 30;
/// What every SQLite database begins with (<https://sqlite.org/fileformat2.html>, 1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";
/// What the bytes 18 and 19 of one in rollback mode are.
const ROLLBACK_MODE: &[u8] = &[1, 1];

/// A version that was exported, as it was checked.
pub(super) struct Exported {
    pub(super) id: VersionId,
    pub(super) content: Content,
    pub(super) fingerprint: Fingerprint,
    /// Its publications, oldest first; at least one.
    pub(super) publications: Vec<Said>,
    pub(super) path: PathBuf,
}

/// A publication that was exported.
pub(super) struct Said {
    /// When it was asked for.
    pub(super) at: Timestamp,
    pub(super) attributes: Attributes,
    /// What its content was found to meet.
    pub(super) checks: Vec<CheckResult>,
    /// The publication of a set that it was part of.
    pub(super) of_set: Option<SetPublication>,
}

/// Reads and checks a folder; answers the store, and its versions, oldest first.
///
/// # Errors
/// Where anything is missing, is more than was exported, or is not what was written.
pub(super) fn read(
    folder: &Path,
    now: Timestamp,
    tell: &dyn Fn(&str),
) -> Result<(StoreName, Vec<Exported>), Problem> {
    check_is_folder(folder)?;
    let mut sums = sums(&text(folder, Manifest::SUMS)?)?;
    check_names(folder, &sums)?;
    let manifest = text(folder, Manifest::FILE)?;
    check_sum(&mut sums, Manifest::FILE, &hex(&Sha256::digest(manifest.as_bytes())))?;
    let Manifest { store, versions, .. } = parse(&manifest)?;
    let store: StoreName = store.parse().map_err(|error| wrong(format!("the manifest's store: {error}")))?;
    let mut read = Vec::<Exported>::new();
    for version in versions {
        let exported = described(&store, &version, folder, now)?;
        if read.last().is_some_and(|last| {
            last.id.number >= exported.id.number || last.content.cut_at >= exported.content.cut_at
        }) {
            return Err(wrong(format!("{} is not after the one before it in the manifest", exported.id)));
        }
        tell(&format!("checking {}", exported.id));
        check_sum(&mut sums, &exported_name(store.as_str(), version.number), &check_file(&exported)?)?;
        read.push(exported);
    }
    match sums.into_keys().next() {
        None => Ok((store, read)),
        Some(name) => Err(wrong(format!("{} has {name:?}, which was not exported", Manifest::SUMS))),
    }
}

/// Refuses what is no folder at all. A version that was exported as a plain file comes without what is known of it.
fn check_is_folder(path: &Path) -> Result<(), Problem> {
    let cannot = |error| {
        let detail = format!("{} cannot be looked at: {error}", path.display());
        Problem::new(
            Code::Invalid,
            detail,
            "name a folder that asat export has written, and that you may read",
        )
    };
    let found = fs::metadata(path).map_err(cannot)?;
    if found.is_dir() {
        return Ok(());
    }
    let what = if found.is_file() { "a file" } else { "no folder" };
    let detail = format!("{} is {what}, and what can be imported is a folder", path.display());
    let hint = "a single version is imported from a folder, too: asat export report@1..1 --to FOLDER";
    Err(Problem::new(Code::Invalid, detail, hint))
}

fn wrong(what: String) -> Problem {
    Problem::new(Code::Damaged, what, "nothing was imported; copy the folder again, or export it again")
}

fn text(folder: &Path, name: &str) -> Result<String, Problem> {
    let mut text = String::new();
    let read = open(&folder.join(name))?.take(MOST_TEXT + 1).read_to_string(&mut text);
    match read {
        Ok(length) if u64::try_from(length).is_ok_and(|length| length <= MOST_TEXT) => Ok(text),
        Ok(_) => Err(wrong(format!("{name} is longer than {MOST_TEXT} bytes"))),
        Err(error) => Err(wrong(format!("{name} cannot be read: {error}"))),
    }
}

/// Opens a file of the folder: a plain one, as a link could lead anywhere and a pipe never end.
fn open(path: &Path) -> Result<File, Problem> {
    let cannot = |error| wrong(format!("{} cannot be read: {error}", path.display()));
    if !fs::symlink_metadata(path).map_err(cannot)?.is_file() {
        return Err(wrong(format!("{} is not a regular file", path.display())));
    }
    File::open(path).map_err(cannot)
}

/// Refuses a folder with something in it that has no checksum: beside a database it could be a journal or a log, without which that
/// is another one.
fn check_names(folder: &Path, sums: &BTreeMap<String, String>) -> Result<(), Problem> {
    let cannot = |error| wrong(format!("{} cannot be read: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        if !name.to_str().is_some_and(|name| name == Manifest::SUMS || sums.contains_key(name)) {
            let path = folder.join(name);
            let detail = format!("{} is not named in {}", path.display(), Manifest::SUMS);
            let hint = "nothing was imported; move it away if it does not belong there, or export again";
            return Err(Problem::new(Code::Damaged, detail, hint));
        }
    }
    Ok(())
}

/// The checksums by file.
pub(crate) fn sums(text: &str) -> Result<BTreeMap<String, String>, Problem> {
    let mut sums = BTreeMap::new();
    for (nth, line) in text.lines().enumerate() {
        let Some((sum, name)) = line.split_once("  ") else {
            return Err(wrong(format!("line {} of {} has no checksum", nth + 1, Manifest::SUMS)));
        };
        if sums.insert(name.to_owned(), sum.to_owned()).is_some() {
            return Err(wrong(format!("{} has {name:?} twice", Manifest::SUMS)));
        }
    }
    Ok(sums)
}

/// Takes the checksum of a file out, and compares it.
fn check_sum(sums: &mut BTreeMap<String, String>, name: &str, found: &str) -> Result<(), Problem> {
    match sums.remove(name) {
        Some(sum) if sum == found => Ok(()),
        Some(_) => {
            Err(wrong(format!("{name} has the SHA-256 {found}, and not the one it was exported with")))
        }
        None => Err(wrong(format!("{} says nothing of {name}", Manifest::SUMS))),
    }
}

pub(crate) fn parse(manifest: &str) -> Result<Manifest, Problem> {
    #[derive(Deserialize)]
    struct AnyFormat {
        format: u32,
    }
    let unreadable = |error: serde_json::Error| wrong(format!("{} cannot be read: {error}", Manifest::FILE));
    let AnyFormat { format } = serde_json::from_str(manifest).map_err(unreadable)?;
    if format == Manifest::FORMAT {
        return serde_json::from_str(manifest).map_err(unreadable);
    }
    let detail = format!("the folder has the format {format}, and this asat reads {}", Manifest::FORMAT);
    Err(Problem::new(
        Code::Invalid,
        detail,
        "import it with the version of asat that exported it, or a newer one",
    ))
}

/// A version by its entry in the manifest.
fn described(
    store: &StoreName,
    version: &ExportedVersion,
    folder: &Path,
    now: Timestamp,
) -> Result<Exported, Problem> {
    let ExportedVersion { number, cut_at, bytes, page_size, fingerprint, publications } = version;
    let id = VersionId { store: store.clone(), number: *number };
    let bad = |what: &str| wrong(format!("{id} {what} by the manifest"));
    if *number == 0 {
        return Err(bad("has no number"));
    }
    // Every later cut would have to come after it.
    if *cut_at > now {
        return Err(bad("was cut in the future"));
    }
    let page_size = PageSize::new(*page_size).ok_or_else(|| bad("has pages of no size that there is"))?;
    let pages = Some(*bytes).filter(|bytes| bytes.is_multiple_of(u64::from(page_size.bytes())));
    let pages = pages.and_then(|bytes| u32::try_from(bytes / u64::from(page_size.bytes())).ok());
    let page_count = pages.filter(|pages| *pages > 0).ok_or_else(|| bad("does not consist of pages"))?;
    let fingerprint = Fingerprint::try_from(fingerprint.clone())
        .map_err(|why| bad(&format!("has no fingerprint that this asat knows ({why})")))?;
    let publications = publications.iter().map(said).collect::<Result<Vec<_>, _>>()?;
    if publications.is_empty() {
        return Err(bad("was never published"));
    }
    let content =
        Content { cut_at: *cut_at, fingerprint: Some(fingerprint), page_size, page_count, wal: false };
    let path = folder.join(exported_name(store.as_str(), *number));
    Ok(Exported { id, content, fingerprint, publications, path })
}

/// What was said of a publication, held to what may be said of one here.
fn said(publication: &Publication) -> Result<Said, Problem> {
    let Publication { at, label, certified_by, business_date, note, attributes, checks, set } =
        publication.clone();
    let business_date = business_date.map(|date| date.parse()).transpose();
    let business_date =
        business_date.map_err(|error: jiff::Error| wrong(format!("a business date: {error}")))?;
    let attributes = Attributes { label, certified_by, business_date, note, free: attributes };
    attributes.check().map_err(|problem| wrong(format!("a publication's {}", problem.detail)))?;
    for check in &checks {
        let name = check_line("name", Some(&check.name), Attributes::MAX_LABEL);
        let found = check_line("what it found", Some(&check.found), Attributes::MAX_NOTE);
        name.and(found).map_err(|problem| wrong(format!("a check's {}", problem.detail)))?;
    }
    let of_set = set.map(|set| set.recorded()).transpose();
    let of_set = of_set.map_err(|error| wrong(format!("a publication's set: {error}")))?;
    Ok(Said { at, attributes, of_set, checks: checks.iter().map(wire::CheckResult::recorded).collect() })
}

/// Compares a file with what the manifest says of it; answers its SHA-256.
fn check_file(version: &Exported) -> Result<String, Problem> {
    let mut sha256 = Sha256::new();
    let mut first = Vec::new();
    let fingerprint = pages(version, |number, page| {
        sha256.update(page);
        if number == 1 {
            first = page.to_vec();
        }
        Ok(())
    })?;
    let bad = |what: &str| Err(wrong(format!("{} {what}", version.path.display())));
    if fingerprint != version.fingerprint {
        return bad(&format!("has the fingerprint {fingerprint}, and not {}", version.fingerprint));
    }
    // 65,536 does not fit, and is written as 1.
    let page_size = match first.get(16..18) {
        Some([0, 1]) => 65_536,
        Some([high, low]) => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    };
    if !first.starts_with(MAGIC) || page_size != version.content.page_size.bytes() {
        return bad("is no SQLite database with pages of that size");
    }
    if first.get(18..20) != Some(ROLLBACK_MODE) {
        return bad("is not in rollback mode");
    }
    Ok(hex(&sha256.finalize()))
}

/// Reads the pages of a version's file, which must be as many as the manifest says; answers their fingerprint.
///
/// # Errors
/// Where there are others; or where `take` does not take one.
pub(super) fn pages(
    version: &Exported,
    mut take: impl FnMut(u32, &[u8]) -> Result<(), Problem>,
) -> Result<Fingerprint, Problem> {
    let Content { page_size, page_count, .. } = version.content;
    let cannot = |error| wrong(format!("{} cannot be read: {error}", version.path.display()));
    let mut file = BufReader::with_capacity(1 << 20, open(&version.path)?);
    let (mut fingerprinter, mut page) =
        (Fingerprinter::new(page_size, page_count), vec![0; page_size.as_usize()]);
    for number in 1..=page_count {
        file.read_exact(&mut page).map_err(cannot)?;
        fingerprinter.page(&page);
        take(number, &page)?;
    }
    match file.read(&mut page).map_err(cannot)? {
        0 => Ok(fingerprinter.finish()),
        _ => Err(wrong(format!("{} is longer than it was", version.path.display()))),
    }
}
