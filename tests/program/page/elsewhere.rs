//! Pages of other sites, which a browser that is signed in shows as well: they can do nothing here.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};

use serde_json::json;

use crate::page::site::Site;

/// Another server on this machine, with one page for whoever asks.
fn other_server(page: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A browser also opens connections that it may need, and says nothing on them.
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                if lines.any(|line| line.is_empty()) {
                    let _ = (&stream).write_all(answer.as_bytes());
                }
            });
        }
    });
    address
}

/// Tries whatever a page can try, and says what came of it.
const ATTACK: &str = r#"<!doctype html><title>elsewhere</title>
<form method="post" action="ASAT/snapshots" enctype="text/plain" target="sink"><input name="label" value="forged"></form>
<iframe name="sink"></iframe>
<script>
const json = { "Content-Type": "application/json" }, body = '{"label":"forged"}';
const send = (path, more) => fetch("ASAT" + path, { credentials: "include", ...more });
const framed = new Promise((done) => {
    document.querySelector("iframe").onload = () => done("loaded");
    document.forms[0].submit();
});
const tries = Promise.all([
    send("/snapshots", { method: "POST", mode: "no-cors" }),
    send("/snapshots", { method: "POST", mode: "no-cors", body }),
    send("/snapshots", { method: "POST", mode: "no-cors", body: new URLSearchParams({ label: "forged" }) }),
    send("/sign-out", { method: "POST", mode: "no-cors" }),
    send("/snapshots", { method: "POST", headers: json, body }),
    send("/versions/report@1/pin", { method: "PUT", headers: json, body: '{"reason":"forged"}' }),
    send("/versions/report@1", { method: "DELETE" }),
    send("/versions").then((answer) => answer.text()),
    framed,
].map((attempt) => attempt.then((value) => typeof value === "string" ? value : value.type, () => "refused")));
</script>"#;

#[test]
fn a_page_of_another_site_publishes_nothing_and_reads_nothing() {
    let site = Site::start();
    site.publish_change("first");
    let browser = site.browser("admin");
    let other = other_server(&ATTACK.replace("ASAT", &site.url("")));
    // Of another port, to which the cookie goes as well, and of another host.
    for elsewhere in [format!("http://{other}/"), format!("http://localhost:{}/", other.port())] {
        browser.go(&elsewhere);
        let outcome = browser.settle("tries");
        let expected =
            ["opaque", "opaque", "opaque", "opaque", "refused", "refused", "refused", "refused", "loaded"];
        assert_eq!(outcome, json!(expected), "{elsewhere}");
        // As a page of its own, the form gets to see why.
        browser.run("document.forms[0].target = ''; document.forms[0].submit()");
        browser.wait_until("document.body?.textContent.includes('\"status\":40')");
        let problem = browser.text("body");
        assert!(problem.contains("cross_site") || problem.contains("unauthenticated"), "{problem}");
        assert_eq!(site.labels(), ["first"]);
        assert!(site.world.get("/versions/report@1").json()["pin"].is_null());
    }
    // The very same from asat's own page: the session is still there, and it is not for want of a body that nothing was published.
    browser.go(&site.url("/"));
    let own = browser
        .settle("fetch('/snapshots', { method: 'POST', mode: 'no-cors' }).then((answer) => answer.status)");
    assert_eq!(own, 200);
    assert_eq!(site.world.get("/versions/report@1").json()["publications"].as_array().unwrap().len(), 2);
    // A link from elsewhere leads to the form, and signs nobody out.
    let link = other_server(&format!("<!doctype html><a href='{}'>asat</a>", site.url("/")));
    browser.go(&format!("http://localhost:{}/", link.port()));
    browser.follow("a");
    browser.wait_for("#token, #versions");
}

#[test]
fn no_other_page_shows_asats_in_a_frame() {
    let site = Site::start();
    let browser = site.browser("admin");
    let other = other_server(&format!("<!doctype html><iframe src='{}'></iframe>", site.url("/")));
    browser.go(&format!("http://{other}/"));
    browser.wait_until("document.readyState === 'complete'");
    assert!(browser.complaints().iter().any(|complaint| complaint.contains("frame-ancestors")));
}
