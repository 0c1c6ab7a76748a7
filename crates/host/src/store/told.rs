//! What is written down of a version beside its content, in lines of its own: in the tags of its snapshot, or in a file beside its clone.
//! Where the catalogue is lost, a version can be made of that again, before its pages are in the archive.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use asat_core::PageSize;
use jiff::Timestamp;

use super::{StillState, Witness};

/// The longest line. LVM takes tags of 1024 characters, of which some go before it.
const LONGEST: usize = 1000;

/// What is written down of a version, as `name=value` in lines of letters, digits and few other characters, as LVM takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The instant at which the content was fixed, in microseconds.
    pub cut_at: Timestamp,
    /// The size of its pages.
    pub page_size: PageSize,
    /// How many pages it has.
    pub page_count: u32,
    /// Whether the store was in WAL mode.
    pub wal: bool,
    /// What tells whether the snapshot contains the state.
    pub witness: Witness,
    /// The store's path from the root of its file system, of which the snapshot is; the store may be moved later. It is left out where
    /// it is no text, or too long for a line.
    pub inside: Option<PathBuf>,
    /// What was said of the publication, as the archive takes it. It is left out where it is too long for a line.
    pub note: Option<String>,
}

/// Why nothing can be made of such lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// A line is missing, or there are two of its name.
    #[error("it does not say once what its {0} is")]
    Missing(&'static str),
    /// A line says something that none says.
    #[error("what it says of its {0} is not understood")]
    Unreadable(&'static str),
}

impl Told {
    /// What is to be written down of a state that is cut at this instant, in a snapshot of all of its file system where the store's
    /// path in that is given.
    #[must_use]
    pub fn of(state: &StillState, cut_at: Timestamp, inside: Option<&Path>, note: String) -> Self {
        let StillState { page_size, page_count, wal, witness, .. } = state.clone();
        let inside = inside.map(Path::to_owned);
        Self { cut_at, page_size, page_count, wal, witness, inside, note: Some(note) }
    }

    /// Whether the store's WAL belongs to the version.
    #[must_use]
    pub fn with_wal(&self) -> bool {
        self.witness.with_wal()
    }

    /// The instant that lines say, which may say nothing else that is understood.
    pub fn cut_at<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Timestamp> {
        let mut instants = lines.filter_map(|line| line.strip_prefix("cut="));
        let instant = instants.next().filter(|_| instants.next().is_none())?;
        instant.parse().ok()
    }

    /// Its lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mode = if self.wal { "wal" } else { "rollback" };
        let mut lines = vec![
            format!("cut={:.6}", self.cut_at),
            format!("pages={}/{}", self.page_size.bytes(), self.page_count),
            format!("mode={mode}"),
            format!("witness={}", self.witness.written()),
        ];
        let inside = self.inside.as_deref().and_then(Path::to_str);
        let texts = [("inside", inside), ("note", self.note.as_deref())];
        let texts = texts.iter().filter_map(|(name, text)| Some(format!("{name}={}", spelled((*text)?))));
        lines.extend(texts.filter(|line| line.len() <= LONGEST));
        lines
    }

    /// Reads its lines back. Others between them are passed over.
    ///
    /// # Errors
    /// Where one is missing, is there twice, or is not spelled as [`Self::lines`] does.
    pub fn read<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Result<Self, Unclear> {
        let all = |name: &'static str| {
            lines.clone().filter_map(move |line| line.strip_prefix(name)?.strip_prefix('='))
        };
        let one = |name| {
            let mut values = all(name);
            values.next().filter(|_| values.next().is_none()).ok_or(Unclear::Missing(name))
        };
        let pages = || {
            let (size, count) = one("pages").ok()?.split_once('/')?;
            Some((PageSize::new(size.parse().ok()?)?, count.parse().ok()?))
        };
        let text = |name| match all(name).next() {
            None => Ok(None),
            Some(_) => unspelled(one(name)?).map(Some).ok_or(Unclear::Unreadable(name)),
        };
        one("pages")?;
        let (page_size, page_count) = pages().ok_or(Unclear::Unreadable("pages"))?;
        let told = Self {
            cut_at: one("cut")?.parse().map_err(|_| Unclear::Unreadable("cut"))?,
            page_size,
            page_count,
            wal: one("mode")? == "wal",
            witness: Witness::read(one("witness")?).ok_or(Unclear::Unreadable("witness"))?,
            inside: text("inside")?.map(PathBuf::from),
            note: text("note")?,
        };
        // Each value has one spelling.
        let again = told.lines();
        for name in ["cut", "pages", "mode", "inside", "note"] {
            let line = all(name).next().map(|value| format!("{name}={value}"));
            if line.is_some_and(|line| !again.contains(&line)) {
                return Err(Unclear::Unreadable(name));
            }
        }
        Ok(told)
    }
}

/// A text as quoted-printable has it, with more that is spelled by its digits: what LVM takes in no tag.
fn spelled(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-/:".contains(&byte) {
            spelled.push(char::from(byte));
        } else {
            let _ = write!(spelled, "={byte:02X}");
        }
    }
    spelled
}

fn unspelled(spelled: &str) -> Option<String> {
    let mut parts = spelled.split('=');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
