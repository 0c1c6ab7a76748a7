//! The doctor: what this machine offers, what the configuration asks of it, and where the two do not fit.
//!
//! It needs no daemon and changes nothing, but that it makes and deletes an object in a bucket. [`facts`] gathers what there is, by way of the host and the catalogue; every judgement
//! is a pure function from facts to [`Finding`]s: [`machine`] judges what no configuration is needed for,
//! [`stores`] and [`site`] the rest.

mod backend;
mod facts;
mod finding;
mod fuse;
mod machine;
mod protection;
mod site;
mod stores;

use std::path::Path;

pub use finding::{Finding, Group, Level, Report};

use facts::Facts;

/// The configuration that is read where none is named.
pub const DEFAULT_CONFIG: &str = "/etc/asat/asat.toml";

/// Examines this machine, and what a configuration asks of it.
#[must_use]
pub fn examine(config: Option<&Path>) -> Report {
    judge(&Facts::gather(config))
}

/// What follows from the facts.
fn judge(facts: &Facts) -> Report {
    let mut findings = machine::judge(&facts.machine);
    findings.push(fuse::judge(&facts.fuse, facts.site.as_ref().and_then(|site| site.tree.as_ref())));
    findings.push(site::configuration(&facts.configuration));
    if let Some(site) = &facts.site {
        for store in &site.stores {
            findings.extend(stores::judge(store));
        }
        findings.extend(site::state(site, facts.machine.user));
        findings.extend(site.listeners.iter().map(site::listener));
        findings.extend(site.alarm_command.as_ref().map(site::alarm_command));
        findings.extend(site.remote.iter().flat_map(site::remote));
        findings.extend(site.follow.as_ref().map(site::follow));
    }
    Report::new(findings)
}
