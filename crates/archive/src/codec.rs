//! Turns pages into frames and back.
//!
//! A page is stored whole, raw or compressed, or as its difference from the page that the version before had
//! in its place. That is a patch, or a zstd frame made with the earlier page as its dictionary: whatever moved
//! or stayed within the page costs next to nothing.
//!
//! A patch makes a page out of another one if few of its bytes were replaced, and none were moved. Most changes of a page are as small.
//! A patch of one is shorter than a zstd frame, and laying it is a copy of a few bytes, so a page that was changed again and again is read
//! nearly as fast as one that never was.
//!
//! Whole pages of a large segment share a dictionary: it has what many of them have in common, so each frame has only the rest.

use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::error::Error;
use crate::index::Encoding;
use crate::layout::{Taker, len_of, put_varints};

/// Level 1 is within a few per cent of level 3 on database pages, and faster (docs/archive-format.md).
const LEVEL: i32 = 1;
/// Whole pages are compressed so if there are very many: nearly twice as fast, and about a tenth longer. A merge compresses them again. With
/// level -2, the first publication of a large store takes a tenth less, and is longer by another 8 %.
const LEVEL_OF_MANY: i32 = -1;
/// So many differences a page may be stored as, one upon another, before it is stored whole again. It bounds
/// what reading a page costs, and what damage in one place reaches.
pub(crate) const MOST_DIFFERENCES: u32 = 32;
/// Upon so many, only a short one is laid still: each is a place of its own, which a disk has to look for.
const MOST_LONG_DIFFERENCES: u32 = 6;
/// A frame that is no longer takes next to no room.
pub(crate) const SHORT_FRAME_BYTES: usize = 64;
/// So many there may be where segments were merged. Differences that a later merge will leave few of count all of them: a lower bound
/// would have most pages stored whole again.
pub(crate) const MOST_WHEN_MERGED: u32 = 64;
/// A difference below this share of a page is taken without looking how long the whole page would be.
const TAKEN_UNSEEN: usize = 16;
/// So is one below this share of the whole page's last frame, as one page hardly becomes that much shorter, but none above this share of
/// the page.
const TAKEN_UNSEEN_OF_WHOLE: usize = 2;
const MOST_TAKEN_UNSEEN: usize = 4;

/// A dictionary is about this long. From 16 KiB on zstd sets itself up for long inputs, and pages become a fifth longer at the same level.
const DICTIONARY_BYTES: usize = 15 << 10;
/// Merges have time: level 4 makes pages 15 % longer, and level 6 less than 1 % shorter.
const LEVEL_WITH_DICTIONARY: i32 = 5;

/// What many pages have in common.
pub(crate) struct Dictionary {
    pub(crate) bytes: Vec<u8>,
    prepared: DDict<'static>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dictionary").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Dictionary {
    /// A dictionary as it was stored. `None`: zstd cannot use it.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        Some(Self { prepared: DDict::try_create(&bytes)?, bytes })
    }

    /// Makes a dictionary out of pages that lie one after another. `None`: they have too little in common.
    pub(crate) fn train(pages: &[u8], page_len: usize) -> Option<Self> {
        let lengths = vec![page_len; pages.len() / page_len];
        zstd::dict::from_continuous(pages, &lengths, DICTIONARY_BYTES).ok().and_then(Self::new)
    }
}

/// What a page was before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    pub(crate) page: &'a [u8],
    /// As how many differences it is stored.
    pub(crate) depth: u32,
    /// How long the frame is that holds it whole below those; 0 if that is not known.
    pub(crate) whole_bytes: usize,
}

/// Makes frames.
pub(crate) struct Encoder {
    context: CCtx<'static>,
    /// Whether there are very many pages.
    pub(crate) has_many: bool,
    /// What whole pages are made with, if there is one.
    dictionary: Option<CDict<'static>>,
    whole: Vec<u8>,
    difference: Vec<u8>,
    patch: Vec<u8>,
}

impl Encoder {
    /// Makes frames of pages of `page_len` bytes, of whole ones with a dictionary if there is one.
    pub(crate) fn new(page_len: usize, dictionary: Option<&Dictionary>) -> Result<Self, Error> {
        // A frame must be shorter than the page, or the page is stored as it is.
        let room = vec![0; page_len.saturating_sub(1)];
        let context = CCtx::try_create().ok_or_else(unusable)?;
        let prepare = |dictionary: &Dictionary| CDict::try_create(&dictionary.bytes, LEVEL_WITH_DICTIONARY);
        let dictionary = dictionary.map(|known| prepare(known).ok_or_else(unusable)).transpose()?;
        let (whole, difference, patch) = (room.clone(), room, Vec::new());
        Ok(Self { context, has_many: false, dictionary, whole, difference, patch })
    }

    /// The shortest frame of a page: its difference from the page before if there is one, and the
    /// difference is at least a quarter shorter than the whole page is, or is likely to be, or else the whole page. A long difference is not laid upon many.
    pub(crate) fn encode<'a>(
        &'a mut self,
        page: &'a [u8],
        before: Option<Before<'_>>,
    ) -> (Encoding, &'a [u8]) {
        let Self { context, difference, patch, .. } = self;
        let difference = before.and_then(|before| {
            let most_bytes =
                if before.depth < MOST_LONG_DIFFERENCES { page.len() } else { SHORT_FRAME_BYTES };
            shorter(context, difference, patch, page, before.page).filter(|made| made.len() <= most_bytes)
        });
        let of_whole = before.map_or(0, |before| before.whole_bytes / TAKEN_UNSEEN_OF_WHOLE);
        let unseen = of_whole.clamp(page.len() / TAKEN_UNSEEN, page.len() / MOST_TAKEN_UNSEEN);
        let is_short = |made: &&[u8]| made.len() < unseen;
        if let Some(short) = difference.filter(is_short) {
            return (Encoding::Difference, short);
        }
        let room = self.whole.as_mut_slice();
        let (encoding, whole_len) = match &self.dictionary {
            Some(dictionary) => (Encoding::Dictionary, context.compress_using_cdict(room, page, dictionary)),
            None if self.has_many => (Encoding::Zstd, context.compress(room, page, LEVEL_OF_MANY)),
            None => (Encoding::Zstd, context.compress(room, page, LEVEL)),
        };
        let whole = match whole_len.ok().and_then(|len| self.whole.get(..len)) {
            Some(frame) => (encoding, frame),
            None => (Encoding::Raw, page),
        };
        let is_worth = |difference: &&[u8]| difference.len() <= whole.1.len() / 4 * 3;
        difference.filter(is_worth).map_or(whole, |difference| (Encoding::Difference, difference))
    }
}

/// What makes a page out of the one before: a patch if that is short, or the shorter one of a patch and a zstd frame.
fn shorter<'a>(
    context: &mut CCtx<'static>,
    room: &'a mut [u8],
    patch: &'a mut Vec<u8>,
    page: &[u8],
    before: &[u8],
) -> Option<&'a [u8]> {
    let is_patch = make_patch(before, page, page.len() / TAKEN_UNSEEN, patch);
    if is_patch && patch.len() <= SHORT_FRAME_BYTES {
        return Some(patch);
    }
    let len = context.compress_using_dict(room, page, before, LEVEL).ok();
    let frame = len.and_then(|len| room.get(..len));
    frame.filter(|frame| !is_patch || frame.len() < patch.len()).or(if is_patch { Some(patch) } else { None })
}

/// A frame as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) encoding: Encoding,
    pub(crate) frame: &'a [u8],
    /// The dictionary of its segment, if it was made with that.
    pub(crate) dictionary: Option<&'a Dictionary>,
}

/// Turns frames into pages.
pub(crate) struct Decoder {
    context: DCtx<'static>,
    /// For frames that were made with a segment's dictionary. In a context that decodes nothing else, zstd need not take it for one that
    /// is not in the processor's cache, and goes the shorter way.
    with_dictionary: DCtx<'static>,
    /// What a difference lies upon, while it is decoded in the place of that.
    before: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new() -> Result<Self, Error> {
        let context = || DCtx::try_create().ok_or_else(unusable);
        Ok(Self { context: context()?, with_dictionary: context()?, before: Vec::new() })
    }

    /// Decodes a frame into `page`. If it is a difference, that holds the page which it lies upon; answers whether a whole page came out.
    pub(crate) fn decode(&mut self, stored: Stored<'_>, page: &mut [u8]) -> bool {
        let Self { context, with_dictionary, before } = self;
        let Stored { encoding, frame, dictionary } = stored;
        let decoded = match encoding {
            Encoding::Raw if frame.len() == page.len() => {
                page.copy_from_slice(frame);
                return true;
            }
            Encoding::Raw => return false,
            Encoding::Zstd => context.decompress(page, frame),
            Encoding::Difference => {
                if let Some(patch) = frame.strip_prefix(&[MARK]) {
                    return lay_patch(patch, page);
                }
                before.clear();
                before.extend_from_slice(page);
                context.decompress_using_dict(page, frame, before)
            }
            Encoding::Dictionary => {
                let Some(dictionary) = dictionary else { return false };
                with_dictionary.decompress_using_ddict(page, frame, &dictionary.prepared)
            }
        };
        decoded == Ok(page.len())
    }
}

fn unusable() -> Error {
    Error::Misuse("zstd cannot be set up: no memory".to_owned())
}

/// Tells a patch from a zstd frame, whose first byte is another.
const MARK: u8 = 0;
/// Runs with so few bytes between them become one: a run of its own takes two bytes besides what is replaced.
const MOST_BETWEEN: usize = 2;

/// Writes the patch that makes `page` out of `before` to `patch`. Answers whether it is no longer than `most` bytes.
fn make_patch(before: &[u8], page: &[u8], most: usize, patch: &mut Vec<u8>) -> bool {
    patch.clear();
    patch.push(MARK);
    let differs = |at: &usize| before.get(*at).zip(page.get(*at)).is_some_and(|(was, is)| was != is);
    let mut done = 0;
    while let Some(start) = next_difference(before, page, done) {
        let mut end = start + 1;
        while let Some(next) = (end..=end + MOST_BETWEEN).find(differs) {
            end = next + 1;
        }
        let replaced = page.get(start..end).unwrap_or_default();
        let kept = page.get(done..start).unwrap_or_default();
        put_varints(patch, [len_of(kept), len_of(replaced)]);
        patch.extend_from_slice(replaced);
        if patch.len() > most {
            return false;
        }
        done = end;
    }
    before.len() == page.len()
}

/// Where two pages differ first, from a place on. Most of them is the same, and is compared many bytes at once.
fn next_difference(before: &[u8], page: &[u8], from: usize) -> Option<usize> {
    const AT_ONCE: usize = 64;
    let (before, page) = (before.get(from..)?, page.get(from..)?);
    let same = before.chunks_exact(AT_ONCE).zip(page.chunks_exact(AT_ONCE)).take_while(|(was, is)| was == is);
    let skipped = same.count() * AT_ONCE;
    let rest = before.iter().zip(page).skip(skipped);
    rest.into_iter().position(|(was, is)| was != is).map(|at| from + skipped + at)
}

/// Lays what follows the mark of a patch upon a page; answers whether that is a patch of such a page.
fn lay_patch(patch: &[u8], page: &mut [u8]) -> bool {
    let (mut taker, mut rest) = (Taker(patch), page);
    while !taker.is_empty() {
        let (Some(kept), Some(replaced)) = (take_len(&mut taker), take_len(&mut taker)) else { return false };
        let Some((bytes, after)) = taker.0.split_at_checked(replaced) else { return false };
        let Some((_, from)) = rest.split_at_mut_checked(kept) else { return false };
        let Some((run, further)) = from.split_at_mut_checked(replaced) else { return false };
        run.copy_from_slice(bytes);
        (taker, rest) = (Taker(after), further);
    }
    true
}

fn take_len(taker: &mut Taker<'_>) -> Option<usize> {
    usize::try_from(taker.varint()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A page like those of a table: rows of a few fields.
    fn rows(seed: u8) -> Vec<u8> {
        (0..4096_u32).map(|nth| (nth / 24).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
    }

    fn encode(page: &[u8], before: Option<&[u8]>) -> (Encoding, Vec<u8>) {
        let mut encoder = Encoder::new(page.len(), None).unwrap();
        let (encoding, frame) =
            encoder.encode(page, before.map(|page| Before { page, depth: 0, whole_bytes: 0 }));
        (encoding, frame.to_vec())
    }

    fn decode(encoding: Encoding, frame: &[u8], before: &[u8]) -> Option<Vec<u8>> {
        let mut page = before.to_vec();
        let stored = Stored { encoding, frame, dictionary: None };
        Decoder::new().unwrap().decode(stored, &mut page).then_some(page)
    }

    #[test]
    fn pages_that_have_much_in_common_are_shorter_with_a_dictionary() {
        let rows = |nth: u64| -> Vec<u8> {
            let name = |row: u64| (row.pow(3) % 9973 % 200).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let row = |row: u64| format!("{row},account {:016x},EUR|", name(row));
            (nth * 100..).flat_map(|nth| row(nth).into_bytes()).take(4096).collect()
        };
        let pages: Vec<Vec<u8>> = (0..100).map(rows).collect();
        let dictionary = Dictionary::train(&pages.concat(), 4096).unwrap();
        let again = Dictionary::train(&pages.concat(), 4096).unwrap();
        assert_eq!(dictionary.bytes, again.bytes, "the same pages make the same dictionary");
        let mut encoder = Encoder::new(4096, Some(&dictionary)).unwrap();
        let (mut with, mut without) = (0, 0);
        for page in &pages {
            let (encoding, frame) = encoder.encode(page, None);
            assert_eq!(encoding, Encoding::Dictionary);
            let mut decoded = vec![0; 4096];
            let mut decoder = Decoder::new().unwrap();
            let stored = Stored { encoding, frame, dictionary: Some(&dictionary) };
            assert!(decoder.decode(stored, &mut decoded));
            assert_eq!(decoded, *page);
            let stored = Stored { dictionary: None, ..stored };
            assert!(!decoder.decode(stored, &mut decoded), "without it, it cannot be read");
            with += frame.len();
            without += encode(page, None).1.len();
        }
        assert!(with * 10 < without * 9, "{with} bytes with it, {without} without");
        assert!(Dictionary::train(&[0; 4096], 4096).is_none(), "one page makes none");
    }

    #[test]
    fn a_page_of_many_is_read_as_any_other() {
        let mut encoder = Encoder::new(4096, None).unwrap();
        encoder.has_many = true;
        for page in [rows(0), rows(7), vec![0; 4096]] {
            let (encoding, frame) = encoder.encode(&page, None);
            assert_eq!((encoding, decode(encoding, frame, &[0; 4096])), (Encoding::Zstd, Some(page.clone())));
        }
    }

    #[test]
    fn the_shortest_frame_is_chosen() {
        let before = rows(0);
        let mut changed = before.clone();
        changed[100..108].copy_from_slice(b"changed!");
        let mut moved = before.clone();
        moved.rotate_right(24);
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_le_bytes()[7]
            })
            .collect();
        let half: Vec<u8> = [&noise[..2048], &before[..2048]].concat();
        for (page, before, encoding) in [
            (&before, None, Encoding::Zstd),
            (&noise, None, Encoding::Raw),
            (&changed, Some(&before), Encoding::Difference),
            (&moved, Some(&before), Encoding::Difference),
            (&noise, Some(&before), Encoding::Raw),
            (&half, Some(&before), Encoding::Zstd),
            (&half, Some(&noise), Encoding::Difference),
        ] {
            assert_eq!(encode(page, before.map(Vec::as_slice)).0, encoding);
        }
        assert!(encode(&changed, Some(&before)).1.len() < 256);
        assert!(encode(&moved, Some(&before)).1.len() < 256);
    }

    #[test]
    fn a_page_that_looks_like_a_dictionary_is_no_obstacle() {
        let (mut before, mut page) = (rows(0), rows(0));
        before[..4].copy_from_slice(&0xec30_a437_u32.to_le_bytes());
        page[..4].copy_from_slice(&0xec30_a437_u32.to_le_bytes());
        page[50] ^= 1;
        let (encoding, frame) = encode(&page, Some(&before));
        assert_eq!(decode(encoding, &frame, &before), Some(page));
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            before in prop::collection::vec(0..4_u8, 512), flips in prop::collection::vec((0..512_usize, any::<u8>()), 0..600),
        ) {
            let mut page = before.clone();
            flips.iter().for_each(|&(nth, byte)| page[nth] = byte);
            for before in [None, Some(before.as_slice())] {
                let (encoding, frame) = encode(&page, before);
                prop_assert!(frame.len() <= 512 && (encoding == Encoding::Raw) == (frame.len() == 512));
                prop_assert_eq!(decode(encoding, &frame, before.unwrap_or(&[0; 512])), Some(page.clone()));
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(frame in prop::collection::vec(any::<u8>(), 0..600), before in prop::collection::vec(any::<u8>(), 512)) {
            for encoding in [Encoding::Raw, Encoding::Zstd, Encoding::Difference] {
                decode(encoding, &frame, &before);
            }
            let (dictionary, mut page) = (Dictionary::new(before.clone()).unwrap(), before);
            let stored = Stored { encoding: Encoding::Dictionary, frame: &frame, dictionary: Some(&dictionary) };
            Decoder::new().unwrap().decode(stored, &mut page);
        }
    }

    fn patch_of(before: &[u8], page: &[u8]) -> Vec<u8> {
        let mut patch = Vec::new();
        assert!(make_patch(before, page, usize::MAX, &mut patch));
        patch
    }

    #[test]
    fn runs_that_are_close_become_one() {
        let before = [7; 16];
        let mut page = before;
        assert_eq!(patch_of(&before, &page), [MARK]);
        (page[2], page[5], page[9]) = (1, 2, 3);
        assert_eq!(patch_of(&before, &page), [MARK, 2, 4, 1, 7, 7, 2, 3, 1, 3]);
        assert!(!make_patch(&before, &page, 9, &mut Vec::new()), "it is longer");
        assert!(!make_patch(&before, &page[..15], 99, &mut Vec::new()), "a page of another size");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for wrong in [&[1][..], &[1, 1], &[1, 2, 9], &[16, 1, 9], &[0, 17], &[0x80, 0], &[9, 0, 8, 1, 9]] {
            assert!(!lay_patch(wrong, &mut [0; 16]), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_made_is_laid(
            before in prop::collection::vec(0..4_u8, 64), changes in prop::collection::vec((0..64_usize, any::<u8>()), 0..40),
        ) {
            let mut page = before.clone();
            changes.iter().for_each(|&(nth, byte)| page[nth] = byte);
            let patch = patch_of(&before, &page);
            let mut laid = before;
            prop_assert!(lay_patch(&patch[1..], &mut laid));
            prop_assert_eq!(laid, page);
        }

        #[test]
        fn any_bytes_are_laid_or_refused(patch in prop::collection::vec(any::<u8>(), 0..40)) {
            lay_patch(&patch, &mut [0; 64]);
        }
    }
}
