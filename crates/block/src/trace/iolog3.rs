//! fio's iologs, version 3: microseconds, file, action, offset and length in bytes.
//!
//! Microseconds is what fio writes: `log_io_u` in its `iolog.c` takes them, and a job with a think
//! time of 2000 microseconds leaves times 2000 apart.

use super::decimal::Unit;
use super::fields::Spaces;
use super::format::{ALL_KINDS, Form, Format};
use super::iolog::{self, Files, Named};
use super::sink::{Encoder, EncodingSink, whole};
use super::text::{LineParser, TextSource, probe};
use crate::{Fault, Request};

pub(super) const FORMAT: Format = Format {
    name: "iolog3",
    about: "fio's iologs, version 3",
    endings: &[".iolog", ".fio"],
    form: Form::Text,
    columns: "microseconds, file, action, offset and length in bytes",
    resolution_ns: 1_000,
    offset_grain_bytes: 1,
    length_grain_bytes: 1,
    devices_up_to: u32::MAX,
    kinds: ALL_KINDS,
    same_as: None,
    reader: |format, input, options| Ok(Box::new(TextSource::new(format, input, Parser::default(), options))),
    writer: |format, output, options| {
        Ok(EncodingSink::boxed(format, output, options, "fio version 3 iolog\n", Lines::default()))
    },
    probe: |format, head| probe(format, head, Parser::default()),
};

#[derive(Default)]
struct Parser {
    files: Files,
    begun: bool,
}

impl LineParser for Parser {
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault> {
        if !self.begun {
            iolog::header(line, "fio version 3 iolog", "the header `fio version 3 iolog`")?;
            self.begun = true;
            return Ok(None);
        }
        let mut fields = Spaces::new(line);
        let at_ns = fields.whole_time("timestamp", Unit::Microseconds)?;
        let file = fields.text("file")?;
        let action = fields.text("action")?;
        self.files.action(file, action, &mut fields, at_ns)
    }
}

#[derive(Default)]
struct Lines {
    named: Named,
}

impl Encoder for Lines {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut stamp = Vec::with_capacity(21);
        whole(&mut stamp, request.at_ns / 1_000);
        stamp.push(b' ');
        self.named.introduce(request.device, &stamp, out);
        out.extend_from_slice(&stamp);
        iolog::line(request, out);
        Ok(())
    }
}
