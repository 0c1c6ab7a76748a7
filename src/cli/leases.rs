//! `leases`: who holds which version, and how an administrator takes it back.

use std::io::{self, IsTerminal as _};

use jiff::Timestamp;

use super::args::{LeasesArgs, LeasesCommand};
use super::output::{Failure, Output};
use super::table;
use crate::text::clean;
use asat_client::{Client, Request};
use asat_wire::{Lease, LeaseBounds, LeaseList};

pub(super) async fn leases(args: &LeasesArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    if let Some(LeasesCommand::Revoke { lease, reason }) = &args.command {
        let request = Request::delete(&["leases", lease]).query("reason", Some(reason));
        let revoked: Lease = client.ask(&request).await?;
        return output.done(&revoked, |revoked| {
            let [lease, holder, version] =
                [&revoked.lease, &revoked.holder, &revoked.version].map(|text| clean(text));
            format!("the lease {lease} of {holder} on {version} is revoked")
        });
    }
    let request = Request::get(&["leases"])
        .query("store", args.store.as_ref().map(|store| store.as_str()))
        .query("holder", args.holder.as_deref());
    let list: LeaseList = client.ask(&request).await?;
    output.answer(&list, |list| table::leases(&list.leases, Timestamp::now()))?;
    let LeaseBounds { open, most, .. } = list.bounds;
    if open >= most {
        output.remark(&format!("{open} leases are open, and {most} may be: nobody gets another one"));
    }
    if list.leases.is_empty() {
        output.remark("nobody holds a version");
    } else if io::stderr().is_terminal() {
        output.remark(
            "asat close VERSION LEASE gives a lease back, and asat renew VERSION LEASE gives it more time",
        );
    }
    Ok(())
}
