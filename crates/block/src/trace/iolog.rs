//! fio's iologs, versions 2 and 3: file, action, offset and length in bytes.
//!
//! In version 3 each line begins with microseconds: fio writes them (`log_io_u` in its `iolog.c`), and a job with a think
//! time of 2000 microseconds leaves times 2000 apart. Version 2 has no times but waits, in microseconds, which add up;
//! without any, all requests are at time 0. fio itself writes none, and drops waits below 100 microseconds when it
//! replays. A wait is `FILE wait MICROSECONDS 0`; without the 0, or without the file as well, it is read too.
//!
//! Files become device numbers in the order in which they are first used; their names are not kept.
//! `sync`, `datasync` and `sync_file_range` are flushes; `add`, `open` and `close` are no requests.

use std::collections::BTreeSet;

use super::ReadOptions;
use super::fields::Spaces;
use super::format::COMMAS;
use super::format::{ALL_KINDS, Format};
use super::lines::Line;
use super::sink::{Encoder, EncodingSink, joined, whole};
use super::text::{self, LineParser};
use crate::Names;
use crate::{Fault, Kind, Request};

pub(super) const V2: Format = Format {
    name: "iolog2",
    about: "fio's iologs, version 2",
    endings: &[".iolog", ".fio"],
    columns: "file, action, offset and length in bytes; waits in microseconds",
    resolution_ns: TICK_NS,
    kinds: ALL_KINDS,
    reader: |format, input, options| Ok(text::source(format, input, Parser::new(&VERSION_2, options), options)),
    writer: Some(|format, output, options| {
        EncodingSink::boxed(format, output, options, "fio version 2 iolog\n", IologEncoder::new(&VERSION_2))
    }),
    probe: |format, head| text::probe(format, head, Parser::new(&VERSION_2, &ReadOptions::default())),
    ..COMMAS
};

pub(super) const V3: Format = Format {
    name: "iolog3",
    about: "fio's iologs, version 3",
    columns: "microseconds, file, action, offset and length in bytes",
    reader: |format, input, options| Ok(text::source(format, input, Parser::new(&VERSION_3, options), options)),
    writer: Some(|format, output, options| {
        EncodingSink::boxed(format, output, options, "fio version 3 iolog\n", IologEncoder::new(&VERSION_3))
    }),
    probe: |format, head| text::probe(format, head, Parser::new(&VERSION_3, &ReadOptions::default())),
    ..V2
};

const TICK_NS: u64 = 1_000;
const ACTIONS: &str = "read, write, trim, sync, datasync, sync_file_range, add, open or close (or wait, version 2)";

struct Version {
    header: &'static str,
    /// The header, for a message.
    expected: &'static str,
    /// Whether lines begin with a time; otherwise there are waits between them.
    stamped: bool,
}

static VERSION_2: Version =
    Version { header: "fio version 2 iolog", expected: "the header `fio version 2 iolog`", stamped: false };
static VERSION_3: Version =
    Version { header: "fio version 3 iolog", expected: "the header `fio version 3 iolog`", stamped: true };

struct Parser {
    version: &'static Version,
    begun: bool,
    now_ns: u64,
    files: Names,
    last_file: Vec<u8>,
    last_device: u32,
}

impl Parser {
    fn new(version: &'static Version, options: &ReadOptions) -> Self {
        let files = options.names.clone();
        Self { version, begun: false, now_ns: 0, files, last_file: Vec::new(), last_device: 0 }
    }

    fn wait(&mut self, fields: &mut Spaces<'_>) -> Result<Option<Request>, Fault> {
        let wait_ns = fields.ticks("wait", TICK_NS)?;
        if fields.more() {
            fields.whole("length")?;
        }
        fields.end("file, wait, microseconds")?;
        let Some(now_ns) = self.now_ns.checked_add(wait_ns) else {
            let limit = "together with those before, it must be below 2^64 ns (584 years)";
            return Err(Fault::overflow("wait", wait_ns.to_string().as_bytes(), limit));
        };
        self.now_ns = now_ns;
        Ok(None)
    }

    /// The number of a file, a new one where it has none.
    fn device(&mut self, file: &[u8]) -> Result<u32, Fault> {
        if self.last_file != file {
            self.last_device = super::fields::device("file", self.files.number("file", file))?;
            self.last_file.clear();
            self.last_file.extend_from_slice(file);
        }
        Ok(self.last_device)
    }
}

impl LineParser for Parser {
    fn parse(&mut self, line: Line<'_>) -> Result<Option<Request>, Fault> {
        if !self.begun {
            self.begun = *line == *self.version.header.as_bytes();
            return if self.begun { Ok(None) } else { Err(Fault::form(&line, self.version.expected)) };
        }
        let mut fields = Spaces::new(line);
        if self.version.stamped {
            self.now_ns = fields.ticks("timestamp", TICK_NS)?;
        }
        let file = fields.text("file")?;
        if !self.version.stamped && file == b"wait" && fields.remaining().iter().all(u8::is_ascii_digit) {
            return self.wait(&mut fields);
        }
        let kind = match fields.text("action")? {
            b"wait" if !self.version.stamped => return self.wait(&mut fields),
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => Kind::Flush,
            b"add" | b"open" | b"close" => {
                fields.end("no offset behind add, open and close")?;
                return Ok(None);
            }
            other => return Err(Fault::field("action", other, ACTIONS)),
        };
        let range = (fields.whole("offset")?, fields.whole("length")?);
        fields.end("file, action, offset and length")?;
        let (offset_bytes, length_bytes) = if kind == Kind::Flush { (0, 0) } else { range };
        Ok(Some(Request { at_ns: self.now_ns, offset_bytes, length_bytes, device: self.device(file)?, kind }))
    }
}

struct IologEncoder {
    version: &'static Version,
    /// Devices whose files were introduced.
    named: BTreeSet<u32>,
    now_us: u64,
}

impl IologEncoder {
    fn new(version: &'static Version) -> Self {
        Self { version, named: BTreeSet::new(), now_us: 0 }
    }

    /// Writes what every line begins with: the time, if lines have one, and the file.
    fn begin_line(&self, request: &Request, out: &mut Vec<u8>) {
        if self.version.stamped {
            whole(out, request.at_ns / TICK_NS);
            out.push(b' ');
        }
        out.extend_from_slice(b"device");
        whole(out, u64::from(request.device));
    }

    /// Writes a pause up to the request's time.
    fn wait(&mut self, request: &Request, out: &mut Vec<u8>) {
        let at_us = request.at_ns / TICK_NS;
        let wait_us = at_us - self.now_us;
        self.now_us = at_us;
        if wait_us > 0 {
            self.begin_line(request, out);
            out.extend_from_slice(b" wait ");
            joined(out, b' ', &[wait_us, 0]);
            out.push(b'\n');
        }
    }
}

impl Encoder for IologEncoder {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !self.version.stamped && request.at_ns / TICK_NS < self.now_us {
            return Err(Fault::TimeBack { at_ns: request.at_ns, last_ns: self.now_us * TICK_NS });
        }
        if self.named.insert(request.device) {
            for action in [b" add\n".as_slice(), b" open\n"] {
                self.begin_line(request, out);
                out.extend_from_slice(action);
            }
        }
        if !self.version.stamped {
            self.wait(request, out);
        }
        self.begin_line(request, out);
        out.extend_from_slice(match request.kind {
            Kind::Read => b" read ".as_slice(),
            Kind::Write => b" write ",
            Kind::Trim => b" trim ",
            Kind::Flush => b" sync ",
        });
        joined(out, b' ', &[request.offset_bytes, request.length_bytes]);
        out.push(b'\n');
        Ok(())
    }
}
