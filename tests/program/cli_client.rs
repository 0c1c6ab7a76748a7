//! The commands of the real binary against a daemon that answers from a script.

mod capacity;
mod fake;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use asat_archive::Fingerprinter;
use asat_core::PageSize;
use fake::{Fake, Ran, answer, asat, json, problem, version};
use serde_json::{Value, json};

fn published(reused: bool) -> String {
    let version = version(12);
    let publication = version["publications"][0].clone();
    let body = json!({
        "version": version, "publication": publication, "reused": reused,
        "writer_blocked_ms": 0.41, "hold": "read", "snapshot_ms": 0.0, "elapsed_ms": 31.2,
    });
    json(if reused { 200 } else { 201 }, &body)
}

fn mount() -> Value {
    json!({
        "lease": "0193", "version": "report@12", "path": "/copies/report.db",
        "uri": "file:/copies/report.db?mode=ro", "holder": "anna@desk", "expires_at": "2026-11-19T18:00:00.000000Z",
    })
}

#[test]
fn publish_sends_what_was_said_under_a_key() {
    let fake = Fake::new([published(false), published(true)]);
    let ran = fake.run(&[
        "publish",
        "report",
        "--label",
        "größer",
        "--certified-by",
        "ops",
        "--business-date",
        "2026-11-19",
        "--note",
        "n",
        "--key",
        "k1",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.starts_with("report@12 published, cut 2026-11-19 17:00:03 UTC: 5 B in 31.2 ms"),
        "{ran:?}"
    );
    let asked = fake.asked_once();
    assert_eq!((asked.line.as_str(), asked.header("idempotency-key")), ("POST /v1/snapshots", Some("k1")));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("host"), Some("localhost"));
    let said = json!({
        "store": "report", "label": "größer", "certified_by": "ops", "business_date": "2026-11-19", "note": "n",
    });
    assert_eq!(asked.json(), said);

    let again = fake.run(&["--json", "publish"]);
    assert_eq!(again.json()["reused"], true);
    let asked = &fake.asked()[1];
    assert_eq!(asked.json(), json!({}));
    assert!(asked.header("idempotency-key").is_some_and(|key| key.len() == 36), "{asked:?}");
}

#[test]
fn a_dropped_publication_is_sent_once_more_with_the_same_key() {
    let fake = Fake::new([String::new(), published(false)]);
    assert_eq!(fake.run(&["publish"]).code, Some(0));
    let asked = fake.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].header("idempotency-key"), asked[1].header("idempotency-key"));

    // An answer that breaks off in the middle is none.
    let half = published(false).split_at(150).0.to_owned();
    let fake = Fake::new([half, String::new(), published(false)]);
    let ran = fake.run(&["publish", "--key", "k2"]);
    assert_eq!((ran.code, fake.asked().len()), (Some(10), 2), "{ran:?}");
    assert!(ran.err.contains("--key k2"), "{ran:?}");

    // What carries no key is not repeated.
    let fake = Fake::new([String::new(), String::new()]);
    let ran = fake.run(&["retire", "report@12", "--yes"]);
    assert_eq!((ran.code, fake.asked().len()), (Some(10), 1), "{ran:?}");
}

#[test]
fn versions_follows_the_cursors() {
    let page = |numbers: &[u64], next: Option<&str>| {
        let versions: Vec<Value> = numbers.iter().map(|&number| version(number)).collect();
        json(200, &json!({ "versions": versions, "next_cursor": next }))
    };
    let fake = Fake::new([page(&[12, 11], Some("c=1")), page(&[10], None)]);
    let ran = fake.run(&[
        "ls",
        "report",
        "--label",
        "a b&c",
        "--from",
        "2026-11-19",
        "--to",
        "2026-11-19 17:00",
        "--state",
        "ready,lost",
        "--all",
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let first: Vec<&str> = ran.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["VERSION", "report@12", "report@11", "report@10"]);
    assert!(!ran.out.contains('\u{1b}') && ran.err.is_empty(), "{ran:?}");
    let filter = "GET /v1/versions?store=report&label=a%20b%26c&from=2026-11-19T00:00:00Z&to=2026-11-19T17:00:00Z\
                  &state=ready%2Clost&limit=100";
    let lines: Vec<String> = fake.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines, [filter.to_owned(), format!("{filter}&cursor=c%3D1")]);

    let fake = Fake::new([page(&[12, 11], Some("c1"))]);
    let ran = fake.run(&["ls", "--limit", "2"]);
    assert_eq!((ran.code, fake.asked_once().line.as_str()), (Some(0), "GET /v1/versions?limit=2"));
    assert!(ran.err.contains("--all"), "{ran:?}");

    let fake = Fake::new([page(&[12], Some("c1")), page(&[11], Some("c1"))]);
    let ran = fake.run(&["ls", "--all", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "a cursor that does not move ends the list");

    let fake = Fake::new([page(&[], None)]);
    assert_eq!(fake.run(&["ls", "--json"]).json(), json!({ "versions": [], "next_cursor": null }));
    for (args, said) in [
        (&["ls"][..], "there are no versions yet"),
        (&["ls", "report"], "store report has no versions yet"),
        (&["ls", "report", "--label", "a"], "no version matches"),
    ] {
        let fake = Fake::new([page(&[], None), page(&[], None)]);
        let ran = fake.run(args);
        assert!(ran.code == Some(0) && ran.err.contains(said), "{ran:?}");
    }
}

#[test]
fn one_version() {
    let fake = Fake::new((0..4).map(|_| json(200, &version(12))));
    let shown = fake.run(&["show", "report@latest"]);
    assert!(shown.out.starts_with("report@12\n  state        ready\n"), "{shown:?}");
    let as_of = fake.run(&["as-of", "2026-11-19 17:00", "report"]);
    assert!(as_of.out.starts_with("As of 2026-11-19 17:00:00 UTC:\nreport@12\n"), "{as_of:?}");
    assert_eq!(fake.run(&["as-of", "2026-11-19", "--json"]).json(), version(12));
    let day = fake.run(&["as-of", "--business-date", "2026-10-31"]);
    assert!(day.out.starts_with("As of business day 2026-10-31:\nreport@12\n"), "{day:?}");
    let lines: Vec<String> = fake.asked().into_iter().map(|asked| asked.line).collect();
    let expected = [
        "GET /v1/versions/report@latest",
        "GET /v1/version?store=report&as_of=2026-11-19T17:00:00Z",
        "GET /v1/version?as_of=2026-11-19T23:59:59.999999Z",
        "GET /v1/version?business_date=2026-10-31",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn leases() {
    let fake = Fake::new([json(201, &mount()), json(201, &mount()), json(200, &mount()), answer(204, "")]);
    let opened = fake.run(&["open", "report@latest", "--ttl", "90m"]);
    assert_eq!((opened.out.as_str(), opened.err.as_str()), ("/copies/report.db\n", ""), "{opened:?}");
    assert_eq!(fake.run(&["open", "report@12", "--holder", "me", "--json"]).json(), mount());
    assert_eq!(fake.run(&["renew", "report@12", "a/b", "--ttl", "2h"]).code, Some(0));
    assert_eq!(fake.run(&["close", "report@12", "0193"]).out, "report@12 closed\n");

    let asked = fake.asked();
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    let expected = [
        "POST /v1/versions/report@latest/mounts",
        "POST /v1/versions/report@12/mounts",
        "PUT /v1/versions/report@12/mounts/a%2Fb",
        "DELETE /v1/versions/report@12/mounts/0193",
    ];
    assert_eq!(lines, expected);
    assert_eq!(asked[0].json()["ttl_seconds"], 5400);
    assert!(asked[0].json()["holder"].as_str().unwrap().starts_with("anna@"));
    assert_eq!(asked[1].json(), json!({ "holder": "me", "ttl_seconds": 3600 }));
    assert_eq!(asked[2].json(), json!({ "ttl_seconds": 7200 }));
}

#[test]
fn pins_and_retirement() {
    let mut pinned = version(12);
    pinned["pin"] = json!({ "reason": "audit", "owner": "anna", "expires_at": null, "hot": false });
    let mut retiring = version(12);
    retiring["state"] = "retiring".into();
    let fake = Fake::new([
        json(200, &pinned),
        json(200, &pinned),
        json(200, &version(12)),
        json(200, &retiring),
        problem(409, "pinned"),
    ]);
    let args = ["pin", "report@12", "--reason", "audit", "--owner", "anna", "--until", "2026-12-31"];
    assert_eq!(fake.run(&args).out, "report@12 pinned: audit, by anna\n");
    assert_eq!(fake.run(&["unpin", "report@12"]).out, "report@12 is no longer pinned\n");
    assert!(fake.run(&["retire", "report@12", "--yes"]).out.contains("given up"));
    assert_eq!(fake.run(&["retire", "report@12", "--yes"]).code, Some(5));

    let asked = fake.asked();
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    let (pin, version) = ("/v1/versions/report@12/pin", "DELETE /v1/versions/report@12");
    let shown = "GET /v1/versions/report@12";
    assert_eq!(lines, [&format!("PUT {pin}"), shown, &format!("DELETE {pin}"), version, version]);
    let until = "2026-12-31T23:59:59.999999Z";
    assert_eq!(
        asked[0].json(),
        json!({ "reason": "audit", "owner": "anna", "expires_at": until, "hot": false })
    );
}

#[test]
fn stores_and_verification() {
    let stores = json!({ "stores": [{
        "name": "report", "path": "/srv/report.db", "backend": "pages", "configured": true, "versions": 12,
        "newest": "report@12", "newest_cut_at": "2026-11-19T17:00:03.000000Z", "archive_bytes": 1024,
    }] });
    let whole = json!({ "ok": true, "versions": 12, "bytes": 5, "findings": [] });
    let damaged = json!({ "ok": false, "versions": 12, "bytes": 5, "findings": [
        { "file": "000000000003.segment", "what": "its checksum does not match", "versions": ["report@3"], "hint": "h" },
    ] });
    let fake = Fake::new([
        json(200, &stores),
        json(200, &stores),
        json(200, &whole),
        json(200, &damaged),
        json(200, &damaged),
        json(200, &version(12)),
        json(200, &whole),
    ]);
    let listed = fake.run(&["stores"]);
    assert!(listed.out.contains("report  12        report@12"), "{listed:?}");
    assert_eq!(fake.run(&["verify"]).code, Some(0));
    let found = fake.run(&["verify", "report"]);
    assert_eq!((found.code, found.err.as_str()), (Some(9), ""), "{found:?}");
    assert!(found.out.contains("000000000003.segment: its checksum does not match"), "{found:?}");
    let found = fake.run(&["verify", "report", "--version", "3", "--json"]);
    assert_eq!((found.code, found.json()["store"].as_str()), (Some(9), Some("report")));
    assert_eq!(fake.run(&["verify", "--version", "report@latest"]).code, Some(0));

    let lines: Vec<String> = fake.asked().into_iter().map(|asked| asked.line).collect();
    let expected = [
        "GET /v1/stores",
        "GET /v1/stores",
        "POST /v1/stores/report/verify",
        "POST /v1/stores/report/verify",
        "POST /v1/stores/report/verify?version=3",
        "GET /v1/versions/report@latest",
        "POST /v1/stores/report/verify?version=12",
    ];
    assert_eq!(lines, expected);
    assert_eq!(fake.run(&["verify", "--version", "3"]).code, Some(3));
    assert_eq!(fake.run(&["verify", "other", "--version", "report@3"]).code, Some(3));
}

/// A version whose content is this text, in pages of 512 bytes.
fn holding(text: &str) -> String {
    let mut pages = Fingerprinter::new(PageSize::new(512).unwrap(), u32::try_from(text.len() / 512).unwrap());
    text.as_bytes().chunks(512).for_each(|page| _ = pages.page(page));
    let mut version = version(12);
    version["size_bytes"] = text.len().into();
    version["page_size"] = 512.into();
    version["fingerprint"] = pages.finish().to_string().into();
    json(200, &version)
}

#[test]
fn export_writes_a_whole_file_or_none() {
    let (old, new) = ("o".repeat(1024), "n".repeat(1024));
    let cut_off = format!("HTTP/1.1 200 X\r\ncontent-length: 1024\r\n\r\n{}", "n".repeat(700));
    // Before a file is replaced it is asked of which stores there are files.
    let stores = || json(200, &json!({ "stores": [] }));
    let good = [holding(&old), answer(200, &old), stores(), holding(&new), answer(200, &new)];
    let bad = [answer(200, &new[1..]), answer(200, &old), cut_off, problem(410, "retired")];
    let bad = bad.into_iter().flat_map(|body| [stores(), holding(&new), body]);
    let fake = Fake::new(good.into_iter().chain(bad));
    let target = fake.path("copy.db");
    let export = |extra: &[&str]| -> Ran {
        let mut args = vec!["export", "report@latest", "--to", target.to_str().unwrap()];
        args.extend(extra);
        fake.run(&args)
    };
    let ran = export(&[]);
    assert_eq!((ran.code, std::fs::read_to_string(&target).unwrap()), (Some(0), old), "{ran:?}");
    assert_eq!(fake.asked()[1].line, "GET /v1/versions/report@12/database");
    assert_eq!((export(&[]).code, fake.asked().len()), (Some(3), 2), "an existing file is kept");
    assert_eq!(export(&["--force", "--json"]).json()["bytes"], 1024);
    for (code, why) in [(9, "a byte too few"), (9, "other content"), (10, "broken off"), (12, "refused")] {
        assert_eq!(export(&["--force"]).code, Some(code), "{why}");
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), new, "what failed replaced nothing");
    let left: Vec<_> = std::fs::read_dir(fake.folder()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let ran = fake.run(&["export", "report@12", "--to", "/dev/null", "--force"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn events_are_lines() {
    let stream = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\nevent: version\n\
                  data: {\"id\":\"report@12\",\"label\":\"\u{9b}\"}\n\n";
    let fake = Fake::new([stream.to_owned(), stream.to_owned()]);
    let ran = fake.run(&["events", "--json"]);
    assert_eq!(ran.json(), json!({ "event": "version", "data": { "id": "report@12", "label": "\u{9b}" } }));
    assert!(!ran.out.contains('\u{9b}'));
    assert_eq!(ran.code, Some(10), "a stream that ends is a daemon that went away");
    let ran = fake.run(&["events"]);
    assert!(ran.out.starts_with("version      id=report@12 label="), "{ran:?}");
}

#[test]
fn problems_set_the_exit_code_and_say_what_to_do() {
    let fake = Fake::new([problem(404, "unknown_version"), problem(404, "unknown_version")]);
    let ran = fake.run(&["show", "report@99"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(4), "asat: what happened\nhint: what to do\n"));
    let ran = fake.run(&["show", "report@99", "--json"]);
    let body: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(body, json!({ "code": "unknown_version", "detail": "what happened", "hint": "what to do" }));
    assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""));
}

#[test]
fn answers_of_somebody_else() {
    for (garbage, code, says) in [
        (answer(200, "<html>"), 10, "not JSON"),
        (answer(200, ""), 10, "not JSON"),
        (answer(200, "{}"), 1, "does not understand"),
        (answer(502, "<html>"), 1, "502"),
        ("SSH-2.0-OpenSSH\r\n".to_owned(), 10, "does not speak HTTP"),
        ("HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{".to_owned(), 10, "broke off"),
        (String::new(), 10, "broke off"),
    ] {
        let fake = Fake::new([garbage.clone()]);
        let ran = fake.run(&["stores"]);
        assert_eq!(ran.code, Some(code), "{garbage:?} {ran:?}");
        assert!(ran.err.contains(says) && ran.err.contains("hint: "), "{garbage:?} {ran:?}");
    }
}

#[test]
fn daemons_that_cannot_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone.sock");
    drop(std::os::unix::net::UnixListener::bind(&gone).unwrap());
    let missing = folder.path().join("missing.sock");
    for address in [
        format!("unix:{}", gone.display()),
        format!("unix:{}", missing.display()),
        "http://127.0.0.1:1".into(),
    ] {
        let ran = Ran::new(asat().args(["stores", "--server", &address]).output().unwrap());
        assert_eq!(ran.code, Some(10), "{ran:?}");
        assert!(
            ran.err.contains(&address) && ran.err.contains("start it with systemctl start asat"),
            "{ran:?}"
        );
    }

    let silent = std::os::unix::net::UnixListener::bind(folder.path().join("silent.sock")).unwrap();
    let address = format!("unix:{}", folder.path().join("silent.sock").display());
    let ran = Ran::new(asat().args(["stores", "--server", &address, "--timeout", "1s"]).output().unwrap());
    assert!(ran.code == Some(10) && ran.err.contains("within 1 s"), "{ran:?}");
    drop(silent);
}

#[test]
fn a_token_comes_from_a_file() {
    let fake = Fake::new([json(200, &json!({ "stores": [] }))]);
    let token = fake.path("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let set = |mode| std::fs::set_permissions(&token, PermissionsExt::from_mode(mode)).unwrap();
    for mode in [0o644, 0o660, 0o606] {
        set(mode);
        let ran = fake.run(&["stores", "--token-file", token.to_str().unwrap()]);
        assert!(ran.code == Some(78) && ran.err.contains("run: chmod g-w,o-rwx"), "{ran:?}");
    }
    assert_eq!(fake.asked().len(), 0, "nobody was told of it");
    set(0o640);
    let ran = fake.run(&["stores", "--token-file", token.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fake.asked_once().header("authorization"), Some("Bearer s3cret"));
    let ran = fake.run(&["stores", "--token-file", "/nowhere/token"]);
    assert_eq!((ran.code, fake.asked().len()), (Some(78), 1), "{ran:?}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let versions: Vec<Value> = (1..=100).rev().map(version).collect();
    let fake = Fake::new([json(200, &json!({ "versions": versions, "next_cursor": null }))]);
    let mut command = asat();
    command.args(["ls", "--server", &fake.address()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));

    let mut child = asat().arg("--help").stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(child.wait().unwrap().success() && first.contains("SQLite"), "{first}");

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = Ran::new(asat().args(["completions", "bash"]).stdout(full).output().unwrap());
    assert!(ran.code == Some(1) && ran.err.contains("standard output"), "{ran:?}");
}

#[test]
fn what_needs_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("new/man");
    let ran = Ran::new(asat().args(["man", "--dir", pages.to_str().unwrap()]).output().unwrap());
    assert!(ran.code == Some(0) && pages.join("asat-publish.1").exists(), "{ran:?}");
    let ran = Ran::new(asat().args(["completions", "zsh"]).output().unwrap());
    assert!(ran.out.contains("#compdef asat"));
    let ran = Ran::new(asat().arg("--help").output().unwrap());
    assert!(ran.code == Some(0) && ran.out.contains("Exit codes:\n    0  done"), "{ran:?}");
    let ran = Ran::new(asat().args(["stores", "--server", "https://localhost:1"]).output().unwrap());
    assert!(ran.code == Some(2) && ran.err.contains("TLS"), "{ran:?}");
}
