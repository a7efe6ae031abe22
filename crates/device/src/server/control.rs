//! The control socket of a drive: one line of JSON per request, one line of JSON per answer.
//!
//! Requests are `{"request": "stats"}`, with `"buckets": true` for whole histograms, `power-cut`, with
//! `"keep_connections": true` if they are to survive, `fault-inject` with `faults`, `fault-list`, `fault-clear` with a
//! `fault` or for all, `reset-stats` and `stop`. Answers are `{"ok": true, ...}` or `{"ok": false, "error": "..."}`.
//! Its own threads serve the clients and write the JSON. The thread that serves the drive only takes the snapshot.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};

use serde::Deserialize;
use serde_json::{Value, json};

use super::options::TransportReport;
use crate::Error;
use crate::faults::Fault;
use crate::report::{DISTRIBUTIONS, Report};
use crate::transport::socket::{Endpoint, Listener};

/// What a refusal of a line expects.
const REQUESTS: &str = r#"{"request": "stats"}, power-cut, fault-inject, fault-list, fault-clear, reset-stats or stop"#;
/// Bytes of a request at most.
const LONGEST_LINE: u64 = 64 << 10;
/// Clients at a time; further ones are turned away.
const MOST_CLIENTS: usize = 16;
/// A client without a request for this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);
/// The thread that serves answers at once, unless it has ended.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// A drive that ends waits so long for clients that do not take their answers.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// A snapshot of all counters.
    Stats {
        #[serde(default)]
        buckets: bool,
    },
    /// Power is cut, and restored.
    PowerCut {
        #[serde(default)]
        keep_connections: bool,
    },
    /// Faults are armed: all or none.
    FaultInject {
        faults: Vec<Fault>,
    },
    /// All faults, with their counts.
    FaultList {},
    FaultClear {
        /// The number of one; absent for all.
        fault: Option<u64>,
    },
    /// Counters start again at 0.
    ResetStats {},
    Stop {},
}

/// A request, and where its reply goes.
#[derive(Debug)]
pub struct PendingRequest {
    pub request: ControlRequest,
    pub reply_to: SyncSender<ControlReply>,
}

/// The reply of the thread that serves.
#[derive(Debug)]
pub enum ControlReply {
    /// The counters, and the transports: another thread makes JSON of them.
    Stats(Box<Report>, Vec<TransportReport>),
    /// What the answer says of a request that was carried out, or why another was not.
    Done(Result<Value, Error>),
}

/// The socket, which is removed when this is dropped. Requests that were read before are answered.
pub struct Control {
    pub requests: Receiver<PendingRequest>,
    unanswered: Arc<AtomicUsize>,
    end: Arc<OwnedFd>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct RequestSender {
    requests: Sender<PendingRequest>,
    unanswered: Arc<AtomicUsize>,
    wakeup: Arc<OwnedFd>,
}

impl Control {
    /// Listens at `path`, for the same user alone; `wakeup` wakes the thread that serves.
    pub fn listen(path: &Path, wakeup: OwnedFd) -> Result<Self, Error> {
        let failed = |error| Error::system("cannot answer for statistics", error);
        let listener =
            Listener::bind(&Endpoint::Unix(path.to_owned())).map_err(|error| failed(std::io::Error::other(error)))?;
        let (sender, receiver) = channel();
        let sender = RequestSender { requests: sender, unanswered: Arc::default(), wakeup: Arc::new(wakeup) };
        let unanswered = Arc::clone(&sender.unanswered);
        let end = rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
        let end = Arc::new(end.map_err(|error| failed(error.into()))?);
        let ends = Arc::clone(&end);
        let thread = thread::Builder::new()
            .name("ioassay-control".into())
            .spawn(move || listen(&listener, &sender, &ends))
            .map_err(failed)?;
        Ok(Self { requests: receiver, unanswered, end, listener: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes()); // at zero it takes one
        if let Some(listener) = self.listener.take() {
            let _ = listener.join(); // the socket is gone then, whatever the thread says
        }
        let begun = Instant::now();
        while self.unanswered.load(Ordering::Relaxed) > 0 && begun.elapsed() < LAST_ANSWER_TIME {
            drop(self.requests.try_recv()); // which tells its client that the drive has ended
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn listen(listener: &Listener, sender: &RequestSender, end: &OwnedFd) {
    let clients = Arc::new(()); // each has a copy
    loop {
        let mut waits = [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        let _ = rustix::event::poll(&mut waits, None); // a signal makes it look, too
        if !waits[1].revents().is_empty() {
            return;
        }
        if let Ok(Some(client)) = listener.accept() {
            take(OwnedFd::from(client).into(), sender, &clients);
        }
    }
}

fn take(client: UnixStream, sender: &RequestSender, clients: &Arc<()>) {
    if Arc::strong_count(clients) > MOST_CLIENTS {
        return;
    }
    let (sender, counted) = (sender.clone(), Arc::clone(clients));
    // A client that fails, or has no thread, is gone, and nobody else notices.
    let _ = thread::Builder::new().name("ioassay-control".into()).spawn(move || {
        let _ = serve_client(&client, &sender);
        drop(counted);
    });
}

fn serve_client(client: &UnixStream, sender: &RequestSender) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let (mut reader, mut writer) = (BufReader::new(client), client);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(LONGEST_LINE);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        sender.unanswered.fetch_add(1, Ordering::Relaxed);
        let refused = || refusal(&format!("expected a line of at most {LONGEST_LINE} bytes"));
        let answer = if whole { answer(&line, sender) } else { refused() };
        let written = writer.write_all(format!("{answer}\n").as_bytes());
        sender.unanswered.fetch_sub(1, Ordering::Relaxed);
        written?;
        if !whole {
            return Ok(());
        }
    }
}

fn answer(line: &[u8], sender: &RequestSender) -> Value {
    let request: ControlRequest = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return refusal(&format!("{error}; expected {REQUESTS}")),
    };
    let buckets = request == ControlRequest::Stats { buckets: true };
    match sender.send(request) {
        None => refusal("the drive has ended"),
        Some(ControlReply::Done(Err(error))) => refusal(&error.to_string()),
        Some(ControlReply::Done(Ok(mut answer))) => {
            answer["ok"] = json!(true);
            answer
        }
        Some(ControlReply::Stats(report, transports)) => {
            let mut stats = json!(report);
            stats["ways"] = json!(transports);
            for distribution in if buckets { &[][..] } else { &DISTRIBUTIONS } {
                stats.pointer_mut(distribution).and_then(|of| of.as_object_mut()?.remove("buckets"));
            }
            json!({"ok": true, "stats": stats})
        }
    }
}

fn refusal(error: &str) -> Value {
    json!({"ok": false, "error": error})
}

impl RequestSender {
    fn send(&self, request: ControlRequest) -> Option<ControlReply> {
        let (reply_to, reply) = sync_channel(1);
        self.requests.send(PendingRequest { request, reply_to }).ok()?;
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes()); // it is awake, or will be soon
        reply.recv_timeout(ANSWER_TIME).ok()
    }
}
