//! What a version changed, on the home page and on a page of its own.

use serde_json::json;

use crate::page::site::Site;

#[test]
fn a_version_has_a_page_that_says_what_it_changed_and_how_to_go_on() {
    let site = Site::start();
    site.publish(&json!({ "label": "October", "certified_by": "anna", "business_date": "2026-10-31" }));
    let mut events = site.world.listen();
    site.world.sqlite().execute_batch("create table \"<b>odd</b>\"(id integer primary key, x); insert into \"<b>odd</b>\" values (1, '<i>')").unwrap();
    site.publish(&json!({ "label": "<script>", "note": "second" }));
    events.until(|name, data| name == "diff" && data["to"] == "report@2");
    let browser = site.browser("read");
    browser.wait_until("document.querySelector('.changed-line') !== null");
    let line = browser.text(".changed-line");
    assert!(line.contains("ledger +1") && line.contains("<b>odd</b> created +1"), "{line}");
    browser.run("document.querySelector('.version .id').click()");
    browser.wait_until(
        "location.pathname === '/page/versions/report@2' && document.querySelector('#changes') !== null",
    );
    let changes = browser.text("#changes");
    for said in [
        "What changed since report@1",
        "1 inserted, 0 deleted, 0 updated",
        "<b>odd</b>",
        "id=1 x='<i>'",
        "created",
    ] {
        assert!(changes.contains(said), "{said:?} is not in {changes}");
    }
    assert_eq!(browser.run("return document.querySelectorAll('#main :is(script, img, b, i, u)').length"), 0);
    assert!(browser.text(".tools").contains("asat diff report@1 report@2 --rows"));
    assert!(browser.text("#plots").contains("Changes of ledger"));
    // It leads to what is the same for programs, and to the version before.
    let page = "/v1/versions/report@1/diff/report@2?format=html";
    assert!(
        browser
            .run("return [...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))")
            .to_string()
            .contains(page)
    );
    browser.run("document.querySelector('.near a').click()");
    browser.wait_until(
        "location.pathname === '/page/versions/report@1' && document.querySelector('#changes') !== null",
    );
    assert!(browser.text("#changes").contains("It is the first version that is kept."));
    assert!(browser.text("#main").contains("certified by anna"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
