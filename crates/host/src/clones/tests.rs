//! Whose a clone is that nothing is recorded of. Its file system need not clone anything for that.

use super::*;

const AT: &str = "2026-11-19T17:00:03.000000Z";

fn look(folder: &Folder, id: &VersionId) -> Presence {
    folder.look(id, Which::MadeSince(AT.parse().unwrap())).unwrap()
}

#[test]
fn what_says_an_earlier_instant_than_the_intent_was_not_made_for_it_and_stays() {
    let clones = tempfile::tempdir().unwrap();
    let (folder, id): (_, VersionId) = (Folder::new(clones.path()), "report@1".parse().unwrap());
    DirBuilder::new().mode(0o700).create(folder.of(&id)).unwrap();
    fs::write(folder.file(&id), "pages").unwrap();
    // Half-made, it says nothing yet.
    assert!(matches!(look(&folder, &id), Presence::Here { .. }));
    let tell = |cut: &str| fs::write(folder.of(&id).join(TOLD), format!("cut={cut}\nmode=wal\n")).unwrap();
    tell(AT);
    let Presence::Here { identity, .. } = look(&folder, &id) else { panic!("not ours") };
    tell("2026-11-19T17:00:02.999999Z");
    assert!(matches!(look(&folder, &id), Presence::Gone(Some(_))));
    let left = folder.remove(&id, Which::MadeSince(AT.parse().unwrap())).unwrap();
    assert!(left.is_some() && folder.file(&id).exists());
    // The recorded one is known by its identity, whatever it says.
    assert_eq!(folder.remove(&id, Which::Known(&identity)).unwrap(), None);
    assert!(!folder.of(&id).exists());
}
