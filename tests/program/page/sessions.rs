//! Signing in and out, request by request, and what a cookie is good for.

use serde_json::json;

use crate::page::site::{Site, all_tokens, token};

#[test]
fn a_session_may_what_its_token_may_and_is_named_as_it_is() {
    let site = Site::start();
    site.publish_change("first");
    let own = ("Origin", "http://asat");
    for (role, may_publish, may_administer) in
        [("read", false, false), ("publish", true, false), ("admin", true, true)]
    {
        let cookie = site.session(role);
        let call = |method, path, body| {
            let json = ("Content-Type", "application/json");
            site.call(method, path, &[("Cookie", &cookie), own, json], body).status
        };
        assert_eq!(call("GET", "/versions", ""), 200);
        assert_eq!(call("POST", "/snapshots", "{}"), if may_publish { 200 } else { 403 }, "{role}");
        assert_eq!(call("GET", "/audit", ""), if may_administer { 200 } else { 403 }, "{role}");
    }
    let audit = site.world.get("/audit?action=publish").json();
    let actors: Vec<&str> =
        audit["entries"].as_array().unwrap().iter().filter_map(|entry| entry["actor"].as_str()).collect();
    assert!(actors.contains(&"token the publisher"), "{actors:?}");
}

#[test]
fn a_request_by_cookie_changes_something_only_from_asats_own_page() {
    let site = Site::start();
    site.publish_change("first");
    let cookie = site.session("admin");
    let host = "http://asat";
    let origins: [(&[(&str, &str)], bool); 8] = [
        (&[], false),
        (&[("Origin", host)], true),
        (&[("Origin", "http://asat:8080")], false),
        (&[("Origin", "null")], false),
        (&[("Sec-Fetch-Site", "same-origin")], true),
        (&[("Sec-Fetch-Site", "same-site"), ("Origin", host)], false),
        (&[("Sec-Fetch-Site", "cross-site")], false),
        (&[("Referer", "http://asat/")], false),
    ];
    for (headers, may) in origins {
        let mut by_cookie = headers.to_vec();
        by_cookie.push(("Cookie", &cookie));
        for (method, path) in
            [("POST", "/snapshots"), ("DELETE", "/versions/report@1/pin"), ("PUT", "/stores/report/tags/x")]
        {
            let answer = site.call(method, path, &by_cookie, "");
            if may {
                assert_ne!(answer.status, 403, "{method} {path} {headers:?}: {answer}");
            } else {
                answer.expect_problem(403, "cross_site");
            }
        }
        assert_eq!(
            site.call("GET", "/versions", &by_cookie, "").status,
            200,
            "reading changes nothing: {headers:?}"
        );
    }
    // A browser's word that it is another's page counts for a token and on the Unix socket too; where it says nothing, it is no browser.
    let elsewhere = ("Sec-Fetch-Site", "cross-site");
    site.call("POST", "/snapshots", &[("Authorization", "Bearer admin"), elsewhere], "")
        .expect_problem(403, "cross_site");
    assert_eq!(site.call("POST", "/snapshots", &[("Authorization", "Bearer admin")], "").status, 200);
    site.world.request("POST", "/snapshots", &[elsewhere], b"").expect_problem(403, "cross_site");
    site.world
        .request("POST", "/snapshots", &[("Origin", "http://evil.example")], b"")
        .expect_problem(403, "cross_site");
    // Nobody is signed in, or out, by another's page.
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    site.call("POST", "/sign-in", &[form, elsewhere], "token=admin").expect_problem(403, "cross_site");
    site.call("POST", "/sign-out", &[("Cookie", &cookie), elsewhere], "").expect_problem(403, "cross_site");
    assert_eq!(site.call("GET", "/versions", &[("Cookie", &cookie)], "").status, 200);
}

#[test]
fn who_shows_nothing_gets_a_form_on_the_pages_and_a_problem_everywhere_else() {
    let site = Site::start();
    site.publish_change("secret label");
    let odd = "asat-session=0123456789abcdef; asat-session=; other=1";
    // A name that leads to this machine by somebody else's doing is as good as none: his pages have no cookie.
    for headers in [
        vec![],
        vec![("Cookie", odd)],
        vec![("Host", "evil.example")],
        vec![("Authorization", "Bearer wrong")],
    ] {
        for path in ["/", "/docs"] {
            let answer = site.call("GET", path, &headers, "");
            assert_eq!(
                (answer.status, answer.header("www-authenticate")),
                (401, Some("Bearer")),
                "{path}: {answer}"
            );
            let page = String::from_utf8(answer.body).unwrap();
            assert!(page.contains("action=\"/sign-in\"") && !page.contains("secret"), "{page}");
        }
        site.call("GET", "/versions", &headers, "").expect_problem(401, "unauthenticated");
        site.call("POST", "/snapshots", &headers, "").expect_problem(401, "unauthenticated");
    }
    let cookie = site.session("read");
    let both = [("Cookie", cookie.as_str()), ("Authorization", "Bearer wrong")];
    site.call("GET", "/versions", &both, "").expect_problem(401, "unauthenticated");
}

#[test]
fn a_token_that_does_not_count_is_refused_with_why() {
    let expired = format!("{}\nexpires = \"2026-01-31\"", token("admin"));
    let site = Site::with(&(expired + &token("read")));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let sign_in = |body: &str| site.call("POST", "/sign-in", &form, body);
    for (body, why) in [
        ("token=admin", "the token &#34;the adminer&#34; has expired at 2026-02-01T00:00:00Z"),
        ("token=READ", "the token is not known"),
        ("token=", "the token is not known"),
    ] {
        let answer = sign_in(body);
        let page = String::from_utf8_lossy(&answer.body);
        assert!(
            answer.status == 401 && page.contains(why) && answer.header("set-cookie").is_none(),
            "{body}: {page}"
        );
        assert!(!page.contains("READ"), "what was shown is not shown again: {page}");
    }
    assert_eq!(sign_in("token=+read+").status, 303, "what was copied with a space is meant without");
    for body in ["", "password=x", "token=%ff", "token=a&token=b"] {
        let answer = sign_in(body);
        assert!([400, 401].contains(&answer.status), "{body}: {answer}");
    }
    site.call("POST", "/sign-in", &[("Content-Type", "application/json")], "{}")
        .expect_problem(400, "malformed");
    sign_in(&format!("token={}", "x".repeat(100_000))).expect_problem(400, "malformed");
}

#[test]
fn a_session_ends_when_it_is_signed_out_when_its_token_goes_and_with_the_daemon() {
    let mut site = Site::start();
    let status = |site: &Site, cookie: &str| site.call("GET", "/versions", &[("Cookie", cookie)], "").status;
    let (first, second, third) = (site.session("publish"), site.session("publish"), site.session("read"));
    assert_ne!(first, second);
    let answer = site.call("POST", "/sign-out", &[("Cookie", &first), ("Origin", "http://asat")], "");
    let gone = answer.header("set-cookie").unwrap();
    assert!(
        answer.status == 303 && gone.starts_with("asat-session=;") && gone.contains("Max-Age=0"),
        "{answer}"
    );
    assert_eq!((status(&site, &first), status(&site, &second)), (401, 200));

    let without = site.world.config.replace(&token("publish"), "");
    site.world.config = without;
    site.world.reload("is in force");
    assert_eq!((status(&site, &second), status(&site, &third)), (401, 200));

    site.world.config = format!("tcp = \"{}\"{}", site.address, all_tokens());
    assert!(site.world.stop().success());
    site.world.start();
    assert_eq!(status(&site, &third), 401);
}

#[test]
fn pages_are_sent_so_that_nothing_foreign_runs_in_them_and_parts_are_kept_for_good() {
    let site = Site::start();
    let cookie = site.session("read");
    for path in ["/", "/docs"] {
        let answer = site.call("GET", path, &[("Cookie", &cookie)], "");
        assert_eq!(answer.status, 200);
        let policy = answer.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let expected = [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
        ];
        expected.iter().for_each(|(name, value)| assert_eq!(answer.header(name), Some(*value), "{name}"));
        let page = String::from_utf8(answer.body).unwrap();
        assert!(
            !page.contains(" style=") && !page.contains("<style") && !page.contains("javascript:"),
            "{path}"
        );
        assert!(page.split("<script").skip(1).all(|script| script.starts_with(" src=\"/assets/")), "{path}");
        let parts: Vec<&str> = page.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert_eq!(parts.len(), 3, "{parts:?}");
        for part in parts {
            let answer = site.call("GET", part, &[], "");
            assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"), "{part}");
            let etag = answer.header("etag").unwrap();
            let again = site.call("GET", part, &[("If-None-Match", etag)], "");
            assert_eq!((again.status, again.body.len()), (304, 0), "{part}");
        }
    }
    site.call("GET", "/assets/style-0.css", &[], "").expect_problem(404, "not_found");
    let bad_cursor = site.call("GET", "/?cursor=x", &[("Cookie", &cookie)], "");
    bad_cursor.expect_problem(400, "malformed");
    let unknown = site.call("GET", "/?store=other", &[("Cookie", &cookie)], "");
    unknown.expect_problem(404, "unknown_store");
}

#[test]
fn over_the_unix_socket_the_kernel_says_who_looks() {
    let site = Site::start();
    site.publish(&json!({ "label": "first" }));
    let page = site.world.get("/");
    let text = String::from_utf8(page.body.clone()).unwrap();
    assert!(page.status == 200 && text.contains("report@1") && !text.contains("Sign out"), "{text}");
    let answer = site.world.request(
        "POST",
        "/sign-in",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        b"token=x",
    );
    assert_eq!((answer.status, answer.header("set-cookie")), (303, None), "there is nothing to sign in to");
}
