//! Listeners: where clients come in, and how they are let go at the end.

mod body;
mod connections;
mod sending;
mod slots;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_host::socket::{self, Handed};
use sd_notify::NotifyState;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::reload::reload;
use super::signals::{Signals, Wanted};
use super::{Daemon, failed};
use crate::config::Config;
use crate::http::{
    Access, Address, Face, Known, Names, Pages, Peer, Queries, RefusedConfiguration, Rules, Verified, Work,
    router,
};

/// How long publications that are broken off have to say so to their callers.
const LAST_ANSWERS: Duration = Duration::from_secs(3);
/// What the rest of a stop takes at the most: the guard's last look, writers that are let go, mounts.
const OTHER_ENDS: Duration = Duration::from_secs(20);

/// Serves HTTP on every socket that was handed over or is configured until it is told to stop, and goes by what `file` says
/// whenever it is told to read it again; then lets requests under way finish for as long as the configuration allows.
///
/// # Errors
/// If a listener cannot be opened, the catalogue turns out to be damaged, or the driver ends before it is told to.
pub(super) async fn serve(
    file: &Path,
    config: &mut Config,
    daemon: &Daemon,
    handed: Handed,
    mut signals: Signals,
) -> Result<(), Problem> {
    let (stopping, stopped) = watch::channel(false);
    let face = Arc::new(Face {
        handle: daemon.handle.clone(),
        machine: Arc::clone(&daemon.machine),
        comparisons: Arc::clone(&daemon.comparisons),
        stopping: stopped.clone(),
        known: Known::default(),
        pages: Pages::default(),
        names: Names::default(),
        verified: Verified::default(),
        refused: RefusedConfiguration::default(),
        work: Work::new(&config.listen, &config.queries),
        queries: Queries { bounds: config.queries, max_ttl_s: config.max_ttl_s },
    });
    let rules = Rules::new(config);
    let mut servers = JoinSet::new();
    let (unix, own) = unix_listeners(config, handed.unix)?;
    for listener in unix {
        let app = router(Arc::clone(&face), Access::Socket(rules.clone()));
        let peer = |stream: &UnixStream| Peer::of(stream);
        let handle = daemon.handle.clone();
        servers.spawn(connections::serve(
            listener,
            peer,
            app,
            handle,
            config.listen.clone(),
            stopped.clone(),
        ));
    }
    for listener in tcp_listeners(config, handed.tcp).await? {
        let app = router(Arc::clone(&face), Access::Tokens(rules.clone()));
        let handle = daemon.handle.clone();
        servers.spawn(connections::serve(
            listener,
            |stream: &TcpStream| Address::of(stream),
            app,
            handle,
            config.listen.clone(),
            stopped.clone(),
        ));
    }
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    tracing::info!("ready");
    let ended = heed(file, config, daemon, (&rules, &face.refused), &mut signals).await;
    let _ = sd_notify::notify(&[NotifyState::Stopping, time_to_stop(config)]);
    stopping.send_replace(true);
    let mut finished = std::pin::pin!(async { while servers.join_next().await.is_some() {} });
    if tokio::time::timeout(config.stop_timeout, &mut finished).await.is_err() {
        tracing::warn!("requests under way are broken off after {:?}", config.stop_timeout);
        // Publications under way end with an answer as soon as they notice.
        super::host::Host::stop(&*daemon.machine);
        if tokio::time::timeout(LAST_ANSWERS, finished).await.is_err() {
            tracing::warn!("some requests are left without an answer");
        }
    }
    if let Some(path) = own {
        socket::remove(&path)?;
    }
    ended
}

/// Does what signals say until one says to stop, or something ends the daemon.
async fn heed(
    file: &Path,
    config: &mut Config,
    daemon: &Daemon,
    (rules, refused): (&Rules, &RefusedConfiguration),
    signals: &mut Signals,
) -> Result<(), Problem> {
    daemon.begin_to_look()?;
    loop {
        let wanted = tokio::select! {
            wanted = signals.next() => wanted,
            () = daemon.undriven() => return Err(undriven()),
            problem = daemon.damaged() => return Err(problem),
        };
        match wanted {
            // Requests are served by other threads meanwhile.
            Wanted::Reload => tokio::task::block_in_place(|| reload(file, config, daemon, rules, refused)),
            Wanted::Stop => return Ok(()),
        }
    }
}

/// Asks the service manager for the time that a stop may take: for requests, and then for what is under way, of which a command
/// of LVM takes longest.
fn time_to_stop(config: &Config) -> NotifyState<'static> {
    let most = config.stop_timeout + LAST_ANSWERS + config.lvm_timeout + OTHER_ENDS;
    NotifyState::ExtendTimeoutUsec(u32::try_from(most.as_micros()).unwrap_or(u32::MAX))
}

fn undriven() -> Problem {
    let detail = "the driver has ended, and nothing can be recorded any more";
    Problem::new(
        Code::Internal,
        detail,
        "this is a defect of asat: report what the log says before this, and start asat anew",
    )
}

/// The Unix sockets that were handed over, or else the one that is configured, with its path: that one is the daemon's own.
fn unix_listeners(
    config: &Config,
    handed: Vec<std::os::unix::net::UnixListener>,
) -> Result<(Vec<UnixListener>, Option<std::path::PathBuf>), Problem> {
    let own = config.listen.unix.clone().filter(|_| handed.is_empty());
    let mut listeners = Vec::new();
    for listener in handed {
        let name = socket::path(&listener).map_or_else(String::new, |path| path.display().to_string());
        listeners.push(from_std(listener).map_err(|error| cannot_listen(&name, &error))?);
        tracing::info!("listening on unix:{name}, which was handed over");
        if config.listen.unix.as_ref().is_some_and(|path| path.as_os_str() != name.as_str()) {
            tracing::warn!("listen.unix is not listened on: the service manager handed another socket over");
        }
    }
    if let Some(path) = &own {
        let name = path.display().to_string();
        let listener = socket::listen(path, config.listen.unix_mode)?;
        listeners.push(from_std(listener).map_err(|error| cannot_listen(&name, &error))?);
        tracing::info!("listening on unix:{name}");
    }
    Ok((listeners, own))
}

/// The same over TCP.
async fn tcp_listeners(
    config: &Config,
    handed: Vec<std::net::TcpListener>,
) -> Result<Vec<TcpListener>, Problem> {
    let mut listeners = Vec::new();
    for listener in handed {
        let address = listener.local_addr().map_or_else(|_| String::new(), |address| address.to_string());
        let usable = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        listeners.push(usable.map_err(|error| cannot_listen(&address, &error))?);
        tracing::info!("listening on http://{address}, which was handed over");
    }
    match config.listen.tcp.filter(|_| listeners.is_empty()) {
        Some(address) => {
            let listener = TcpListener::bind(address).await;
            let listener = listener.map_err(|error| cannot_listen(&address.to_string(), &error))?;
            tracing::info!("listening on http://{}", listener.local_addr().unwrap_or(address));
            listeners.push(listener);
        }
        None if !listeners.is_empty() && config.tokens.is_empty() => {
            let detail = "a TCP socket was handed over, and there is no token: nobody could come in";
            let hint = "add a [[token]], or take the address out of the socket unit";
            return Err(Problem::new(Code::Configuration, detail, hint));
        }
        None => {}
    }
    Ok(listeners)
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn cannot_listen(name: &str, error: &io::Error) -> Problem {
    let problem = Problem { detail: format!("cannot listen on {name}: {error}"), ..failed("listen", error) };
    let (code, hint) = match error.kind() {
        // The next start may find it otherwise, so a service manager shall try again.
        io::ErrorKind::AddrNotAvailable => {
            (problem.code, "wait until the network has this address, or write another as listen.tcp")
        }
        io::ErrorKind::AddrInUse => {
            (Code::InUse, "see who listens there (ss -ltnp), and end that or write another address")
        }
        _ => (Code::Configuration, "check [listen] in the configuration"),
    };
    Problem { code, hint: hint.to_owned(), ..problem }
}
