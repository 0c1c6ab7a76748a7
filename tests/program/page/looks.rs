//! How the pages look: at every width, in light and in dark, for whoever sees badly or hears the page.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::World;
use crate::page::browser::Browser;
use crate::page::site::{Site, all_tokens};

/// Every text with too little contrast (WCAG 2.2, 1.4.3: 4.5, or 3 where it is large), as its text and its ratio.
const FAINT: &str = r"
    const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
    const behind = (element) => element === null ? [255, 255, 255, 1]
        : (([...colour]) => colour[3] === 1 ? colour : over(colour, behind(element.parentElement)))
            (parse(getComputedStyle(element).backgroundColor));
    const linear = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let seen = 0;
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
        if (!text || !element.checkVisibility() || element.closest('svg, noscript')) continue;
        seen += 1;
        const style = getComputedStyle(element), size = parseFloat(style.fontSize), ground = behind(element);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const found = ratio(light(over(parse(style.color), ground)), light(ground));
        if (found < (large ? 3 : 4.5)) faint.push([text.slice(0, 60), found]);
    }
    return { seen, faint };";

/// What somebody who hears the page, or moves in it by keys, would miss.
const BARRIERS: &str = r"
    const wrong = [], all = (selector) => [...document.querySelectorAll(selector)];
    const named = (element) => element.getAttribute('aria-label') || element.textContent.trim() || element.title;
    if (document.documentElement.lang !== 'en') wrong.push('no language');
    if (!document.title) wrong.push('no title');
    for (const one of ['h1', 'main', 'body > header']) if (all(one).length !== 1) wrong.push(`not exactly one ${one}`);
    let before = 0;
    for (const heading of all('main :is(h1, h2, h3, h4)')) {
        const level = Number(heading.tagName[1]);
        if (level > before + 1) wrong.push(`h${before} is followed by h${level}: ${heading.textContent}`);
        before = level;
    }
    for (const field of all('input:not([type=hidden]), textarea, select')) if (!field.labels.length) wrong.push(`no label: ${field.name}`);
    for (const element of all('button, a, summary, [role=img], nav')) if (!named(element)) wrong.push(`no name: ${element.outerHTML}`);
    for (const element of all('[aria-labelledby]'))
        if (!document.getElementById(element.getAttribute('aria-labelledby'))?.textContent) wrong.push(`no title: ${element.id}`);
    const ids = all('[id]').map((element) => element.id);
    for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice: ${id}`);
    for (const link of all('a[href^=\\#]')) if (!document.getElementById(link.hash.slice(1))) wrong.push(`leads nowhere: ${link.hash}`);
    for (const element of all('[tabindex]')) if (element.tabIndex > 0) wrong.push(`out of order: ${element.outerHTML}`);
    return wrong;";

/// How many colours a picture has, at every tenth place; a page that shows nothing has one.
const COLOURS: &str = "
    (async () => {
        const image = new Image(); image.src = 'data:image/png;base64,PICTURE'; await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        const found = new Set(), pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
        for (let n = 0; n < pixels.length; n += 10) found.add(pixels[n]);
        return found.size;
    })()";

/// A history in which everything is that a page can show, and something that is wrong.
fn eventful() -> Site {
    let mut world = World::new();
    world.store_config = "[store.watch]\nmarker = \"select value from nowhere\"".to_owned();
    let site = Site::of(world, &all_tokens());
    site.publish_change(&"long".repeat(50));
    for day in 1..=6 {
        site.publish(&json!({ "label": format!("2026-11-{day:02} close"), "certified_by": "ops", "note": "after the late feed" }));
    }
    site.world.send("PUT", "/versions/report@6/pin", &json!({ "reason": "audit 2026", "owner": "finance" }));
    site.world.send("PUT", "/stores/report/tags/month-end", &json!({ "version": "report@5" }));
    site.world.send("POST", "/versions/report@7/mounts", &json!({ "holder": "month-end report" }));
    site
}

fn check(browser: &Browser, what: &str) {
    let found = browser.run(FAINT);
    assert!(found["seen"].as_u64().unwrap() > 5, "{what}: {found}");
    assert_eq!(found["faint"], json!([]), "{what}: texts that are too faint");
    assert_eq!(browser.run(BARRIERS), json!([]), "{what}");
    let wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]");
    assert!(wide[0].as_u64() <= wide[1].as_u64(), "{what}: it is wider than the window: {wide}");
}

/// Keeps a picture beside what was built, and sees that there is something on it.
fn picture(browser: &Browser, name: &str) {
    let picture = browser.screenshot();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
    std::fs::write(file, decoded(&picture)).unwrap();
    let colours = browser.settle(&COLOURS.replace("PICTURE", &picture));
    assert!(colours.as_u64().is_some_and(|colours| colours > 20), "{name}: {colours}");
}

/// Base64 as bytes.
pub fn decoded(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|byte| alphabet.iter().position(|of| *of == byte))
        .map(|n| u32::try_from(n).unwrap())
        .collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().enumerate().fold(0, |bits, (n, digit)| bits | digit << (18 - 6 * n));
        bits.to_be_bytes().into_iter().skip(1).take(four.len() - 1)
    });
    bytes.collect()
}

#[test]
fn every_page_is_clear_at_every_width_in_light_and_in_dark() {
    let site = eventful();
    let browser = site.browser("admin");
    browser.wait_until("document.querySelector('h1').textContent === '1 thing needs somebody to see to it'");
    assert!(browser.text("#verdict").contains("no such table: nowhere"), "{}", browser.text("#verdict"));
    for scheme in ["light", "dark"] {
        for width in [320, 768, 1440, 2560] {
            browser.emulate(width, 900, scheme);
            browser.go(&site.url("/"));
            browser.run("document.querySelectorAll('details').forEach((details) => details.open = true)");
            check(&browser, &format!("/ at {width} in {scheme}"));
            picture(&browser, &format!("page-{width}-{scheme}"));
            let pages = [
                ("store", "/page/stores/report"),
                ("version", "/page/versions/report@6"),
                ("audit", "/page/audit"),
            ];
            for (name, path) in pages {
                browser.go(&site.url(path));
                check(&browser, &format!("{path} at {width} in {scheme}"));
                picture(&browser, &format!("{name}-{width}-{scheme}"));
            }
        }
        for dialog in ["publish", "pin", "open"] {
            browser.emulate(320, 700, scheme);
            browser.go(&site.url("/"));
            browser.run(&format!("document.querySelector('[data-dialog={dialog}]').click()"));
            check(&browser, &format!("{dialog} in {scheme}"));
            let fits = browser.run("const box = document.querySelector('dialog[open]').getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth");
            assert_eq!(fits, true, "{dialog} fits a phone");
        }
    }
    assert_eq!(browser.run("return getComputedStyle(document.body).colorScheme"), "light dark");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_reference_and_the_form_to_sign_in_are_as_clear() {
    let site = Site::start();
    let browser = site.browser("read");
    for scheme in ["light", "dark"] {
        for width in [320, 1440] {
            browser.emulate(width, 900, scheme);
            browser.go(&site.url("/docs"));
            check(&browser, &format!("/docs at {width} in {scheme}"));
            picture(&browser, &format!("docs-{width}-{scheme}"));
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.follow(".top form button");
    browser.fill("#token", "no token");
    browser.follow("form button.main");
    for scheme in ["light", "dark"] {
        browser.emulate(320, 700, scheme);
        check(&browser, &format!("the form in {scheme}"));
        picture(&browser, &format!("sign-in-{scheme}"));
    }
    assert!(
        browser.text(".problem").contains("The token is not known")
            || browser.text(".problem").contains("the token is not known")
    );
}

#[test]
fn what_is_judged_would_be_found_wrong_if_it_were() {
    let site = Site::start();
    let browser = site.browser("read");
    // Each fault is made and judged in one go, as news from the daemon replaces what stands on the page at any moment.
    let faint = browser.run(&format!("document.querySelector('h1').style.color = '#ccc'; {FAINT}"));
    assert_ne!(faint["faint"], json!([]));
    let barriers = browser.run(&format!(
        "document.querySelector('#main').append(document.createElement('input'), document.createElement('button')); {BARRIERS}"
    ));
    assert_eq!(barriers.as_array().map(Vec::len), Some(2), "{barriers}");
    assert_eq!(decoded("AAEC/w=="), [0, 1, 2, 255]);
    assert_eq!(browser.run("return 1"), Value::from(1));
}
