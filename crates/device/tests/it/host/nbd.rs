//! Messages of NBD as a client makes them: options, requests, and what comes before both; and a client that sends them by
//! hand.

use crate::memory_drive::{Clients, Memory};
use ioassay_device::transport::nbd::{Export, Nbd};
use ioassay_device::transport::socket::Then;

/// What a client says first: it knows the handshake, and wants no zeroes after it.
pub const FLAGS: [u8; 4] = 3u32.to_be_bytes();

pub fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", &kind.to_be_bytes()[..], &length, data].concat()
}

/// A command with the cookie `a cookie`.
pub fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let kind = [flags, kind].map(u16::to_be_bytes).concat();
    [&0x2560_9513u32.to_be_bytes()[..], &kind, b"a cookie", &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// What `INFO` and `GO` ask of an export.
pub fn info_request(name: &str, infos: &[u16]) -> Vec<u8> {
    let infos = [&[infos.len() as u16], infos].concat();
    let infos: Vec<u8> = infos.into_iter().flat_map(u16::to_be_bytes).collect();
    [text(name), infos].concat()
}

/// A text behind its length.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub fn contexts(export: &str, queries: &[&str]) -> Vec<u8> {
    let count = (queries.len() as u32).to_be_bytes().to_vec();
    let queries: Vec<u8> = queries.iter().flat_map(|query| text(query)).collect();
    [text(export), count, queries].concat()
}

/// Answers to an option: their types and data.
pub fn answers(mut out: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut answers = Vec::new();
    while !out.is_empty() {
        assert_eq!(out[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
        let number = |at: usize| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
        let end = 20 + number(16) as usize;
        answers.push((number(12), out[20..end].to_vec()));
        out = &out[end..];
    }
    answers
}

pub fn kinds(out: &[u8]) -> Vec<u32> {
    answers(out).into_iter().map(|(kind, _)| kind).collect()
}

/// One client of NBD.
pub type Talk = Clients<Nbd>;

impl Talk {
    pub fn new() -> Self {
        Self::over(Memory::new(1 << 20, 512))
    }

    pub fn over(drive: Memory) -> Self {
        let mut talk = Self::of(Nbd::new(Export::default()), drive);
        talk.accept();
        talk
    }

    /// After the greeting, which both know.
    pub fn greeted(drive: Memory) -> Self {
        let mut talk = Self::over(drive);
        talk.ask(&FLAGS);
        talk
    }

    /// After the greeting and these options.
    pub fn after(options: &[Vec<u8>]) -> Self {
        let mut talk = Self::greeted(Memory::new(1 << 20, 512));
        talk.ask(&options.concat());
        talk
    }

    /// In the transmission, with simple replies or structured ones.
    pub fn agreed(structured: bool) -> Self {
        let go = option(7, &info_request("", &[]));
        if structured { Self::after(&[option(8, b""), go]) } else { Self::after(&[go]) }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Then {
        self.arrive(0, bytes)
    }

    /// Sends, lets the drive answer, and gives what came back.
    pub fn ask(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.arrive(0, bytes);
        self.output(0)
    }

    pub fn kinds(&mut self, kind: u32, data: &[u8]) -> Vec<u32> {
        kinds(&self.ask(&option(kind, data)))
    }
}
