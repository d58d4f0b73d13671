//! The stream of updates of a run, over a web socket.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use glassgrad_studio::train::Watcher;
use tokio::time::{Instant, sleep_until, timeout};

/// At most sixty times a second something is sent.
const BETWEEN: Duration = Duration::from_micros(16_600);
/// A client that does not accept a message within this time counts as disconnected.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of pings; a watcher sends nothing but pongs.
const PULSE: Duration = Duration::from_secs(10);

/// Sends the latest of each kind, until the page or the run is gone.
pub(super) async fn serve(mut socket: WebSocket, mut watcher: Watcher) {
    let (mut due, mut pulse) = (Instant::now(), Instant::now() + PULSE);
    loop {
        for message in watcher.messages() {
            // A copy for each page: the broadcast keeps its own.
            let sent = socket.send(Message::Text(message.as_ref().into()));
            if !matches!(timeout(TIMEOUT, sent).await, Ok(Ok(()))) {
                return;
            }
        }
        if watcher.is_closed() {
            let _ = timeout(TIMEOUT, socket.send(Message::Close(None))).await;
            return;
        }
        due = (due + BETWEEN).max(Instant::now());
        // What a page says is only listened to for its end.
        let changed = async {
            sleep_until(due).await;
            watcher.changed().await
        };
        tokio::pin!(changed);
        loop {
            tokio::select! {
                () = &mut changed => break,
                heard = socket.recv() => match heard {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => {}
                },
                () = sleep_until(pulse) => {
                    pulse = Instant::now() + PULSE;
                    if !matches!(timeout(TIMEOUT, socket.send(Message::Ping(Vec::new().into()))).await, Ok(Ok(()))) {
                        return;
                    }
                }
            }
        }
    }
}
