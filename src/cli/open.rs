//! `open`, `close` and `renew`: leases on as-at copies.

use jiff::Timestamp;

use super::args::{LeaseArgs, OpenArgs, RenewArgs};
use super::output::{Failure, Output};
use super::progress::Bars;
use crate::text::{both, clean};
use asat_client::{Client, Request, Server};
use asat_wire::{Mount, MountRequest, RenewRequest};

pub(super) async fn open(
    args: &OpenArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let holder = args.holder.clone().unwrap_or_else(user_at_host);
    let body = MountRequest { holder, ttl_seconds: args.ttl };
    let request = Request::post(&["versions", args.version.text(), "mounts"]).json(&body)?.long();
    let what = format!("opening {}", args.version);
    let concerns = |version: &str| args.version.may_be(version);
    let mount: Mount = bars.during(&what, concerns, client.ask(&request)).await?;
    output.answer(&mount, |mount| text(mount, client.server(), Timestamp::now()))
}

pub(super) async fn renew(args: &RenewArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let lease = &args.lease;
    let request = Request::put(&["versions", lease.version.text(), "mounts", &lease.lease])
        .json(&RenewRequest { ttl_seconds: args.ttl })?;
    let mount: Mount = client.ask(&request).await?;
    output.answer(&mount, |mount| text(mount, client.server(), Timestamp::now()))
}

pub(super) async fn close(args: &LeaseArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    client.order(&Request::delete(&["versions", args.version.text(), "mounts", &args.lease])).await?;
    let closed = serde_json::json!({ "version": args.version.text(), "lease": args.lease });
    output.answer(&closed, |_| format!("{} closed", args.version))
}

/// The path first, on a line of its own, for `$(asat open … | head -1)`.
fn text(mount: &Mount, server: &Server, now: Timestamp) -> String {
    let (version, lease) = (clean(&mount.version), clean(&mount.lease));
    let elsewhere = match server.to_string() {
        address if address == Server::DEFAULT || from_environment(server) => String::new(),
        address => format!(" --server {address}"),
    };
    format!(
        "{}\n  lease  {lease}, held by {}\n  until  {}\n  close  asat{elsewhere} close {version} {lease}",
        clean(&mount.path),
        clean(&mount.holder),
        both(mount.expires_at, now),
    )
}

/// Whether the next command will find the same daemon by itself.
fn from_environment(server: &Server) -> bool {
    std::env::var("ASAT_SERVER").is_ok_and(|address| address.parse().as_ref() == Ok(server))
}

/// Whoever runs this, and where.
fn user_at_host() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let user = named
        .filter(|name| !name.trim().is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    let system = rustix::system::uname();
    format!("{user}@{}", system.nodename().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_comes_first() {
        let mount = Mount {
            lease: "0193".to_owned(),
            version: "report@12".to_owned(),
            path: "/copies/report.db".to_owned(),
            uri: "file:/copies/report.db?mode=ro".to_owned(),
            holder: "anna@desk".to_owned(),
            expires_at: "2026-11-19T18:00:00Z".parse().unwrap(),
        };
        let server = "http://localhost:1".parse().unwrap();
        let expected = "/copies/report.db\n  lease  0193, held by anna@desk\n  \
                        until  2026-11-19 18:00:00 UTC (in 1 hour)\n  \
                        close  asat --server http://localhost:1 close report@12 0193";
        assert_eq!(text(&mount, &server, "2026-11-19T17:00:00Z".parse().unwrap()), expected);
        assert!(user_at_host().contains('@'));
    }
}
