//! Two who have one archive open: a copied state folder, or a lock that does not hold. The second one that writes is refused, and
//! changes nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::common::{self, Content, Model, assert_holds, compact, files, folder, page, write};
use crate::archive::Archive;
use crate::error::Error;
use crate::folder::Folder;
use crate::objects::Objects;

/// Seven versions, in an archive that two have open.
fn opened_twice(folder: &std::path::Path) -> (Archive, Archive, Model) {
    let objects: Arc<dyn Objects> = Arc::new(Folder::open(folder).unwrap().0);
    let (one, _) = Archive::over(Arc::clone(&objects)).unwrap();
    let (mut content, mut model) = (Content::new(512, 1..9), Model::new());
    for number in 1..=7 {
        content.pages[0] = page(512, 21 * number + 3);
        content.pages[usize::try_from(number).unwrap()] = page(512, 100 + number);
        write(&one, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    one.retire(3).unwrap();
    model.remove(&3);
    let (other, opened) = Archive::over(objects).unwrap();
    assert_eq!(opened, crate::Opened::default());
    (one, other, model)
}

type Change = fn(&Archive) -> Result<(), Error>;

/// Everything by which an archive changes.
fn changes() -> Vec<(&'static str, Change)> {
    vec![
        ("write", |archive| write(archive, 8, &Content::new(512, 50..60)).map(drop)),
        ("give up", |archive| archive.retire(5).map(drop)),
        ("give up the newest", |archive| archive.retire(7).map(drop)),
        ("merge", |archive| archive.compact(&mut |_| ControlFlow::Continue(())).map(drop)),
        ("write anew", |archive| {
            let reader = archive.read(6)?;
            let rebuilt = common::rebuild(archive, 6, |rebuild| {
                let mut page = vec![0; 512];
                (1..=reader.meta().page_count).try_for_each(|number| {
                    reader.read_page(number, &mut page)?;
                    Ok(rebuild.page(&page)?)
                })
            });
            rebuilt.map(drop).map_err(|problem| {
                assert!(
                    [asat_core::Code::InUse, asat_core::Code::Damaged].contains(&problem.code),
                    "{problem}"
                );
                Error::Busy { folder: archive.folder().to_owned(), what: "another asat has written to it" }
            })
        }),
    ]
}

/// Refuses to change, whatever it tries and however often, and leaves all files alone.
fn assert_refused(archive: &Archive) {
    let before = files(archive.folder());
    for (what, change) in changes() {
        match change(archive) {
            Err(Error::Busy { what: why, .. }) => {
                assert!(why.contains("another asat has written to it"), "{why}")
            }
            // What the other one has deleted it cannot read any more: it says that it is lost, or gone, or it goes on without.
            Err(error) if what != "write" && error.is_loss() => {}
            Ok(()) if what != "write" => {}
            result => panic!("{what}: {result:?}"),
        }
        assert!(files(archive.folder()) == before, "{what} has changed something");
    }
}

#[test]
fn who_writes_second_is_refused_and_changes_nothing() {
    for (what, change) in changes() {
        let folder = folder();
        let (one, other, _) = opened_twice(folder.path());
        change(&one).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_refused(&other);
        assert_refused(&other);
    }
}

#[test]
fn who_writes_second_is_refused_also_when_the_file_of_its_number_was_deleted_since() {
    let folder = folder();
    let (one, other, mut model) = opened_twice(folder.path());
    let mut content = model[&7].clone();
    for number in 8..=40 {
        content.edit(2, 10, 3);
        write(&one, number, &content).unwrap();
        model.insert(number, content.clone());
    }
    compact(&one);
    assert!(!files(folder.path()).iter().any(|(name, _)| name == "000000000009.segment"));
    let before = files(folder.path());
    for _ in 0..2 {
        let refused = write(&other, 8, &Content::new(512, 50..60)).unwrap_err();
        assert!(refused.to_string().contains("another asat has written to it"), "{refused}");
        // What was deleted it does not have any more, so it may say that this is lost or gone.
        changes().into_iter().for_each(|(_, change)| _ = change(&other));
        assert!(files(folder.path()) == before, "something has changed");
    }
    assert_holds(&one, &model);
    drop((one, other));
    assert_holds(&Archive::open(folder.path()).unwrap().0, &model);
}

#[test]
fn what_one_could_not_write_the_other_does_not_lose() {
    let folder = folder();
    let (one, other, mut model) = opened_twice(folder.path());
    // One has begun a version when the other writes one.
    let content = Content::new(512, 50..60);
    let mut writer = other.begin(8, content.page_size(), content.count()).unwrap();
    (1..).zip(&content.pages).for_each(|(number, page)| writer.page(number, page).unwrap());
    let newest = Content::new(512, 70..80);
    write(&one, 8, &newest).unwrap();
    model.insert(8, newest);
    assert!(matches!(writer.finish(super::common::cut()), Err(Error::Busy { .. })));
    assert_holds(&one, &model);
    write(&one, 9, &content).unwrap();
    model.insert(9, content);
    drop((one, other));
    assert_holds(&Archive::open(folder.path()).unwrap().0, &model);
}
