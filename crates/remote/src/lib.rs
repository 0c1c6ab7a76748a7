//! History in object storage: the archives' files and numbered manifests in a bucket, read anywhere and lost nowhere.
//!
//! A *repository* is a place in a bucket, with one history a store. Files of archives are put there byte for byte, under names that say
//! their content; a *manifest* says of which files an archive consists, and the one with the highest number counts. A manifest's number
//! is given once, as it is created exclusively and never free again: so two publishers cannot mix, and neither needs a clock.
//!
//! The layout is described in `docs/remote-format.md`.

mod bucket;
mod cache;
mod cached;
mod encryption;
mod error;
mod files;
mod follower;
mod layout;
mod manifest;
mod note;
pub mod outside;
mod probe;
mod protection;
mod prune;
mod publisher;
mod repository;
mod restore;
mod s3;
mod service;
mod verify;

pub use bucket::{Bucket, Entry, Part, Parts};
pub use cache::{Cache, LEAST_CACHE_BYTES};
pub use encryption::{Envelope, Identities, Keys, Recipients, is_secret};
pub use error::Error;
pub use follower::Follower;
pub use manifest::{Holder, Manifest, RemoteFile};
pub use note::{Head, Note, NoteFile, Notes};
pub use protection::{LockMode, Protection, Removal, Retention};
pub use prune::{Keep, Pruned, prune};
pub use publisher::{Publisher, Source};
pub use repository::{History, Repository};
pub use restore::{Restored, put_back, restore};
pub use service::{Requests, Service, Stop};
pub use verify::{Depth, Finding, Report, verify};
