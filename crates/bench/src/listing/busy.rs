//! Lists while versions are published: how long many clients wait for their pages.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::Problem;
use rusqlite::Connection;
use serde::Serialize;

use crate::args::ListingArgs;
use crate::callers::{Caller, Callers, Load, Request, call};
use crate::failed;
use crate::site::Site;
use crate::statistics::over;

/// What clients were answered while somebody published changed content all the time.
#[derive(Serialize)]
pub(super) struct Busy {
    pub(super) pages: Load,
    pub(super) publications: u32,
    pub(super) publications_per_second: f64,
}

/// All that is measured so.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) clients: u32,
    /// All ask for the first page as fast as they are answered.
    pub(super) first: Busy,
    /// All go through the whole list as fast as they are answered, each from another page on.
    pub(super) through: Busy,
    /// The same at this rate, in questions a second of all together.
    pub(super) rate: u32,
    pub(super) paced: Busy,
}

/// Has clients ask for pages, of which these are all.
pub(super) fn measure(site: &Site, pages: &[String], args: &ListingArgs) -> Result<Figures, Problem> {
    let ListingArgs { clients, seconds, rate, .. } = *args;
    let callers = Callers { count: clients, time: Duration::from_secs(seconds), pace: None };
    let page = |number: u64| {
        let number = number % u64::try_from(pages.len()).unwrap_or(1).max(1);
        let path = usize::try_from(number).ok().and_then(|number| pages.get(number));
        Request::get(path.map_or("/versions", String::as_str))
    };
    let apart = u64::try_from(pages.len()).unwrap_or(0) / u64::from(clients.max(1));
    let through = |caller: u32, nth: u64| page(u64::from(caller) * apart + nth);
    let paced = Callers { pace: Some(Duration::from_secs(1) * clients / rate.max(1)), ..callers };
    Ok(Figures {
        clients,
        first: while_publishing(site, || call(&site.socket, callers, |_, _| page(0)))?,
        through: while_publishing(site, || call(&site.socket, callers, through))?,
        rate,
        paced: while_publishing(site, || call(&site.socket, paced, through))?,
    })
}

/// A store that can be published.
pub(super) fn make_store(path: &Path) -> Result<(), Problem> {
    let made = Connection::open(path)
        .and_then(|store| store.execute_batch("pragma journal_mode = wal; create table entry (n integer)"));
    made.map_err(|error| failed("make a store", error))
}

fn while_publishing(site: &Site, ask: impl FnOnce() -> Result<Load, Problem>) -> Result<Busy, Problem> {
    let (since, over_with) = (Instant::now(), AtomicBool::new(false));
    let (pages, published) = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_until(site, &over_with));
        let pages = ask();
        over_with.store(true, Ordering::Relaxed);
        let died = |_| Err(failed("publish", "its thread ended early"));
        (pages, publisher.join().unwrap_or_else(died))
    });
    let (seconds, publications) = (since.elapsed().as_secs_f64(), published?);
    Ok(Busy { pages: pages?, publications, publications_per_second: over(f64::from(publications), seconds) })
}

/// Changes the store and publishes it, again and again; answers how often.
fn publish_until(site: &Site, over_with: &AtomicBool) -> Result<u32, Problem> {
    let store = Connection::open(&site.store).map_err(|error| failed("open a store", error))?;
    let mut caller = Caller::connect(&site.socket).map_err(|error| cannot_ask(&error))?;
    let publication = Request::post("/snapshots", "{\"certified_by\":\"bench\"}");
    for published in 0.. {
        if over_with.load(Ordering::Relaxed) {
            return Ok(published);
        }
        let changed = store.execute("insert into entry values (?1)", [published]);
        changed.map_err(|error| failed("change a store", error))?;
        caller.ask(&publication).map_err(|error| cannot_ask(&error))?;
    }
    Ok(0)
}

fn cannot_ask(error: &io::Error) -> Problem {
    failed("publish", error)
}
