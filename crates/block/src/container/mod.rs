//! What traces and results are packed in: compressed streams, archives, encodings of text, also in each other, told by
//! their first bytes. All of it is read as a stream, in bounded memory: nothing is unpacked to a disk here.
//!
//! [`Files`] gives one file after the other; [`read`] makes one source of requests of them. Deliberately not here: what
//! opens a file or lists a folder, and which format a trace has.

mod archive;
mod compression;
mod encoding;

mod requests;
mod tar;
mod zip;

pub use requests::{LeftOut, read};

use std::io::{self, BufReader, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use archive::Archive;
use compression::{BUFFER_BYTES, Budget, Input as Stream, refused};
use tar::Tar;
use zip::Zip;

/// How often a file may be packed, one into the other.
const DEEPEST: usize = 4;
const HEAD_BYTES: u64 = 512;

/// A file that was given, or one of a folder, which can be opened again.
#[derive(Clone)]
pub struct Input {
    /// Its name in the folder; nothing of a file that was given.
    pub name: String,
    pub open: Arc<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync>,
}

/// A file that is packed into nothing.
pub struct File {
    /// How it is called: from the archive or folder on. Nothing of a file that was given itself.
    pub name: String,
    pub content: Box<dyn Read + Send>,
    /// How many compressions were around it alone: of `log.gz` one.
    pub compressions: usize,
    /// Its content is that of the input, byte by byte.
    pub is_plain: bool,
}

/// The files in inputs, one after the other. Hidden files of folders and archives are none.
pub struct Files {
    inputs: std::vec::IntoIter<Input>,
    budget: Budget,
    archives: Vec<Level>,
}

/// An archive, of which one file is open.
struct Level {
    name: String,
    archive: Arc<Mutex<Box<dyn Archive>>>,
    /// How often its content is packed.
    depth: usize,
}

impl Files {
    pub fn of(inputs: Vec<Input>) -> Self {
        Self { inputs: inputs.into_iter(), budget: Budget::default(), archives: Vec::new() }
    }

    /// The next file, whose content is to be read before the one after it.
    pub fn next_file(&mut self) -> Result<Option<File>, Error> {
        loop {
            let (name, stream, mut depth) = match self.archives.last() {
                Some(level) => {
                    let next = locked(&level.archive).advance()?;
                    let Some(inside) = next else {
                        self.archives.pop();
                        continue;
                    };
                    let name = if level.name.is_empty() { inside.clone() } else { format!("{}/{inside}", level.name) };
                    if is_hidden(&inside) {
                        continue;
                    }
                    (name, Box::new(Member(Arc::clone(&level.archive))) as Stream, level.depth)
                }
                None => match self.inputs.next() {
                    None => return Ok(None),
                    Some(input) => {
                        self.budget = Budget::default();
                        (input.name, self.budget.metered((input.open)()?), 0)
                    }
                },
            };
            let outside = depth;
            match opened(stream, &self.budget, &mut depth).map_err(|error| Error::from(error).inside(&name))? {
                Err((content, is_decoded)) => {
                    let is_plain = depth == 0 && !is_decoded;
                    let content = if depth == 0 { content } else { self.budget.spent(content) };
                    return Ok(Some(File { name, content, compressions: depth - outside, is_plain }));
                }
                Ok(archive) => self.archives.push(Level { name, archive: Arc::new(Mutex::new(archive)), depth }),
            }
        }
    }
}

/// An archive, or the text or records of a file, and whether the text was decoded.
fn opened(
    mut stream: Stream,
    budget: &Budget,
    depth: &mut usize,
) -> io::Result<Result<Box<dyn Archive>, (Stream, bool)>> {
    loop {
        let mut head = Vec::new();
        (&mut stream).take(HEAD_BYTES).read_to_end(&mut head)?;
        let whole = Box::new(Cursor::new(head.clone()).chain(stream));
        let plain = match compression::decompressed(&head, whole, budget)? {
            Ok(content) => {
                stream = content;
                deeper(depth)?;
                continue;
            }
            Err(plain) => plain,
        };
        return match archive(&head, plain, budget)? {
            Ok(archive) => deeper(depth).map(|()| Ok(archive)),
            Err(plain) => match encoding::decoded(&head, plain)? {
                Ok(text) => Ok(Err((text, true))),
                Err(plain) => Ok(Err((plain, false))),
            },
        };
    }
}

/// What is packed in a way that is not read here, by how it begins.
const OTHERS: [(&[u8], &str); 3] =
    [(b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "RAR"), (b"\x04\x22\x4d\x18", "LZ4")];

/// The archive that begins so; the stream itself if it is none.
fn archive(head: &[u8], input: Stream, budget: &Budget) -> io::Result<Result<Box<dyn Archive>, Stream>> {
    if let Some((_, name)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(refused(format!("it is packed as {name}, which is not read; unpack it first")));
    }
    let buffered = |input| BufReader::with_capacity(BUFFER_BYTES, input);
    Ok(if head.get(257..262) == Some(b"ustar") {
        Ok(Box::new(Tar::new(buffered(input))))
    } else if [b"PK\x03\x04".as_slice(), b"PK\x05\x06"].iter().any(|magic| head.starts_with(magic)) {
        Ok(Box::new(Zip::new(buffered(input), budget.clone())))
    } else {
        Err(input)
    })
}

fn deeper(depth: &mut usize) -> io::Result<()> {
    *depth += 1;
    if *depth <= DEEPEST {
        return Ok(());
    }
    Err(refused(format!("it is packed more than {DEEPEST} times, one into the other; unpack it first")))
}

fn locked(archive: &Mutex<Box<dyn Archive>>) -> std::sync::MutexGuard<'_, Box<dyn Archive>> {
    archive.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the file managers and archivers of macOS add.
fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with('.') && part != "." && part != "..") || name.starts_with("__MACOSX/")
}

/// The content of the file at which an archive stands.
struct Member(Arc<Mutex<Box<dyn Archive>>>);

impl Read for Member {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        locked(&self.0).read(into)
    }
}
