//! Where requests go: what all writers have in common.

use std::io::Write;

use super::fields::SECTOR_BYTES;
use super::{Format, Loss, WriteOptions};
use crate::{Error, Fault, Kind, Request};

pub trait Sink {
    fn put(&mut self, batch: &[Request]) -> Result<(), Error>;

    /// Writes what is held back. Without it, the end of a trace may be missing.
    fn finish(&mut self) -> Result<(), Error>;
}

/// Puts requests of one format into bytes.
pub(super) trait Encoder {
    /// Adds one request, which fits into the format, to `out`.
    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Fault>;
}

/// Held back before it is written.
const BUFFER_BYTES: usize = 64 * 1024;

/// Writes any format, by its encoder.
pub(super) struct EncodingSink<'a, E> {
    format: &'static Format,
    output: Box<dyn Write + 'a>,
    encoder: E,
    options: WriteOptions,
    buffer: Vec<u8>,
    taken: u64,
}

impl<'a, E: Encoder + 'static> EncodingSink<'a, E> {
    /// A sink whose output begins with `header`.
    pub(super) fn boxed(
        format: &'static Format,
        output: Box<dyn Write + 'a>,
        options: &WriteOptions,
        header: &str,
        encoder: E,
    ) -> Box<dyn Sink + 'a> {
        Box::new(Self {
            format,
            output,
            encoder,
            options: options.clone(),
            buffer: header.as_bytes().to_vec(),
            taken: 0,
        })
    }

    fn one(&mut self, request: Request) -> Result<(), Fault> {
        let Some(fitting) = self.fitted(request)? else {
            return Ok(());
        };
        let before = self.buffer.len();
        let done = self.encoder.encode(&fitting, &mut self.buffer);
        if done.is_err() {
            self.buffer.truncate(before);
        }
        done
    }

    /// The request as the format can hold it; nothing if it is to be left out.
    fn fitted(&self, mut request: Request) -> Result<Option<Request>, Fault> {
        let (format, options) = (self.format, &self.options);
        if request.length_bytes == 0 && request.kind != Kind::Flush {
            return Err(Fault::ZeroLength);
        }
        if !format.kinds.contains(&request.kind) {
            let what = || format!("a {} (--lose kinds leaves such out)", name(request.kind));
            return lost(format, options.kinds, what).map(|()| None);
        }
        if request.device > format.devices_up_to {
            let what = || format!("device {} (--lose devices makes it 0)", request.device);
            lost(format, options.devices, what)?;
            request.device = 0;
        }
        if request.kind == Kind::Flush {
            (request.offset_bytes, request.length_bytes) = (0, 0);
        }
        self.aligned(request).map(Some)
    }

    /// The request with its range grown to what the format counts in.
    fn aligned(&self, mut request: Request) -> Result<Request, Fault> {
        let (first_grain, grain) = (self.format.offset_grain_bytes, self.format.length_grain_bytes);
        let end = request.end_bytes().ok_or_else(|| self.beyond(&request))?;
        if request.offset_bytes % first_grain == 0 && request.length_bytes % grain == 0 {
            return Ok(request);
        }
        let what = || {
            let (from, length) = (request.offset_bytes, request.length_bytes);
            format!(
                "offset {from} and length {length}, which are no whole sectors of {SECTOR_BYTES} \
                 bytes (--lose alignment grows ranges to whole ones)"
            )
        };
        lost(self.format, self.options.unaligned, what)?;
        request.offset_bytes -= request.offset_bytes % first_grain;
        let end = end.checked_next_multiple_of(grain);
        let end = end.ok_or_else(|| self.beyond(&request))?;
        request.length_bytes = end - request.offset_bytes;
        Ok(request)
    }

    fn beyond(&self, request: &Request) -> Fault {
        Fault::Inexpressible {
            format: self.format.name,
            what: format!("a range from {} to beyond 2^64 bytes", request.offset_bytes),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.output.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl<E: Encoder + 'static> Sink for EncodingSink<'_, E> {
    fn put(&mut self, batch: &[Request]) -> Result<(), Error> {
        for request in batch {
            self.taken += 1;
            if let Err(fault) = self.one(*request) {
                self.flush()?;
                return Err(fault.at_request(self.taken));
            }
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        Ok(self.output.flush()?)
    }
}

fn lost(format: &Format, option: Loss, what: impl Fn() -> String) -> Result<(), Fault> {
    match option {
        Loss::Accept => Ok(()),
        Loss::Refuse => Err(Fault::Inexpressible { format: format.name, what: what() }),
    }
}

pub(super) const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Trim => "trim",
        Kind::Flush => "flush",
    }
}

pub(super) fn whole(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes whole numbers with a separator between them.
pub(super) fn joined(out: &mut Vec<u8>, separator: u8, numbers: &[u64]) {
    for (index, &number) in numbers.iter().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        whole(out, number);
    }
}

/// Writes a number of 10^-`places` units as a decimal one, with all its places.
pub(super) fn decimal(out: &mut Vec<u8>, number: u64, places: u32) {
    let unit = 10_u64.pow(places);
    whole(out, number / unit);
    // A leading 1 keeps the zeros; the point takes its place.
    let point = out.len();
    whole(out, unit + number % unit);
    out[point] = b'.';
}
