//! Connections: no client, however slow, endless or numerous, takes more than its share.
//!
//! A client has `request_timeout` to send the head of a request, counted from the answer before; as long for its body, and
//! for each piece of an answer that it has no room for. Of `max_connections` at one listener, the one that has waited for
//! longest makes room for the next. Where all are being answered, a few more are let in for a moment: to be told so, or
//! whether the daemon lives.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use asat_core::Code;
use axum::Router;
use axum::body::Body;
use axum::serve::Listener;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutWriter;

use super::body::{BodyInFlight, InTime};
use super::sending::Sending;
use super::slots::{Slot, Slots};
use super::until;
use crate::config::Listen;
use crate::daemon::Handle;
use crate::http::{self, Crowded, Source};
use crate::log::Seldom;
use crate::metrics::{TurnedAway, count};

/// The longest head of a request, in bytes; what is longer is answered with 431, or 414 where it is the path.
const MAX_HEAD: usize = 64 * 1024;
/// So many connections beyond the most are answered that there are too many.
const SPARE: usize = 32;
/// So many may be on their way out besides, having made room. Nobody else is let in until one of them is gone.
const LEAVING: usize = 32;
/// How long a connection beyond the most may take.
const SPARE_TIME: Duration = Duration::from_secs(5);

/// What is the same for all connections of a listener.
#[derive(Clone)]
struct Server {
    app: TowerToHyperService<Router>,
    handle: Handle,
    max_connections: usize,
    request_timeout: Duration,
    stopped: watch::Receiver<bool>,
    refusals: Arc<Seldom>,
}

/// Serves everybody who connects, until the daemon stops and the last request is answered. `peer` says who is at the other end, and each
/// request brings that along.
pub(super) async fn serve<L: Listener, P: Source + Clone + Send + Sync + 'static>(
    mut listener: L,
    peer: fn(&L::Io) -> P,
    app: Router,
    handle: Handle,
    limits: Listen,
    stopped: watch::Receiver<bool>,
) {
    let Listen { max_connections, request_timeout, .. } = limits;
    let app = TowerToHyperService::new(app);
    let server = Server {
        app,
        handle,
        max_connections,
        request_timeout,
        stopped: stopped.clone(),
        refusals: Seldom::new(|source, left_out| {
            tracing::warn!(
                code = Code::Overloaded.text().0,
                left_out,
                "{left_out} more connections from {source} were refused"
            );
        }),
    };
    let slots = Slots::new(max_connections);
    let spare = Arc::new(Semaphore::new(SPARE));
    let places = Arc::new(Semaphore::new(max_connections + SPARE + LEAVING));
    let (last, open) = watch::channel(());
    let mut stop = pin!(until(stopped));
    loop {
        let enter = async {
            // It is never closed, so there is always a place at last.
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await.0, place)
        };
        let (io, place) = tokio::select! {
            entered = enter => entered,
            () = &mut stop => break,
        };
        let (server, open, peer) = (server.clone(), open.clone(), peer(&io));
        if let Some(slot) = slots.enter() {
            tokio::spawn(async move {
                server.serve(Sending::new(io, Arc::clone(&slot)), peer, &slot).await;
                slot.leave();
                drop((place, open));
            });
        } else if let Ok(permit) = Arc::clone(&spare).try_acquire_owned() {
            tokio::spawn(async move {
                // Who does not even take a refusal gets none.
                let _ = tokio::time::timeout(SPARE_TIME, server.refuse(io, &peer)).await;
                drop((permit, place, open));
            });
        } else {
            count(&server.turned_away().dropped);
            server.tell_refused(&peer);
        }
    }
    drop((listener, open));
    last.closed().await;
}

impl Server {
    /// Answers what comes over a connection. That it ends, and how, is its client's affair.
    async fn serve(
        &self,
        io: impl AsyncRead + AsyncWrite + Send + 'static,
        peer: impl Clone + Send + Sync + 'static,
        slot: &Arc<Slot>,
    ) {
        let service = service_fn(|request: Request<Incoming>| {
            let busy = slot.answer();
            let slot = Some(Arc::clone(slot));
            let mut request = request.map(|body| Body::new(InTime::new(body, slot, self.request_timeout)));
            request.extensions_mut().insert(peer.clone());
            let answering = self.app.call(request);
            async move { answering.await.map(|response| response.map(|body| BodyInFlight::new(body, busy))) }
        });
        let mut connection = pin!(self.http().serve_connection(self.timed(io), service));
        let mut stop = pin!(until(self.stopped.clone()));
        let (mut asked_to_go, mut asked_to_stop) = (false, false);
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = slot.gone(), if !asked_to_go => {
                    count(&self.turned_away().made_room);
                    if !slot.is_answered() {
                        return;
                    }
                    // A request has come in the same moment.
                    asked_to_go = true;
                }
                () = &mut stop, if !asked_to_stop => asked_to_stop = true,
            }
            connection.as_mut().graceful_shutdown();
        }
    }

    /// Says that there are too many, and only to who asks for it whether the daemon lives.
    async fn refuse(&self, io: impl AsyncRead + AsyncWrite + Send + 'static, peer: &impl Source) {
        let service = service_fn(|request: Request<Incoming>| {
            let mut request = request.map(|body| Body::new(InTime::new(body, None, SPARE_TIME)));
            if !http::is_of_health(request.uri().path()) {
                count(&self.turned_away().refused);
                self.tell_refused(peer);
                request.extensions_mut().insert(Crowded(self.max_connections));
            }
            self.app.call(request)
        });
        let _ = self.http().keep_alive(false).serve_connection(self.timed(io), service).await;
    }

    /// Tells of a connection for which there was no place, whether there was one to say so or not.
    fn tell_refused(&self, peer: &impl Source) {
        let source = peer.source();
        if self.refusals.may_tell(&source) {
            tracing::warn!(
                code = Code::Overloaded.text().0,
                "a connection from {source} beyond {} was refused; listen.max_connections may be raised",
                self.max_connections
            );
        }
    }

    fn turned_away(&self) -> &TurnedAway {
        &self.handle.metrics().turned_away
    }

    fn http(&self) -> http1::Builder {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.request_timeout).max_buf_size(MAX_HEAD);
        http
    }

    /// The connection, which fails where its client takes nothing of an answer for too long.
    fn timed<Io: AsyncRead + AsyncWrite>(&self, io: Io) -> TokioIo<std::pin::Pin<Box<TimeoutWriter<Io>>>> {
        let mut io = TimeoutWriter::new(io);
        io.set_timeout(Some(self.request_timeout));
        TokioIo::new(Box::pin(io))
    }
}
