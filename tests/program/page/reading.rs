//! What the page says, to whom, and how it says it at once.

use serde_json::{Value, json};

use crate::page::browser::Browser;
use crate::page::site::Site;

#[test]
fn a_version_stands_there_with_what_was_said_of_it_and_what_holds_it() {
    let site = Site::start();
    site.publish(&json!({
        "label": "2026-11-19 close", "certified_by": "ops", "business_date": "2026-11-19", "note": "after the\nlate feed",
        "attributes": { "batch": 41 },
    }));
    site.world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit 2026", "owner": "finance" }));
    site.world.send("PUT", "/stores/report/tags/month-end", &json!({ "version": "report@1" }));
    let path = site.world.open("report@1");
    let browser = site.browser("read");
    let version = browser.text(".version");
    let path = format!("open at {}", path.display());
    for said in [
        "report@1",
        "2026-11-19 close",
        "just now",
        "archive",
        "business date 2026-11-19",
        "certified by ops",
        "batch 41",
        "after the\nlate feed",
        "pinned: audit 2026, by finance",
        "tag month-end",
        "1 open lease",
        &path,
    ] {
        assert!(version.contains(said), "{said:?} is not in {version}");
    }
    let verdict = browser.text("#verdict");
    assert!(verdict.starts_with("All is well"), "{verdict}");
    assert!(verdict.contains("The newest version is report@1 2026-11-19 close, cut just now"), "{verdict}");
    assert!(browser.text("#leases").contains("uid 0") || !rustix::process::geteuid().is_root());
    assert!(browser.text("#leases td").contains("report@1") && browser.text("#leases").contains("test"));
    assert!(browser.text("#capacity").contains("used") && browser.text("#capacity .level") == "safe");
    assert!(browser.text("#plots").contains("1 publication in 30 days"));
    assert!(browser.text("#plots").contains("in the newest 1 publication"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_others_have_written_is_text_whatever_it_is() {
    let site = Site::start();
    let label = "<script>document.title='owned'</script> שלום &amp; \"'𝕊🂡</bdi></section>";
    let note = "<img src=x onerror=\"document.title='owned'\"> ${1} {{ 7*7 }}";
    site.publish(&json!({ "label": label, "note": note, "certified_by": "<b>ops</b>", "attributes": { "<i>": "</span>" } }));
    site.world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "<u>why</u>", "owner": label }));
    site.world.send("POST", "/versions/report@1/mounts", &json!({ "holder": label }));
    let browser = site.browser("read");
    let shown = browser.run(
        "return [...document.querySelectorAll('.version .label, .version .note')].map((e) => e.textContent)",
    );
    assert_eq!(shown, json!([label, note]));
    let made = browser.run("return document.querySelectorAll('#main :is(script, img, b, i, u)').length");
    assert_eq!(made, 0);
    assert_eq!(browser.run("return document.title"), "All is well · asat");
    // What runs from right to left does so within its own place.
    assert!(browser.text("#verdict").ends_with(" UTC)."), "{}", browser.text("#verdict"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_another_client_does_is_shown_at_once_and_leaves_the_reader_where_he_is() {
    let site = Site::start();
    site.publish_change("first");
    let browser = site.browser("publish");
    browser.run("window.same = true; document.getElementById('pin-report@1').focus()");
    browser.run("document.querySelector('#table-publications').open = true");
    site.publish_change("second, by another");
    browser.wait_until("document.querySelector('.version .label').textContent === 'second, by another'");
    assert_eq!(browser.run("return [window.same, document.activeElement.id, document.querySelector('#table-publications').open]"),
        json!([true, "pin-report@1", true]), "the page was not loaded anew");
    site.world.send("POST", "/versions/report@2/mounts", &json!({ "holder": "night run" }));
    browser.wait_until("document.querySelector('#leases').textContent.includes('night run')");
    site.world.request("DELETE", "/versions/report@1", &[], b"");
    browser.wait_until("document.querySelectorAll('.version').length === 1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn who_may_not_do_something_is_not_offered_it() {
    let site = Site::start();
    site.publish_change("first");
    site.world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit" }));
    site.publish_change("second");
    let offered = "return [...document.querySelectorAll('#main button:not([type=submit])')].map((button) => button.textContent)";
    for (role, expected) in [
        ("read", json!(["Open report@2", "Open report@1"])),
        ("publish", json!(["Publish report", "Open report@2", "Pin report@2", "Open report@1"])),
        (
            "admin",
            json!(["Publish report", "Open report@2", "Pin report@2", "Open report@1", "Unpin report@1"]),
        ),
    ] {
        let browser = site.browser(role);
        assert_eq!(browser.run(offered), expected, "{role}");
        assert_eq!(browser.run("return !!document.querySelector('#publish')"), role != "read", "{role}");
        assert!(browser.text(".who").ends_with(&format!("({role})")));
    }
}

#[test]
fn without_a_script_everything_can_be_read() {
    let site = Site::start();
    site.publish(&json!({ "label": "2026-11-19 close", "note": "read me" }));
    let browser = Browser::start();
    browser.chromium("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.go(&site.url("/"));
    browser.fill("#token", "admin");
    browser.follow("form button.main");
    let version = browser.text(".version");
    assert!(version.contains("2026-11-19 close") && version.contains("read me"), "{version}");
    assert!(browser.text("#main").contains("Without a script this page can be read"));
    let shown = browser
        .run("return [...document.querySelectorAll('#main button')].filter((b) => b.offsetParent).map((b) => b.textContent)");
    assert_eq!(shown, json!(["Search"]), "no button is shown that would do nothing");
    browser.follow("header nav a[href='/docs']");
    assert!(browser.text("#publish").contains("/snapshots"));
    browser.follow("header .plain");
    browser.wait_for(".sign-in");
}

#[test]
fn of_very_many_leases_and_attributes_only_so_many_are_shown() {
    let site = Site::start();
    let attributes: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("name-{n:02}"), json!(n))).collect();
    site.publish(&json!({ "attributes": attributes }));
    for reader in 0..50 {
        let holder = json!({ "holder": format!("reader {reader}") });
        site.world.send("POST", "/versions/report@1/mounts", &holder);
    }
    let browser = site.browser("read");
    assert_eq!(browser.run("return document.querySelectorAll('#leases tbody tr').length"), 20);
    let leases = browser.text("#leases");
    assert!(leases.contains("reader 49") && !leases.contains("reader 29"), "{leases}");
    assert!(leases.contains("And 30 that were taken before"), "{leases}");
    let version = browser.text(".version");
    assert!(version.contains("name-07") && !version.contains("name-08"), "{version}");
    assert!(version.contains("attributes 12 more"), "{version}");
}

#[test]
fn a_long_history_is_paged_from_the_newest_to_the_oldest_and_its_first_page_is_small() {
    let site = Site::start();
    for number in 1..=130 {
        site.publish(&json!({ "label": format!("close number {number}"), "certified_by": "ops", "business_date": "2026-11-19" }));
    }
    let browser = site.browser("admin");
    // Everything anew, as on the first visit.
    browser.chromium("Network.clearBrowserCache", &json!({}));
    browser.go(&site.url("/"));
    let bytes = browser.run(
        "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
            .filter((entry) => entry.initiatorType !== 'fetch').map((entry) => [entry.name, entry.transferSize])",
    );
    let parts = bytes.as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part[1].as_u64().unwrap()).sum();
    assert!(parts.len() >= 3 && parts.iter().all(|part| part[1].as_u64().unwrap() > 0), "{bytes}");
    println!("first paint: {sum} bytes");
    assert!(sum <= 150_000, "{sum} bytes are sent before the first paint: {bytes}");

    let ids = "return [...document.querySelectorAll('.version .id')].map((id) => id.textContent)";
    let mut seen = Vec::new();
    for page in 0..3 {
        let found = browser.run(ids);
        seen.extend(found.as_array().unwrap().clone());
        assert_eq!(browser.text("#versions").contains("Back to the newest versions"), page > 0);
        browser.follow(".more");
    }
    let expected: Vec<String> = (41..=130).rev().map(|number| format!("report@{number}")).collect();
    assert_eq!(json!(seen), json!(expected));
}
