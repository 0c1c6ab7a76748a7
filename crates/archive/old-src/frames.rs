//! Reads pages out of their frames one by one, for whoever goes through whole layers.
//!
//! Who reads many pages one after another reads each layer in pieces, since frames lie in page order there.

use crate::codec::Decoder;
use crate::error::Error;
use crate::fingerprint::page_hash;
use crate::pack::Pack;
use crate::pages::{Frame, PageMap};

/// What all pieces of layers that are read ahead take together, about.
const AHEAD_BYTES: usize = 8 << 20;
/// The longest and the shortest piece.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = (8 << 10)..=(256 << 10);

/// How much is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Frame by frame: other pages are not to be expected.
    Single,
    /// In pieces: pages come in order.
    InOrder,
}

/// What reading pages needs besides the page.
pub(crate) struct Frames {
    decoder: Decoder,
    /// For each layer of the map, the piece of it that was read last.
    pieces: Vec<Piece>,
    /// The frames of the page in hand, the one that holds it whole last.
    chain: Vec<Frame>,
}

#[derive(Default)]
struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

impl Frames {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::new()?, pieces: Vec::new(), chain: Vec::new() })
    }

    /// Reads a page, counted from 0, and compares it with its hash. It must be in the map.
    pub(crate) fn page(
        &mut self,
        map: &PageMap,
        nth: usize,
        reading: Reading,
        page: &mut [u8],
    ) -> Result<(), Error> {
        let decoded = self.decode(map, map.frames_of(nth).copied(), reading, page)?;
        if decoded && map.hash(nth) == Some(page_hash(page)) {
            return Ok(());
        }
        Err(self.blame(map, nth, page))
    }

    /// Puts a page together from its frames, the newest of which comes first; answers whether a page came out.
    pub(crate) fn decode(
        &mut self,
        map: &PageMap,
        frames: impl Iterator<Item = Frame>,
        reading: Reading,
        page: &mut [u8],
    ) -> Result<bool, Error> {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        chain.extend(frames);
        self.expect(map, &chain, reading);
        let mut decoded = Ok(!chain.is_empty());
        for frame in chain.iter().rev() {
            if matches!(decoded, Ok(true)) {
                decoded = self.lay(map, frame, reading, page);
            }
        }
        self.chain = chain;
        decoded
    }

    /// Has the system begin to read all of a page's frames that lie in several files, so that a disk is not waited for by one
    /// after another.
    fn expect(&self, map: &PageMap, chain: &[Frame], reading: Reading) {
        for frame in chain.iter().filter(|_| chain.len() > 1) {
            let Some((nth, pack)) = map.pack(frame) else { continue };
            let len = usize::try_from(frame.len).unwrap_or(usize::MAX);
            if self.pieces.get(nth).is_none_or(|piece| piece.get(frame.offset, len).is_none()) {
                pack.expect(frame.offset, bytes(piece_len(map, pack, frame, reading)));
            }
        }
    }

    /// Decodes one frame over the page before it.
    fn lay(
        &mut self,
        map: &PageMap,
        frame: &Frame,
        reading: Reading,
        page: &mut [u8],
    ) -> Result<bool, Error> {
        let Self { decoder, pieces, .. } = self;
        Ok(decoder.decode(frame.encoding, stored(pieces, map, frame, reading)?, page))
    }

    /// A frame as it is stored.
    pub(crate) fn stored(&mut self, map: &PageMap, frame: &Frame, reading: Reading) -> Result<&[u8], Error> {
        stored(&mut self.pieces, map, frame, reading)
    }

    /// Which layer it is whose fault it is that a page does not match its hash.
    pub(crate) fn blame(&mut self, map: &PageMap, nth: usize, page: &mut [u8]) -> Error {
        let chain: Vec<Frame> = map.frames_of(nth).copied().collect();
        let number = u32::try_from(nth + 1).unwrap_or(u32::MAX);
        let mut blamed = None;
        for (newest, frame) in chain.iter().enumerate().rev() {
            let Some((_, pack)) = map.pack(frame) else { continue };
            blamed = Some(pack);
            let mut hash = None;
            let indexed = pack.index().and_then(|index| {
                index.each(|entry| hash = hash.or((entry.page == number).then_some(entry.hash)))
            });
            let frames = chain.get(newest..).unwrap_or_default().iter().copied();
            let decoded = self.decode(map, frames, Reading::Single, page);
            if indexed.is_err() || !matches!(decoded, Ok(true)) || hash != Some(page_hash(page)) {
                break;
            }
        }
        let what = format!("page {number} does not match its hash");
        blamed.map_or_else(|| Error::Misuse(what.clone()), |pack| Error::damaged(pack.path(), what.clone()))
    }
}

fn stored<'a>(
    pieces: &'a mut Vec<Piece>,
    map: &PageMap,
    frame: &Frame,
    reading: Reading,
) -> Result<&'a [u8], Error> {
    let nowhere = || Error::Misuse("a page in no layer".to_owned());
    let (nth, pack) = map.pack(frame).ok_or_else(nowhere)?;
    if pieces.len() < map.layers() {
        pieces.resize_with(map.layers(), Piece::default);
    }
    let piece = pieces.get_mut(nth).ok_or_else(nowhere)?;
    let len = usize::try_from(frame.len).unwrap_or(usize::MAX);
    if piece.get(frame.offset, len).is_none() {
        piece.bytes.resize(piece_len(map, pack, frame, reading), 0);
        piece.offset = frame.offset;
        if let Err(error) = pack.read_at(frame.offset, &mut piece.bytes) {
            piece.bytes.clear();
            return Err(error);
        }
        if reading == Reading::InOrder {
            let end = frame.offset.saturating_add(bytes(piece.bytes.len()));
            pack.expect(end, bytes(piece.bytes.len()).min(pack.frames_end().saturating_sub(end)));
        }
    }
    piece.get(frame.offset, len).ok_or_else(nowhere)
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// How much is read at once where this frame is needed.
fn piece_len(map: &PageMap, pack: &Pack, frame: &Frame, reading: Reading) -> usize {
    let len = usize::try_from(frame.len).unwrap_or(usize::MAX);
    match reading {
        Reading::Single => len,
        Reading::InOrder => {
            let ahead = (AHEAD_BYTES / map.layers()).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
            let left = pack.frames_end().saturating_sub(frame.offset);
            len.max(ahead.min(usize::try_from(left).unwrap_or(usize::MAX)))
        }
    }
}

impl Piece {
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }
}
