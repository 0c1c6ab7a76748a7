//! What somebody who has these credentials can destroy of what is stored: tried, with an object that is made for it.
//!
//! Only what the service has answered counts. A bucket of S3 that keeps versions loses nothing that is replaced or deleted, unless a version is
//! deleted for good: that is a right of its own, and Object Lock refuses it to everybody for a time.

use std::fmt::{self, Display, Formatter};

use uuid::Uuid;

use crate::bucket::Bucket as _;
use crate::error::Error;
use crate::layout;
use crate::s3::{Deleted, S3};
use crate::service::Service;

/// What these credentials can destroy of what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// A folder. All in it can be destroyed by those who may write to it.
    Folder,
    /// Whether the service keeps what is replaced or deleted, is not known.
    Unknown {
        /// Why it is not.
        why: String,
        /// Whether these credentials may delete; or why that is not known either.
        may_delete: Result<bool, String>,
    },
    /// A bucket that does not keep what is replaced or deleted.
    Plain {
        /// Whether these credentials may replace; or why that is not known.
        may_replace: Result<bool, String>,
        /// Whether these credentials may delete; or why that is not known.
        may_delete: Result<bool, String>,
    },
    /// A bucket that keeps versions of what is replaced or deleted.
    Versioned {
        /// What came of an attempt to delete a version for good.
        removal: Removal,
        /// For how long Object Lock keeps what is stored, if it does; or why that is not known.
        retention: Result<Option<Retention>, String>,
    },
}

/// What came of an attempt to delete a version for good that was stored a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was done.
    Done,
    /// It was done when it was asked for in spite of Object Lock.
    Bypassed,
    /// It was refused, and these credentials have no right to it.
    NoRight,
    /// It was refused by Object Lock. Nothing says that these credentials have no right to it later.
    Locked,
    /// Whether it can be done is not known, for this reason.
    Unknown(String),
}

/// How long Object Lock keeps what is stored, if the object itself does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Who may shorten it.
    pub mode: LockMode,
    /// So many days, if it is said in days.
    pub days: u32,
    /// So many years, if it is said in years.
    pub years: u32,
}

/// Who may delete a version before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Those who have a right to it, `s3:BypassGovernanceRetention`.
    Governance,
    /// Nobody.
    Compliance,
}

impl Display for LockMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        })
    }
}

impl Display for Retention {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (count, unit) = if self.days > 0 { (self.days, "day") } else { (self.years, "year") };
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} {unit}{plural}")
    }
}

/// Tries it.
pub(crate) fn tried(service: &Service) -> Result<Protection, Error> {
    let key = layout::probe(&Uuid::now_v7().to_string());
    let version = match service.store_version(&key, "first") {
        Ok(version) => version,
        Err(Error::Stopped) => return Err(Error::Stopped),
        Err(error) => {
            let why = error.to_string();
            return Ok(Protection::Unknown { why: why.clone(), may_delete: Err(why) });
        }
    };
    let Some(s3) = service.s3() else {
        let why = "asat can ask only S3 whether it keeps what is replaced or deleted".to_owned();
        return Ok(Protection::Unknown { why, may_delete: may(service.delete(&key))? });
    };
    match service.wait(async { Ok(s3.keeps_versions().await) })? {
        Err(why) => Ok(Protection::Unknown { why, may_delete: may(service.delete(&key))? }),
        Ok(false) => Ok(Protection::Plain {
            may_replace: may(service.store_version(&key, "second").map(drop))?,
            may_delete: may(service.delete(&key))?,
        }),
        Ok(true) => {
            let retention = service.wait(async { Ok(s3.retention().await) })?;
            let removal = removal(service, s3, (&key, version.as_deref()), &retention)?;
            if removal != Removal::Done {
                // It hides what stays.
                let _ = service.delete(&key);
            }
            Ok(Protection::Versioned { removal, retention })
        }
    }
}

/// Tries to delete a version for good.
fn removal(
    service: &Service,
    s3: &S3,
    (key, version): (&str, Option<&str>),
    retention: &Result<Option<Retention>, String>,
) -> Result<Removal, Error> {
    let Some(version) = version.filter(|version| *version != "null") else {
        return Ok(Removal::Unknown("the service says of no object which version it is".to_owned()));
    };
    let delete = |key: &str, version: &str, bypass: bool| {
        service.wait(async { Ok(s3.delete_version(key, version, bypass).await) })
    };
    match delete(key, version, false)? {
        Deleted::Done => return Ok(Removal::Done),
        Deleted::Failed(why) => return Ok(Removal::Unknown(why)),
        Deleted::Denied => {}
    }
    // A bucket without Object Lock refuses to be asked this, and in the other mode nobody may.
    if matches!(retention, Ok(Some(Retention { mode: LockMode::Governance, .. })) | Err(_)) {
        match delete(key, version, true)? {
            Deleted::Done => return Ok(Removal::Bypassed),
            Deleted::Failed(why) => return Ok(Removal::Unknown(why)),
            Deleted::Denied => {}
        }
    }
    // Of an object that is not there, nothing is locked: only a missing right refuses this.
    let absent = layout::probe(&Uuid::now_v7().to_string());
    Ok(match (delete(&absent, "null", false)?, retention) {
        (Deleted::Denied, _) => Removal::NoRight,
        (_, Ok(Some(_))) => Removal::Locked,
        (Deleted::Done, _) => Removal::Unknown("it is refused for a reason that is not said".to_owned()),
        (Deleted::Failed(why), _) => Removal::Unknown(why),
    })
}

/// Whether something is permitted that was tried.
fn may(done: Result<(), Error>) -> Result<Result<bool, String>, Error> {
    match done {
        Ok(()) => Ok(Ok(true)),
        Err(Error::Forbidden { .. }) => Ok(Ok(false)),
        Err(Error::Stopped) => Err(Error::Stopped),
        Err(error) => Ok(Err(error.to_string())),
    }
}
