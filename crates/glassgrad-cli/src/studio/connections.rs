//! Connection limits: in total and per address, with deadlines for idle connections.
//!
//! A client that sends its request a byte at a time would otherwise hold a place for as long as it likes. The head of a
//! request has a deadline from its first byte to its last. Where all places are taken, a new connection takes the place of
//! the one that has been waiting longest without a complete request, so that an honest client is always let in.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

/// The maximum number of simultaneous connections.
const MOST: usize = 256;
/// The maximum per address: a browser opens six, and one for each stream.
const MOST_OF_ADDRESS: usize = 64;
/// The maximum number of streams per address, so that requests always find a free connection.
const MOST_STREAMS_OF_ADDRESS: usize = 32;
/// A connection on which nothing comes, or nothing is taken, for so long is closed: a browser opens another when it needs
/// one, and a page that watches a run answers the pulse of its stream long before.
const SILENCE: Duration = Duration::from_secs(60);
/// The answer to a connection for which there is no place.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// A listener with a maximum number of connections.
pub(super) struct Door {
    listener: TcpListener,
    places: Arc<Places>,
    /// The time from the first to the last byte of the head of a request.
    head: Duration,
}

impl Door {
    pub(super) fn new(listener: TcpListener, head: Duration) -> Door {
        Door { listener, places: Arc::default(), head }
    }
}

impl Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => match Places::admit(&self.places, address.ip()) {
                    Some(seat) => return (Guest::new(stream, seat, self.head), address),
                    None => drop(stream.try_write(FULL)),
                },
                // What failed was this connection, or there are too many files: others may be gone in a moment.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The connections that are open.
#[derive(Default)]
struct Places(Mutex<Vec<Arc<Seat>>>);

impl Places {
    fn seats(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from an address. Where there is none, the connection that has been waiting longest without a
    /// complete request is closed; `None` if all are being answered.
    fn admit(places: &Arc<Places>, address: IpAddr) -> Option<Arc<Seat>> {
        let mut seats = places.seats();
        seats.retain(|seat| !seat.state().is_evicted);
        let of_address = seats.iter().filter(|seat| seat.address == address).count();
        if of_address >= MOST_OF_ADDRESS || seats.len() >= MOST {
            let is_candidate = |seat: &&Arc<Seat>| of_address < MOST_OF_ADDRESS || seat.address == address;
            let waiting = seats.iter().filter(is_candidate).filter(|seat| seat.state().phase.is_waiting());
            let oldest = waiting.min_by_key(|seat| seat.state().since).map(Arc::clone)?;
            oldest.evict();
            seats.retain(|seat| !Arc::ptr_eq(seat, &oldest));
        }
        let state = ConnectionState { phase: Phase::Idle, since: Instant::now(), is_evicted: false, waker: None };
        let seat = Arc::new(Seat { address, state: Mutex::new(state), places: Arc::clone(places) });
        seats.push(Arc::clone(&seat));
        Some(seat)
    }
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// No byte of a request has come.
    Idle,
    /// A head is being read, since this moment.
    Head(Instant),
    /// A request is being answered.
    Answer,
    /// It has become a stream.
    Stream,
}

impl Phase {
    fn is_waiting(self) -> bool {
        matches!(self, Phase::Idle | Phase::Head(_))
    }
}

/// The place of a connection, which the server and its requests share.
pub(super) struct Seat {
    address: IpAddr,
    state: Mutex<ConnectionState>,
    places: Arc<Places>,
}

struct ConnectionState {
    phase: Phase,
    /// When the connection was opened, or bytes of its last answer were taken.
    since: Instant,
    is_evicted: bool,
    /// The waker of the task that reads it.
    waker: Option<Waker>,
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection when it is next polled.
    fn evict(&self) {
        let mut state = self.state();
        state.is_evicted = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Whether one more stream may go to this address.
    pub(super) fn has_room_for_stream(&self) -> bool {
        let is_stream = |seat: &&Arc<Seat>| seat.address == self.address && seat.state().phase == Phase::Stream;
        self.places.seats().iter().filter(is_stream).count() < MOST_STREAMS_OF_ADDRESS
    }

    /// From here on a request is being answered, until what is returned is dropped.
    pub(super) fn answering(self: &Arc<Seat>) -> Answering {
        self.state().phase = Phase::Answer;
        Answering { seat: Arc::clone(self), then: Phase::Idle }
    }
}

/// A request that is being answered.
pub(super) struct Answering {
    seat: Arc<Seat>,
    then: Phase,
}

impl Answering {
    /// The connection becomes a stream.
    pub(super) fn becomes_stream(&mut self) {
        self.then = Phase::Stream;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.seat.state();
        (state.phase, state.since) = (self.then, Instant::now());
    }
}

/// The connection of a request.
#[derive(Clone)]
pub(super) struct Connection(pub(super) Arc<Seat>);

impl Connected<IncomingStream<'_, Door>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Connection {
        Connection(Arc::clone(&stream.io().seat))
    }
}

/// A connection that holds its place.
pub(super) struct Guest {
    stream: TcpStream,
    seat: Arc<Seat>,
    head: Duration,
    /// When bytes last came.
    heard: Instant,
    reading: Pin<Box<Sleep>>,
    /// Since when writes to the client are blocked.
    writing: Option<Pin<Box<Sleep>>>,
}

impl Guest {
    fn new(stream: TcpStream, seat: Arc<Seat>, head: Duration) -> Guest {
        Guest { stream, seat, head, heard: Instant::now(), reading: Box::pin(sleep(SILENCE)), writing: None }
    }

    /// Waits for a client that takes nothing, up to a limit.
    fn written<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let limit = self.writing.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
        ready!(limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.seat.places.seats().retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

impl AsyncRead for Guest {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let guest = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut guest.stream).poll_read(context, buffer);
        let deadline = {
            let mut state = guest.seat.state();
            if state.is_evicted {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            if read.is_ready() && buffer.filled().len() > before {
                guest.heard = Instant::now();
                if state.phase == Phase::Idle {
                    state.phase = Phase::Head(guest.heard);
                }
            }
            state.waker = Some(context.waker().clone());
            match state.phase {
                Phase::Head(began) => began + guest.head,
                // A request that is answered has a limit of its own.
                Phase::Idle | Phase::Answer | Phase::Stream => guest.heard.max(state.since) + SILENCE,
            }
        };
        if deadline <= Instant::now() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if read.is_ready() {
            return read;
        }
        if guest.reading.deadline() != deadline {
            guest.reading.as_mut().reset(deadline);
        }
        ready!(guest.reading.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Guest {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let guest = self.get_mut();
        let written = Pin::new(&mut guest.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            // An answer that is being taken, however slowly, is not silence.
            guest.seat.state().since = Instant::now();
        }
        guest.written(written, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guest = self.get_mut();
        let flushed = Pin::new(&mut guest.stream).poll_flush(context);
        guest.written(flushed, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_one_that_waits_longest() {
        let places = Arc::default();
        let seats: Vec<Arc<Seat>> =
            (0..MOST_OF_ADDRESS).map(|_| Places::admit(&places, address(1)).expect("a place")).collect();
        // The first is being answered, so that the second has to go.
        let answering = seats[0].answering();
        let newest = Places::admit(&places, address(1)).expect("a place");
        assert_eq!([0, 1, 2].map(|place: usize| seats[place].state().is_evicted), [false, true, false]);
        // Others are not touched by an address that has too many.
        let other = Places::admit(&places, address(2)).expect("a place");
        assert!(!other.state().is_evicted && !newest.state().is_evicted);
        drop(answering);
        assert_eq!(places.seats().len(), MOST_OF_ADDRESS + 1);
    }

    #[test]
    fn at_the_limit_no_connection_is_accepted() {
        let places = Arc::default();
        let answering: Vec<Answering> =
            (0..MOST_OF_ADDRESS).map(|_| Places::admit(&places, address(1)).expect("a place").answering()).collect();
        assert!(Places::admit(&places, address(1)).is_none());
        assert!(Places::admit(&places, address(2)).is_some());
        drop(answering);
        assert!(Places::admit(&places, address(1)).is_some());
    }

    #[test]
    fn streams_leave_room_for_requests() {
        let places = Arc::default();
        for _ in 0..MOST_STREAMS_OF_ADDRESS {
            let seat = Places::admit(&places, address(1)).expect("a place");
            assert!(seat.has_room_for_stream());
            seat.answering().becomes_stream();
        }
        let seat = Places::admit(&places, address(1)).expect("a place");
        assert!(!seat.has_room_for_stream());
    }
}
