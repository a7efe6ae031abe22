//! zip archives, read from their beginning (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5): the directory at
//! the end, which a stream has too late, is only compared by its number of files.

use std::io::{self, BufReader, Read};

use flate2::{Crc, bufread::DeflateDecoder};

use super::archive::{Archive, damaged};
use super::compression::{BUFFER_BYTES, Budget, Input, explained, pass, refused};

const FILE: u32 = 0x0403_4b50;
const DIRECTORY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
/// Flags of a file: it has a password; its sizes stand behind it.
const ENCRYPTED: u16 = 1;
const SIZES_BEHIND: u16 = 8;
/// In place of a size of more than 32 bits, which is in an extra field.
const IN_EXTRA: u64 = 0xffff_ffff;

type Packed = io::Take<BufReader<Input>>;

enum Body {
    /// Between files, or behind the last one.
    None(BufReader<Input>),
    Stored(Packed),
    Deflated(DeflateDecoder<Packed>),
    /// Only while it changes, or after an error.
    Lost,
}

pub(super) struct Zip {
    body: Body,
    budget: Budget,
    files: u64,
    /// Of the file at which it stands: its name, checksum and sizes, if they stand before it.
    name: String,
    stated: Option<(u32, u64, u64)>,
    crc: Crc,
    given: u64,
    /// What came out of all files.
    total: u64,
}

impl Zip {
    pub(super) fn new(input: BufReader<Input>, budget: Budget) -> Self {
        Self {
            body: Body::None(input),
            budget,
            files: 0,
            name: String::new(),
            stated: None,
            crc: Crc::new(),
            given: 0,
            total: 0,
        }
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            self.skip()?;
            let Body::None(mut input) = std::mem::replace(&mut self.body, Body::Lost) else {
                return Ok(None);
            };
            let signature = number::<4>(&mut input)? as u32;
            if signature != FILE {
                return self.end(signature, &mut input).map(|()| None);
            }
            if self.begin(input)? {
                return Ok(Some(self.name.clone()));
            }
        }
    }

    /// Goes behind the file at which it stands: without a look at it where its size is known.
    fn skip(&mut self) -> io::Result<()> {
        if self.stated.is_none() {
            let mut scratch = vec![0; BUFFER_BYTES];
            while self.content(&mut scratch)? > 0 {}
            return Ok(());
        }
        let rest = match std::mem::replace(&mut self.body, Body::Lost) {
            Body::Stored(stored) => stored,
            Body::Deflated(deflated) => deflated.into_inner(),
            other => {
                self.body = other;
                return Ok(());
            }
        };
        let left = rest.limit();
        let mut input = rest.into_inner();
        pass(&mut input, left)?;
        self.body = Body::None(input);
        Ok(())
    }

    /// Begins a file; whether it is none but a folder.
    fn begin(&mut self, mut input: BufReader<Input>) -> io::Result<bool> {
        pass(&mut input, 2)?;
        let (flags, method) = (number::<2>(&mut input)? as u16, number::<2>(&mut input)?);
        pass(&mut input, 4)?;
        let crc = number::<4>(&mut input)? as u32;
        let (mut packed, mut plain) = (number::<4>(&mut input)?, number::<4>(&mut input)?);
        let (name_bytes, extra_bytes) = (number::<2>(&mut input)?, number::<2>(&mut input)?);
        let mut text = vec![0; name_bytes as usize];
        input.read_exact(&mut text)?;
        self.name = String::from_utf8_lossy(&text).into_owned();
        let mut extra = vec![0; extra_bytes as usize];
        input.read_exact(&mut extra)?;
        let refuse = |what: &str| Err(refused(format!("{} {what}; unpack it first", self.name)));
        if flags & ENCRYPTED != 0 {
            return refuse("has a password");
        }
        if let Some(sizes) = zip_64(&extra) {
            plain = if plain == IN_EXTRA { sizes.0 } else { plain };
            packed = if packed == IN_EXTRA { sizes.1 } else { packed };
        }
        let is_folder = self.name.ends_with('/');
        let behind = flags & SIZES_BEHIND != 0;
        self.stated = (!behind).then_some((crc, packed, plain));
        (self.crc, self.given) = (Crc::new(), 0);
        self.body = match method {
            0 if behind && !is_folder => return refuse("is stored without its size before it"),
            0 => Body::Stored(input.take(packed)),
            8 => Body::Deflated(DeflateDecoder::new(input.take(if behind { u64::MAX } else { packed }))),
            _ => return refuse(&format!("is compressed by zip's method {method}, which is not read")),
        };
        self.files += 1;
        Ok(!is_folder)
    }

    fn content(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.body {
            Body::None(_) | Body::Lost => return Ok(0),
            Body::Stored(stored) => stored.read(into)?,
            Body::Deflated(deflated) => deflated.read(into)?,
        };
        self.crc.update(&into[..read]);
        self.given += read as u64;
        self.total += read as u64;
        self.budget.check("zip archive", self.total)?;
        if read == 0 && !into.is_empty() {
            self.finish()?;
        }
        Ok(read)
    }

    /// A file has ended: what is stated of it must be right.
    fn finish(&mut self) -> io::Result<()> {
        let (rest, taken) = match std::mem::replace(&mut self.body, Body::Lost) {
            Body::Stored(stored) => (stored, self.given),
            Body::Deflated(deflated) => {
                let taken = deflated.total_in();
                (deflated.into_inner(), taken)
            }
            Body::None(_) | Body::Lost => return Ok(()),
        };
        let mut input = rest.into_inner();
        let found = (self.crc.sum(), taken, self.given);
        let stated = match self.stated {
            Some(stated) => stated,
            None => descriptor(&mut input, found)?,
        };
        if stated != found {
            return Err(damaged(format!("{} has another checksum or size than stated", self.name)));
        }
        self.body = Body::None(input);
        Ok(())
    }

    /// The directory, from its first signature on, must have as many files.
    fn end(&self, mut signature: u32, input: &mut BufReader<Input>) -> io::Result<()> {
        let mut listed = 0;
        loop {
            match signature {
                DIRECTORY => {
                    pass(input, 24)?;
                    let lengths = [number::<2>(input)?, number::<2>(input)?, number::<2>(input)?];
                    pass(input, 12 + lengths.iter().sum::<u64>())?;
                    listed += 1;
                }
                END_64 => {
                    let bytes = number::<8>(input)?;
                    pass(input, bytes)?;
                }
                LOCATOR_64 => pass(input, 16)?,
                END => {
                    pass(input, 16)?;
                    let comment_bytes = number::<2>(input)?;
                    pass(input, comment_bytes)?;
                    break;
                }
                _ => return Err(damaged("neither a file nor the directory begins where one should")),
            }
            signature = number::<4>(input)? as u32;
        }
        io::copy(input, &mut io::sink())?;
        if listed != self.files {
            return Err(damaged(format!("it has {} files, expected the {listed} of its directory", self.files)));
        }
        Ok(())
    }
}

impl Archive for Zip {
    fn advance(&mut self) -> io::Result<Option<String>> {
        self.next().map_err(|error| explained("zip archive", error))
    }
}

impl Read for Zip {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.content(into).map_err(|error| explained("zip archive", error))
    }
}

/// What stands behind a file whose sizes were not known before it, of 32 bits each or of 64.
fn descriptor(input: &mut BufReader<Input>, found: (u32, u64, u64)) -> io::Result<(u32, u64, u64)> {
    let first = number::<4>(input)? as u32;
    let crc = if first == DESCRIPTOR { number::<4>(input)? as u32 } else { first };
    let (packed, plain) = (number::<4>(input)?, number::<4>(input)?);
    if (packed, plain) == (found.1 & IN_EXTRA, found.2 & IN_EXTRA) && found.1 <= IN_EXTRA {
        return Ok((crc, found.1, found.2));
    }
    Ok((crc, packed | (plain << 32), number::<8>(input)?))
}

/// Sizes of more than 32 bits: before compression, and after it.
fn zip_64(mut extra: &[u8]) -> Option<(u64, u64)> {
    while let [id, id_high, length, length_high, rest @ ..] = extra {
        let field = rest.get(..usize::from(u16::from_le_bytes([*length, *length_high])))?;
        if (*id, *id_high) == (1, 0) {
            return Some((number::<8>(&mut field.get(..8)?).ok()?, number::<8>(&mut field.get(8..16)?).ok()?));
        }
        extra = &rest[field.len()..];
    }
    None
}

/// The next bytes, as a little-endian number.
fn number<const BYTES: usize>(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes[..BYTES])?;
    Ok(u64::from_le_bytes(bytes))
}
