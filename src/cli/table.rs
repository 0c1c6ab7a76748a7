//! Tables: lists of versions and stores for people.

use asat_core::guard::Span;
use comfy_table::{Table, presets};
use jiff::Timestamp;

use super::diff::remarks;
use super::status::in_bucket;
use crate::text::{absolute, clean, relative, short, size};
use asat_wire::{
    ArchivedVersion, AuditEntry, CapacityTarget, Lease, Publication, RetentionVerdict, Store, TableDiff, Tag,
    Version,
};

/// The longest text of others in a column; `show` and `--json` have all of it.
const WIDTH: usize = 40;

/// A list of versions, each with the publication that it is known by.
pub(super) fn versions(versions: &[Version], now: Timestamp) -> String {
    let rows = versions.iter().map(|version| {
        let known_by = version.known_by();
        let said = |of: fn(&Publication) -> Option<&String>| {
            known_by.and_then(of).map_or_else(String::new, |text| short(text, WIDTH))
        };
        [
            clean(&version.id),
            version.cut_at.map_or_else(String::new, |at| relative(at, now)),
            said(|publication| publication.business_date.as_ref()),
            said(|publication| publication.label.as_ref()),
            said(|publication| publication.certified_by.as_ref()),
            version.size_bytes.map_or_else(String::new, size),
            size(kept(version)),
            marks(version, now),
        ]
    });
    table(["VERSION", "CUT", "BUSINESS DAY", "LABEL", "CERTIFIED BY", "SIZE", "KEPT", "MARKS"], rows)
}

/// A list of stores.
pub(super) fn stores(stores: &[Store], now: Timestamp) -> String {
    let rows = stores.iter().map(|store| {
        let path = clean(&store.path);
        [
            clean(&store.name),
            store.versions.to_string(),
            store.newest.as_deref().map_or_else(String::new, clean),
            store.newest_cut_at.map_or_else(String::new, |at| relative(at, now)),
            size(store.archive_bytes),
            clean(&store.backend),
            if store.configured { path } else { format!("{path} (no longer configured)") },
        ]
    });
    table(["STORE", "VERSIONS", "NEWEST", "CUT", "KEPT", "BACKEND", "PATH"], rows)
}

/// How each store stands.
pub(super) fn standing(stores: &[Store], now: Timestamp) -> String {
    let rows = stores.iter().map(|store| {
        [
            standing_name(store),
            store.newest.as_deref().map_or_else(|| "never published".to_owned(), clean),
            store.newest_cut_at.map_or_else(String::new, |at| relative(at, now)),
            store.versions.to_string(),
            size(store.archive_bytes),
            in_bucket(store, now),
        ]
    });
    table(["STORE", "NEWEST", "CUT", "VERSIONS", "KEPT", "BUCKET"], rows)
}

/// A store's name, with what must be known of a store whose versions are all that is left.
fn standing_name(store: &Store) -> String {
    let mark = if store.configured { "" } else { " (not configured)" };
    format!("{}{mark}", clean(&store.name))
}

/// The tables that differ between two versions.
pub(super) fn diffs(tables: &[TableDiff]) -> String {
    let rows = tables.iter().map(|table| {
        let [inserted, deleted, updated] =
            [table.inserted, table.deleted, table.updated].map(|count| count.to_string());
        [clean(&table.table), inserted, deleted, updated, remarks(table)]
    });
    table(["TABLE", "INSERTED", "DELETED", "UPDATED", ""], rows)
}

/// A list of tags.
pub(super) fn tags(tags: &[Tag], now: Timestamp) -> String {
    let rows = tags.iter().map(|tag| {
        let name = format!("{}@{}", clean(&tag.store), clean(&tag.name));
        [name, clean(&tag.version), relative(tag.set_at, now)]
    });
    table(["TAG", "VERSION", "SET"], rows)
}

/// What versions take in the archive.
pub(super) fn archived(versions: &[ArchivedVersion]) -> String {
    let rows =
        versions.iter().map(|version| [clean(&version.id), size(version.bytes), size(version.only_bytes)]);
    table(["VERSION", "KEPT", "ONLY FOR IT"], rows)
}

/// What retention makes of versions.
pub(super) fn verdicts(verdicts: &[&RetentionVerdict]) -> String {
    let rows = verdicts.iter().map(|verdict| {
        let (word, back) =
            if verdict.keep { ("stays", String::new()) } else { ("retired", size(verdict.frees_bytes)) };
        [clean(&verdict.id), word.to_owned(), back, clean(&verdict.why)]
    });
    table(["VERSION", "VERDICT", "GIVES BACK", "WHY"], rows)
}

/// A list of what can run out of space.
pub(super) fn targets(targets: &[CapacityTarget]) -> String {
    let rows = targets.iter().map(|target| {
        [
            clean(&format!("{} {}", target.kind, target.name)),
            clean(&target.level),
            size(target.used_bytes),
            size(target.size_bytes),
            size(target.worst_bytes),
            format!("{}/s", size(target.rate_bytes_per_second)),
            target.full_in_ms.map_or_else(|| "never".to_owned(), |ms| Span(ms).to_string()),
        ]
    });
    table(["TARGET", "LEVEL", "USED", "OF", "AT WORST", "RATE", "FULL IN"], rows)
}

/// The details that people look for, which come first.
const FIRST: [&str; 5] = ["reason", "label", "outcome", "holder", "certified_by"];

/// What was done, and by whom. On a terminal, long details are cut.
pub(super) fn deeds(entries: &[AuditEntry], is_terminal: bool) -> String {
    let rows = entries.iter().map(|entry| {
        let rank = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
        let mut details: Vec<(&String, &String)> = entry.details.iter().collect();
        details.sort_by_key(|(name, _)| (rank(name), *name));
        let details: Vec<String> =
            details.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        [
            entry.number.to_string(),
            absolute(entry.at),
            short(&entry.actor, WIDTH),
            clean(&entry.action),
            clean(&entry.version),
            short(&details.join(", "), if is_terminal { 2 * WIDTH } else { usize::MAX }),
        ]
    });
    table(["NUMBER", "AT", "WHO", "WHAT", "VERSION", "DETAILS"], rows)
}

/// Who holds which version.
pub(super) fn leases(leases: &[Lease], now: Timestamp) -> String {
    let rows = leases.iter().map(|lease| {
        [
            clean(&lease.lease),
            clean(&lease.version),
            short(&lease.holder, WIDTH),
            lease.actor.as_deref().map_or_else(String::new, |actor| short(actor, WIDTH)),
            relative(lease.granted_at, now),
            relative(lease.expires_at, now),
            lease.path.as_deref().map_or_else(String::new, clean),
        ]
    });
    table(["LEASE", "VERSION", "HOLDER", "TAKEN BY", "SINCE", "ENDS", "PATH"], rows)
}

/// Bytes that a version takes in the archive.
pub(super) fn kept(version: &Version) -> u64 {
    let archived = version.holdings.iter().filter(|holding| holding.kind == "archive");
    archived.fold(0, |sum, holding| sum.saturating_add(holding.bytes))
}

/// What is worth knowing about a version at a glance.
fn marks(version: &Version, now: Timestamp) -> String {
    let mut marks = Vec::new();
    if version.state != "ready" {
        let until = version.purge_after.map(|at| format!(" (until {} it can be brought back)", absolute(at)));
        marks.push(format!("{}{}", clean(&version.state), until.unwrap_or_default()));
    }
    if version.publication_count > 1 {
        marks.push(format!("{} publications", version.publication_count));
    }
    if version.holdings.iter().any(|holding| holding.kind == "snapshot") {
        marks.push("hot".to_owned());
    }
    if let Some(pin) = &version.pin {
        let over = pin.expires_at.is_some_and(|end| end <= now);
        marks.push(if over { "pin expired" } else { "pinned" }.to_owned());
    }
    if !version.tags.is_empty() {
        marks.push(short(&format!("tagged {}", version.tags.join(" ")), WIDTH));
    }
    match version.leases {
        0 => {}
        1 => marks.push("leased".to_owned()),
        several => marks.push(format!("leased ×{several}")),
    }
    marks.join(", ")
}

fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(json: &str) -> Version {
        let mut whole = serde_json::json!({
            "id": "report@12", "store": "report", "number": 12, "state": "ready",
            "cut_at": "2026-11-19T17:00:03.123456Z", "fingerprint": null, "size_bytes": 48_672_768,
            "page_size": 4096, "holdings": [{"kind": "archive", "bytes": 812_344}], "publications": [], "publication_count": 0,
            "pin": null, "leases": 0, "path": null, "ended_at": null, "end_reason": null,
        });
        let patch: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).unwrap();
        whole.as_object_mut().unwrap().extend(patch);
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn versions_in_a_table() {
        let now = "2026-11-19T20:10:00Z".parse().unwrap();
        let at = "2026-11-19T17:00:00Z";
        let list = [
            version(&format!(
                r#"{{"pin": {{"reason": "audit", "owner": null, "expires_at": null, "hot": false}}, "leases": 2,
                    "tags": ["month-end"],
                    "publications": [
                        {{"at": "{at}", "label": "first", "certified_by": null, "business_date": null, "note": null}},
                        {{"at": "{at}", "label": "größer 🎉", "certified_by": "ops", "business_date": "2026-11-19", "note": null}},
                        {{"at": "{at}", "label": "before restore to report@9", "certified_by": null, "business_date": null, "note": null}}
                    ], "publication_count": 3, "known_by": 1}}"#
            )),
            version(&format!(
                r#"{{"id": "report@11", "state": "lost", "holdings": [], "publications": [
                        {{"at": "{at}", "label": "\u001b[2J{}", "certified_by": null, "business_date": null, "note": null}}
                    ], "known_by": 0}}"#,
                "x".repeat(60)
            )),
            version(r#"{"id": "report@10", "state": "cutting", "cut_at": null, "size_bytes": null}"#),
        ];
        let expected = "\
VERSION    CUT          BUSINESS DAY  LABEL                                     CERTIFIED BY  SIZE      KEPT       MARKS
report@12  3 hours ago  2026-11-19    größer 🎉                                 ops           46.4 MiB  793.3 KiB  3 publications, pinned, tagged month-end, leased ×2
report@11  3 hours ago                \\u{1b}[2Jxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…                46.4 MiB  0 B        lost
report@10                                                                                               793.3 KiB  cutting";
        assert_eq!(versions(&list, now), expected);
    }

    #[test]
    fn deeds_and_leases_in_a_table() {
        let entry: AuditEntry = serde_json::from_value(serde_json::json!({
            "number": 37, "at": "2026-11-19T17:00:03.123456Z", "actor": "uid 1000 (ann)\u{1b}", "request": null,
            "action": "retire", "store": "report", "version": "report@12", "details": {"holder": "bob", "extra": "x", "reason": "no\nuse"},
            "chain": "00",
        }))
        .unwrap();
        let expected = "\
NUMBER  AT                       WHO                   WHAT    VERSION    DETAILS
37      2026-11-19 17:00:03 UTC  uid 1000 (ann)\\u{1b}  retire  report@12  reason: no\\nuse, holder: bob, extra: x";
        assert_eq!(deeds(&[entry], true), expected);
        let lease: Lease = serde_json::from_value(serde_json::json!({
            "lease": "0193", "version": "report@12", "holder": "ann", "actor": null, "path": "/copies/report.db",
            "granted_at": "2026-11-19T17:00:00Z", "expires_at": "2026-11-19T18:00:00Z",
        }))
        .unwrap();
        let expected = "\
LEASE  VERSION    HOLDER  TAKEN BY  SINCE           ENDS           PATH
0193   report@12  ann               30 minutes ago  in 30 minutes  /copies/report.db";
        assert_eq!(leases(&[lease], "2026-11-19T17:30:00Z".parse().unwrap()), expected);
    }

    #[test]
    fn stores_in_a_table() {
        let now = "2026-11-19T17:10:00Z".parse().unwrap();
        let store = |name: &str, configured, newest: Option<&str>| Store {
            name: name.to_owned(),
            path: format!("/srv/{name}.db"),
            backend: "pages".to_owned(),
            configured,
            versions: 12,
            newest: newest.map(str::to_owned),
            newest_cut_at: newest.map(|_| "2026-11-19T17:00:03Z".parse().unwrap()),
            archive_bytes: 48_672_768,
            expected: None,
            failed: None,
            watch: None,
            remote: None,
            followed: None,
        };
        let list = [store("report", true, Some("report@12")), store("old", false, None)];
        let expected = "\
STORE   VERSIONS  NEWEST     CUT            KEPT      BACKEND  PATH
report  12        report@12  9 minutes ago  46.4 MiB  pages    /srv/report.db
old     12                                  46.4 MiB  pages    /srv/old.db (no longer configured)";
        assert_eq!(stores(&list, now), expected);
    }
}
