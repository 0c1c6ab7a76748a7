//! `export`: a version as a file, which appears whole or not at all.
//!
//! The copy is written beside the target under another name, made durable, checked, and only then renamed.
//! Where the target has a journal or a write-ahead log beside it, SQLite would play that into the copy: such a
//! target is refused.
//!
//! Several versions go into a folder, with a manifest: see `range`.

mod range;

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use asat_archive::Fingerprinter;
use asat_core::{Code, PageSize, Problem};
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use super::args::ExportArgs;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::sidecar;
use super::typed::ExportChoice;
use crate::text::{clean, size};
use asat_client::{Client, Request};
use asat_wire::{Store, StoreList, Version};

#[derive(Serialize)]
struct Exported {
    version: String,
    path: String,
    bytes: u64,
    fingerprint: Option<String>,
}

pub(super) async fn export(
    args: &ExportArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let version = match &args.version {
        ExportChoice::One(version) => version,
        ExportChoice::Range(range) => return range::export(range, args, client, bars, output).await,
    };
    let target = Target::new(&args.to, args.force)?;
    if args.force {
        refuse_store(&args.to, client).await?;
    }
    // `latest` may move between two requests; the version that is asked for second is the first answer's.
    let version: Version = client.ask(&Request::get(&["versions", version.text()])).await?;
    let bytes = copy(&version, &target, client, bars).await?;
    let Version { id, fingerprint, .. } = version;
    let exported = Exported { version: id, path: args.to.display().to_string(), bytes, fingerprint };
    output.answer(&exported, |exported| {
        let Exported { version, path, bytes, .. } = exported;
        format!("{} exported to {} ({})", clean(version), clean(path), size(*bytes))
    })
}

/// Refuses to replace the file of a store: those who have it open would go on with the one that is deleted.
async fn refuse_store(path: &Path, client: &Client) -> Result<(), Problem> {
    let Ok(path) = fs::canonicalize(path) else { return Ok(()) };
    let StoreList { stores } = client.ask(&Request::get(&["stores"])).await?;
    let is_it = |store: &&Store| fs::canonicalize(&store.path).is_ok_and(|file| file == path);
    match stores.iter().find(is_it) {
        None => Ok(()),
        Some(store) => {
            let (path, name) = (path.display(), clean(&store.name));
            let detail = format!("{path} is the path of the store {name} at {}", client.server());
            let hint = "asat restore VERSION brings the store back to a version; if this is another machine, delete the file first";
            Err(Problem::new(Code::Invalid, detail, hint))
        }
    }
}

/// Copies a version to the target; answers its length.
async fn copy(version: &Version, target: &Target, client: &Client, bars: &Bars<'_>) -> Result<u64, Problem> {
    let (mut file, path) = target.begin()?.into_parts();
    let bytes = receive(version, client, bars, target, &mut file).await?;
    // A signal is heard meanwhile, and the path is deleted then.
    let wanted = version.clone();
    let checked = tokio::task::spawn_blocking(move || {
        let synced = file.sync_all();
        let checked = check_copy(&wanted, &mut file, bytes);
        (synced, checked)
    });
    let (synced, checked) = checked
        .await
        .map_err(|error| Problem::new(Code::Internal, error.to_string(), "report this as a defect"))?;
    synced.map_err(|error| target.cannot("be written", &error))?;
    checked?;
    target.finish(path)?;
    Ok(bytes)
}

/// Writes the copy down as it arrives, and gives its length.
async fn receive(
    version: &Version,
    client: &Client,
    bars: &Bars<'_>,
    target: &Target,
    file: &mut File,
) -> Result<u64, Problem> {
    let request = Request::get(&["versions", &version.id, "database"]).long();
    let what = format!("opening {}", version.id);
    let mut stream = bars.during(&what, |id| id == version.id, client.stream(&request)).await?;
    let bar = bars.bytes(&format!("copying {}", version.id), stream.length.or(version.size_bytes));
    let mut bytes = 0u64;
    while let Some(piece) = stream.next().await? {
        file.write_all(&piece).map_err(|error| target.cannot("be written", &error))?;
        let more = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        bytes = bytes.saturating_add(more);
        bar.advance(more);
    }
    Ok(bytes)
}

/// Compares a received copy with the version that it should be, by length and by content.
fn check_copy(version: &Version, copy: &mut File, bytes: u64) -> Result<(), Problem> {
    let hint = "nothing was written; try again, then run asat verify";
    let other =
        |what: String| Err(Problem::new(Code::Damaged, format!("the copy of {} {what}", version.id), hint));
    if let Some(expected) = version.size_bytes.filter(|expected| *expected != bytes) {
        return other(format!("has {bytes} bytes and not {expected}"));
    }
    let (Some(page_size), Some(expected)) = (version.page_size.and_then(PageSize::new), &version.fingerprint)
    else {
        return Ok(());
    };
    match fingerprint(copy, page_size, bytes) {
        Ok(found) if found == *expected => Ok(()),
        Ok(found) => other(format!("has the fingerprint {found} and not {expected}")),
        Err(error) => other(format!("cannot be read back: {error}")),
    }
}

/// The fingerprint of a database file.
fn fingerprint(file: &mut File, page_size: PageSize, bytes: u64) -> io::Result<String> {
    file.rewind()?;
    let page_count = u32::try_from(bytes / u64::from(page_size.bytes())).map_err(io::Error::other)?;
    let (mut pages, mut page) = (Fingerprinter::new(page_size, page_count), vec![0; page_size.as_usize()]);
    let mut file = io::BufReader::with_capacity(1 << 20, file);
    for _ in 0..page_count {
        file.read_exact(&mut page)?;
        pages.page(&page);
    }
    Ok(pages.finish().to_string())
}

/// Where a copy is to appear.
struct Target {
    path: PathBuf,
    folder: PathBuf,
    force: bool,
}

impl Target {
    /// Refuses what must not be replaced, before anybody is asked for anything.
    fn new(path: &Path, force: bool) -> Result<Self, Problem> {
        let refused = |why: &str, hint: &str| {
            Err(Problem::new(Code::Invalid, format!("{} {why}", path.display()), hint))
        };
        let Some(name) = path.file_name() else {
            return refused("does not name a file", "name the file to write");
        };
        match fs::symlink_metadata(path) {
            Ok(there) if !there.is_file() => {
                return refused("is not a regular file", "name another file");
            }
            Ok(_) if !force => return refused("exists", "name another file, or replace it with --force"),
            _ => {}
        }
        if let Some(database) = sidecar::database_of(path) {
            let why = format!("belongs to the database {}", database.display());
            return refused(&why, "name another file: SQLite would read this one as its own");
        }
        for suffix in ["-journal", "-wal"] {
            let mut beside = name.to_owned();
            beside.push(suffix);
            let beside = path.with_file_name(beside);
            if fs::symlink_metadata(&beside).is_ok() {
                let why = format!("would be read together with {}", beside.display());
                return refused(&why, "close the database that it belongs to, or name another file");
            }
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self { path: path.to_owned(), folder, force })
    }

    /// A file beside the target, which disappears unless it is finished.
    fn begin(&self) -> Result<NamedTempFile, Problem> {
        // Like any file that a command makes: the umask takes away what others may not have.
        let made = tempfile::Builder::new()
            .prefix(".asat-export-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&self.folder);
        made.map_err(|error| self.cannot("be written", &error))
    }

    /// Gives the copy its name, durably.
    fn finish(&self, file: TempPath) -> Result<(), Problem> {
        let named = if self.force { file.persist(&self.path) } else { file.persist_noclobber(&self.path) };
        named.map_err(|error| self.cannot("be given its name", &error.error))?;
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(|error| self.cannot("be made durable", &error))
    }

    fn cannot(&self, what: &str, error: &io::Error) -> Problem {
        let (code, hint) = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                (Code::StorageFull, "make room, or name a file on another disk")
            }
            ErrorKind::AlreadyExists => (Code::Invalid, "name another file, or replace it with --force"),
            ErrorKind::NotFound | ErrorKind::NotADirectory => (Code::Invalid, "make its folder first"),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                (Code::Forbidden, "name a file in a folder that you may write to")
            }
            _ => (Code::Internal, ""),
        };
        Problem::new(code, format!("{} cannot {what}: {error}", self.path.display()), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let refused = |path: &Path, force| Target::new(path, force).map(|_| ()).map_err(|p| p.code);

        fs::write(path("there.db"), "x").unwrap();
        assert_eq!(refused(&path("there.db"), false), Err(Code::Invalid));
        assert_eq!(refused(&path("there.db"), true), Ok(()));
        assert_eq!(refused(&path("new.db"), false), Ok(()));
        assert_eq!(refused(Path::new("new.db"), false), Ok(()));
        for special in ["/dev/null", "/", "..", ""] {
            assert_eq!(refused(Path::new(special), true), Err(Code::Invalid), "{special}");
        }
        fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink(path("there.db"), path("link.db")).unwrap();
        for special in ["folder", "link.db"] {
            assert_eq!(refused(&path(special), true), Err(Code::Invalid), "{special}");
        }
        for suffix in ["-wal", "-journal"] {
            fs::write(path(&format!("hot.db{suffix}")), "").unwrap();
            assert_eq!(refused(&path("hot.db"), true), Err(Code::Invalid), "{suffix}");
            fs::remove_file(path(&format!("hot.db{suffix}"))).unwrap();
            let beside = path(&format!("there.db{suffix}"));
            assert_eq!(refused(&beside, true), Err(Code::Invalid), "{suffix} of another");
        }
    }

    #[test]
    fn a_copy_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.db");
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let target = Target::new(&path, false).unwrap();
        drop(target.begin().unwrap());
        assert_eq!(count(), 0);

        let mut file = target.begin().unwrap();
        file.write_all(b"pages").unwrap();
        target.finish(file.into_temp_path()).unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (&b"pages"[..], 1));

        // Somebody else made the file meanwhile.
        let late = target.begin().unwrap();
        assert_eq!(target.finish(late.into_temp_path()).unwrap_err().code, Code::Invalid);
        assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (&b"pages"[..], 1));
    }
}
