//! fio's iologs, version 2: file, action, offset and length in bytes, and waits between them.
//!
//! There are no times but the waits, in microseconds, which add up; without any, all requests are
//! at time 0. fio itself writes none, and drops waits below 100 microseconds when it replays.
//! A wait is `FILE wait MICROSECONDS 0`; without the 0, or without the file as well, it is read too.

use super::decimal::Unit;
use super::fields::Spaces;
use super::format::{ALL_KINDS, Form, Format};
use super::iolog::{self, Files, Named};
use super::sink::{Encoder, EncodingSink};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Request};

pub(super) const FORMAT: Format = Format {
    name: "iolog2",
    about: "fio's iologs, version 2",
    endings: &[".iolog", ".fio"],
    form: Form::Text,
    columns: "file, action, offset and length in bytes; waits in microseconds",
    resolution_ns: 1_000,
    offset_grain_bytes: 1,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: ALL_KINDS,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser::default(), options))),
    writer: |format, output, options| {
        Ok(EncodingSink::boxed(format, output, options, "fio version 2 iolog\n", Lines::default()))
    },
    probe: |format, head| probe(format, head, Parser::default()),
};

#[derive(Default)]
struct Parser {
    files: Files,
    begun: bool,
    now_ns: u64,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        if !self.begun {
            iolog::header(line, "fio version 2 iolog", "the header `fio version 2 iolog`")?;
            self.begun = true;
            return Ok(None);
        }
        let mut fields = Spaces::new(line);
        let file = fields.text("file")?;
        if file == b"wait" && fields.remaining().iter().all(u8::is_ascii_digit) {
            return self.wait(&mut fields);
        }
        match fields.text("action")? {
            b"wait" => self.wait(&mut fields),
            action => self.files.action(file, action, &mut fields, self.now_ns),
        }
    }
}

impl Parser {
    fn wait(&mut self, fields: &mut Spaces<'_>) -> Result<Option<Request>, Fault> {
        let wait_ns = fields.whole_time("wait", Unit::Microseconds)?;
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
}

#[derive(Default)]
struct Lines {
    named: Named,
    now_us: u64,
}

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let at_us = request.at_ns / 1_000;
        let Some(wait_us) = at_us.checked_sub(self.now_us) else {
            return Err(Fault::TimeBack { at_ns: request.at_ns, last_ns: self.now_us * 1_000 });
        };
        self.now_us = at_us;
        self.named.introduce(request.device, b"", out);
        if wait_us > 0 {
            iolog::wait(request, wait_us, out);
        }
        iolog::line(request, out);
        Ok(())
    }
}
