//! Any bytes as what comes out of /dev/fuse. The kernel writes them and not the programs, but what programs ask for
//! is in them; so whatever it is, there is one answer to each request, of the length that it says, and the file is
//! what whole and broken requests together make of it.

use ioassay_device::command::{Drive, Status};
use ioassay_device::transport::fuse::{FuseSession, Reply};

use super::Bytes;
use crate::memory_drive::Memory;

pub const SIZE_BYTES: u64 = 1 << 16;
const TRANSPORT: u32 = 3;
const IN_HEADER: usize = 40;
pub const OUT_HEADER: usize = 16;

/// What the session may say at once: its longest answer is about the file (`fuse_attr_out`).
const MOST_SAID_BYTES: usize = OUT_HEADER + 104;

/// Requests without an answer: FORGET, INTERRUPT, `BATCH_FORGET`.
const UNANSWERED: [u32; 3] = [2, 36, 42];
const FAILURES: [Status; 4] = [Status::Failed, Status::NoSpace, Status::PowerLost, Status::ReadOnly];
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
pub const FALLOCATE: u32 = 43;

/// A file, its drive, and what a plain array made of the same requests.
pub struct File {
    pub session: FuseSession,
    pub drive: Memory,
    plain: Vec<u8>,
    asked: u64,
    out: Vec<u8>,
}

/// An answer: its error and its body.
pub type Said = (i32, Vec<u8>);

impl File {
    pub fn new(block_bytes: u32) -> Self {
        Self {
            session: FuseSession::new(TRANSPORT, (7, 8)),
            drive: Memory::forgetful(SIZE_BYTES, block_bytes),
            plain: vec![0; SIZE_BYTES as usize],
            asked: 0,
            out: Vec::new(),
        }
    }

    /// Bytes arrive: what was said at once to the request that they may be.
    fn receive(&mut self, bytes: &[u8]) -> Option<Said> {
        let waited = self.drive.due.len();
        self.out.clear();
        self.session.received(bytes, &mut self.drive, &mut self.out);
        let took = self.drive.due.len() - waited;
        assert_eq!(self.session.in_flight(), self.drive.due.len());
        assert!(self.out.len() <= MOST_SAID_BYTES);
        let whole = header(bytes).filter(|head| head.0 as usize == bytes.len());
        let answered = whole.is_some_and(|head| !UNANSWERED.contains(&head.1));
        let said = (!self.out.is_empty()).then(|| said(&self.out, whole.map_or(0, |head| head.2)));
        assert!(took == 0 || said.is_none());
        assert_eq!(took > 0 || said.is_some(), answered);
        if took > 0 {
            self.follow(bytes);
        }
        said
    }

    /// The same to a plain array.
    fn follow(&mut self, bytes: &[u8]) {
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"));
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let place = |length: u64| {
            let start = u64_at(IN_HEADER + 8).min(SIZE_BYTES);
            start as usize..start.saturating_add(length).min(SIZE_BYTES) as usize
        };
        match u32_at(4) {
            WRITE => {
                let place = place(u32_at(IN_HEADER + 16).into());
                let data = &bytes[IN_HEADER + 40..][..place.len()];
                self.plain[place].copy_from_slice(data);
            }
            FALLOCATE => self.plain[place(u64_at(IN_HEADER + 16))].fill(0),
            _ => {}
        }
    }

    /// A request with a number of its own: what was said at once.
    pub fn send(&mut self, opcode: u32, body: &[u8]) -> Option<Said> {
        self.asked += 1;
        self.receive(&request(opcode, self.asked, body))
    }

    /// What is said to a request in the end.
    pub fn ask(&mut self, opcode: u32, body: &[u8]) -> Said {
        self.send(opcode, body).or_else(|| self.answer_all()).expect("an answer")
    }

    /// One of the commands is answered, and nobody answers it again: what is said to its request, if it was the last.
    pub fn answer(&mut self, number: usize, status: Status) -> Option<Said> {
        let command = self.drive.due.remove(number)?.command;
        assert_eq!(command.tag.transport, TRANSPORT);
        let others = self.drive.due.iter().filter(|other| other.command.tag == command.tag);
        let told = self.session.answered(&command, status);
        assert_eq!(told.is_some(), others.count() == 0, "{command:?}");
        let bytes = match told? {
            Reply::Short(bytes) => bytes,
            Reply::Content(header, range) => {
                let end = command.offset_bytes + command.length_bytes;
                assert!(range.start >= command.offset_bytes && range.end <= end);
                [&header[..], self.drive.content(range.start, range.end - range.start)].concat()
            }
        };
        assert_eq!(self.session.answered(&command, status), None);
        assert_eq!(self.session.in_flight(), self.drive.due.len());
        Some(said(&bytes, number_of(&bytes)))
    }

    /// All commands are done: what is said of the last of them.
    fn answer_all(&mut self) -> Option<Said> {
        let mut said = None;
        while !self.drive.due.is_empty() {
            said = self.answer(0, Status::Done);
        }
        said
    }
}

/// Length, opcode and number, if it is as long as a header.
fn header(bytes: &[u8]) -> Option<(u32, u32, u64)> {
    let head = bytes.get(..IN_HEADER)?;
    let four = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("four"));
    Some((four(0), four(4), number_of(bytes)))
}

fn number_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[8..16].try_into().expect("eight"))
}

/// One whole answer to the request of that number.
pub fn said(bytes: &[u8], number: u64) -> Said {
    let four = |at: usize| bytes[at..at + 4].try_into().expect("four");
    assert_eq!(u32::from_ne_bytes(four(0)) as usize, bytes.len());
    assert_eq!(number_of(bytes), number);
    let error = -i32::from_ne_bytes(four(4));
    assert!((0..200).contains(&error), "{error}");
    assert!(error == 0 || bytes.len() == OUT_HEADER);
    (error, bytes[OUT_HEADER..].to_vec())
}

/// A request of the kernel: its header, and what follows.
pub fn request(opcode: u32, number: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((IN_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    bytes.resize(IN_HEADER, 0);
    bytes.extend(body);
    bytes
}

pub fn allocation(offset: u64, length: u64, mode: u32) -> Vec<u8> {
    let numbers = [0, offset, length].map(u64::to_ne_bytes).concat();
    [&numbers[..], &mode.to_ne_bytes()].concat()
}

pub fn transfer(offset: u64, length: u32, flags: u32, data: &[u8]) -> Vec<u8> {
    let mut body = [&[0; 8][..], &offset.to_ne_bytes(), &length.to_ne_bytes()].concat();
    body.resize(32, 0);
    body.extend(flags.to_ne_bytes());
    body.resize(40, 0);
    body.extend(data);
    body
}

/// Requests of a kernel, and what is none.
pub fn fuse(script: &[u8]) {
    let mut bytes = Bytes(script.iter());
    let mut file = File::new(bytes.pick(&[512, 4096]));
    while !bytes.is_over() {
        match bytes.next() % 12 {
            0 => drop(file.receive(&bytes.some(120))),
            1 => drop(file.send(u32::from(bytes.next() % 60), &bytes.some(120))),
            2 => {
                let mut broken = request(u32::from(bytes.next() % 60), 7, &bytes.some(60));
                let length: u32 = bytes.pick(&[0, 39, 40, 41, 80, u32::MAX]);
                broken[..4].copy_from_slice(&length.to_ne_bytes());
                file.receive(&broken);
            }
            3 | 4 => {
                let number = usize::from(bytes.next()) % file.drive.due.len().max(1);
                let status = if bytes.next() % 8 == 7 { bytes.pick(&FAILURES) } else { Status::Done };
                file.answer(number, status);
            }
            5 if bytes.next() % 16 == 0 => file.drive.facts.read_only ^= true,
            6 => greet(&mut file, &mut bytes),
            7 => allocate(&mut file, &mut bytes),
            8 => drop(file.send(20, &bytes.some(16))),
            _ => read_or_write(&mut file, &mut bytes),
        }
    }
    file.answer_all();
    assert!(file.drive.bytes == file.plain); // the file is not what was made of it
    file.drive.facts.read_only = false;
    file.ask(WRITE, &transfer(1, 3, 0, b"end"));
    assert_eq!(&file.drive.bytes[1..4], b"end");
}

fn place(bytes: &mut Bytes<'_>) -> u64 {
    let scale = bytes.pick(&[1, 512, 512, 1 << 40]);
    u64::from(bytes.two()) * scale + u64::from(bytes.next() % 2 * 5)
}

fn read_or_write(file: &mut File, bytes: &mut Bytes<'_>) {
    let offset = if bytes.next() == 255 { u64::MAX - 3 } else { place(bytes) };
    let length = u32::from(bytes.next()) * bytes.pick(&[0, 1, 7, 512, 4096, 1 << 24]);
    let flags = bytes.pick(&[0, 0o10_000, u32::MAX]);
    if bytes.next() % 2 == 0 {
        file.send(READ, &transfer(offset, length, flags, &[]));
        return;
    }
    let sent = if bytes.next() % 8 == 0 { bytes.next().into() } else { length };
    let data = vec![bytes.next(); sent.min(1 << 16) as usize];
    file.send(WRITE, &transfer(offset, length, flags, &data));
}

fn allocate(file: &mut File, bytes: &mut Bytes<'_>) {
    let (offset, length) = (place(bytes), place(bytes));
    let mode: u32 = bytes.pick(&[0, 1, 2, 3, 3, 16, 17, 17, 8, u32::MAX]);
    let mut body = allocation(offset, length, mode);
    body.resize(usize::from(bytes.next() % 8) + 28, 0);
    file.send(FALLOCATE, &body);
}

fn greet(file: &mut File, bytes: &mut Bytes<'_>) {
    let numbers = [bytes.pick(&[7, 7, 7, 6, 8]), bytes.next().into(), bytes.four(), bytes.four()];
    if let Some((0, greeting)) = file.send(26, &numbers.map(u32::to_ne_bytes).concat()) {
        assert_eq!(greeting.len(), 64);
    }
}
