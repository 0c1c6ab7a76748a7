//! Publishing, pinning and opening from the page, with the mouse and with the keyboard alone.

use serde_json::json;

use crate::common::World;
use crate::page::browser::{Browser, ENTER, TAB};
use crate::page::site::{Site, all_tokens};

/// Goes on with the Tab key until an element has the focus, as somebody without a mouse would.
fn tab_to(browser: &Browser, selector: &str) {
    for _ in 0..40 {
        browser.press(TAB);
        if browser.run(&format!("return document.activeElement.matches({selector:?})")) == true {
            let outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle");
            assert_ne!(outline, "none", "it shows that {selector} has the focus");
            return;
        }
    }
    panic!("the Tab key does not lead to {selector}");
}

#[test]
fn a_store_is_published_by_a_click() {
    let site = Site::start();
    let browser = site.browser("publish");
    browser.click("#publish-report");
    browser.fill("#label", "2026-11-19 close");
    browser.fill("#certified_by", "ann");
    browser.run("document.querySelector('#business_date').value = '2026-11-19'");
    browser.click("#publish button.main");
    browser.wait_until("document.querySelector('#said').textContent === 'report@1: published.'");
    browser.wait_until("document.querySelector('.version .label')?.textContent === '2026-11-19 close'");
    assert_eq!(
        browser.run("return [document.querySelector('#publish').open, document.activeElement.id]"),
        serde_json::json!([false, "publish-report"])
    );
    let version = site.world.get("/versions/report@1").json();
    let publication = &version["publications"][0];
    assert_eq!(publication["certified_by"], "ann", "{version}");
    assert_eq!(publication["business_date"], "2026-11-19");
    assert!(publication["note"].is_null(), "what was left empty was left out");
    let audit = site.world.get("/audit?limit=1").json();
    assert_eq!(audit["entries"][0]["actor"], "token the publisher");

    // The same once more: nothing has changed.
    browser.click("#publish-report");
    browser.click("#publish button.main");
    browser.wait_until("document.querySelector('#said').textContent.startsWith('report@1: published again')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_store_is_published_and_a_version_pinned_by_the_keyboard_alone() {
    let site = Site::start();
    let browser = site.browser("publish");
    browser.press(TAB);
    assert_eq!(browser.run("return document.activeElement.className"), "skip", "the content is a key away");
    tab_to(&browser, "#publish-report");
    browser.press(ENTER);
    assert_eq!(browser.run("return document.activeElement.id"), "label", "the first field has the focus");
    browser.press("by hand");
    browser.press(ENTER);
    browser.wait_until("document.querySelector('.version .label')?.textContent === 'by hand'");
    tab_to(&browser, "[id='pin-report@1']");
    browser.press(" ");
    browser.press("audit");
    browser.press(ENTER);
    browser.wait_until("document.querySelector('.pin')?.textContent === 'pinned: audit'");
    // Escape leaves a form without doing anything.
    tab_to(&browser, "[id='open-report@1']");
    browser.press(ENTER);
    browser.press("\u{e00c}");
    browser.wait_until("!document.querySelector('#open').open");
    assert_eq!(browser.run("return document.activeElement.id"), "open-report@1");
    assert_eq!(site.world.get("/leases").json()["leases"].as_array().unwrap().len(), 0);
}

#[test]
fn a_version_is_pinned_for_a_time_and_unpinned_by_who_may() {
    let site = Site::start();
    site.publish_change("first");
    let browser = site.browser("admin");
    browser.click("[id='pin-report@1']");
    browser.fill("#reason", "audit 2126");
    browser.fill("#owner", "finance");
    browser.run("document.querySelector('#expires_on').value = '2126-12-31'");
    browser.click("#pin button.main");
    browser.wait_until("document.querySelector('.pin')?.textContent === 'pinned: audit 2126, by finance, until 2126-12-31 23:59:59 UTC'");
    browser.click("[id='unpin-report@1']");
    browser.wait_until("document.querySelector('[id=\"pin-report@1\"]') && !document.querySelector('.pin')");
    assert!(site.world.get("/versions/report@1").json()["pin"].is_null());
}

#[test]
fn a_version_is_opened_and_its_path_shown() {
    let site = Site::start();
    site.publish_change("first");
    let browser = site.browser("read");
    browser.click("[id='open-report@1']");
    browser.fill("#holder", "ann");
    browser.click("#open button.main");
    browser.wait_until("document.querySelector('#open .outcome code')");
    let path = browser.text("#open .outcome code");
    let copy =
        rusqlite::Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let rows: u32 = copy.query_row("select count(*) from ledger", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
    browser.click("#open [data-close]");
    browser.wait_until("document.querySelector('#leases').textContent.includes('ann')");
    assert!(browser.text("#leases").contains("token the reader"));
}

#[test]
fn a_refusal_is_shown_in_words_and_leaves_what_was_written() {
    let mut site = Site::start();
    site.world.store_config = "unique_labels = true".to_owned();
    site.world.reload("is in force");
    site.publish_change("close");
    let browser = site.browser("publish");
    browser.click("#publish-report");
    browser.fill("#label", "Close");
    site.world.sqlite().execute("insert into ledger values ('more')", []).unwrap();
    browser.click("#publish button.main");
    browser.wait_until("document.querySelector('#publish .problem').textContent");
    let problem = browser.text("#publish .problem");
    assert!(problem.contains("close") && problem.contains("report@1"), "{problem}");
    assert_eq!(browser.run("return document.querySelector('#label').value"), "Close");
    assert_eq!(site.labels(), ["close"]);
    // The browser itself says which field is missing.
    browser.click("#publish [data-close]");
    browser.click("[id='pin-report@1']");
    browser.click("#pin button.main");
    assert_eq!(browser.run("return document.querySelector('#reason').validity.valueMissing"), true);
    assert!(site.world.get("/versions/report@1").json()["pin"].is_null());
}

#[test]
fn a_daemon_that_goes_away_is_missed_and_found_again() {
    let mut site = Site::start();
    // A daemon that is started again should listen where it did.
    site.world.config = site.world.config.replace("127.0.0.1:0", &site.address.to_string());
    site.publish_change("first");
    let browser = site.browser("publish");
    assert!(site.world.stop().success());
    browser.wait_until("document.querySelector('#live').classList.contains('broken')");
    browser.click("#publish-report");
    browser.click("#publish button.main");
    browser
        .wait_until("document.querySelector('#publish .problem').textContent.includes('cannot be reached')");
    site.world.start();
    // Its sessions went with it.
    browser.wait_for("#token");
}

#[test]
fn a_lease_is_given_back_by_its_holder_and_ended_by_an_administrator_without_a_script() {
    let site = Site::start();
    site.publish_change("first");
    let open = || site.world.get("/leases").json()["leases"].as_array().unwrap().len();
    // One of the reader's own, and one of the user who runs the tests.
    let [reader, admin] = ["read", "admin"].map(|role| site.session(role));
    let own = [
        ("Cookie", reader.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Content-Type", "application/json"),
    ];
    let taken = site
        .call("POST", "/versions/report@1/mounts", &own, "{\"holder\":\"ann\",\"ttl_seconds\":600}")
        .json();
    let others =
        site.world.send("POST", "/versions/report@1/mounts", &json!({ "holder": "night run" })).json();
    let end = |lease: &serde_json::Value| format!("/page/leases/{}/end", lease["lease"].as_str().unwrap());
    let browser = Browser::start();
    browser.chromium("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.go(&site.url("/"));
    browser.fill("#token", "read");
    browser.follow("form button.main");
    let buttons = browser
        .run("return [...document.querySelectorAll('#leases button')].map((button) => button.textContent)");
    assert_eq!(buttons, json!(["Give back the lease of report@1 for ann"]));
    let form = |cookie: &str, site_of: &str, path: &str| {
        site.call("POST", path, &[("Cookie", cookie), ("Sec-Fetch-Site", site_of)], "")
    };
    form(&reader, "cross-site", &end(&taken)).expect_problem(403, "cross_site");
    form(&reader, "same-origin", &end(&others)).expect_problem(403, "forbidden");
    assert_eq!(open(), 2, "neither was ended");
    browser.follow("#leases button");
    assert_eq!(open(), 1);
    assert!(!browser.text("#leases").contains("ann") && browser.text("#leases").contains("night run"));

    let ended = form(&admin, "same-origin", &end(&others));
    assert_eq!((ended.status, ended.header("location")), (303, Some("/#leases")), "{ended}");
    assert_eq!(open(), 0);
    let audit = site.world.get("/audit?action=revoke").json();
    let entry = &audit["entries"][0];
    assert_eq!(
        (entry["actor"].as_str(), entry["details"]["reason"].as_str()),
        (Some("token the adminer"), Some("ended on the status page"))
    );
    let again = form(&admin, "same-origin", &end(&others));
    assert_eq!(again.status, 303, "one that has ended already is no problem: {again}");
}

#[test]
fn a_store_that_cannot_be_published_says_why_beside_its_button() {
    let mut world = World::new();
    world.store_config = "backend = \"lvm-thin\"".to_owned();
    let site = Site::of(world, &all_tokens());
    let browser = site.browser("publish");
    let button = browser.run("const b = document.querySelector('#publish-report'); return [b.disabled, document.getElementById(b.getAttribute('aria-describedby')).textContent]");
    assert_eq!(button[0], true, "{button}");
    assert!(button[1].as_str().unwrap().starts_with("It cannot be published now: "), "{button}");
}
