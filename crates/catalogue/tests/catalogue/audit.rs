//! The audit trail: what was done is read as it was written, and whatever is changed or removed afterwards shows.

use std::path::PathBuf;

use crate::common::{self, Dice};
use asat_catalogue::{Catalogue, Error, Trail};
use asat_core::audit::{Action, Deed, Filter, Link, Place, TrailEntry};
use asat_core::event::Change;
use asat_core::{By, Code, Problem, VersionId};
use rusqlite::Connection;
use sha2::{Digest, Sha256};

/// A catalogue, and what was written to its trail.
struct Written {
    folder: tempfile::TempDir,
    catalogue: Catalogue,
    deeds: Vec<Deed>,
}

impl Written {
    fn new(count: usize, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
        let mut dice = Dice(seed);
        let mut deeds = Vec::new();
        while deeds.len() < count {
            let version = format!("store-{}@{}", dice.below(2), 1 + dice.below(3)).parse().unwrap();
            let deed = common::deed(&mut dice, version);
            deeds.push(Deed {
                at: dice.instant(),
                by: By { actor: format!("token {}", dice.below(3)), ..deed.by },
                ..deed
            });
        }
        for some in deeds.chunks(3) {
            let changes: Vec<Change> =
                some.iter().map(|deed| Change::Noted(Box::new(deed.clone()))).collect();
            catalogue.record(&changes).unwrap();
        }
        Self { folder, catalogue, deeds }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("catalogue.db")
    }

    fn trail(&self) -> Trail {
        Trail::open(&self.path()).unwrap()
    }

    fn entries(&self, filter: &Filter) -> Vec<TrailEntry> {
        self.trail().page(filter, None, u32::MAX).unwrap().entries
    }

    /// Changes the file as somebody would who has something to hide.
    fn forge(&self, sql: &str) {
        let other = Connection::open(self.path()).unwrap();
        let open = "pragma ignore_check_constraints = on; drop trigger if exists audit_is_not_changed;
            drop trigger if exists audit_is_not_removed;";
        other.execute_batch(&format!("{open} {sql}")).unwrap();
    }

    /// Where the chain breaks, and what is said of it.
    fn broken(&self) -> Option<(u64, String)> {
        self.trail().verify(None).unwrap().broken
    }
}

#[test]
fn what_was_done_is_read_as_it_was_written_newest_first() {
    let written = Written::new(40, 1);
    let entries = written.entries(&Filter::default());
    let read: Vec<&Deed> = entries.iter().rev().map(|entry| &entry.deed).collect();
    assert_eq!(read, written.deeds.iter().collect::<Vec<_>>());
    assert_eq!(
        entries.iter().rev().map(|entry| entry.number).collect::<Vec<_>>(),
        (1..=40).collect::<Vec<_>>()
    );
    let head = written.trail().head().unwrap();
    assert_eq!((head.number, head.chain), (40, entries[0].chain));
    assert_eq!(written.broken(), None);
    assert_eq!(written.trail().verify(None).unwrap().sound, 40);
}

#[test]
fn a_filter_gives_what_it_says_in_pages() {
    let written = Written::new(200, 2);
    let mut instants: Vec<_> = written.deeds.iter().map(|deed| deed.at).collect();
    instants.sort_unstable();
    let version: VersionId = "store-1@2".parse().unwrap();
    let wanted = Filter::default;
    let filters = [
        wanted(),
        Filter { store: Some("store-0".parse().unwrap()), ..wanted() },
        Filter { version: Some(version.clone()), ..wanted() },
        Filter { version: Some(version.clone()), store: Some(version.store.clone()), ..wanted() },
        Filter { version: Some(version.clone()), store: Some("store-0".parse().unwrap()), ..wanted() },
        Filter { actor: Some("token 1".to_owned()), ..wanted() },
        Filter { action: Some(Action::Retire), ..wanted() },
        Filter { from: Some(instants[50]), to: Some(instants[120]), ..wanted() },
        Filter { actor: Some("token 1' or 1".to_owned()), ..wanted() },
    ];
    for filter in filters {
        let fits = |deed: &&Deed| {
            filter.store.as_ref().is_none_or(|store| deed.version.store == *store)
                && filter.version.as_ref().is_none_or(|version| deed.version == *version)
                && filter.actor.as_ref().is_none_or(|actor| deed.by.actor == *actor)
                && filter.action.is_none_or(|action| deed.action == action)
                && filter.from.is_none_or(|from| deed.at >= from)
                && filter.to.is_none_or(|to| deed.at <= to)
        };
        let expected: Vec<&Deed> = written.deeds.iter().filter(fits).rev().collect();
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = written.trail().page(&filter, before, 7).unwrap();
            assert!(page.entries.len() == 7 || !page.more);
            before = page.entries.last().map(|entry| entry.number);
            found.extend(page.entries.into_iter().map(|entry| entry.deed));
            if !page.more {
                break;
            }
        }
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    }
    assert!(written.trail().page(&wanted(), Some(u64::MAX), 1).unwrap().more);
}

/// The encoding as it is documented, written a second time.
#[test]
fn the_chain_is_what_the_documentation_says() {
    let written = Written::new(20, 3);
    let installation = written.catalogue.installation();
    let digits: String = installation.repeat(2);
    let mut chain: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
    for entry in written.entries(&Filter::default()).iter().rev() {
        let Deed { at, by, action, version, details } = &entry.deed;
        let fields = [
            entry.number.to_string(),
            format!("{at:.9}"),
            by.actor.clone(),
            by.request.clone().unwrap_or_default(),
            action.text().to_owned(),
            version.store.to_string(),
            version.number.to_string(),
            serde_json::to_string(details).unwrap(),
        ];
        let mut bytes = chain;
        for field in fields {
            bytes.extend((field.len() as u64).to_be_bytes());
            bytes.extend(field.as_bytes());
        }
        chain = Sha256::digest(&bytes).to_vec();
        assert_eq!(entry.chain.0.as_slice(), chain, "{}", entry.number);
    }
}

#[test]
fn whatever_is_changed_shows_with_its_number() {
    let spoilt = [
        "at = '2026-01-01T00:00:00.000000000Z'",
        "actor = 'token somebody else'",
        "request = 'another'",
        "action = 'pin'",
        "store = 'other'",
        "version = version + 1",
        "details = '{}'",
        "details = '{\"reason\": \"another\"}'",
        "chain = replace(chain, substr(chain, 1, 1), 'z')",
        "chain = '00'",
        // What stands at the end of one field is not the same at the beginning of the next.
        "actor = actor || request, request = null",
        "number = 1000",
        "number = -4",
    ];
    for change in spoilt {
        let mut written = Written::new(4, 4);
        let by = By { request: Some("r".to_owned()), ..By::token("ann") };
        let deed = Deed { by, ..written.deeds[0].clone() }.with("reason", "why");
        for _ in 5..=9 {
            written.catalogue.record(&[Change::Noted(Box::new(deed.clone()))]).unwrap();
        }
        assert_eq!(written.broken(), None);
        written.forge(&format!("update audit set {change} where number = 5"));
        assert_eq!(written.broken().map(|(number, _)| number), Some(5), "{change}");
    }
}

#[test]
fn whatever_is_removed_added_or_exchanged_shows() {
    let cases = [
        ("delete from audit where number = 1", 1, "entry 1 is gone"),
        ("delete from audit where number = 5", 5, "entry 5 is gone"),
        ("delete from audit where number between 4 and 6", 4, "entry 4 is gone"),
        ("delete from audit where number = 9", 9, "entry 9 is gone"),
        ("delete from audit where number >= 7", 7, "entries 7 to 9 are gone"),
        ("delete from audit", 1, "entries 1 to 9 are gone"),
        // Whoever removes a tail and moves the end has to know what the end was.
        ("delete from audit where number >= 7; update audit_head set number = 6", 6, "another entry 6"),
        ("update audit_head set number = 6", 7, "comes after the end of the trail, which is 6"),
        ("update audit_head set chain = replace(hex(zeroblob(32)), ' ', '')", 9, "another entry 9"),
        ("insert into audit select 10, at, actor, request, action, store, version, details, chain from audit
            where number = 9", 10, "comes after the end"),
        ("update audit set number = 100 where number = 4; update audit set number = 4 where number = 5;
            update audit set number = 5 where number = 100", 4, "not what was written"),
        ("delete from audit where number = 5; update audit set number = number - 1 where number > 5", 5, "not what was written"),
        ("update meta set value = lower(hex(randomblob(16))) where key = 'installation'", 1, "not what was written"),
    ];
    for (sql, at, word) in cases {
        let written = Written::new(9, 5);
        written.forge(sql);
        let broken = written.broken();
        assert!(
            broken.as_ref().is_some_and(|(number, what)| *number == at && what.contains(word)),
            "{sql}: {broken:?}"
        );
        assert_eq!(
            written.trail().verify(None).unwrap().sound,
            (at - 1).min(9).max(if word.contains("another entry") { at } else { 0 })
        );
    }
}

#[test]
fn a_trail_that_was_forged_as_a_whole_is_told_by_what_was_noted_down() {
    let written = Written::new(9, 6);
    let entries = written.entries(&Filter::default());
    let noted: Vec<Place> =
        entries.iter().map(|entry| Place { number: entry.number, chain: entry.chain }).collect();
    for place in &noted {
        assert_eq!(written.trail().verify(Some(*place)).unwrap().broken, None);
    }
    // Somebody who knows the encoding writes all of it anew without entry 5, so that it is sound in itself.
    let installation = written.catalogue.installation().to_owned();
    let forged = Written::new(0, 0);
    forged.forge(&format!(
        "update meta set value = '{installation}' where key = 'installation';
        update audit_head set chain = '{installation}{installation}'"
    ));
    let mut other = Catalogue::open(&forged.path()).unwrap();
    for deed in written.deeds.iter().enumerate().filter(|(at, _)| *at != 4).map(|(_, deed)| deed) {
        other.record(&[Change::Noted(Box::new(deed.clone()))]).unwrap();
    }
    assert_eq!(forged.broken(), None);
    for place in &noted {
        let broken = forged.trail().verify(Some(*place)).unwrap().broken.map(|(number, _)| number);
        let expected = match place.number {
            0..5 => None,
            9 => Some(9),
            number => Some(number),
        };
        assert_eq!(broken, expected, "{place}");
    }
    let elsewhere = Place { number: 0, chain: Link([7; 32]) };
    assert_eq!(written.trail().verify(Some(elsewhere)).unwrap().broken.map(|(number, _)| number), Some(0));
}

#[test]
fn nobody_changes_or_removes_an_entry_by_mistake() {
    let written = Written::new(3, 7);
    let other = Connection::open(written.path()).unwrap();
    for sql in ["delete from audit where number = 2", "update audit set actor = 'x'", "delete from audit"] {
        let error = other.execute(sql, []).unwrap_err();
        assert!(error.to_string().contains("only added to"), "{error}");
    }
    assert_eq!(written.broken(), None);
}

#[test]
fn a_broken_trail_is_gone_on_with_and_stays_broken() {
    let mut written = Written::new(6, 8);
    written.forge("delete from audit where number = 3");
    written.catalogue.record(&[Change::Noted(Box::new(written.deeds[0].clone()))]).unwrap();
    assert_eq!(written.trail().head().unwrap().number, 7);
    assert_eq!(written.broken().map(|(number, _)| number), Some(3));
}

#[test]
fn a_catalogue_that_does_not_say_where_its_trail_ends_is_damaged() {
    for sql in
        ["delete from audit_head", "update audit_head set chain = 'x'", "update audit_head set number = -1"]
    {
        let written = Written::new(2, 9);
        written.forge(sql);
        let error = Catalogue::open(&written.path()).unwrap().load().unwrap_err();
        assert!(error.to_string().contains("audit_head"), "{error}");
        assert_eq!(Problem::from(error).code, Code::Damaged);
    }
}

#[test]
fn an_entry_that_cannot_be_read_is_named() {
    for (sql, word) in [
        ("at = 'yesterday'", "at"),
        ("action = 'explode'", "explode"),
        ("store = '../x'", "store"),
        ("details = '[]'", "details"),
        ("chain = 'short'", "chain"),
        ("version = -1", "version"),
    ] {
        let written = Written::new(4, 10);
        written.forge(&format!("update audit set {sql} where number = 2"));
        let error = written.trail().page(&Filter::default(), None, 10).unwrap_err();
        assert!(matches!(&error, Error::Row { table: "audit", row, .. } if row == "2"), "{sql}: {error}");
        assert!(error.to_string().contains(word), "{sql}: {error}");
    }
}

#[test]
fn what_cannot_be_committed_is_not_in_the_trail_either() {
    let mut written = Written::new(3, 11);
    let mut dice = Dice(12);
    let nowhere: VersionId = "store-0@99".parse().unwrap();
    let changes = [
        Change::Noted(Box::new(common::deed(&mut dice, nowhere.clone()))),
        Change::Published(common::publication(&mut dice, 1, nowhere)),
    ];
    written.catalogue.record(&changes).unwrap_err();
    assert_eq!(written.trail().head().unwrap().number, 3);
    assert_eq!(written.broken(), None);
}
