//! Listening, and the limits of every request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use glassgrad_studio::{Limits, Studio};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::browser;
use super::connections::{Connection, Door};
use super::requests::routes;
use super::security::{Guard, guarded};
use super::threads::threads;
use crate::device::DeviceChoice;
use crate::failure::{Failure, print};
use crate::sources::DataLocation;

/// The memory of all runs, about.
const MOST_BYTES: usize = 2 << 30;
/// Between two deletions of idle runs.
const BETWEEN_DELETIONS: Duration = Duration::from_millis(500);
/// The stack of a thread: nesting is limited by number where text is read, and this holds that many levels.
const STACK: usize = 16 << 20;

/// Where to listen.
pub(crate) struct Settings {
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    pub(crate) opens_browser: bool,
    /// The search path of large datasets.
    pub(crate) places: DataLocation,
    /// Where networks are trained.
    pub(crate) device: DeviceChoice,
    /// The lifetime of a run without watchers.
    pub(crate) linger: Duration,
    /// The longest time from the first to the last byte of the head of a request.
    pub(crate) header_timeout: Duration,
    /// The longest time from the head of a request to its answer, in which its body has to come too.
    pub(crate) request_timeout: Duration,
}

/// Serves the studio until Ctrl-C.
pub(crate) fn serve(settings: &Settings) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(|error| Failure::Result(format!("the server cannot start: {error}")))?;
    let ended = runtime.block_on(listen(settings));
    // The results of unfinished work are not needed.
    runtime.shutdown_background();
    ended
}

async fn listen(settings: &Settings) -> Result<(), Failure> {
    let Settings { host, port, opens_browser, .. } = *settings;
    let listener = TcpListener::bind(SocketAddr::new(host, port)).await.map_err(|error| {
        Failure::Input(format!(
            "cannot listen at {}: {error}\n  = help: choose another port with --port, or --port 0",
            SocketAddr::new(host, port)
        ))
    })?;
    let at = listener.local_addr().map_err(|error| Failure::Result(format!("the server has no address: {error}")))?;
    let guard = Guard::new(host)?;
    let limits = Limits { bytes: MOST_BYTES, linger: settings.linger };
    let studio = Studio::new(Box::new(settings.places.clone()), threads(settings.device.clone()), limits);
    tokio::spawn(collect_garbage(Arc::clone(&studio)));
    // The handler is installed before the address is printed: the user may press Ctrl-C at once.
    let interrupted = Arc::new(Notify::new());
    let heard = Arc::clone(&interrupted);
    ctrlc::set_handler(move || heard.notify_one())
        .map_err(|error| Failure::Result(format!("the server cannot listen for Ctrl-C: {error}")))?;
    let address = format!("http://{}/{}", reachable(at), guard.query());
    let elsewhere = if at.ip().is_unspecified() { "it is at every other address of this machine too\n" } else { "" };
    print(&format!("glassgrad studio: {address}\n{elsewhere}Ctrl-C ends it\n"))?;
    // Kept until the end: a page that holds a token is removed with it.
    let _page = opens_browser.then(|| browser::open(&address, guard.has_token()));
    let door = Door::new(listener, settings.header_timeout);
    let service = router(guard, studio, settings.request_timeout);
    tokio::select! {
        ended = axum::serve(door, service.into_make_service_with_connect_info::<Connection>()).into_future() => {
            ended.map_err(|error| Failure::Result(format!("the server ended: {error}")))
        }
        () = interrupted.notified() => Ok(()),
    }
}

/// An address that a browser on this machine can open: who listens at all addresses also listens at its own.
fn reachable(at: SocketAddr) -> SocketAddr {
    let own: IpAddr = if at.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    if at.ip().is_unspecified() { SocketAddr::new(own, at.port()) } else { at }
}

async fn collect_garbage(studio: Arc<Studio>) {
    loop {
        tokio::time::sleep(BETWEEN_DELETIONS).await;
        studio.collect_garbage();
    }
}

fn router(guard: Guard, studio: Arc<Studio>, request_timeout: Duration) -> Router {
    routes(studio)
        .layer(from_fn_with_state(request_timeout, in_time))
        .layer(from_fn_with_state(guard, guarded))
        .layer(from_fn(seated))
}

/// Lets the connection know that one of its requests is being answered.
async fn seated(ConnectInfo(Connection(seat)): ConnectInfo<Connection>, request: Request, next: Next) -> Response {
    let mut answering = seat.answering();
    let answer = next.run(request).await;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        answering.becomes_stream();
    }
    answer
}

/// Ends a request that takes too long, such as one whose body never comes, and refuses more streams than there is room for.
async fn in_time(
    State(request_timeout): State<Duration>,
    ConnectInfo(Connection(seat)): ConnectInfo<Connection>,
    request: Request,
    next: Next,
) -> Response {
    if request.headers().contains_key(header::UPGRADE) && !seat.has_room_for_stream() {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many streams are open; close a page\n").into_response();
    }
    let answer = tokio::time::timeout(request_timeout, next.run(request)).await;
    answer.unwrap_or_else(|_| (StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response())
}
