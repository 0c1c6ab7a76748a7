//! Pages of which few are asked for come about as they do if all of their block is found.

use std::ops::ControlFlow;

use super::common::{Content, folder, page, write};
use crate::archive::Archive;
use crate::view::View;

/// Pages of three blocks, some of which no version has.
const ASKED: [&[usize]; 6] = [&[0], &[1, 2, 3], &[255, 256], &[7, 300, 301, 302, 511, 512], &[5, 4], &[599]];

#[test]
fn few_pages_come_about_as_many_do() {
    let folder = folder();
    let (archive, _) = Archive::open(folder.path()).unwrap();
    let mut content = Content::new(512, 1..601);
    for number in 1..=40_u64 {
        for step in 0..=number % 7 {
            let nth = usize::try_from((number * 97 + step * 113) % 600).unwrap();
            // One byte, so that some are stored as differences; or all of them.
            match step % 3 {
                0 => content.pages[nth] = page(512, number * 1000 + step),
                _ => content.pages[nth][17] ^= 1 + u8::try_from(number).unwrap(),
            }
        }
        write(&archive, number, &content).unwrap();
        if number % 9 == 0 {
            archive.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        }
        let state = archive.inner.state();
        for of in [number, number / 2 + 1] {
            let whole = View::new(&state, of).unwrap();
            for asked in ASKED {
                // Nothing of this one is known yet.
                let view = View::new(&state, of).unwrap();
                let few = view.pages(asked.iter().copied(), false).unwrap();
                assert_eq!(few.len(), asked.len());
                for (found, nth) in few.iter().zip(asked) {
                    let expected = whole.page(*nth).unwrap();
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "page {nth} of version {of}");
                }
            }
            assert!(whole.pages([600].into_iter(), false).is_err(), "there is no such page");
        }
    }
}
