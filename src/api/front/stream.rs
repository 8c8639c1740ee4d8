//! Client socket with deadlines for idle time, headers, and answers that are not read.
//!
//! A missed deadline ends the connection. The work between a request and its answer has none here, nor has the
//! request's body (`body.rs` has one). The socket is not closed while bytes are still arriving, if they end soon: a
//! close over unread bytes resets the connection, and the answer is lost.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use super::wire_checks::{LengthConflictDetector, problem_for};
use umbra_config::settings;

/// Longest time, and most bytes, that are read and dropped between the last answer and the close of the socket.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 16 * 1024 * 1024);

/// Phase of the request on a connection. Shared with its service; all of it runs in one task.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<State>);

#[derive(Debug, Default)]
struct State {
    phase: AtomicU8,
    /// True if the request's head gives the length of its body in two ways.
    two_lengths: AtomicBool,
}

impl Phase {
    const WAITING: u8 = 0;
    const BUSY: u8 = 1;
    const ANSWERED: u8 = 2;

    /// Marks the end of the headers: the work begins.
    pub(super) fn begin(&self) {
        self.0.phase.store(Self::BUSY, Ordering::Relaxed);
    }

    /// Returns and clears the flag that the head of the request gives the length of its body in two ways.
    pub(super) fn take_two_lengths(&self) -> bool {
        self.0.two_lengths.swap(false, Ordering::Relaxed)
    }

    /// Marks the end of the answer: its last byte was handed over.
    pub(super) fn end(&self) {
        self.0.phase.store(Self::ANSWERED, Ordering::Relaxed);
    }
}

/// Bytes that the client must send next.
#[derive(Debug, Clone, Copy)]
enum ExpectedInput {
    /// Rest of the headers, with their deadline.
    Headers(Instant),
    /// Next request, with its deadline.
    Request(Instant),
    /// Nothing: a request is being worked on.
    Nothing,
}

/// Socket with deadlines.
#[derive(Debug)]
pub(super) struct TimedStream {
    socket: TcpStream,
    phase: Phase,
    settings: Arc<settings::Server>,
    owed: ExpectedInput,
    /// Timer of the deadline, made when first needed.
    alarm: Alarm,
    stalled: Option<Instant>,
    stall_alarm: Alarm,
    /// Time at which lingering ends, and bytes that may still be dropped.
    lingering: Option<(Instant, usize)>,
    head: LengthConflictDetector,
    /// Problem sent in place of an answer of hyper's own, and the bytes of it that were taken.
    instead: Option<(Vec<u8>, usize)>,
}

impl TimedStream {
    /// Returns a stream over a socket whose first byte has arrived.
    pub(super) fn new(socket: TcpStream, phase: Phase, settings: Arc<settings::Server>) -> Self {
        let owed = ExpectedInput::Headers(Instant::now() + settings.header_timeout);
        let (alarm, stall_alarm) = (Alarm::default(), Alarm::default());
        Self {
            socket,
            phase,
            settings,
            owed,
            alarm,
            stalled: None,
            stall_alarm,
            lingering: None,
            head: LengthConflictDetector::default(),
            instead: None,
        }
    }

    /// Follows the phase that the service has set since the last read.
    fn follow_phase(&mut self) {
        match self.phase.0.phase.load(Ordering::Relaxed) {
            Phase::BUSY => self.owed = ExpectedInput::Nothing,
            Phase::ANSWERED => {
                self.owed = ExpectedInput::Request(Instant::now() + self.settings.idle_timeout);
                self.phase.0.phase.store(Phase::WAITING, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Fails once the deadline of the client's next bytes has passed.
    fn poll_owed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (ExpectedInput::Headers(deadline) | ExpectedInput::Request(deadline)) = self.owed else {
            return Poll::Pending;
        };
        ready!(self.alarm.poll(cx, deadline));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Starts the time for the headers at the first byte of a request.
    fn arrived(&mut self) {
        if matches!(self.owed, ExpectedInput::Request(_)) {
            self.owed = ExpectedInput::Headers(Instant::now() + self.settings.header_timeout);
            self.head.begin();
        }
    }

    /// Sends a problem in place of an answer of hyper's own; `None` for all other bytes.
    fn poll_instead(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() && self.phase.0.phase.load(Ordering::Relaxed) != Phase::BUSY {
            self.instead = problem_for(data).map(|bytes| (bytes, 0));
        }
        let (bytes, mut sent) = self.instead.take()?;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            let written = Pin::new(&mut self.socket).poll_write(cx, rest);
            match self.watch_stall(cx, written) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(count)) => sent += count,
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => {
                    self.instead = Some((bytes, sent));
                    return Some(Poll::Pending);
                }
            }
        }
        Some(Poll::Ready(Ok(data.len())))
    }

    /// Fails once the client has taken nothing of the answer for too long.
    fn watch_stall<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let deadline = *self.stalled.get_or_insert_with(|| Instant::now() + self.settings.write_timeout);
        ready!(self.stall_alarm.poll(cx, deadline));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and drops bytes until the client closes, the time is over, or enough has come.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (until, mut left) = *self.lingering.get_or_insert_with(|| (Instant::now() + LINGER.0, LINGER.1));
        let mut scrap = [0_u8; 8192];
        loop {
            let mut buffer = ReadBuf::new(&mut scrap);
            match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Pending => return self.alarm.poll(cx, until),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    left = left.saturating_sub(buffer.filled().len());
                    self.lingering = Some((until, left));
                    if left == 0 || Instant::now() >= until {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.follow_phase();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, buffer);
        if read.is_pending() {
            return this.poll_owed(cx);
        }
        let arrived = buffer.filled().get(before..).unwrap_or_default();
        if !arrived.is_empty() {
            this.arrived();
            if matches!(this.owed, ExpectedInput::Headers(_)) && this.head.saw(arrived, this.settings.max_header_bytes)
            {
                this.phase.0.two_lengths.store(true, Ordering::Relaxed);
            }
        }
        read
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(sent) = self.poll_instead(cx, data) {
            return sent;
        }
        let written = Pin::new(&mut self.socket).poll_write(cx, data);
        self.watch_stall(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
        }
        self.poll_linger(cx).map(Ok)
    }
}

/// Timer that is seldom touched: if it fires before a deadline that has moved on, it is set again.
#[derive(Debug, Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Completes once the deadline has passed.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}
