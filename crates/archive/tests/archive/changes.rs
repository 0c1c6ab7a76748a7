//! A version may be handed over by what has changed: the other pages are those of the version that it is compared with.

use crate::common::{self, Content, Model, assert_holds, cut, open, write};
use asat_archive::{Archive, Error, Kept};
use proptest::prelude::*;

/// Writes a version whose pages are not handed over where they are what `base` has there.
fn write_changes(archive: &Archive, number: u64, content: &Content, base: &Content) -> Kept {
    let mut writer = archive.begin(number, content.page_size(), content.count()).unwrap();
    for (number, page) in (1..).zip(&content.pages) {
        let nth = usize::try_from(number).unwrap() - 1;
        let is_same = base.page_size == content.page_size && base.pages.get(nth) == Some(page);
        if !is_same || !writer.same(number).unwrap() {
            writer.page(number, page).unwrap();
        }
    }
    writer.finish(cut()).unwrap()
}

fn content() -> impl Strategy<Value = Content> {
    let page_size = prop_oneof![4 => Just(512), 1 => Just(1024)];
    (page_size, prop::collection::vec(0..6_u64, 1..12)).prop_map(|(size, seeds)| Content::new(size, seeds))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn versions_are_the_same_however_they_were_handed_over(contents in prop::collection::vec(content(), 1..6)) {
        let (folder, other) = (common::folder(), common::folder());
        let (archive, plain) = (open(folder.path()), open(other.path()));
        let mut model = Model::new();
        for (number, content) in (1..).zip(contents) {
            let kept = match model.values().next_back() {
                Some(base) => write_changes(&archive, number, &content, base),
                None => write(&archive, number, &content).unwrap(),
            };
            prop_assert_eq!(kept, write(&plain, number, &content).unwrap());
            if matches!(kept, Kept::Stored { .. }) {
                model.insert(number, content);
            }
        }
        assert_holds(&archive, &model);
    }
}

#[test]
fn a_page_that_the_version_before_does_not_have_must_come() {
    let folder = common::folder();
    let archive = open(folder.path());
    let size = Content::new(512, [1]).page_size();
    let mut first = archive.begin(1, size, 1).unwrap();
    assert_eq!((first.compared_with(), first.same(1).unwrap()), (None, false));
    drop(first);
    write(&archive, 1, &Content::new(512, [1, 2])).unwrap();
    let mut longer = archive.begin(2, size, 3).unwrap();
    assert_eq!(longer.compared_with(), Some(1));
    assert!(matches!(longer.same(2), Err(Error::Misuse(_))), "it is not the next one");
    assert_eq!([1, 2, 3].map(|number| longer.same(number).unwrap()), [true, true, false]);
    assert!(matches!(longer.same(4), Err(Error::Misuse(_))), "it is beyond the end");
    drop(longer);
    let other_size = archive.begin(2, Content::new(1024, [1]).page_size(), 2).unwrap();
    assert_eq!(other_size.compared_with(), None);
}
