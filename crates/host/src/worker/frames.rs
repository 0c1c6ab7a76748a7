//! How words and pages go over a socket: each frame has its kind and its length before it.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes before a frame: its kind and its length.
pub(crate) const HEAD: usize = 5;
/// The longest frame. What a query or a check may say is far below.
const MOST: usize = 4 << 20;
/// So many bytes of pages go at once.
const BATCH: usize = 128 << 10;

/// What a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// JSON.
    Words,
    /// Whole pages, one after the other.
    Pages,
}

impl Kind {
    /// What is said before a frame; nothing where it would be too long.
    fn head(self, length: usize) -> Option<[u8; HEAD]> {
        let length = u32::try_from(length).ok().filter(|_| length <= MOST)?;
        let [a, b, c, d] = length.to_le_bytes();
        let kind = match self {
            Self::Words => b'w',
            Self::Pages => b'p',
        };
        Some([kind, a, b, c, d])
    }

    /// Reads what is said before a frame; nothing where it says something else.
    pub(crate) fn read([kind, a, b, c, d]: [u8; HEAD]) -> Option<(Self, usize)> {
        let kind = match kind {
            b'w' => Self::Words,
            b'p' => Self::Pages,
            _ => return None,
        };
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
        (length <= MOST).then_some((kind, length))
    }
}

/// A frame of words.
pub(super) fn words(words: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, words)?;
    finish(&mut frame, Kind::Words)?;
    Ok(frame)
}

fn finish(frame: &mut [u8], kind: Kind) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "this is too long for one frame");
    let head = kind.head(frame.len().saturating_sub(HEAD)).ok_or_else(too_long)?;
    frame.get_mut(..HEAD).unwrap_or_default().copy_from_slice(&head);
    Ok(())
}

/// Reads a frame of words, waiting for it; nothing where the other end has gone.
pub(super) fn read_words<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Option<T>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is not a frame of words");
    let mut head = [0; HEAD];
    match socket.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let Some((Kind::Words, length)) = Kind::read(head) else { return Err(wrong()) };
    let mut words = vec![0; length];
    socket.read_exact(&mut words)?;
    Ok(Some(serde_json::from_slice(&words)?))
}

/// Where a worker speaks.
pub(super) struct Output {
    socket: UnixStream,
    batch: Vec<u8>,
}

impl Output {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, batch: Vec::new() }
    }

    /// Says words, after the pages that came before.
    pub(super) fn say(&mut self, said: &impl Serialize) -> io::Result<()> {
        self.flush()?;
        self.socket.write_all(&words(said)?)
    }

    /// Takes a page, which goes with others.
    pub(super) fn page(&mut self, page: &[u8]) -> io::Result<()> {
        if self.batch.is_empty() {
            self.batch.extend([0; HEAD]);
        }
        self.batch.extend_from_slice(page);
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        finish(&mut self.batch, Kind::Pages)?;
        self.socket.write_all(&self.batch)?;
        self.batch.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_nothing_else_is_taken() {
        for kind in [Kind::Words, Kind::Pages] {
            for length in [0, 1, 70_000, MOST] {
                assert_eq!(Kind::read(kind.head(length).unwrap()), Some((kind, length)));
            }
            assert_eq!(kind.head(MOST + 1), None);
        }
        assert_eq!(Kind::read(*b"x\0\0\0\0"), None);
        assert_eq!(Kind::read(*b"w\xff\xff\xff\xff"), None);
        assert_eq!(Kind::read([b'p', 1, 0, 64, 0]), None, "one byte more than there may be");
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut output = Output::new(ours);
        output.say(&"words").unwrap();
        assert_eq!(read_words::<String>(&theirs).unwrap().as_deref(), Some("words"));
        output.page(&[7; 512]).unwrap();
        output.say(&1).unwrap();
        assert!(read_words::<i32>(&theirs).is_err(), "pages are no words");
        drop(output);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert_eq!(read_words::<i32>(&theirs).unwrap(), None);
    }
}
