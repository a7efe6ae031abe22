//! A client of NBD, which negotiates with `GO`, with structured replies or without. It takes only replies of one chunk.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;

use super::{Completion, Initiator, Request, Waiting, Wire, wire as connection};
use crate::transport::nbd::wire::{
    self, CHUNK_MAGIC, NBD_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, chunk, command, flag, hello,
    info, option, reply, u16_at, u32_at, u64_at,
};
use crate::transport::socket::Endpoint;

/// Longest answer to an option, and longest reply, that is believed.
const MAX_OPTION_REPLY_BYTES: usize = 64 << 10;
const MAX_CHUNK_BYTES: usize = (32 << 20) + 64;

/// A connection to an export.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    size_bytes: u64,
    block_bytes: u32,
    structured: bool,
    /// Bytes that each request in flight reads, by its tag: a simple reply does not say.
    reads: Vec<u32>,
}

impl Client {
    pub fn connect(to: &Endpoint, export: &str, structured: bool, waiting: Waiting) -> io::Result<Self> {
        Self::connect_with(to, export, structured, waiting, None)
    }

    /// Connects, with TLS if a configuration is given.
    pub fn connect_with(
        to: &Endpoint,
        export: &str,
        structured: bool,
        waiting: Waiting,
        tls: Option<Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        let wire = Wire::connect(to, waiting)?;
        let mut client = Self { wire, size_bytes: 0, block_bytes: 512, structured: false, reads: vec![0; 1 << 16] };
        client.greet()?;
        if let Some(tls) = tls {
            let answer = client.agree(option::STARTTLS)?;
            if answer != reply::ACK || !client.wire.pending().is_empty() {
                return Err(io::Error::other(format!("TLS was refused: {answer:#x}")));
            }
            client.wire.encrypt(tls)?;
        }
        if structured {
            client.structured = client.agree(option::STRUCTURED_REPLY)? == reply::ACK;
        }
        client.go(export)?;
        Ok(client)
    }

    fn greet(&mut self) -> io::Result<()> {
        let hello = self.wire.whole(18)?;
        if u64_at(hello, 0) != NBD_MAGIC || u64_at(hello, 8) != OPTION_MAGIC {
            return Err(nonsense("the greeting"));
        }
        let flags = u16_at(hello, 16) & (hello::FIXED_NEWSTYLE | hello::NO_ZEROES);
        self.wire.consume(18);
        self.wire.output.extend_from_slice(&u32::from(flags).to_be_bytes());
        self.wire.push()
    }

    fn option(&mut self, kind: u32, data: &[u8]) -> io::Result<()> {
        let length = (data.len() as u32).to_be_bytes();
        self.wire.output.extend([&OPTION_MAGIC.to_be_bytes()[..], &kind.to_be_bytes(), &length, data].concat());
        self.wire.push()
    }

    /// The type of the answer to an option without data.
    fn agree(&mut self, kind: u32) -> io::Result<u32> {
        self.option(kind, &[])?;
        Ok(self.option_reply(kind)?.0)
    }

    fn option_reply(&mut self, to: u32) -> io::Result<(u32, Vec<u8>)> {
        let head = self.wire.whole(20)?;
        let (magic, option, kind) = (u64_at(head, 0), u32_at(head, 8), u32_at(head, 12));
        let length = u32_at(head, 16) as usize;
        if magic != OPTION_REPLY_MAGIC || option != to || length > MAX_OPTION_REPLY_BYTES {
            return Err(nonsense("an answer to an option"));
        }
        let data = self.wire.whole(20 + length)?[20..].to_vec();
        self.wire.consume(20 + length);
        Ok((kind, data))
    }

    fn go(&mut self, export: &str) -> io::Result<()> {
        let name = (export.len() as u32).to_be_bytes();
        let infos = [1u16, info::BLOCK_SIZE].map(u16::to_be_bytes).concat();
        self.option(option::GO, &[&name[..], export.as_bytes(), &infos].concat())?;
        loop {
            let (kind, data) = self.option_reply(option::GO)?;
            match (kind, u16_at(&data, 0)) {
                (reply::ACK, _) => return Ok(()),
                (reply::INFO, info::EXPORT) => self.size_bytes = u64_at(&data, 2),
                (reply::INFO, info::BLOCK_SIZE) => self.block_bytes = u32_at(&data, 2).max(1),
                (reply::INFO, _) => {}
                (kind, _) => {
                    return Err(io::Error::other(format!("the export {export:?} was refused: {kind:#x}")));
                }
            }
        }
    }

    /// The next reply, if it has arrived whole: how long it is with its data; or how long it has to be.
    fn next(&self) -> io::Result<Result<(Completion<'_>, usize), usize>> {
        let bytes = self.wire.pending();
        if bytes.len() < 16 {
            return Ok(Err(16));
        }
        match u32_at(bytes, 0) {
            SIMPLE_REPLY_MAGIC => self.simple(bytes),
            CHUNK_MAGIC => structured(bytes),
            _ => Err(nonsense("a reply")),
        }
    }

    fn simple<'a>(&'a self, bytes: &'a [u8]) -> io::Result<Result<(Completion<'a>, usize), usize>> {
        let (error, tag) = (u32_at(bytes, 4), tag_of(u64_at(bytes, 8))?);
        let reads = if error == 0 { self.reads[usize::from(tag)] as usize } else { 0 };
        let data = bytes.get(16..16 + reads);
        Ok(data.map(|data| (Completion { tag, error, result: 0, data }, 16 + reads)).ok_or(16 + reads))
    }

    pub fn disconnect(mut self) -> io::Result<()> {
        wire::Request { flags: 0, kind: command::DISC, cookie: 0, offset_bytes: 0, length_bytes: 0 }
            .encode(&mut self.wire.output);
        self.wire.push()
    }
}

fn structured(bytes: &[u8]) -> io::Result<Result<(Completion<'_>, usize), usize>> {
    if bytes.len() < 20 {
        return Ok(Err(20));
    }
    let (flags, kind, length) = (u16_at(bytes, 4), u16_at(bytes, 6), u32_at(bytes, 16) as usize);
    if flags & chunk::DONE == 0 || length > MAX_CHUNK_BYTES {
        return Err(nonsense("a reply of several chunks"));
    }
    let Some(payload) = bytes.get(20..20 + length) else {
        return Ok(Err(20 + length));
    };
    let error = if kind & 0x8000 != 0 { u32_at(payload, 0).max(1) } else { 0 };
    let data = if kind == chunk::OFFSET_DATA { payload.get(8..).unwrap_or_default() } else { &[] };
    Ok(Ok((Completion { tag: tag_of(u64_at(bytes, 8))?, error, result: 0, data }, 20 + length)))
}

impl Initiator for Client {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn submit(&mut self, tag: u16, request: Request<'_>) {
        let (kind, offset_bytes, length_bytes, data, fua) = match request {
            Request::Flush => (command::FLUSH, 0, 0, &[][..], false),
            Request::Read { offset_bytes, length_bytes } => (command::READ, offset_bytes, length_bytes, &[][..], false),
            Request::Write { offset_bytes, data, fua } => (command::WRITE, offset_bytes, data.len() as u32, data, fua),
            Request::Trim { offset_bytes, length_bytes } => (command::TRIM, offset_bytes, length_bytes, &[][..], false),
            Request::WriteZeroes { offset_bytes, length_bytes } => {
                (command::WRITE_ZEROES, offset_bytes, length_bytes, &[][..], false)
            }
        };
        self.reads[usize::from(tag)] = if kind == command::READ { length_bytes } else { 0 };
        let flags = if fua { flag::FUA } else { 0 };
        wire::Request { flags, kind, cookie: tag.into(), offset_bytes, length_bytes }.encode(&mut self.wire.output);
        self.wire.output.extend_from_slice(data);
    }

    fn push(&mut self) -> io::Result<()> {
        self.wire.push()
    }

    fn reap(&mut self, done: &mut dyn FnMut(Completion<'_>)) -> io::Result<usize> {
        connection::reap(self, |client| {
            let (completion, whole) = match client.next()? {
                Ok(reply) => reply,
                Err(wants) => return Ok(Err(wants)),
            };
            done(completion);
            client.wire.consume(whole);
            Ok(Ok(true))
        })
    }
}

impl AsMut<Wire> for Client {
    fn as_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

fn tag_of(cookie: u64) -> io::Result<u16> {
    u16::try_from(cookie).map_err(|_| nonsense("a cookie"))
}

fn nonsense(what: &str) -> io::Error {
    super::nonsense("server", what)
}
