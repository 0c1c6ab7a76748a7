//! How a store stands that is followed, as it is written.

use asat_core::StoreName;

use super::Face;
use asat_wire::{LastingTrouble, StoreFollowed};

/// How a store stands; nothing if no bucket is followed.
pub(super) fn written(face: &Face, store: &StoreName) -> Option<StoreFollowed> {
    let follows = face.machine.follows();
    let (config, standing) = (follows.config()?, follows.standing(store)?);
    let manifest = standing.manifest.as_deref();
    Some(StoreFollowed {
        url: config.place.url.clone(),
        host: manifest.map(|manifest| manifest.holder.to_string()),
        manifest: manifest.map(|manifest| manifest.number),
        written_at: manifest.map(|manifest| manifest.written_at),
        seen_at: standing.seen_at,
        trouble: standing.trouble.map(LastingTrouble::new),
    })
}
