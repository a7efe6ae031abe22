//! The socket that answers questions about the drive: a line of JSON for a line of JSON.
//!
//! Requests are `{"request": "stats"}`, with `"buckets": true` for whole histograms, `power-cut`,
//! `reset-stats` and `stop`. Answers are `{"ok": true, ...}` or `{"ok": false, "error": "..."}`.
//! Threads of its own speak with clients and write the JSON; the thread that serves is only asked
//! for what it has counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::options::Way;
use crate::Error;
use crate::report::{Snapshot, Statistics};
use crate::transport::socket::{Endpoint, Listener, Stream};

/// Longer lines are not read.
const LONGEST_LINE: u64 = 4096;
/// Clients at a time; further ones are turned away.
const MOST_CLIENTS: usize = 16;
/// Without a request for so long a client is sent away.
const PATIENCE: Duration = Duration::from_secs(60);
/// The thread that serves answers at once, unless it has ended.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// What was counted.
    Stats,
    /// Power is cut, and comes back.
    PowerCut,
    /// Counting begins anew.
    ResetStats,
    /// The drive ends.
    Stop,
}

/// A question, and where the answer goes.
#[derive(Debug)]
pub struct Asked {
    /// The question.
    pub question: Question,
    /// Where the answer goes.
    pub to: SyncSender<Told>,
}

/// The answer of the thread that serves.
#[derive(Debug)]
pub enum Told {
    /// What was counted.
    Stats(Box<Snapshot>, Vec<Way>),
    /// Power was cut, and so many pages were lost.
    PowerCut(u64),
    /// It is done.
    Done,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    request: Question,
    #[serde(default)]
    buckets: bool,
}

#[derive(Serialize)]
struct WithWays {
    #[serde(flatten)]
    statistics: Statistics,
    ways: Vec<Way>,
}

/// The socket, which goes when this is dropped.
pub struct Control {
    /// What is asked.
    pub questions: Receiver<Asked>,
    end: Arc<OwnedFd>,
    listens: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct Asker {
    ask: Sender<Asked>,
    bell: Arc<OwnedFd>,
}

impl Control {
    /// Listens at `path`, for the same user alone; `bell` wakes the thread that serves.
    ///
    /// # Errors
    /// [`Error::System`] for a place that is taken or cannot be.
    pub fn listen(path: &Path, bell: OwnedFd) -> Result<Self, Error> {
        let failed = |error| Error::system("cannot answer for statistics", error);
        let listener = Listener::bind(&Endpoint::Unix(path.to_owned()))
            .map_err(|error| failed(std::io::Error::other(error)))?;
        let (ask, questions) = channel();
        let asker = Asker {
            ask,
            bell: Arc::new(bell),
        };
        let end = rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
        let end = Arc::new(end.map_err(|error| failed(error.into()))?);
        let ends = Arc::clone(&end);
        let listens = thread::Builder::new()
            .name("ioassay-control".into())
            .spawn(move || listen(&listener, &asker, &ends))
            .map_err(failed)?;
        Ok(Self {
            questions,
            end,
            listens: Some(listens),
        })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes()); // at zero it takes one
        if let Some(listens) = self.listens.take() {
            let _ = listens.join(); // the socket is gone then, whatever the thread says
        }
    }
}

fn listen(listener: &Listener, asker: &Asker, end: &OwnedFd) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let mut waits = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(end, PollFlags::IN),
        ];
        let _ = rustix::event::poll(&mut waits, None); // a signal makes it look, too
        if !waits[1].revents().is_empty() {
            return;
        }
        if let Ok(Some(Stream::Unix(client))) = listener.accept() {
            take(client, asker, &clients);
        }
    }
}

fn take(client: UnixStream, asker: &Asker, clients: &Arc<AtomicUsize>) {
    if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
        clients.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (asker, counted) = (asker.clone(), Arc::clone(clients));
    let thread = thread::Builder::new()
        .name("ioassay-control".into())
        .spawn(move || {
            // A client that fails is gone, and nobody else notices.
            let _ = converse(&client, &asker);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
    if thread.is_err() {
        clients.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(client: &UnixStream, asker: &Asker) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(LONGEST_LINE);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        let answer = if whole {
            answer(&line, asker)
        } else {
            refusal(&format!("wanted a line of at most {LONGEST_LINE} bytes"))
        };
        let mut text = answer.to_string();
        text.push('\n');
        (&*client).write_all(text.as_bytes())?;
        if !whole {
            return Ok(());
        }
    }
}

fn answer(line: &[u8], asker: &Asker) -> Value {
    let request: Request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            return refusal(&format!(
                "{error}; wanted {{\"request\": \"stats\"}}, power-cut, reset-stats or stop"
            ));
        }
    };
    match asker.ask(request.request) {
        None => refusal("the drive has ended"),
        Some(Told::Done) => json!({"ok": true}),
        Some(Told::PowerCut(lost_pages)) => json!({"ok": true, "lost_pages": lost_pages}),
        Some(Told::Stats(snapshot, ways)) => {
            let statistics = snapshot.statistics(request.buckets);
            json!({"ok": true, "stats": WithWays { statistics, ways }})
        }
    }
}

fn refusal(error: &str) -> Value {
    json!({"ok": false, "error": error})
}

impl Asker {
    fn ask(&self, question: Question) -> Option<Told> {
        let (to, told) = sync_channel(1);
        self.ask.send(Asked { question, to }).ok()?;
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes()); // it is awake, or will be soon
        told.recv_timeout(ANSWER_TIME).ok()
    }
}
