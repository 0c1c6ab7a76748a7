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

/// Writes the head of a frame.
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
    /// Frames that are not sent yet.
    batch: Vec<u8>,
    /// Where the last of them begins, if that is one of pages that takes more.
    pages_at: Option<usize>,
}

impl Output {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, batch: Vec::new(), pages_at: None }
    }

    /// Says words, after all that came before.
    pub(super) fn say(&mut self, said: &impl Serialize) -> io::Result<()> {
        self.add(said)?;
        self.flush()
    }

    /// Takes words that are sent with what follows.
    pub(super) fn add(&mut self, said: &impl Serialize) -> io::Result<()> {
        self.end_pages()?;
        self.batch.extend(words(said)?);
        self.flush_if_full()
    }

    /// Takes pages, which are sent with others.
    pub(super) fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
        if self.pages_at.is_none() {
            self.pages_at = Some(self.batch.len());
            self.batch.extend([0; HEAD]);
        }
        self.batch.extend_from_slice(pages);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end_pages()?;
        self.socket.write_all(&self.batch)?;
        self.batch.clear();
        Ok(())
    }

    /// Says before the last frame of pages how long it is.
    fn end_pages(&mut self) -> io::Result<()> {
        let at = self.pages_at.take();
        at.and_then(|at| self.batch.get_mut(at..)).map_or(Ok(()), |frame| finish(frame, Kind::Pages))
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
        // What is added is sent with what is said next, in order.
        output.add(&"first").unwrap();
        output.pages(&[7; 512]).unwrap();
        output.pages(&[7; 512]).unwrap();
        output.add(&"second").unwrap();
        output.say(&"third").unwrap();
        assert_eq!(read_words::<String>(&theirs).unwrap().as_deref(), Some("first"));
        let mut pages = [0; HEAD + 1024];
        (&theirs).read_exact(&mut pages).unwrap();
        assert_eq!(Kind::read(*pages.first_chunk().unwrap()), Some((Kind::Pages, 1024)));
        for expected in ["second", "third"] {
            assert_eq!(read_words::<String>(&theirs).unwrap().as_deref(), Some(expected));
        }
        output.pages(&[7; 512]).unwrap();
        output.say(&1).unwrap();
        assert!(read_words::<i32>(&theirs).is_err(), "pages are no words");
        drop(output);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert_eq!(read_words::<i32>(&theirs).unwrap(), None);
    }
}
