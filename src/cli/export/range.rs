//! Several versions as a folder, which appears whole or not at all: their files, a manifest and checksums.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use asat_core::version::State;
use asat_core::{Code, Problem};
use serde::Serialize;
use tempfile::TempDir;

use super::{Target, copy};
use crate::cli::args::ExportArgs;
use crate::cli::output::{Failure, Output};
use crate::cli::progress::Bars;
use crate::cli::typed::VersionRange;
use crate::cli::versions::kept_or_given_up;
use crate::text::{clean, counted, size};
use asat_client::{Client, Request};
use asat_wire::{ExportedVersion, Manifest, Publication, PublicationList, Version, exported_name, sha256_of};

/// So many names are shown of those that are left out.
const SHOWN: usize = 20;

#[derive(Serialize)]
struct Exported {
    versions: Vec<String>,
    /// Those of the range that are not there, as they cannot be read.
    lost: Vec<String>,
    /// Those of the range that were retired.
    retired: Vec<String>,
    path: String,
    bytes: u64,
}

pub(super) async fn export(
    range: &VersionRange,
    args: &ExportArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    if args.force {
        let detail = "--force replaces a file, and a range is written to a folder";
        return Err(Problem::new(Code::Invalid, detail, "name a folder that does not exist").into());
    }
    let target = Folder::new(&args.to)?;
    let mut versions = kept_or_given_up(&range.store, client).await?;
    let newest = versions.last().map_or(0, |version| version.number);
    if let Some(last) = range.last.filter(|last| *last > newest && newest > 0) {
        let store = &range.store;
        let detail = format!("{store}@{last} is beyond the newest version, {store}@{newest}");
        let hint = format!("write {store}@{}.. for all up to the newest", range.first.min(newest));
        return Err(Problem::new(Code::UnknownVersion, detail, hint).into());
    }
    versions.retain(|version| {
        range.first <= version.number && range.last.is_none_or(|last| version.number <= last)
    });
    let (versions, gone): (Vec<_>, Vec<_>) =
        versions.into_iter().partition(|version| version.state == State::Ready.text());
    let of = |state: fn(&Version) -> bool| -> Vec<String> {
        gone.iter().filter(|version| state(version)).map(|version| version.id.clone()).collect()
    };
    let lost = of(|version| version.state == State::Lost.text());
    let retired = of(|version| version.state != State::Lost.text());
    if versions.is_empty() {
        let detail = format!("no version of {} in that range can be read", range.store);
        return Err(Problem::new(Code::UnknownVersion, detail, "asat ls lists them").into());
    }
    let mut entries = Vec::with_capacity(versions.len());
    for version in &versions {
        entries.push(entry(version, publications(version, client).await?)?);
    }
    let made = target.begin()?;
    let (mut sums, mut bytes) = (String::new(), 0);
    for version in &versions {
        let name = exported_name(range.store.as_str(), version.number);
        let file = Target::new(&made.path().join(&name), false)?;
        bytes += copy(version, &file, client, bars).await?;
        sums += &target.sum(made.path(), &name).await?;
    }
    let manifest = Manifest { format: Manifest::FORMAT, store: range.store.to_string(), versions: entries };
    let manifest = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| Problem::new(Code::Internal, error.to_string(), "report this as a defect"))?;
    target.write(made.path(), Manifest::FILE, &manifest)?;
    sums += &target.sum(made.path(), Manifest::FILE).await?;
    target.write(made.path(), Manifest::SUMS, sums.as_bytes())?;
    target.finish(made)?;
    let versions = versions.into_iter().map(|version| version.id).collect();
    if !lost.is_empty() {
        output.remark(&format!("left out, as lost and not to be read: {}", some_of(&lost)));
    }
    if !retired.is_empty() {
        output.remark(&format!("left out, as retired: {}", some_of(&retired)));
    }
    let exported = Exported { versions, lost, retired, path: args.to.display().to_string(), bytes };
    output.answer(&exported, |Exported { versions, path, bytes, .. }| {
        format!(
            "{} exported to {} ({})",
            counted(u64::try_from(versions.len()).unwrap_or(u64::MAX), "version"),
            clean(path),
            size(*bytes)
        )
    })
}

/// Names for people: the first of many, and how many more there are.
fn some_of(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(SHOWN));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    format!("{}{more}", shown.join(", "))
}

/// All publications of a version, oldest first. A list of versions has the newest of them only.
async fn publications(version: &Version, client: &Client) -> Result<Vec<Publication>, Problem> {
    if version.publications.len() == version.publication_count {
        return Ok(version.publications.clone());
    }
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let request = Request::get(&["versions", &version.id, "publications"])
            .query("limit", Some("1000"))
            .query("cursor", cursor.as_deref());
        let page: PublicationList = client.ask(&request).await?;
        all.extend(page.publications);
        match page.next_cursor {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => break,
        }
    }
    all.reverse();
    Ok(all)
}

/// What the manifest says of a version; refuses one whose pages were not all read yet.
fn entry(version: &Version, publications: Vec<Publication>) -> Result<ExportedVersion, Problem> {
    let Version { id, number, cut_at, size_bytes, page_size, fingerprint, .. } = version.clone();
    match (cut_at, size_bytes, page_size, fingerprint) {
        (Some(cut_at), Some(bytes), Some(page_size), Some(fingerprint)) => {
            Ok(ExportedVersion { number, cut_at, bytes, page_size, fingerprint, publications })
        }
        _ => {
            let detail = format!("{id} is on its way into the archive");
            Err(Problem::new(Code::InUse, detail, "try again in a moment"))
        }
    }
}

/// The folder to be.
struct Folder {
    path: PathBuf,
    parent: PathBuf,
}

impl Folder {
    fn new(path: &Path) -> Result<Self, Problem> {
        let invalid = |why: &str, hint: &str| {
            Err(Problem::new(Code::Invalid, format!("{} {why}", path.display()), hint))
        };
        if path.file_name().is_none() {
            return invalid("does not name a folder", "name the folder to make");
        }
        if fs::symlink_metadata(path).is_ok() {
            return invalid("exists", "name a folder that is not there yet");
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self { path: path.to_owned(), parent })
    }

    /// A folder beside the one to be, which disappears unless it is finished.
    fn begin(&self) -> Result<TempDir, Problem> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".asat-export-").permissions(Permissions::from_mode(0o777));
        builder.tempdir_in(&self.parent).map_err(|error| self.cannot("be made", &error))
    }

    /// Writes a small file, durably.
    fn write(&self, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Problem> {
        let path = folder.join(name);
        let written = fs::write(&path, bytes).and_then(|()| File::open(&path)?.sync_all());
        written.map_err(|error| self.cannot("be written", &error))
    }

    /// The line with the checksum of a file.
    async fn sum(&self, folder: &Path, name: &str) -> Result<String, Problem> {
        let file = folder.join(name);
        // A signal is heard meanwhile.
        let read = tokio::task::spawn_blocking(move || File::open(file).and_then(sha256_of)).await;
        let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
        Ok(format!("{}  {name}\n", read.map_err(|error| self.cannot("be read back", &error))?))
    }

    /// Gives the folder its name, durably. What somebody has made there meanwhile is not replaced: a folder with
    /// something in it cannot be.
    fn finish(&self, made: TempDir) -> Result<(), Problem> {
        let named = File::open(made.path()).and_then(|folder| {
            folder.sync_all()?;
            fs::rename(made.path(), &self.path)
        });
        named.map_err(|error| self.cannot("be given its name", &error))?;
        // Its old name leads nowhere any more, so there is nothing to remove.
        let _ = made.keep();
        let parent = File::open(&self.parent).and_then(|parent| parent.sync_all());
        parent.map_err(|error| self.cannot("be made durable", &error))
    }

    fn cannot(&self, what: &str, error: &io::Error) -> Problem {
        let target = Target { path: self.path.clone(), folder: self.parent.clone(), force: false };
        target.cannot(what, error)
    }
}
