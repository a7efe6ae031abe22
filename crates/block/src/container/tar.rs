//! tar archives: POSIX ustar and pax (IEEE Std 1003.1-2017, pax, "Extended Description"), and GNU's long names
//! and base-256 numbers (GNU tar manual, "Basic Tar Format").

use std::io::{self, BufReader, Read};

use super::archive::{Archive, damaged};
use super::compression::{Input, explained, pass, refused};

const BLOCK: usize = 512;
/// Long names and pax records; those of real archives have some hundred bytes.
const MOST_RECORD_BYTES: u64 = 1 << 16;

pub(super) struct Tar {
    input: BufReader<Input>,
    /// Of the file at which it stands.
    left: u64,
    padding: u64,
    ended: bool,
}

/// What stands before a header, and holds for it.
#[derive(Default)]
struct Extended {
    name: Option<String>,
    bytes: Option<u64>,
}

impl Tar {
    pub(super) fn new(input: BufReader<Input>) -> Self {
        Self { input, left: 0, padding: 0, ended: false }
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        let mut extended = Extended::default();
        while !self.ended {
            pass(&mut self.input, std::mem::take(&mut self.left) + std::mem::take(&mut self.padding))?;
            let mut header = [0; BLOCK];
            self.input.read_exact(&mut header)?;
            if header == [0; BLOCK] {
                self.ended = true;
                io::copy(&mut self.input, &mut io::sink())?;
                break;
            }
            let sum: u64 = header
                .iter()
                .enumerate()
                .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
                .sum();
            if number(&header[148..156])? != sum {
                return Err(damaged("the checksum of a header is wrong"));
            }
            let bytes = number(&header[124..136])?;
            match header[156] {
                b'L' => extended.name = Some(text(&self.record(bytes)?)),
                b'x' => extended.take(&self.record(bytes)?)?,
                b'K' | b'g' => self.stand(bytes),
                b'0' | 0 | b'7' => {
                    self.stand(extended.bytes.unwrap_or(bytes));
                    return Ok(Some(extended.name.unwrap_or_else(|| name(&header))));
                }
                b'S' => {
                    return Err(refused(format!("{} is sparse, which is not read; unpack it first", name(&header))));
                }
                // Folders, links and devices have no content.
                _ => extended = Extended::default(),
            }
        }
        Ok(None)
    }

    fn stand(&mut self, bytes: u64) {
        (self.left, self.padding) = (bytes, bytes.wrapping_neg() % BLOCK as u64);
    }

    fn record(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        if bytes > MOST_RECORD_BYTES {
            return Err(damaged(format!("a name or record of {bytes} bytes, expected at most {MOST_RECORD_BYTES}")));
        }
        let mut record = vec![0; bytes as usize];
        self.input.read_exact(&mut record)?;
        self.padding = bytes.wrapping_neg() % BLOCK as u64;
        Ok(record)
    }
}

impl Extended {
    /// pax records: `LENGTH KEY=VALUE` and a line feed each.
    fn take(&mut self, mut records: &[u8]) -> io::Result<()> {
        while !records.is_empty() {
            let blank = records.iter().position(|byte| *byte == b' ');
            let length = blank.and_then(|blank| std::str::from_utf8(&records[..blank]).ok()?.parse::<usize>().ok());
            let (Some(blank), Some(length)) = (blank, length) else {
                return Err(damaged("a pax record without length"));
            };
            let Some(record) = records.get(blank + 1..length).and_then(|record| record.strip_suffix(b"\n")) else {
                return Err(damaged("a pax record of another length"));
            };
            let record = String::from_utf8_lossy(record).into_owned();
            match record.split_once('=') {
                Some(("path", path)) => self.name = Some(path.to_owned()),
                Some(("size", bytes)) => self.bytes = Some(bytes.parse().map_err(damaged)?),
                Some((key, _)) if key.starts_with("GNU.sparse") => {
                    return Err(refused("a file in it is sparse, which is not read; unpack it first".into()));
                }
                _ => {}
            }
            records = &records[length..];
        }
        Ok(())
    }
}

impl Archive for Tar {
    fn advance(&mut self) -> io::Result<Option<String>> {
        self.next().map_err(|error| explained("tar archive", error))
    }
}

impl Read for Tar {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = (into.len() as u64).min(self.left) as usize;
        let read = self.input.read(&mut into[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(explained("tar archive", io::ErrorKind::UnexpectedEof.into()));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn name(header: &[u8; BLOCK]) -> String {
    let name = text(&header[..100]);
    // Old GNU headers, which end in a blank, have times there.
    match &header[345..500] {
        prefix if &header[257..263] == b"ustar\0" && prefix[0] != 0 => format!("{}/{name}", text(prefix)),
        _ => name,
    }
}

/// A field up to its NUL.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// An octal number, or a binary one whose first bit is set.
fn number(field: &[u8]) -> io::Result<u64> {
    let (high, low) = field.split_at(field.len() - 8);
    if field[0] & 0x80 != 0 && low.len() < field.len() {
        let number = low.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte));
        let fits = high[0] == 0x80 && high[1..].iter().all(|byte| *byte == 0);
        return Some(number).filter(|_| fits).ok_or_else(|| damaged("a size of more than 64 bits"));
    }
    let digits = text(field);
    u64::from_str_radix(digits.trim(), 8)
        .map_err(|_| damaged(format!("`{}` is no octal number", digits.escape_default())))
}
