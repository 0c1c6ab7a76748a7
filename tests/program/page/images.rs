//! The images that the documents show: made of a history as somebody has it after half a year.
//!
//! With `ASAT_IMAGES=docs/images` in the environment they are written there; otherwise they are made all the same, and thrown away.

use std::path::{Path, PathBuf};

use jiff::civil::{Date, Weekday};
use jiff::{Span, Timestamp};
use serde_json::json;

use crate::common::World;
use crate::page::browser::Browser;
use crate::page::looks::decoded;
use crate::page::site::{Site, all_tokens};

/// Of how many days there are versions.
const DAYS: usize = 90;

/// The last business days until today, the oldest first.
fn business_days(now: Timestamp) -> Vec<Date> {
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let days = today.series(Span::new().days(-1));
    let is_business = |day: &Date| !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday);
    let mut days: Vec<Date> = days.filter(is_business).take(DAYS).collect();
    days.reverse();
    days
}

fn site() -> Site {
    let mut world = World::new();
    world.store_config =
        "expect = \"every business day by 18:00\"\n[store.retention]\nkeep = \"all for 90 days, then month ends for 7 years\"".to_owned();
    let site = Site::of(world, &all_tokens());
    let now = site.world.get("/clock").json()["believed_at"].as_str().unwrap().parse().unwrap();
    for day in business_days(now) {
        site.publish(&json!({ "label": format!("{day} close"), "certified_by": "ops", "business_date": day.to_string() }));
    }
    let newest = format!("report@{DAYS}");
    site.world.send(
        "PUT",
        &format!("/versions/{newest}/pin"),
        &json!({ "reason": "audit 2026", "owner": "finance" }),
    );
    site.world.send("PUT", "/stores/report/tags/month-end", &json!({ "version": newest }));
    site.world.send("POST", &format!("/versions/{newest}/mounts"), &json!({ "holder": "month-end report" }));
    site
}

/// Where the images go, and what keeps that folder if it is not that of the documents.
fn folder() -> (PathBuf, Option<tempfile::TempDir>) {
    match std::env::var_os("ASAT_IMAGES") {
        Some(folder) => (Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), None),
        None => {
            let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
            (folder.path().to_owned(), Some(folder))
        }
    }
}

fn shoot(browser: &Browser, file: &Path) {
    let image = decoded(&browser.screenshot());
    // The width and the height of a PNG stand after its signature and the length and name of its first part.
    let number = |at: usize| u32::from_be_bytes(image[at..at + 4].try_into().unwrap());
    assert!(image.starts_with(b"\x89PNG") && number(16) >= 390 && number(20) > 500, "{}", file.display());
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, &image).unwrap();
    // What shows nothing takes less.
    assert!(image.len() > 20_000, "{} has {} bytes", file.display(), image.len());
}

#[test]
fn the_images_that_the_documents_show_can_be_made() {
    let (site, (folder, _kept)) = (site(), folder());
    let browser = site.browser("admin");
    browser.wait_until("document.querySelector('#leases').textContent.includes('month-end report')");
    for (name, path, width, height, scheme) in [
        ("status", "/", 1280, 1150, "light"),
        ("status-dark", "/", 1280, 1150, "dark"),
        ("store", "/page/stores/report", 1280, 900, "light"),
    ] {
        browser.emulate(width, height, scheme);
        browser.go(&site.url(path));
        assert!(browser.text("#main").contains("published days from"), "{path}");
        shoot(&browser, &folder.join(format!("{name}.png")));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn business_days_end_today_and_have_no_weekend() {
    // A Sunday.
    let days = business_days("2026-11-22T12:00:00Z".parse().unwrap());
    assert_eq!((days.len(), days.last().unwrap().to_string().as_str()), (DAYS, "2026-11-20"));
    assert!(days.windows(2).all(|pair| pair[0] < pair[1]));
}
