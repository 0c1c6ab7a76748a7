//! `open`, `close` and `renew`: leases on as-at copies.

use std::io::{self, IsTerminal as _};

use jiff::Timestamp;

use super::args::{FindArgs, LeaseArgs, OpenArgs, RenewArgs};
use super::find;
use super::output::{self, Failure, Output};
use super::progress::Bars;
use super::signals::Signals;
use crate::text::{both, clean};
use asat_client::{Client, Request, Server};
use asat_wire::{Mount, MountRequest, RenewRequest};

pub(super) async fn open(
    args: &OpenArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mount =
        lease(&args.find, (args.holder.as_deref(), args.ttl), client, bars, (output, signals)).await?;
    let told = text(&mount, client.server(), Timestamp::now());
    let is_seen = io::stdout().is_terminal();
    // What reads the output wants to open the file.
    let text = output.text(&mount, |mount| if is_seen { told.clone() } else { clean(&mount.path) })?;
    let printed = tokio::task::spawn_blocking(move || output::write(text.as_bytes()));
    let printed = signals.end(async { printed.await.unwrap_or(Err(Failure::OutputClosed)) }).await;
    if printed.is_err() {
        // Nobody learns of the lease, and so nobody would give it back.
        give_back(&mount, client, output, signals).await;
        return printed;
    }
    // A person who sees the rest must learn how to give the lease back.
    if !is_seen && io::stderr().is_terminal() {
        told.lines().skip(1).for_each(|line| output.remark(line.trim_start()));
    }
    Ok(())
}

/// Finds a version and leases it. If a signal comes meanwhile, a lease that is granted all the same is given back.
///
/// # Errors
/// What the daemon says; that no version is named; or that a signal came.
pub(super) async fn lease(
    find: &FindArgs,
    (holder, ttl_seconds): (Option<&str>, u32),
    client: &Client,
    bars: &Bars<'_>,
    (output, signals): (&Output, &mut Signals),
) -> Result<Mount, Failure> {
    let version = signals.end(async { Ok(find::version(find, client).await?) }).await?;
    let body = MountRequest { holder: holder.map_or_else(user_at_host, str::to_owned), ttl_seconds };
    let request = Request::post(&["versions", version.text(), "mounts"]).json(&body)?.long();
    let what = format!("opening {version}");
    let opening = bars.during(&what, |other: &str| version.may_be(other), client.ask::<Mount>(&request));
    match signals.outlast(opening).await {
        (Some(opened), None) => Ok(opened?),
        (opened, number) => {
            match opened {
                Some(Ok(mount)) => give_back(&mount, client, output, signals).await,
                // The signal is what the caller hears of.
                Some(Err(_)) => {}
                None => output.remark(&format!("{version} may be leased now: asat leases shows it")),
            }
            Err(Failure::Interrupted(number.unwrap_or_default()))
        }
    }
}

/// Gives a lease back, or says that it stays until it ends.
pub(super) async fn give_back(mount: &Mount, client: &Client, output: &Output, signals: &mut Signals) {
    let why = match signals.outlast(client.order(&closing(mount))).await {
        (Some(Ok(())), _) => return,
        (Some(Err(problem)), _) => problem.detail,
        (None, _) => format!("{} does not answer", client.server()),
    };
    output.remark(&format!("{} stays leased until its lease ends: {why}", mount.version));
}

fn closing(mount: &Mount) -> Request {
    Request::delete(&["versions", &mount.version, "mounts", &mount.lease])
}

pub(super) async fn renew(args: &RenewArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let lease = &args.lease;
    let request = Request::put(&["versions", lease.version.text(), "mounts", &lease.lease])
        .json(&RenewRequest { ttl_seconds: args.ttl })?;
    let mount: Mount = client.ask(&request).await?;
    output.done(&mount, |mount| text(mount, client.server(), Timestamp::now()))
}

pub(super) async fn close(args: &LeaseArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    client.order(&Request::delete(&["versions", args.version.text(), "mounts", &args.lease])).await?;
    let closed = serde_json::json!({ "version": args.version.text(), "lease": args.lease });
    output.done(&closed, |_| format!("{} closed", args.version))
}

/// The path first, and how the lease is given back at last.
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

/// The user that runs this, and on which machine.
pub(super) fn user_at_host() -> String {
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
