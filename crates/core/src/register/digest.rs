//! What stands for a text in an index.

/// The first 128 bits of the BLAKE3 of a text: equal texts have equal digests, and nobody can make two texts that have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest(pub(super) [u8; 16]);

impl Digest {
    pub(super) fn of(text: &str) -> Self {
        let mut digest = [0; 16];
        blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut digest);
        Self(digest)
    }
}
