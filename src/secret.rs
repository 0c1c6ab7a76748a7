//! Files that hold secrets: read only where nobody else can read them, nor write what they say.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use asat_core::{Code, Problem};

/// What others may not do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Neither read nor write it. A group may be allowed to read it.
    Nothing,
    /// Not write it.
    NoWriting,
}

/// What is wrong with a file of this mode.
fn fault(mode: u32, others: Others) -> Option<&'static str> {
    match others {
        _ if mode & 0o002 != 0 => Some("can be written by everybody"),
        _ if mode & 0o020 != 0 => Some("can be written by its group"),
        Others::Nothing if mode & 0o004 != 0 => Some("can be read by everybody"),
        Others::Nothing | Others::NoWriting => None,
    }
}

/// Refuses a file that others may do too much with; `what` says what it is.
///
/// # Errors
/// [`Code::Configuration`], with the command that mends it.
pub(crate) fn check(what: &str, path: &Path, file: &File, others: Others) -> Result<(), Problem> {
    let found = file.metadata().map_err(|error| unreadable(what, path, &error))?;
    match fault(found.mode(), others) {
        None => Ok(()),
        Some(fault) => {
            let words = match others {
                Others::Nothing => "chmod g-w,o-rwx",
                Others::NoWriting => "chmod go-w",
            };
            let detail = format!("{what} {} {fault} (mode {:04o})", path.display(), found.mode() & 0o7777);
            Err(Problem::new(Code::Configuration, detail, format!("run: {words} {}", path.display())))
        }
    }
}

/// Reads a small file that others may do nothing with.
///
/// # Errors
/// [`Code::Configuration`], naming the file.
pub(crate) fn read(what: &str, path: &Path, most_bytes: u64) -> Result<String, Problem> {
    let file = File::open(path).map_err(|error| unreadable(what, path, &error))?;
    let kind = file.metadata().map_err(|error| unreadable(what, path, &error))?.file_type();
    // A shell gives what a command prints as a pipe.
    if !kind.is_file() && !kind.is_fifo() {
        let detail = format!("{what} {} is neither a file nor a pipe", path.display());
        return Err(Problem::new(Code::Configuration, detail, "name the file that is meant"));
    }
    check(what, path, &file, Others::Nothing)?;
    let mut text = String::new();
    let read = file.take(most_bytes.saturating_add(1)).read_to_string(&mut text);
    let read = read.map_err(|error| unreadable(what, path, &error))?;
    if u64::try_from(read).unwrap_or(u64::MAX) > most_bytes {
        let detail = format!("{what} {} is longer than {most_bytes} bytes", path.display());
        return Err(Problem::new(Code::Configuration, detail, "name the file that is meant"));
    }
    Ok(text)
}

fn unreadable(what: &str, path: &Path, error: &std::io::Error) -> Problem {
    let detail = format!("{what} {} cannot be read: {error}", path.display());
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "name a file that is there; asat token new makes a token",
        std::io::ErrorKind::InvalidData => "name a file of text in UTF-8",
        _ => "name a file that this user may read",
    };
    Problem::new(Code::Configuration, detail, hint)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_do_with_a_file_decides_whether_it_is_read() {
        for (mode, secret, open) in [
            (0o600, true, true),
            (0o400, true, true),
            (0o640, true, true),
            (0o440, true, true),
            (0o644, false, true),
            (0o604, false, true),
            (0o660, false, false),
            (0o620, false, false),
            (0o666, false, false),
            (0o602, false, false),
            (0o777, false, false),
        ] {
            for (others, allowed) in [(Others::Nothing, secret), (Others::NoWriting, open)] {
                assert_eq!(fault(mode, others).is_none(), allowed, "{mode:o} {others:?}");
            }
        }
    }

    #[test]
    fn a_refusal_names_the_file_and_the_command_that_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert_eq!(read("the token file", &path, 9).unwrap_err().code, Code::Configuration);
        std::fs::write(&path, "secret").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let problem = read("the token file", &path, 9).unwrap_err();
        assert!(problem.detail.contains("can be read by everybody (mode 0644)"), "{problem}");
        assert_eq!(problem.hint, format!("run: chmod g-w,o-rwx {}", path.display()));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(read("the token file", &path, 6).unwrap(), "secret");
        assert!(read("the token file", &path, 5).unwrap_err().detail.contains("longer than 5 bytes"));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read("the token file", &path, 9).is_err());
        for other in [folder.path(), Path::new("/dev/zero")] {
            let problem = read("the token file", other, 9).unwrap_err();
            assert!(problem.detail.ends_with("is neither a file nor a pipe"), "{problem}");
        }
    }
}
