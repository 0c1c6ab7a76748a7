//! Listeners: where clients come in, and how they are let go at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_host::socket;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Daemon, failed};
use crate::config::Config;
use crate::http::{Access, Answers, Face, Peer, Peers, router};

/// How long publications that are broken off have to say so to their callers.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Serves HTTP on every configured listener until `stop` resolves; then lets requests under way finish for as
/// long as the configuration allows.
///
/// # Errors
/// Where a listener cannot be opened.
pub async fn serve(config: &Config, daemon: &Daemon, stop: impl Future<Output = ()>) -> Result<(), Problem> {
    let (stopping, stopped) = watch::channel(false);
    let face = Arc::new(Face {
        handle: daemon.handle.clone(),
        machine: Arc::clone(&daemon.machine),
        stopping: stopped.clone(),
        answers: Answers::default(),
    });
    let mut servers = JoinSet::new();
    if let Some(path) = &config.listen.unix {
        let listener = socket::listen(path, config.listen.unix_mode)?;
        let listener =
            from_std(listener).map_err(|error| cannot_listen(&path.display().to_string(), &error))?;
        let peers = Arc::new(Peers::new(config.peers.clone()));
        let app =
            router(Arc::clone(&face), Access::Socket(peers)).into_make_service_with_connect_info::<Peer>();
        servers
            .spawn(axum::serve(listener, app).with_graceful_shutdown(until(stopped.clone())).into_future());
        tracing::info!("listening on unix:{}", path.display());
    }
    if let Some(address) = config.listen.tcp {
        let listener =
            TcpListener::bind(address).await.map_err(|error| cannot_listen(&address.to_string(), &error))?;
        let address = listener.local_addr().unwrap_or(address);
        let app = router(face, Access::Tokens(Arc::new(config.tokens.clone())));
        servers.spawn(axum::serve(listener, app).with_graceful_shutdown(until(stopped)).into_future());
        tracing::info!("listening on http://{address}");
    }
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    tracing::info!("ready");
    stop.await;
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    stopping.send_replace(true);
    let mut finished = std::pin::pin!(async { while servers.join_next().await.is_some() {} });
    if tokio::time::timeout(config.stop_timeout, &mut finished).await.is_err() {
        tracing::warn!("requests under way are broken off after {:?}", config.stop_timeout);
        // Publications under way end with an answer as soon as they notice.
        asat_core::Host::stop(&*daemon.machine);
        if tokio::time::timeout(LAST_ANSWERS, finished).await.is_err() {
            tracing::warn!("some requests are left without an answer");
        }
    }
    if let Some(path) = &config.listen.unix {
        socket::remove(path)?;
    }
    Ok(())
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
    let problem = failed(&format!("listen on {name}"), error);
    Problem { code: Code::Configuration, hint: "check [listen] in the configuration".to_owned(), ..problem }
}
