//! Whether a service does what publishing depends on.

use jiff::Timestamp;
use uuid::Uuid;

use crate::bucket::Bucket;
use crate::error::Error;
use crate::layout;

/// Creates an object that must not be there twice, and reads it. A service that replaces it would let two publishers lose each
/// other's versions.
///
/// # Errors
/// [`Error::Unconditional`]; [`Error::Damaged`] if something else is read than what was stored; what the service answers.
pub(crate) fn probe(bucket: &dyn Bucket) -> Result<(), Error> {
    let key = layout::probe(&Uuid::now_v7().to_string());
    let found = create_twice(bucket, &key);
    // Without the right to delete, five bytes stay.
    let _ = bucket.delete(&key);
    match found? {
        (true, _) => Err(Error::Unconditional { url: bucket.url().to_owned() }),
        (false, Some(bytes)) if bytes == b"first" => Ok(()),
        (false, Some(_)) => Err(Error::damaged(bucket.url(), &key, "it is not what was stored a moment ago")),
        (false, None) => Err(Error::missing(bucket.url(), &key)),
    }
}

/// Answers whether the second creation succeeded too, and what is there then.
fn create_twice(bucket: &dyn Bucket, key: &str) -> Result<(bool, Option<Vec<u8>>), Error> {
    bucket.create_surely(key, b"first")?;
    let is_new = bucket.create(key, b"second")?;
    Ok((is_new, bucket.read_small(key, 64)?))
}

/// Which time it is by the service's clock.
///
/// # Errors
/// What the service answers.
pub(crate) fn now(bucket: &dyn Bucket) -> Result<Timestamp, Error> {
    let key = layout::probe(&Uuid::now_v7().to_string());
    bucket.create_surely(&key, b"now")?;
    let entry = bucket.look(&key)?;
    let _ = bucket.delete(&key);
    entry.map(|entry| entry.modified).ok_or_else(|| Error::missing(bucket.url(), &key))
}
