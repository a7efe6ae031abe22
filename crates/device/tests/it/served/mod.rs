//! Drives that a thread of the test serves from their options, and what clients ask them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::drives::{History, PAGE};
use crate::memory_drive::endpoint;
use ioassay_device::Error;
use ioassay_device::client::nbd::Client;
use ioassay_device::client::nvme_tcp::{Admin, Queue, Settings};
use ioassay_device::client::{Initiator, Request, Waiting};
use ioassay_device::server::{Options, Ready, Summary, TransportReport, serve};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Options of a small drive with sockets of this name, as JSON, and with some of them changed. FOLDER in them stands for
/// the folder.
pub fn options_text(folder: &Path, name: &str, changes: &Value) -> String {
    let mut options = json!({
        "size_bytes": 16 << 20,
        "geometry": {"elements": 4, "planes": 1, "dies": 1},
        "calibrate": false,
        "idle_ms": 5,
        "transports": [format!("nbd:unix:FOLDER/{name}.sock"), "nvme-tcp:127.0.0.1:0"],
        "stats_socket": format!("FOLDER/{name}.stats"),
    });
    let changes = changes.as_object().expect("an object").clone();
    options.as_object_mut().expect("an object").extend(changes);
    options.to_string().replace("FOLDER", &folder.display().to_string())
}

pub fn options(folder: &Path, name: &str, changes: &Value) -> Options {
    serde_json::from_str(&options_text(folder, name, changes)).expect("options")
}

/// A drive that a thread serves, with its sockets in a folder of its own.
pub struct ServedDrive {
    thread: JoinHandle<Result<Summary, Error>>,
    pub ready: Ready,
    folder: TempDir,
}

impl ServedDrive {
    /// A small drive, with these options changed.
    pub fn start(changes: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(folder.path(), "drive", changes);
        let (thread, ready) = spawn(move |tell| serve(&options, |ready| tell(ready.clone())));
        Self { thread, ready, folder }
    }

    /// Stops it. Its folder, in which no socket is left, stays until the caller drops it.
    pub fn stop(self) -> (Summary, TempDir) {
        stop(&self.ready);
        let summary = self.thread.join().expect("no panic").expect("a clean end");
        check_left(&self.folder);
        (summary, self.folder)
    }
}

/// Stops a drive; when this returns, it has ended.
pub fn stop(ready: &Ready) {
    assert_eq!(ready.ask(&json!({"request": "stop"})), json!({"ok": true}));
    while UnixStream::connect(ready.socket()).is_ok() {
        std::thread::yield_now();
    }
}

/// Drives that have ended left none of their sockets.
pub fn check_left(folder: &TempDir) {
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        assert!(!name.to_string_lossy().contains('.'), "{name:?} is left");
    }
}

/// How tests reach a drive, as its report says when it is ready.
pub trait Reach {
    fn report(&self) -> &Ready;

    fn transport(&self, name: &str) -> &TransportReport {
        self.report().transports.iter().find(|transport| transport.transport == name).expect("a transport")
    }

    /// Its control socket.
    fn socket(&self) -> &Path {
        self.report().stats.as_deref().expect("a control socket")
    }

    fn ask(&self, request: &Value) -> Value {
        ask(self.socket(), format!("{request}\n").as_bytes())
    }

    fn statistics(&self) -> Value {
        self.ask(&json!({"request": "stats"}))["stats"].clone()
    }

    /// A client of an export over NBD.
    fn client(&self, export: &str) -> Client {
        let at = endpoint(&self.transport("nbd").address);
        Client::connect(&at, export, true, Waiting::Sleeps).expect("a drive that serves")
    }

    /// An admin queue of its NVMe subsystem over TCP, and an I/O queue of each of these namespaces.
    fn host<const N: usize>(&self, settings: &Settings, namespaces: [u32; N]) -> (Admin, [Queue; N]) {
        let transport = self.transport("nvme-tcp");
        let name = transport.nqn.as_deref().expect("a name");
        let mut admin = Admin::connect(&endpoint(&transport.address), name, settings).expect("a host");
        admin.enable().expect("a controller");
        admin.ask_for_queues(N as u16).expect("queues");
        let mut numbers = 1..;
        let queues = namespaces.map(|id| admin.queue_of(numbers.next().expect("a number"), id).expect("a queue"));
        (admin, queues)
    }
}

impl Reach for Ready {
    fn report(&self) -> &Ready {
        self
    }
}

impl Reach for ServedDrive {
    fn report(&self) -> &Ready {
        &self.ready
    }
}

/// Serves in a thread, which tells when its drives are ready.
pub fn spawn<R: Send + 'static, T: Send + 'static>(
    serve: impl FnOnce(&dyn Fn(R)) -> T + Send + 'static,
) -> (JoinHandle<T>, R) {
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || serve(&|ready| tell.send(ready).expect("a listener")));
    (thread, told.recv().expect("a drive that starts"))
}

/// What a drive answers over its socket.
pub fn ask(path: &Path, bytes: &[u8]) -> Value {
    let mut stream = UnixStream::connect(path).expect("a socket");
    stream.write_all(bytes).expect("a listener");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    serde_json::from_str(&line).expect("JSON")
}

/// Writes a block of 4 KiB of this value.
pub fn write(client: &mut impl Initiator, block: u64, value: u8) {
    client.call(write_of(block * 4096, &[value; 4096], false)).expect("a write");
}

/// The value of a block of 4 KiB.
pub fn read(client: &mut impl Initiator, block: u64) -> u8 {
    client.call(read_of(block * 4096, 4096)).expect("a read")[0]
}

pub fn write_of(offset_bytes: u64, data: &[u8], fua: bool) -> Request<'_> {
    Request::Write { offset_bytes, data, fua }
}

pub fn read_of(offset_bytes: u64, length_bytes: u32) -> Request<'static> {
    Request::Read { offset_bytes, length_bytes }
}

pub fn trim_of(offset_bytes: u64, length_bytes: u32) -> Request<'static> {
    Request::Trim { offset_bytes, length_bytes }
}

pub fn zeroes_of(offset_bytes: u64, length_bytes: u32) -> Request<'static> {
    Request::WriteZeroes { offset_bytes, length_bytes }
}

/// Clients, each on a thread and at 2 MiB of its own, that read what they wrote with data of many lengths.
pub fn read_what_they_wrote(clients: u64, connect: impl Fn(u64) -> Client) {
    std::thread::scope(|scope| {
        for number in 0..clients {
            let mut client = connect(number);
            scope.spawn(move || {
                let range = |turn: u64| ((number << 21) + turn * 512, 512 * (turn as u32 * 7 + 1));
                read_what_it_wrote(&mut client, &(0..50).map(range).collect::<Vec<_>>());
                client.disconnect().expect("an open connection");
            });
        }
    });
}

/// Ranges of many lengths are read as they were written.
pub fn read_what_it_wrote(queue: &mut impl Initiator, ranges: &[(u64, u32)]) {
    for &(at, length) in ranges {
        let data: Vec<u8> = (0..length).map(|byte| (byte / 7 + length + (at >> 21) as u32) as u8).collect();
        queue.call(write_of(at, &data, false)).expect("a write");
        assert!(queue.call(read_of(at, length)).expect("a read") == data, "{length} bytes at {at}");
    }
}

/// Writes pages of 4 KiB, each time with another value, and knows what a power loss or a kill may leave of them.
pub struct Writer {
    pub history: History,
    commands: u64,
    in_flight: BTreeMap<u16, u64>,
}

impl Writer {
    pub fn new(pages: u64, buffered: bool) -> Self {
        Self { history: History::new(pages * PAGE, PAGE, buffered), commands: 0, in_flight: BTreeMap::new() }
    }

    fn number(&mut self, tag: u16) -> u64 {
        self.commands += 1;
        assert_eq!(self.in_flight.insert(tag, self.commands), None);
        self.commands
    }

    pub fn write(&mut self, client: &mut dyn Initiator, tag: u16, (from, pages): (u64, u64), fua: bool) {
        let number = self.number(tag);
        let (offset_bytes, data) = (from * PAGE, vec![(number % 255 + 1) as u8; (pages * PAGE) as usize]);
        self.history.write(number, offset_bytes, data.len() as u64, data[0], fua);
        client.submit(tag, write_of(offset_bytes, &data, fua));
    }

    /// One that may reach the drive after a cut makes nothing certain of what was written before.
    pub fn flush(&mut self, client: &mut dyn Initiator, tag: u16, is_before_cut: bool) {
        let number = self.number(tag);
        if is_before_cut {
            self.history.flush(number);
        }
        client.submit(tag, Request::Flush);
    }

    /// Waits for all that is in flight: the error of each, or 0.
    pub fn finish(&mut self, client: &mut dyn Initiator) -> Vec<u32> {
        client.push().expect("a drive that serves");
        let mut errors = Vec::new();
        while !self.in_flight.is_empty() {
            let mut take = |tag: u16, error: u32| {
                let number = self.in_flight.remove(&tag).expect("one answer to each");
                if error == 0 {
                    self.history.answered(number);
                }
                errors.push(error);
            };
            client.reap(&mut |done| take(done.tag, done.error)).expect("all answers");
        }
        errors
    }

    /// The content after a loss must be one that is allowed.
    pub fn check(&mut self, content: &[u8]) {
        self.in_flight.clear();
        self.history.cut(content);
    }
}
