//! What has happened since the daemon started.
//!
//! What has not happened yet stands there with 0, where it is known beforehand: that it happened for the first time can be
//! seen by an alert only where it was not there before.

use std::sync::atomic::{AtomicU64, Ordering};

use asat_core::Code;
use asat_core::guard::Rung;

use crate::metrics::{Family, Metrics, OUTCOMES, OfCommand, TurnedAway};

pub(super) fn families(metrics: &Metrics) -> Vec<Family> {
    let mut families = publications(metrics);
    families.extend(requests(metrics));
    families.extend(reads(metrics));
    families.push(turned_away(metrics));
    let mut actions =
        Family::counter("asat_guard_actions_total", "Actions of the guard, by what came of them.");
    let counted = metrics.actions.all();
    for (action, outcome) in Rung::ALL.iter().flat_map(|rung| OUTCOMES.map(|outcome| (rung.text(), outcome)))
    {
        let count = counted.get(&(action, outcome)).map_or(0, |count| read(count));
        actions.add([("action", action), ("outcome", outcome)], count);
    }
    let mut commands = Family::histogram("asat_command_seconds", "How long commands of LVM took.");
    for (command, histogram) in metrics.commands.all().iter() {
        let OfCommand(histogram) = &**histogram;
        commands.add_distribution([("command", *command)], histogram.read());
    }
    families.extend([actions, commands]);
    families
}

/// How often a process that works on stores has failed.
pub(super) fn worker_failures(count: u64) -> Family {
    let mut failures = Family::counter(
        "asat_store_worker_failures_total",
        "Processes working on a store that ended, did not answer, or said what they should not.",
    );
    failures.add([], count);
    failures
}

fn publications(metrics: &Metrics) -> Vec<Family> {
    let mut publications =
        Family::counter("asat_publications_total", "Publications, by whether they made a version.");
    let mut blocked = Family::histogram(
        "asat_writer_blocked_seconds",
        "For how long a commit may have had to wait for a publication that looked into the store.",
    );
    let mut took = Family::histogram(
        "asat_publication_seconds",
        "How long publications took that looked into the store.",
    );
    for (store, counted) in metrics.stores.all().iter() {
        let outcomes = [("new", &counted.new), ("reused", &counted.reused), ("known", &counted.known)];
        for (outcome, count) in outcomes {
            publications.add([("store", store.as_str()), ("outcome", outcome)], read(count));
        }
        blocked.add_distribution([("store", store.as_str())], counted.writer_blocked.read());
        took.add_distribution([("store", store.as_str())], counted.took.read());
    }
    let mut failures = Family::counter(
        "asat_publication_failures_total",
        "Publications that came to nothing, by the code of the problem.",
    );
    let counted = metrics.failures.all();
    for (code, _) in Code::ALL.map(Code::text) {
        failures.add([("code", code)], counted.get(code).map_or(0, |count| read(count)));
    }
    vec![publications, failures, blocked, took]
}

fn reads(metrics: &Metrics) -> Vec<Family> {
    let mut reads = Family::counter(
        "asat_store_reads_total",
        "Reads of a store by pages: of all of them, or of those that had changed.",
    );
    let mut pages = Family::counter("asat_pages_read_total", "Pages that were read of a store.");
    let mut missed = Family::counter(
        "asat_pages_missed_total",
        "Pages of a tracked store that had changed without that being known.",
    );
    for (store, counted) in metrics.stores.all().iter() {
        let store = ("store", store.as_str());
        reads.add([store, ("pages", "all")], read(&counted.read_whole));
        reads.add([store, ("pages", "changed")], read(&counted.read_changed));
        pages.add([store], read(&counted.pages_read));
        missed.add([store], read(&counted.pages_missed));
    }
    vec![reads, pages, missed]
}

fn requests(metrics: &Metrics) -> Vec<Family> {
    let mut requests = Family::counter("asat_http_requests_total", "Requests that were answered.");
    let mut took = Family::histogram("asat_http_request_seconds", "How long it took until an answer began.");
    for (route, counted) in metrics.routes.all().iter() {
        for ((method, status), count) in counted.answers.all().iter() {
            let status = status.to_string();
            requests.add([("route", route.as_str()), ("method", *method), ("status", &status)], read(count));
        }
        took.add_distribution([("route", route.as_str())], counted.took.read());
    }
    vec![requests, took]
}

fn turned_away(metrics: &Metrics) -> Family {
    let TurnedAway { refused, dropped, made_room } = &metrics.turned_away;
    let mut connections = Family::counter(
        "asat_connections_turned_away_total",
        "Connections for which there was no place, by what became of them.",
    );
    for (outcome, count) in [("refused", refused), ("dropped", dropped), ("made_room", made_room)] {
        connections.add([("outcome", outcome)], read(count));
    }
    connections
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
