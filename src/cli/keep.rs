//! `pin` and `unpin`: what stays whatever the rules say.

use jiff::Timestamp;

use super::args::{OneVersion, PinArgs};
use super::output::{Failure, Output};
use super::versions::pinned;
use crate::text::clean;
use asat_client::{Client, Request};
use asat_wire::{PinRequest, Version};

pub(super) async fn pin(args: &PinArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let body = PinRequest {
        reason: args.reason.clone(),
        owner: args.owner.clone(),
        expires_at: args.until,
        hot: args.hot,
    };
    let request = Request::put(&["versions", args.version.text(), "pin"]).json(&body)?;
    let version: Version = client.ask(&request).await?;
    output.done(&version, |version| {
        let why = version.pin.as_ref().map_or_else(String::new, |pin| pinned(pin, Timestamp::now()));
        format!("{} pinned: {why}", clean(&version.id))
    })
}

pub(super) async fn unpin(args: &OneVersion, client: &Client, output: &Output) -> Result<(), Failure> {
    let path = ["versions", args.version.text()];
    let had_pin = client.ask::<Version>(&Request::get(&path)).await?.pin.is_some();
    let version: Version = client.ask(&Request::delete(&[&path[..], &["pin"]].concat())).await?;
    let is = if had_pin { "is no longer pinned" } else { "had no pin" };
    output.done(&version, |version| format!("{} {is}", clean(&version.id)))
}
