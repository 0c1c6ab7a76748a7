//! The keys of objects, below the repository's place.

use asat_archive::FileId;
use asat_core::StoreName;

/// The format of repositories and of manifests that this build writes, and the only one that it reads.
pub(crate) const FORMAT: u64 = 1;
/// The object that makes a place a repository.
pub(crate) const REPOSITORY: &str = "asat.json";
/// No history has so many manifests.
pub(crate) const MOST_MANIFESTS: u64 = 999_999_999_999;

/// What the keys of files end with, and those of files that are encrypted.
const PLAIN: &str = ".segment";
const ENCRYPTED: &str = ".segment.age";

/// Where objects are created to see what the service does; nothing below is kept.
pub(crate) fn probe(name: &str) -> String {
    format!("probe/{name}")
}

/// Where all stores are.
pub(crate) const STORES: &str = "s/";

/// Where the manifests of a store are.
pub(crate) fn manifests(store: &StoreName) -> String {
    format!("{STORES}{store}/m/")
}

/// A manifest. What is counted down is in front, so that a listing begins with the newest.
pub(crate) fn manifest(store: &StoreName, number: u64) -> String {
    format!("{STORES}{store}/m/{:012}-{number}.json", MOST_MANIFESTS - number.min(MOST_MANIFESTS))
}

/// The number of a manifest, if that is one's key.
pub(crate) fn number_of_manifest(store: &StoreName, key: &str) -> Option<u64> {
    let name = key.strip_prefix(&manifests(store))?.strip_suffix(".json")?;
    let number =
        name.split_once('-')?.1.parse().ok().filter(|number| (1..=MOST_MANIFESTS).contains(number))?;
    (manifest(store, number) == key).then_some(number)
}

/// Where the files of a store's archive are.
pub(crate) fn files(store: &StoreName) -> String {
    format!("{STORES}{store}/f/")
}

/// A file of an archive that was stored in this epoch; with the digits of its envelope if it is encrypted. Two contents never have the same key:
/// a file's hash is part of it.
pub(crate) fn file(store: &StoreName, epoch: u64, id: &FileId, envelope: Option<&str>) -> String {
    let hash = hex(id.hash.get(..16).unwrap_or_default());
    let name = format!("{STORES}{store}/f/{epoch:06}-{:012}-{hash}", id.number);
    match envelope {
        None => format!("{name}{PLAIN}"),
        Some(envelope) => format!("{name}-{envelope}{ENCRYPTED}"),
    }
}

/// The epoch and the number of a file, if that is one's key.
pub(crate) fn numbers_of_file(store: &StoreName, key: &str) -> Option<(u64, u64)> {
    let name = key.strip_prefix(&files(store))?;
    let encrypted = name.strip_suffix(ENCRYPTED);
    let mut parts = encrypted.or_else(|| name.strip_suffix(PLAIN))?.split('-');
    let (epoch, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let is_hash =
        |digits: &str, len| digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_one = is_hash(parts.next()?, 32)
        && encrypted.is_none_or(|_| parts.next().is_some_and(|digits| is_hash(digits, 16)));
    (is_one && parts.next().is_none()).then_some((epoch, number))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash of 64 hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}

/// What bytes hash to, by BLAKE3.
pub(crate) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_begins_with_the_newest_manifest_and_every_key_is_read_again() {
        let store: StoreName = "report".parse().unwrap();
        let numbers = [1, 2, 9, 10, 99, 100, 12_345, MOST_MANIFESTS];
        let keys: Vec<String> = numbers.iter().map(|number| manifest(&store, *number)).collect();
        assert!(keys.iter().rev().is_sorted());
        let again: Vec<_> = keys.iter().filter_map(|key| number_of_manifest(&store, key)).collect();
        assert_eq!(again, numbers);
        let id = FileId { number: 7, bytes: 1, hash: [0xab; 32] };
        for envelope in [None, Some("0123456789abcdef")] {
            assert_eq!(numbers_of_file(&store, &file(&store, 3, &id, envelope)), Some((3, 7)));
        }
        for wrong in
            ["report/m/999999999998-2.json", "report/m/1-1.json", "report/m/", "report/f/1-2.segment", "x"]
        {
            assert_eq!(
                (number_of_manifest(&store, wrong), numbers_of_file(&store, wrong)),
                (None, None),
                "{wrong}"
            );
        }
    }

    #[test]
    fn hashes_are_read_as_they_are_written() {
        let bytes: [u8; 32] = *blake3::hash(b"x").as_bytes();
        assert_eq!(from_hex(&hex(&bytes)), Some(bytes));
        for wrong in ["", "ab", "zz", &"é".repeat(32), &hex(&[1; 33])] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
