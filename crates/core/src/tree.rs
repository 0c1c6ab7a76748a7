//! The tree of versions: which names there are, and where they lead.
//!
//! ```text
//! report@12/report.db                      the version
//! report@month-end-2026-10                 a link to the folder of the version that a tag leads to
//! as-of/2026-11-19T17:00:00Z/report.db     a link to the newest one cut at or before an instant
//! latest/report.db                         a link to the newest one
//! ```
//!
//! A link is followed anew each time somebody opens it, and leads to a version's own folder. So a file that is open
//! stays what it was, and the names that SQLite looks for beside it are those beside a version.

use std::time::Duration;

use jiff::Timestamp;

use crate::register::{Entry, Register};
use crate::{StoreName, TagName, VersionId, VersionRef, instant};

/// The name of the folder of instants.
const AS_OF: &str = "as-of";
/// The name of the folder of newest versions.
const LATEST: &str = "latest";
/// What follows a store's name in its database's.
const DATABASE: &str = ".db";

/// A place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The whole.
    Root,
    /// `report@12`.
    Version(VersionId),
    /// `report@12/report.db`.
    Database(VersionId),
    /// `report@month-end-2026-10`.
    Tagged(StoreName, TagName),
    /// `as-of`.
    AsOf,
    /// `as-of/2026-11-19T17:00:00Z`.
    Moment {
        /// The instant.
        at: Timestamp,
        /// The instant as it was written: each spelling is a folder of its own.
        name: String,
    },
    /// `as-of/2026-11-19T17:00:00Z/report.db`.
    VersionAsOf(Timestamp, StoreName),
    /// `latest`.
    Latest,
    /// `latest/report.db`.
    LatestVersion(StoreName),
}

/// What a place is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A link with this target, as seen from its folder.
    Link(String),
    /// A database.
    File {
        /// Its length in bytes.
        bytes: u64,
        /// When its content was fixed.
        cut_at: Timestamp,
    },
}

impl Node {
    /// For how long what never changes can be kept: for as long as anybody likes.
    pub const LASTING: Duration = Duration::from_hours(24);

    /// What has a name in this folder.
    #[must_use]
    pub fn find(&self, register: &Register, name: &str) -> Option<Self> {
        let found = match self {
            Self::Root => match name {
                AS_OF => Self::AsOf,
                LATEST => Self::Latest,
                _ => match name.parse().ok()? {
                    VersionRef::Exact(id) => Self::Version(id),
                    VersionRef::Tag(store, name) => Self::Tagged(store, name),
                    VersionRef::Latest(_) => return None,
                },
            },
            Self::Version(id) => {
                let store = store_of(name).filter(|store| *store == id.store)?;
                Self::Database(VersionId { store, number: id.number })
            }
            Self::AsOf => Self::Moment { at: instant::day_ends(name)?, name: name.to_owned() },
            Self::Moment { at, .. } => Self::VersionAsOf(*at, store_of(name)?),
            Self::Latest => Self::LatestVersion(store_of(name)?),
            Self::Database(_) | Self::Tagged(..) | Self::VersionAsOf(..) | Self::LatestVersion(_) => {
                return None;
            }
        };
        found.kind(register).map(|_| found)
    }

    /// What is in this folder, by name. Instants are not listed: there is no end of them.
    #[must_use]
    pub fn list(&self, register: &Register) -> Vec<(String, Self)> {
        let stores = || register.stores().map(|history| &history.store.name);
        let of_stores = |node: &dyn Fn(&StoreName) -> Self| -> Vec<(String, Self)> {
            let nodes = stores().map(|store| (format!("{store}{DATABASE}"), node(store)));
            nodes.filter(|(_, node)| node.kind(register).is_some()).collect()
        };
        match self {
            Self::Root => {
                let versions = register.stores().flat_map(|history| {
                    let there = history.versions.headlines().filter(|headline| headline.is_readable());
                    there.map(|headline| VersionId {
                        store: history.store.name.clone(),
                        number: headline.number,
                    })
                });
                let folders = [(AS_OF.to_owned(), Self::AsOf), (LATEST.to_owned(), Self::Latest)];
                let tags = register.stores().flat_map(|history| history.tags.values());
                let tags = tags.map(|tag| {
                    let store = &tag.version.store;
                    (format!("{store}@{}", tag.name), Self::Tagged(store.clone(), tag.name.clone()))
                });
                let tags = tags.filter(|(_, node)| node.kind(register).is_some());
                let versions = versions.map(|id| (id.to_string(), Self::Version(id)));
                folders.into_iter().chain(versions).chain(tags).collect()
            }
            Self::Version(id) => {
                let database = Self::Database(id.clone());
                let is_there = database.kind(register).is_some();
                is_there.then(|| (format!("{}{DATABASE}", id.store), database)).into_iter().collect()
            }
            Self::Moment { at, .. } => of_stores(&|store| Self::VersionAsOf(*at, store.clone())),
            Self::Latest => of_stores(&|store| Self::LatestVersion(store.clone())),
            Self::AsOf
            | Self::Database(_)
            | Self::Tagged(..)
            | Self::VersionAsOf(..)
            | Self::LatestVersion(_) => Vec::new(),
        }
    }

    /// What is here now; nothing where there is no version that can be read.
    #[must_use]
    pub fn kind(&self, register: &Register) -> Option<Kind> {
        let link = |up: &str, entry: &Entry| {
            let id = &entry.version.id;
            is_there(entry).then(|| Kind::Link(format!("{up}{id}/{}{DATABASE}", id.store)))
        };
        match self {
            Self::Root | Self::AsOf | Self::Moment { .. } | Self::Latest => Some(Kind::Folder),
            Self::Version(id) => is_there(register.entry(id).ok()?).then_some(Kind::Folder),
            Self::Database(id) => {
                let entry = register.entry(id).ok().filter(|entry| is_there(entry))?;
                let content = entry.version.content.as_ref()?;
                Some(Kind::File { bytes: content.size_bytes(), cut_at: content.cut_at })
            }
            Self::Tagged(store, name) => {
                let id = &register.history(store).ok()?.tags.get(name)?.version;
                is_there(register.entry(id).ok()?).then(|| Kind::Link(id.to_string()))
            }
            Self::VersionAsOf(at, store) => link("../../", register.as_of(store, *at).ok()?),
            Self::LatestVersion(store) => link("../", register.history(store).ok()?.newest_readable()?),
        }
    }

    /// For how long what is known of this place can be kept by who has asked. A version never changes; whether it is there still
    /// is asked of its folder now and then, through which every path to it leads. A link leads elsewhere in time.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        match self {
            Self::Tagged(..) | Self::VersionAsOf(..) | Self::LatestVersion(_) => Duration::ZERO,
            Self::Version(_) => Duration::from_secs(1),
            _ => Self::LASTING,
        }
    }
    /// Whether what is not in this folder never will be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Version(_))
    }
}

/// The path of a version's database from the root of the tree.
#[must_use]
pub fn path(id: &VersionId) -> String {
    format!("{id}/{}{DATABASE}", id.store)
}

fn is_there(entry: &Entry) -> bool {
    entry.version.content.is_some() && entry.version.check_readable().is_ok()
}

fn store_of(name: &str) -> Option<StoreName> {
    name.strip_suffix(DATABASE)?.parse().ok()
}
