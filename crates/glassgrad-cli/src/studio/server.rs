//! Listening, and the limits of every request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use super::connections::Door;
use super::security::{Guard, guarded};
use super::train::{self, Hall};
use super::{api, assets};
use crate::failure::{Failure, print};
use crate::sources::Place;

/// The longest request, in bytes.
const LARGEST_REQUEST: usize = 64 * 1024;
/// The longest time from the head of a request to its answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many questions are worked on at the same time.
const AT_ONCE: usize = 4;
/// The stack of a thread: nesting is limited by number where text is read, and this holds that many levels.
const STACK: usize = 16 << 20;

/// Where to listen.
pub(crate) struct Settings {
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    pub(crate) opens_browser: bool,
    /// Where large data sets are looked for.
    pub(crate) places: Place,
    /// How long a run stays when no page shows it.
    pub(crate) linger: Duration,
}

/// Serves the studio until someone presses Ctrl-C.
pub(crate) fn serve(settings: &Settings) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(|error| Failure::Result(format!("the server cannot start: {error}")))?;
    let ended = runtime.block_on(listen(settings));
    // What is still being worked on is for nobody.
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
    let hall = Hall::new(settings.places.clone(), settings.linger);
    tokio::spawn(Arc::clone(&hall).look_after());
    // Whoever reads the address may press Ctrl-C at once, so that it is listened for before anything is printed.
    let asked_to_end = Arc::new(Notify::new());
    let heard = Arc::clone(&asked_to_end);
    ctrlc::set_handler(move || heard.notify_one())
        .map_err(|error| Failure::Result(format!("the server cannot listen for Ctrl-C: {error}")))?;
    let address = format!("http://{}/{}", reachable(at), guard.query());
    let elsewhere = if at.ip().is_unspecified() { "it is at every other address of this machine too\n" } else { "" };
    print(&format!("glassgrad studio: {address}\n{elsewhere}Ctrl-C ends it\n"))?;
    if opens_browser {
        open_browser(&address);
    }
    tokio::select! {
        ended = axum::serve(Door::new(listener), router(guard, Arc::clone(&hall))).into_future() => {
            ended.map_err(|error| Failure::Result(format!("the server ended: {error}")))
        }
        () = asked_to_end.notified() => Ok(()),
    }
}

/// An address that a browser on this machine can open: who listens at all addresses also listens at its own.
fn reachable(at: SocketAddr) -> SocketAddr {
    let own: IpAddr = if at.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    if at.ip().is_unspecified() { SocketAddr::new(own, at.port()) } else { at }
}

fn router(guard: Guard, hall: Arc<Hall>) -> Router {
    let desks = Arc::new(Semaphore::new(AT_ONCE));
    Router::new()
        .route("/api/explore", post(api::explore))
        .route("/api/compare", post(api::compare))
        .route("/api/derive", post(api::derive))
        .route("/api/gallery", get(api::gallery))
        .fallback(get(assets::serve))
        .with_state(Arc::clone(&desks))
        .layer(DefaultBodyLimit::max(LARGEST_REQUEST))
        .merge(train::routes(hall, desks))
        .layer(from_fn(in_time))
        .layer(from_fn_with_state(guard, guarded))
}

/// Ends a request that takes too long, such as one whose body never comes.
async fn in_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(PATIENCE, next.run(request)).await;
    answer.unwrap_or_else(|_| (StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response())
}

/// Asks the system to show an address. Where it cannot, the address has been printed.
fn open_browser(address: &str) {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let quiet = Stdio::null;
    let _ = Command::new(program).args(arguments).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
