//! The text that `blkparse` prints by default for traces of Linux' `blktrace`.
//!
//! Device (major,minor), processor, number, seconds, process, action, RWBS, first sector `+` sectors, name. One action
//! stands for a request, queueing unless told otherwise; lines of others, of packet commands and of requests that
//! neither move data nor flush are passed over, as is the summary at the end. The device is major * 2^20 + minor, as in
//! the kernel. Layout: blkparse(1), "Default output"; letters of RWBS: `blk_fill_rwbs` in the kernel's `blktrace.c`.

use super::BlkEvent;
use super::decimal::Unit;
use super::fields::{SECTOR_BYTES, Spaces};
use super::format::SECTORS;
use super::format::{ALL_KINDS, Format};
use super::lines::Line;
use super::sink::{Encoder, EncodingSink, decimal, joined, whole};
use super::table::{MAJORS, MINOR_BITS};
use super::text::{self, LineParser};
use crate::{Error, Fault, Kind, Request};

pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    about: "text of Linux' blkparse, its default output",
    endings: &[".blkparse"],
    columns: "device, processor, number, seconds, process, action, RWBS, sector + sectors, name",
    kinds: ALL_KINDS,
    reader: |format, input, options| Ok(text::source(format, input, Parser::new(Some(options.event)), options)),
    writer: Some(|format, output, options| {
        EncodingSink::boxed(format, output, options, "", BlkparseEncoder { number: 0 })
    }),
    probe: |format, head| text::probe(format, head, Parser::new(None)),
    ..SECTORS
};

const MINORS: u64 = 1 << MINOR_BITS;

/// The events that are requests, and those that occurred.
pub(super) struct Events {
    /// None takes all, as a sniffer does.
    wanted: Option<BlkEvent>,
    seen: [bool; 3],
}

impl Events {
    pub(super) fn new(wanted: Option<BlkEvent>) -> Self {
        Self { wanted, seen: [false; 3] }
    }

    /// Whether the event is a request.
    #[inline(always)]
    pub(super) fn take(&mut self, event: BlkEvent) -> bool {
        self.seen[event as usize] = true;
        self.wanted.is_none_or(|wanted| wanted == event)
    }

    /// What is to be said where no request was found, if other events were.
    pub(super) fn nothing(&self) -> Option<Error> {
        let names = ["queued", "issued", "completed"];
        let wanted = self.wanted? as usize;
        let others: Vec<&str> =
            names.into_iter().zip(self.seen).filter(|(_, seen)| *seen).map(|(name, _)| name).collect();
        (!self.seen[wanted] && !others.is_empty()).then(|| Error::Option {
            name: "event",
            value: format!("{}, which the trace lacks", names[wanted]),
            wanted: format!("--event {}", others.join(" or ")),
        })
    }
}

struct Parser {
    events: Events,
    summary: bool,
}

impl Parser {
    fn new(event: Option<BlkEvent>) -> Self {
        Self { events: Events::new(event), summary: false }
    }

    /// A line that is no event: the summary's beginning, or what is said of the input.
    #[cold]
    fn other_line(&mut self, line: &[u8], fault: Fault) -> Result<Option<Request>, Fault> {
        let processor = line
            .strip_prefix(b"CPU")
            .is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit) && rest.ends_with(b"):"));
        if processor || line.starts_with(b"Total (") && line.ends_with(b"):") {
            self.summary = true;
            return Ok(None);
        }
        if line.starts_with(b"Input file ") {
            return Ok(None);
        }
        Err(fault)
    }
}

impl LineParser for Parser {
    fn parse(&mut self, line: Line<'_>) -> Result<Option<Request>, Fault> {
        if self.summary {
            return Ok(None);
        }
        let mut fields = Spaces::new(line);
        let device = match fields.text("device").and_then(device) {
            Ok(device) => device,
            Err(fault) => return self.other_line(&line, fault),
        };
        fields.whole("processor")?;
        fields.whole("number")?;
        let at_ns = fields.time("time", Unit::Seconds)?;
        fields.whole("process")?;
        let action = fields.text("action")?;
        if !action.iter().all(u8::is_ascii_alphabetic) || action.len() > 2 {
            return Err(Fault::field("action", action, "a letter such as Q, D or C"));
        }
        let event = match action {
            b"Q" => BlkEvent::Queued,
            b"D" => BlkEvent::Issued,
            b"C" => BlkEvent::Completed,
            _ => return Ok(None),
        };
        if !self.events.take(event) {
            return Ok(None);
        }
        let rwbs = fields.text("RWBS")?;
        range(&mut fields, rwbs, at_ns, device)
    }

    fn nothing(&self) -> Option<Error> {
        self.events.nothing()
    }
}

/// The request of an event that stands for one.
fn range(fields: &mut Spaces<'_>, rwbs: &[u8], at_ns: u64, device: u32) -> Result<Option<Request>, Fault> {
    let kind = kind_of(rwbs)?;
    let flush = Request { at_ns, device, kind: Kind::Flush, ..Request::default() };
    let without_range = rwbs.contains(&b'F').then_some(flush);
    if fields.remaining().starts_with(b"[") || !fields.more() {
        return Ok(without_range);
    }
    let offset_bytes = fields.bytes("first sector", SECTOR_BYTES)?;
    if !fields.remaining().starts_with(b"+") {
        // A packet command's bytes, or the completion of a request without a range.
        let packet = fields.remaining().starts_with(b"(");
        return Ok(without_range.filter(|_| !packet));
    }
    fields.text("plus sign")?;
    let length_bytes = fields.bytes("sectors", SECTOR_BYTES)?;
    Ok(kind.map(|kind| Request { at_ns, offset_bytes, length_bytes, device, kind }))
}

/// What is done with a range; nothing for requests that move no data.
pub(super) fn kind_of(rwbs: &[u8]) -> Result<Option<Kind>, Fault> {
    let operation = match rwbs {
        // A flush before, told from FUA by standing first.
        [b'F', operation, ..] | [operation, ..] => *operation,
        [] => 0,
    };
    match operation {
        b'R' => Ok(Some(Kind::Read)),
        b'W' => Ok(Some(Kind::Write)),
        b'D' | b'E' => Ok(Some(Kind::Trim)),
        b'N' | b'F' | b'Z' => Ok(None),
        _ => Err(Fault::field("RWBS", rwbs, "letters that begin with R, W, D, F or N")),
    }
}

fn device(field: &[u8]) -> Result<u32, Fault> {
    let wrong = || Fault::field("device", field, "major,minor, such as 8,0");
    let comma = memchr::memchr(b',', field).ok_or_else(wrong)?;
    let number = |digits: &[u8], below: u64| {
        let mut digits = Spaces::new(Line::of(digits));
        let number = digits.whole("device").ok().filter(|number| *number < below);
        number.filter(|_| !digits.more())
    };
    let major = number(&field[..comma], u64::from(MAJORS)).ok_or_else(wrong)?;
    let minor = number(&field[comma + 1..], MINORS).ok_or_else(wrong)?;
    Ok((major * MINORS + minor) as u32)
}

struct BlkparseEncoder {
    number: u64,
}

impl Encoder for BlkparseEncoder {
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.number += 1;
        let device = u64::from(request.device);
        joined(out, b',', &[device / MINORS, device % MINORS]);
        out.extend_from_slice(b" 0 ");
        whole(out, self.number);
        out.push(b' ');
        decimal(out, request.at_ns, 9);
        out.extend_from_slice(match request.kind {
            Kind::Read => b" 0 Q R ".as_slice(),
            Kind::Write => b" 0 Q W ",
            Kind::Trim => b" 0 Q D ",
            Kind::Flush => b" 0 Q FN [0]\n",
        });
        if request.kind != Kind::Flush {
            whole(out, request.offset_bytes / SECTOR_BYTES);
            out.extend_from_slice(b" + ");
            whole(out, request.length_bytes / SECTOR_BYTES);
            out.extend_from_slice(b" [0]\n");
        }
        Ok(())
    }
}
