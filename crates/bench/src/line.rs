//! A line to a server on which each request takes a while longer, as to a bucket that is far away.

use std::time::Duration;

use asat_core::Problem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::failed;

/// Listens on a port of its own, and hands everything on to a server; answers where it listens. What a client sends waits for this long, what the
/// server answers does not.
pub(super) async fn listen(server: &str, delay: Duration) -> Result<String, Problem> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| failed("listen", error))?;
    let address = listener.local_addr().map_err(|error| failed("listen", error))?;
    let server = server.to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(&server).await else { continue };
            let ((from_client, to_client), (from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(hand_on(from_client, to_server, delay));
            tokio::spawn(hand_on(from_server, to_client, Duration::ZERO));
        }
    });
    Ok(format!("http://{address}"))
}

/// Hands everything on until one end closes.
async fn hand_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let Some(read) = bytes.get(..count) else { return };
        if to.write_all(read).await.is_err() {
            return;
        }
    }
    // The other end hears of it; one that is gone needs not.
    let _ = to.shutdown().await;
}
