//! Patches: what makes a page out of another one if few of its bytes were replaced, and none were moved.
//!
//! Most changes of a page are as small. A patch of one is shorter than a zstd frame, and laying it is a copy of a few bytes, so a page
//! that was changed again and again is read nearly as fast as one that never was.

use crate::layout::{Taker, len_of, put_varints};

/// Tells a patch from a zstd frame, whose first byte is another.
pub(crate) const MARK: u8 = 0;
/// Runs with so few bytes between them become one: a run of its own takes two bytes besides what is replaced.
const MOST_BETWEEN: usize = 2;

/// Writes the patch that makes `page` out of `before` to `patch`. Answers whether it is no longer than `most` bytes.
pub(crate) fn make(before: &[u8], page: &[u8], most: usize, patch: &mut Vec<u8>) -> bool {
    patch.clear();
    patch.push(MARK);
    let mut pairs = (0_usize..).zip(before.iter().zip(page)).filter(|(_, (was, is))| was != is);
    let mut next = pairs.next().map(|(at, _)| at);
    let mut done = 0;
    while let Some(start) = next {
        let mut end = start + 1;
        loop {
            next = pairs.next().map(|(at, _)| at);
            match next {
                Some(at) if at <= end + MOST_BETWEEN => end = at + 1,
                _ => break,
            }
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

/// Lays what follows the mark of a patch upon a page; answers whether that is a patch of such a page.
pub(crate) fn lay(patch: &[u8], page: &mut [u8]) -> bool {
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

    fn patch_of(before: &[u8], page: &[u8]) -> Vec<u8> {
        let mut patch = Vec::new();
        assert!(make(before, page, usize::MAX, &mut patch));
        patch
    }

    #[test]
    fn runs_that_are_close_become_one() {
        let before = [7; 16];
        let mut page = before;
        assert_eq!(patch_of(&before, &page), [MARK]);
        (page[2], page[5], page[9]) = (1, 2, 3);
        assert_eq!(patch_of(&before, &page), [MARK, 2, 4, 1, 7, 7, 2, 3, 1, 3]);
        assert!(!make(&before, &page, 9, &mut Vec::new()), "it is longer");
        assert!(!make(&before, &page[..15], 99, &mut Vec::new()), "a page of another size");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for wrong in [&[1][..], &[1, 1], &[1, 2, 9], &[16, 1, 9], &[0, 17], &[0x80, 0], &[9, 0, 8, 1, 9]] {
            assert!(!lay(wrong, &mut [0; 16]), "{wrong:?}");
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
            prop_assert!(lay(&patch[1..], &mut laid));
            prop_assert_eq!(laid, page);
        }

        #[test]
        fn any_bytes_are_laid_or_refused(patch in prop::collection::vec(any::<u8>(), 0..40)) {
            lay(&patch, &mut [0; 64]);
        }
    }
}
