//! What can go wrong with a bucket, told with the object concerned and what to do about it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem, StoreName};

use crate::manifest::Holder;

/// An error of a repository in a bucket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service did not do it, or did not say so. It may do it another time.
    #[error("cannot {doing} {key} in {url}: {what}")]
    Service {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The object's key.
        key: String,
        /// The repository.
        url: String,
        /// The service's answer, or that there was none.
        what: String,
    },
    /// The service knows who asks, and does not permit it.
    #[error("{url} does not permit to {doing} {key}: {what}")]
    Forbidden {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The object's key.
        key: String,
        /// The repository.
        url: String,
        /// The service's answer.
        what: String,
    },
    /// The URL, or what the environment says of it, is none that can be used.
    #[error("{url} cannot be used: {what}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// The service replaces objects that it was told to create only.
    #[error(
        "{url} replaces an object that must only be created if there is none: two publishers would lose each other's versions"
    )]
    Unconditional {
        /// The repository.
        url: String,
    },
    /// There is no repository.
    #[error("there is no repository in {url}")]
    NoRepository {
        /// Where it was looked for.
        url: String,
    },
    /// The repository is another one than before.
    #[error(
        "{url} has another repository than the one that {store} was stored in: {found} instead of {expected}"
    )]
    Replaced {
        /// The repository's place.
        url: String,
        /// The store.
        store: StoreName,
        /// Its identity then.
        expected: String,
        /// Its identity now.
        found: String,
    },
    /// What is stored is encrypted to others than it should be.
    #[error("{url} is encrypted to {found}, and not to {expected}", found = to(.found), expected = to(.expected))]
    OtherRecipients {
        /// The repository.
        url: String,
        /// To whom it is encrypted.
        found: Vec<String>,
        /// To whom it should be.
        expected: Vec<String>,
    },
    /// What is stored is encrypted, and cannot be read here.
    #[error("what {url} has is encrypted, and cannot be read here: {what}")]
    Encrypted {
        /// The repository.
        url: String,
        /// Why not.
        what: String,
    },
    /// The repository, or what is in it, is of another format.
    #[error("{key} in {url} has format {found}, and this asat knows {known} alone", known = crate::layout::FORMAT)]
    Format {
        /// The object's key.
        key: String,
        /// The repository.
        url: String,
        /// The format.
        found: u64,
    },
    /// Somebody else publishes the store there.
    #[error("{store} is published to {url} by {by} (manifest {number}), and not from here")]
    Fenced {
        /// The store.
        store: StoreName,
        /// The repository.
        url: String,
        /// Who.
        by: Holder,
        /// The manifest that says so.
        number: u64,
    },
    /// The archive here lacks what the bucket has.
    #[error(
        "the archive of {store} here does not have what {by} has stored in {url}: file {file} is missing or another one"
    )]
    Behind {
        /// The store.
        store: StoreName,
        /// The repository.
        url: String,
        /// Who stored it.
        by: Holder,
        /// The number of the first file that is missing here.
        file: u64,
    },
    /// A file of the archive that the bucket does not have yet cannot be read.
    #[error("file {file} of the archive of {store} cannot be read, and is not in the bucket yet")]
    Unreadable {
        /// The store.
        store: StoreName,
        /// The file's number.
        file: u64,
    },
    /// The newest file of the archive is in the bucket, and cannot be read here.
    #[error(
        "the newest file of the archive of {store}, {file}, cannot be read: nobody can say what is in the bucket of what there was before"
    )]
    Unread {
        /// The store.
        store: StoreName,
        /// The file's number.
        file: u64,
    },
    /// The archive has changed again and again while it was pushed.
    #[error("the archive of {store} has changed all the time while it was pushed")]
    Restless {
        /// The store.
        store: StoreName,
    },
    /// The archive has more files than a manifest may name.
    #[error("the archive of {store} has {files} files, more than a manifest may name")]
    TooManyFiles {
        /// The store.
        store: StoreName,
        /// How many.
        files: usize,
    },
    /// The bucket has nothing of a store, or lacks what was stored in it.
    #[error("{url} does not have {key}")]
    Missing {
        /// The repository.
        url: String,
        /// The object's key.
        key: String,
    },
    /// An object is not what was stored.
    #[error("{key} in {url} is damaged: {what}")]
    Damaged {
        /// The object's key.
        key: String,
        /// The repository.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The archive could not be read.
    #[error(transparent)]
    Archive(#[from] asat_archive::Error),
    /// The machine refused something about a file of this side.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Local {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("stopped as asked, before the end")]
    Stopped,
}

impl Error {
    pub(crate) fn damaged(url: &str, key: &str, what: impl Into<String>) -> Self {
        Self::Damaged { key: key.to_owned(), url: url.to_owned(), what: what.into() }
    }

    pub(crate) fn encrypted(url: &str, what: impl Into<String>) -> Self {
        Self::Encrypted { url: url.to_owned(), what: what.into() }
    }

    pub(crate) fn missing(url: &str, key: &str) -> Self {
        Self::Missing { url: url.to_owned(), key: key.to_owned() }
    }

    pub(crate) fn local(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Local { doing, path, source }
    }

    /// Whether another try may succeed without anybody doing anything.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Service { .. }
                | Self::Forbidden { .. }
                | Self::Restless { .. }
                | Self::Archive(_)
                | Self::Local { .. }
        )
    }

    /// What to do next.
    fn hint(&self) -> &'static str {
        match self {
            // It is said by services that take nothing else into a bucket with Object Lock.
            Self::Service { what, .. } if what.contains("Content-MD5") && what.contains("required") => {
                "the bucket takes only what has a checksum: set options = { checksum_algorithm = \"sha256\" } beside the URL (docs/remote.md)"
            }
            Self::Service { .. } => "look at the network and at the service; asat tries again",
            Self::Forbidden { .. } => {
                "look at the credentials: they must permit to list and to read below the URL, and a publisher to write there too; they are read anew at each start"
            }
            Self::Url { .. } => {
                "correct the URL in [remote] or [follow]: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER"
            }
            Self::Unconditional { .. } => {
                "use a service that knows If-None-Match (docs/remote.md lists some)"
            }
            Self::NoRepository { .. } => {
                "look at the URL; if it is right, make the repository: asat remote init"
            }
            Self::Replaced { .. } => {
                "look at who has made the repository anew, or which disk is mounted there; then restart asat. To begin a new history in it, delete remote.json beside the archive"
            }
            Self::OtherRecipients { .. } => {
                "write those that it has into remote.recipients if they are whom you mean; else make another repository. A repository keeps its recipients"
            }
            Self::Encrypted { .. } => {
                "name the file that has the age identity of one of its recipients: remote.identity or follow.identity in the configuration, or --identity"
            }
            Self::Format { .. } => "use the asat that wrote it, or a newer one",
            Self::Fenced { .. } => {
                "if that machine is gone for good, take over: asat remote take-over STORE. Else publish to another URL"
            }
            Self::Behind { .. } => {
                "export the versions that are here alone (asat export), restore the archive from the bucket (asat remote restore), and import them there (docs/remote.md)"
            }
            Self::Missing { .. } => {
                "asat remote verify says what else is missing; put the object back from a backup or an earlier version of the bucket"
            }
            Self::Damaged { .. } => {
                "asat remote verify says what else is damaged; put the object back from a backup or an earlier version of the bucket"
            }
            Self::Local { .. } => "look at the disk and the folder's permissions, then try again",
            Self::Unreadable { .. } => "type asat verify: it puts right what it can",
            Self::Unread { .. } => {
                "restart asat: the file is put back from the bucket; or publish the store again"
            }
            Self::Restless { .. } => "asat tries again in a moment",
            Self::TooManyFiles { .. } => "report this as a defect",
            Self::Archive(_) | Self::Stopped => "",
        }
    }
}

/// To whom something is encrypted, for people.
fn to(recipients: &[String]) -> String {
    if recipients.is_empty() { "nobody".to_owned() } else { recipients.join(", ") }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Archive(error) => return error.into(),
            Error::Service { .. } | Error::Forbidden { .. } => Code::RemoteUnavailable,
            Error::Url { .. }
            | Error::NoRepository { .. }
            | Error::Unconditional { .. }
            | Error::OtherRecipients { .. }
            | Error::Encrypted { .. } => Code::Configuration,
            Error::Fenced { .. } | Error::Behind { .. } | Error::Replaced { .. } => Code::Fenced,
            Error::Missing { .. }
            | Error::Damaged { .. }
            | Error::Unreadable { .. }
            | Error::Unread { .. } => Code::Damaged,
            Error::Restless { .. } => Code::InUse,
            Error::TooManyFiles { .. } => Code::Internal,
            Error::Format { .. } => Code::NotReadable,
            Error::Local { ref source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Code::StorageFull
            }
            Error::Local { .. } => Code::Internal,
            Error::Stopped => Code::Stopping,
        };
        let hint = error.hint();
        Self::new(code, error.to_string(), hint)
    }
}

/// What an error says with all that caused it, in one line.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut causes: BTreeMap<usize, String> = BTreeMap::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        // Most errors say what caused them already.
        if !causes.values().any(|said| said.contains(&text)) {
            causes.insert(causes.len(), text);
        }
        cause = error.source();
    }
    line(&causes.into_values().collect::<Vec<_>>().join(": "))
}

/// A text of a service in one line. It may be pages.
pub(crate) fn line(text: &str) -> String {
    const MOST_CHARACTERS: usize = 400;
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST_CHARACTERS).collect()
}
