//! What a command costs the drive over a socket: the CPU time of the thread that serves, while a client in the same
//! thread sends batches and takes their answers. So nothing waits, and other load on the machine counts little. The cost
//! of transfers between caches of processors is not included.
//!
//! The limit is the same bytes over bare TCP: taken in one call, and sent from the content in another. No server that
//! answers through TCP can do with less.
//!
//! `cargo bench -p ioassay-device --bench sockets [-- THOUSANDS [ROUNDS]]`

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use ioassay_block::SplitMix64;
use ioassay_device::client::nvme_tcp::{self, Settings};
use ioassay_device::client::{Initiator, Request, Waiting, nbd};
use ioassay_device::clock::Clock;
use ioassay_device::command::DriveInfo;
use ioassay_device::emulated_drive::EmulatedDrive;
use ioassay_device::store::Store;
use ioassay_device::transport::{self, Transport};

const SIZE_BYTES: u64 = 1 << 30;
const DEPTH: u16 = 32;
const NAME: &str = "nqn.2016-06.io.spdk:bench";

/// What NVMe/TCP sends for a read of a page: a command, and a header before the data.
const COMMAND_BYTES: usize = 72;
const HEADER_BYTES: usize = 24;
const PAGE_BYTES: usize = 4096;

struct Served {
    drive: EmulatedDrive,
    transport: Box<dyn Transport>,
}

impl Served {
    fn new(place: &str) -> Self {
        let facts = DriveInfo { size_bytes: SIZE_BYTES, volatile_cache: false, ..DriveInfo::default() };
        Self {
            drive: EmulatedDrive::new(facts, written(), None, Clock::start()).expect("a drive"),
            transport: transport::open(0, place).expect("a place"),
        }
    }

    /// Serves once, and returns the number of answered commands.
    fn serve(&mut self) -> usize {
        self.transport.poll(&mut self.drive).expect("a transport");
        let mut due = Vec::new();
        self.drive.take_answers(&mut due);
        for answer in &due {
            self.transport.answer(*answer, &self.drive);
        }
        self.transport.send(&self.drive).expect("a transport");
        self.drive.record_answers(&due);
        due.len()
    }

    /// A client of its own, which is served while it connects.
    fn client(&mut self, over: &str) -> Box<dyn Initiator> {
        let (over, address) = (over.to_owned(), self.transport.address());
        let connecting = thread::spawn(move || connect(&over, &address));
        while !connecting.is_finished() {
            self.serve();
        }
        connecting.join().expect("a client")
    }
}

fn connect(over: &str, address: &str) -> Box<dyn Initiator + Send> {
    if over == "nvme" {
        let at = address.parse().expect("an address");
        let settings = Settings { waiting: Waiting::Spins, ..Settings::default() };
        let (admin, queue) = nvme_tcp::connect(&at, NAME, &settings).expect("a queue");
        std::mem::forget(admin); // the bench ends before the keep alive time
        return Box::new(queue);
    }
    let unix = address.split_once("socket=");
    let unix = unix.map(|(_, path)| format!("unix:{path}"));
    let at = unix.unwrap_or_else(|| address.replace("nbd://", ""));
    let at = at.parse().expect("an address");
    Box::new(nbd::Client::connect(&at, "", true, Waiting::Spins).expect("a client"))
}

/// Content that was written throughout.
fn written() -> Store {
    let mut store = Store::new(SIZE_BYTES, None).expect("memory");
    store.present.grant_large_pages();
    let page = vec![7; 1 << 20];
    for at in (0..SIZE_BYTES).step_by(page.len()) {
        store.write(at, &page);
    }
    store
}

/// The offset of a page at random.
fn page(chance: &mut SplitMix64) -> u64 {
    chance.below_wide(SIZE_BYTES / 4096) * 4096
}

/// Both ends of a connection over loopback, set as the drive sets its own.
struct Bare {
    client: TcpStream,
    server: TcpStream,
}

impl Bare {
    fn connect() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        server.set_nodelay(true)?;
        server.set_nonblocking(true)?;
        Ok(Self { client, server })
    }

    /// Nanoseconds of a processor for the bytes of a read.
    fn cost_ns(&mut self, store: &Store, commands: u64) -> io::Result<f64> {
        let (header, asked) = ([3; HEADER_BYTES], [5; DEPTH as usize * COMMAND_BYTES]);
        let mut received = vec![0; 256 << 10];
        let (mut chance, mut took_ns) = (SplitMix64(1), 0);
        let rounds = commands / u64::from(DEPTH);
        for _ in 0..rounds {
            self.client.write_all(&asked)?;
            let begin_ns = thread_ns();
            let taken = self.server.read(&mut received)?;
            assert_eq!(taken, asked.len(), "a batch is read at once");
            let pages = [(); DEPTH as usize].map(|()| page(&mut chance));
            for &page in &pages {
                store.fetch(page, PAGE_BYTES as u64);
            }
            let answers = pages.iter().flat_map(|&page| [&header[..], store.present(page, PAGE_BYTES as u64)]);
            let mut slices: Vec<IoSlice<'_>> = answers.map(IoSlice::new).collect();
            let mut left = &mut slices[..];
            took_ns += thread_ns() - begin_ns;
            let mut taken = 0;
            while taken < usize::from(DEPTH) * (HEADER_BYTES + PAGE_BYTES) {
                let begin_ns = thread_ns();
                while !left.is_empty() {
                    match self.server.write_vectored(left) {
                        Ok(sent) => IoSlice::advance_slices(&mut left, sent),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                took_ns += thread_ns() - begin_ns;
                taken += self.client.read(&mut received)?;
            }
        }
        Ok(took_ns as f64 / (rounds * u64::from(DEPTH)) as f64)
    }
}

/// Nanoseconds of a processor for a command.
fn cost_ns(served: &mut Served, client: &mut dyn Initiator, reads: bool, commands: u64) -> f64 {
    let data = vec![9; 4096];
    let (mut chance, mut took_ns, mut answered) = (SplitMix64(1), 0, 0);
    while answered < commands {
        for tag in 0..DEPTH {
            let offset_bytes = page(&mut chance);
            let read = Request::Read { offset_bytes, length_bytes: 4096 };
            let write = Request::Write { offset_bytes, data: &data, fua: false };
            client.submit(tag, if reads { read } else { write });
        }
        let (mut served_now, mut reaped) = (0, 0);
        while reaped < DEPTH {
            if reaped == 0 && served_now == 0 {
                client.push().expect("a connection");
            }
            let begin_ns = thread_ns();
            while served_now < usize::from(DEPTH) {
                let more = served.serve();
                if more == 0 && !reads {
                    break; // what does not fit the socket at once comes with the next push
                }
                served_now += more;
            }
            took_ns += thread_ns() - begin_ns;
            if served_now == 0 {
                continue;
            }
            client
                .reap(&mut |done| {
                    assert_eq!(done.error, 0);
                    reaped += 1;
                })
                .expect("answers");
        }
        answered += u64::from(reaped);
    }
    took_ns as f64 / answered as f64
}

/// What this thread has used of a processor, so that others do not count.
fn thread_ns() -> i128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let commands = numbers.next().unwrap_or(100) * 1000;
    let rounds = numbers.next().unwrap_or(15);
    let folder = tempfile::tempdir().expect("a folder");
    let unix = format!("nbd:unix:{}", folder.path().join("nbd").display());
    let cases = [
        ("NBD, Unix socket", "nbd", unix),
        ("NBD, TCP", "nbd", "nbd:tcp:127.0.0.1:0".to_owned()),
        ("NVMe/TCP", "nvme", format!("nvme-tcp:127.0.0.1:0,nqn={NAME}")),
    ];
    println!("{commands} commands of 4 KiB at depth {DEPTH}: CPU time, median of {rounds} (least)");
    let (content, mut bare) = (written(), Bare::connect().expect("loopback"));
    for (name, over, place) in &cases {
        let mut served = Served::new(place);
        let mut client = served.client(over);
        for (direction, reads) in [("read", true), ("write", false)] {
            let (mut costs, mut of_bare, mut bares) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                let cost = cost_ns(&mut served, client.as_mut(), reads, commands / rounds);
                let least = bare.cost_ns(&content, commands / rounds).expect("loopback");
                costs.push(cost);
                bares.push(least);
                of_bare.push(cost / least);
            }
            let (median, least) = middle_and_least(&mut costs);
            print!("{name:<20} {direction:<6} {median:8.0} ns a command ({least:.0})");
            if reads && name.contains("TCP") {
                let ((bare, _), (ratio, _)) = (middle_and_least(&mut bares), middle_and_least(&mut of_bare));
                print!("   bare TCP {bare:.0} ns: {ratio:.2} times it");
            }
            println!();
        }
    }
}

fn middle_and_least(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0])
}
