//! Parsed requests in columns, for a cache that is read many times faster than any trace.
//!
//! A block has up to [`BATCH`] requests in four columns: the steps of time, offsets, lengths, and tags (device and
//! kind). A column is stored as multiples of a unit above its smallest value, in as many bits as the largest needs:
//! frame of reference with bit packing (M. Zukowski et al., "Super-Scalar RAM-CPU Cache Compression", ICDE 2006).
//! Dictionaries and entropy coding would save another third, and are several times slower to read than memory.
//!
//! Every block has a checksum whose seed is its number, so that a block at another place is noticed
//! too. The head is written last: a file without a valid one is not whole. This is no format for
//! exchange: a reader takes the files of its own [`PARSER`] only.

use std::io::{self, Read, Seek, SeekFrom, Write};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lines::Buffered;
use crate::{BATCH, Error, Kind, Request, Source};

/// Identifies the readers of traces and this layout: it changes with every change of their sources.
pub const PARSER: &str = env!("IOASSAY_TRACE_PARSER");

const MAGIC: [u8; 8] = *b"ioassay\x1a";
/// Magic, parser, format's name, requests, blocks, kinds, checksum.
const HEAD_BYTES: usize = 72;
const NAME_BYTES: usize = 16;
const BLOCK_HEAD_BYTES: usize = 16;
const COLUMNS: usize = 4;
const COLUMN_HEAD_BYTES: usize = 17;
/// Behind a block's columns, so that every value can be read as part of eight bytes.
const PADDING_BYTES: usize = 8;
const MOST_PAYLOAD_BYTES: usize = 8 + COLUMNS * (COLUMN_HEAD_BYTES + BATCH * 8) + PADDING_BYTES;
/// Units of time that traces count in, nanoseconds, the largest first.
const TIME_UNITS_NS: [u64; 4] = [1_000_000, 1_000, 100, 1];
/// Bits of a value that can begin at any bit of a byte and still be read as part of eight bytes.
const MOST_BITS: u32 = 57;

/// What a file of columns says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Name of the format of the trace, one of [`FORMATS`](super::FORMATS).
    pub format: &'static str,
    pub requests: u64,
    blocks: u64,
    /// A bit for each kind that occurs.
    kinds: u8,
}

impl Head {
    fn bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&padded(PARSER));
        bytes[24..40].copy_from_slice(&padded(self.format));
        bytes[40..48].copy_from_slice(&self.requests.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[56] = self.kinds;
        let checksum = xxh3_64_with_seed(&bytes[..64], 0);
        bytes[64..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let name = bytes[24..40].split(|&byte| byte == 0).next()?;
        let head = Self {
            format: super::format(std::str::from_utf8(name).ok()?).ok()?.name,
            requests: word(bytes, 40),
            blocks: word(bytes, 48),
            kinds: bytes[56],
        };
        // Magic, parser and checksum all at once.
        (head.bytes() == *bytes).then_some(head)
    }
}

fn padded(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let length = name.len().min(NAME_BYTES);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

const fn tag(request: &Request) -> u64 {
    ((request.device as u64) << 2) | request.kind as u64
}

const fn kind_of(tag: u64) -> Kind {
    match tag & 3 {
        0 => Kind::Read,
        1 => Kind::Write,
        2 => Kind::Trim,
        _ => Kind::Flush,
    }
}

pub struct ColumnWriter<W> {
    output: W,
    head: Head,
    pending: Vec<Request>,
    values: Vec<u64>,
    payload: Vec<u8>,
    pub bytes: u64,
}

impl<W: Write + Seek> ColumnWriter<W> {
    /// Begins a file, with room for its head.
    pub fn new(mut output: W, format: &'static str) -> io::Result<Self> {
        output.write_all(&[0; HEAD_BYTES])?;
        Ok(Self {
            output,
            head: Head { format, requests: 0, blocks: 0, kinds: 0 },
            pending: Vec::with_capacity(BATCH),
            values: Vec::with_capacity(BATCH),
            payload: Vec::with_capacity(MOST_PAYLOAD_BYTES),
            bytes: HEAD_BYTES as u64,
        })
    }

    pub fn put(&mut self, mut batch: &[Request]) -> io::Result<()> {
        while !batch.is_empty() {
            let (now, later) = batch.split_at(batch.len().min(BATCH - self.pending.len()));
            self.pending.extend_from_slice(now);
            batch = later;
            if self.pending.len() == BATCH {
                self.put_block()?;
            }
        }
        Ok(())
    }

    /// Writes what is held back, then the head.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.pending.is_empty() {
            self.put_block()?;
        }
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&self.head.bytes())?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn put_block(&mut self) -> io::Result<()> {
        let requests = std::mem::take(&mut self.pending);
        let first_ns = requests.first().map_or(0, |request| request.at_ns);
        self.payload.clear();
        self.payload.extend_from_slice(&first_ns.to_le_bytes());
        let mut before_ns = first_ns;
        // Times may go back: steps are signed, and bias makes the most negative one the smallest.
        self.put_column(&TIME_UNITS_NS, &requests, |request| {
            let step = request.at_ns.wrapping_sub(before_ns);
            before_ns = request.at_ns;
            step ^ SIGN
        });
        self.put_column(&[], &requests, |request| request.offset_bytes);
        self.put_column(&[], &requests, |request| request.length_bytes);
        self.put_column(&[1], &requests, tag);
        self.payload.extend_from_slice(&[0; PADDING_BYTES]);
        let kinds = requests.iter().map(|request| 1_u8 << request.kind as u8);
        self.head.kinds |= kinds.fold(0, |all, kind| all | kind);
        let checksum = xxh3_64_with_seed(&self.payload, self.head.blocks + 1);
        let mut head = [0; BLOCK_HEAD_BYTES];
        head[..4].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&(requests.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&checksum.to_le_bytes());
        self.output.write_all(&head)?;
        self.output.write_all(&self.payload)?;
        self.bytes += (BLOCK_HEAD_BYTES + self.payload.len()) as u64;
        self.head.blocks += 1;
        self.head.requests += requests.len() as u64;
        self.pending = requests;
        self.pending.clear();
        Ok(())
    }

    /// Without `units`, the unit is the largest power of two that divides all values.
    fn put_column(&mut self, units: &[u64], requests: &[Request], mut value: impl FnMut(&Request) -> u64) {
        self.values.clear();
        self.values.extend(requests.iter().map(&mut value));
        let least = self.values.iter().min().copied().unwrap_or(0);
        let (mut most, mut union) = (0, 0);
        for value in &mut self.values {
            *value -= least;
            most = most.max(*value);
            union |= *value;
        }
        let divides = |unit: u64| self.values.iter().all(|value| value % unit == 0);
        let unit = match units.iter().find(|&&unit| divides(unit)) {
            Some(&unit) => unit,
            None if union == 0 => 1,
            None => 1 << union.trailing_zeros(),
        };
        let mut bits = u64::BITS - (most / unit).leading_zeros();
        if bits > MOST_BITS {
            bits = u64::BITS;
        }
        self.payload.extend_from_slice(&least.to_le_bytes());
        self.payload.extend_from_slice(&unit.to_le_bytes());
        self.payload.push(bits as u8);
        let (mut held, mut held_bits) = (0_u128, 0_u32);
        for value in &self.values {
            held |= u128::from(value / unit) << held_bits;
            held_bits += bits;
            while held_bits >= 8 {
                self.payload.push(held as u8);
                held >>= 8;
                held_bits -= 8;
            }
        }
        if held_bits > 0 {
            self.payload.push(held as u8);
        }
    }
}

const SIGN: u64 = 1 << 63;

/// A column of a block, as it is read.
#[derive(Clone, Copy)]
struct Column<'a> {
    least: u64,
    unit: u64,
    bits: usize,
    mask: u64,
    /// From its first value to the end of the block.
    packed: &'a [u8],
}

impl<'a> Column<'a> {
    /// The next column of a block of `count` requests, which is removed from `payload`.
    fn take(payload: &mut &'a [u8], count: usize) -> Option<Self> {
        let (head, rest) = payload.split_at_checked(COLUMN_HEAD_BYTES)?;
        let bits = usize::from(head[16]);
        let mask = match bits {
            0..=57 => (1 << bits) - 1,
            64 => u64::MAX,
            _ => return None,
        };
        let length = (bits * count).div_ceil(8);
        let packed = rest.get(..length + PADDING_BYTES)?;
        *payload = &rest[length..];
        Some(Self { least: word(head, 0), unit: word(head, 8), bits, mask, packed })
    }

    #[inline(always)]
    fn get(&self, index: usize) -> u64 {
        let bit = index * self.bits;
        let packed = word(self.packed, bit / 8) >> (bit % 8);
        (packed & self.mask).wrapping_mul(self.unit).wrapping_add(self.least)
    }
}

/// Puts the requests of a block behind those of `batch`; `None` for a payload that is no block.
fn unpack(mut payload: &[u8], count: usize, batch: &mut Vec<Request>) -> Option<()> {
    let mut at_ns = word(payload.get(..8)?, 0);
    payload = &payload[8..];
    let steps = Column::take(&mut payload, count)?;
    let offsets = Column::take(&mut payload, count)?;
    let lengths = Column::take(&mut payload, count)?;
    let tags = Column::take(&mut payload, count)?;
    batch.extend((0..count).map(|index| {
        at_ns = at_ns.wrapping_add(steps.get(index) ^ SIGN);
        let tag = tags.get(index);
        Request {
            at_ns,
            offset_bytes: offsets.get(index),
            length_bytes: lengths.get(index),
            device: (tag >> 2) as u32,
            kind: kind_of(tag),
        }
    }));
    Some(())
}

/// Reads what a [`ColumnWriter`] wrote.
pub struct ColumnReader<R> {
    input: Buffered<R>,
    head: Head,
    block: u64,
    given: u64,
}

impl<R: Read> ColumnReader<R> {
    pub fn new(mut input: R) -> Result<Self, Error> {
        let mut bytes = [0; HEAD_BYTES];
        input.read_exact(&mut bytes)?;
        let head = Head::of(&bytes).ok_or_else(|| damaged("its head is not valid"))?;
        Ok(Self { input: Buffered::new(input), head, block: 0, given: 0 })
    }

    /// What the file says of itself.
    pub fn head(&self) -> &Head {
        &self.head
    }
}

/// The next bytes of a file.
fn taken<R: Read>(input: &mut Buffered<R>, count: usize) -> Result<&[u8], Error> {
    if input.has(count)? { Ok(input.take(count)) } else { Err(damaged("it ends too early")) }
}

impl<R: Read> Source for ColumnReader<R> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.block == self.head.blocks {
            if self.given == self.head.requests {
                return Ok(());
            }
            return Err(damaged("its number of requests is wrong"));
        }
        let head = taken(&mut self.input, BLOCK_HEAD_BYTES)?;
        let sizes = word(head, 0);
        let (length, count) = ((sizes & 0xffff_ffff) as usize, (sizes >> 32) as usize);
        let checksum = word(head, 8);
        if length > MOST_PAYLOAD_BYTES || count > BATCH {
            return Err(damaged("the size of a block is wrong"));
        }
        let payload = taken(&mut self.input, length)?;
        self.block += 1;
        if xxh3_64_with_seed(payload, self.block) != checksum {
            return Err(damaged("the checksum of a block is wrong"));
        }
        unpack(payload, count, batch).ok_or_else(|| damaged("a block has no columns"))?;
        self.given += count as u64;
        Ok(())
    }

    fn only_writes(&self) -> bool {
        self.head.kinds == 1 << Kind::Write as u8
    }
}

fn damaged(what: &str) -> Error {
    io::Error::new(io::ErrorKind::InvalidData, what).into()
}
