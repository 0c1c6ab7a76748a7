//! What LVM calls its objects: names within its alphabet, and UUIDs.

use std::fmt;
use std::str::FromStr;

/// The name of a volume group or a logical volume: characters of `a-z A-Z 0-9 + _ . -`, not beginning with a
/// hyphen, and neither `.` nor `..`. Such a name needs quoting nowhere, and is never taken for an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many bytes the name has within that of a device: each hyphen is written twice there.
    #[must_use]
    pub fn device_len(&self) -> usize {
        self.0.len() + self.0.bytes().filter(|&byte| byte == b'-').count()
    }

    /// The name that the kernel gives the device of a volume of this group: `my--vg-data` for `my-vg/data`.
    #[must_use]
    pub fn device_name(&self, volume: &Self) -> String {
        format!("{}-{}", self.0.replace('-', "--"), volume.0.replace('-', "--"))
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+_.-".contains(&byte);
        let good = (1..=127).contains(&text.len())
            && text.bytes().all(allowed)
            && !text.starts_with('-')
            && !matches!(text, "." | "..");
        good.then(|| Self(text.to_owned())).ok_or(())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes off the brackets around the name of a hidden volume.
pub(super) fn unbracket(text: &str) -> (&str, bool) {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(name) => (name, true),
        None => (text, false),
    }
}

/// The UUID of one of LVM's objects: 32 characters, which LVM writes in groups and the kernel without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 32]);

impl Uuid {
    /// Reads the 32 characters without hyphens, as they are in a device's UUID.
    #[must_use]
    pub fn from_compact(text: &str) -> Option<Self> {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#".contains(byte);
        let bytes: [u8; 32] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(allowed).then_some(Self(bytes))
    }

    /// The 32 characters without hyphens.
    #[must_use]
    pub fn compact(&self) -> String {
        self.0.iter().map(|&byte| char::from(byte)).collect()
    }
}

/// The lengths of the groups in which LVM writes a UUID.
const GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter();
        for (index, length) in GROUPS.into_iter().enumerate() {
            if index > 0 {
                f.write_str("-")?;
            }
            for &byte in rest.by_ref().take(length) {
                write!(f, "{}", char::from(byte))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let uuid = Self::from_compact(&text.replace('-', "")).ok_or(())?;
        if uuid.to_string() == text { Ok(uuid) } else { Err(()) }
    }
}
