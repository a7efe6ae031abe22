//! One source of requests out of all files: one after the other, or merged by time where they may be sorted.
//!
//! Several files are one trace: of one format, with one numbering of devices. A file of which not a single request can
//! be read is no part of it (a README, a checksum); it is left out and named in [`LeftOut`]. Anything that is wrong
//! behind a first request is an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io::{Cursor, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

use super::{File, Files, Input};
use crate::trace::{self, Format, OutOfOrder, ReadOptions, SNIFF_BYTES};
use crate::{BATCH, Error, Names, Request, Source};

type Boxed = Box<dyn Source + Send>;

/// Files that are merged at a time: each is open, with its buffers.
const MOST_MERGED: usize = 256;
/// How many files a message names.
const NAMED: usize = 3;

/// The files that were left out.
#[derive(Debug, Default)]
pub struct LeftOut {
    pub files: u64,
    /// The first ones, with what is wrong with them.
    named: Vec<(String, String)>,
}

impl LeftOut {
    fn add(&mut self, file: &str, error: &Error) {
        self.files += 1;
        if self.named.len() < NAMED {
            self.named.push((file.to_owned(), error.to_string()));
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = if self.files == 1 { "file holds no request and is" } else { "files hold no request and are" };
        write!(to, "{} {are} left out (--member chooses files): ", self.files)?;
        let named: Vec<String> = self.named.iter().map(|(file, why)| format!("{file} ({why})")).collect();
        let more = if self.files > NAMED as u64 { ", …" } else { "" };
        write!(to, "{}{more}", named.join(", "))
    }
}

/// The requests of the files in inputs, and their format: `format`, or the one of the first file that has one.
/// A file that was given itself is a trace like any other; `hint` is its name.
pub fn read(
    inputs: &[Input],
    format: Option<&'static Format>,
    hint: Option<&str>,
    options: &ReadOptions,
    left_out: &Arc<Mutex<LeftOut>>,
) -> Result<(Boxed, &'static Format), Error> {
    let options = ReadOptions { names: Names::default(), ..options.clone() };
    let reader =
        Reader { format, hint: hint.map(str::to_owned), options, left_out: Arc::clone(left_out), seen: Vec::new() };
    if let OutOfOrder::Sort(_) = reader.options.out_of_order {
        return merged(inputs, reader);
    }
    let mut files = Files::of(inputs.to_vec());
    let first = match files.next_file()? {
        Some(file) if file.name.is_empty() && reader.options.member.is_none() => return reader.whole(file),
        first => first,
    };
    let mut chain = Chain { files, first, reader, current: None, last_ns: 0, over: false };
    chain.current = chain.next_part()?;
    match chain.reader.format {
        Some(format) if format.by_processor && chain.current.is_some() => {
            *left_out.lock().unwrap_or_else(PoisonError::into_inner) = LeftOut::default();
            merged(inputs, Reader { seen: Vec::new(), ..chain.reader })
        }
        Some(format) if chain.current.is_some() => Ok((Box::new(chain), format)),
        _ => Err(chain.reader.nothing()),
    }
}

/// How each file is read.
struct Reader {
    format: Option<&'static Format>,
    hint: Option<String>,
    options: ReadOptions,
    left_out: Arc<Mutex<LeftOut>>,
    /// Names of files that were not chosen, for a message.
    seen: Vec<String>,
}

/// A file whose requests are read; its first ones were.
struct Part {
    name: String,
    source: Boxed,
    batch: Vec<Request>,
    /// How many of the batch were given.
    given: usize,
}

impl Part {
    fn next_batch(&mut self) -> Result<(), Error> {
        self.given = 0;
        self.source.next_batch(&mut self.batch).map_err(|error| error.inside(&self.name))
    }
}

impl Reader {
    /// A file that was given itself.
    fn whole(mut self, file: File) -> Result<(Boxed, &'static Format), Error> {
        let hint = self.hint.take();
        self.source(file, hint.as_deref())
    }

    fn source(&self, mut file: File, hint: Option<&str>) -> Result<(Boxed, &'static Format), Error> {
        if let Some(format) = self.format {
            return Ok((trace::read(format, file.content, &self.options)?, format));
        }
        let mut head = Vec::new();
        (&mut file.content).take(SNIFF_BYTES as u64).read_to_end(&mut head)?;
        let format = trace::sniff_tolerant(&head, hint, &self.options)?.format;
        Ok((trace::read(format, Cursor::new(head).chain(file.content), &self.options)?, format))
    }

    fn chooses(&mut self, name: &str) -> bool {
        let chosen = self.options.member.as_ref().is_none_or(|pattern| chosen(pattern, name));
        if !chosen && self.seen.len() <= NAMED {
            self.seen.push(name.to_owned());
        }
        chosen
    }

    /// A file as a part of the trace; nothing if it is none.
    fn part(&mut self, file: File) -> Result<Option<Part>, Error> {
        let name = file.name.clone();
        let first = |(mut source, format): (Boxed, _)| {
            let mut batch = Vec::with_capacity(BATCH);
            source.next_batch(&mut batch).map(|()| (source, format, batch))
        };
        match self.source(file, name.rsplit('/').next()).and_then(first) {
            Ok((source, format, batch)) => {
                self.format = Some(format);
                Ok(Some(Part { name, source, batch, given: 0 }))
            }
            Err(error @ (Error::At { .. } | Error::Nothing { .. } | Error::Unknown { began: false, .. })) => {
                self.left_out.lock().unwrap_or_else(PoisonError::into_inner).add(&name, &error);
                Ok(None)
            }
            Err(error) => Err(error.inside(&name)),
        }
    }

    /// Why there is no part.
    fn nothing(&self) -> Error {
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        match (left_out.named.first(), &self.options.member) {
            (Some((file, why)), _) => {
                let more =
                    if left_out.files > 1 { format!(", and {} more", left_out.files - 1) } else { String::new() };
                Error::NoTrace { file: file.clone(), why: why.clone(), more }
            }

            (None, Some(pattern)) => {
                let there: Vec<&str> =
                    self.seen.iter().take(NAMED).map(String::as_str).filter(|name| !name.is_empty()).collect();
                let more = if self.seen.len() > NAMED { ", …" } else { "" };
                let wanted = match there.as_slice() {
                    [] => "an archive or a folder".into(),
                    names => format!("the name of a file in it, with * and ?; there are {}{more}", names.join(", ")),
                };
                Error::Option { name: "member", value: format!("`{pattern}`"), wanted }
            }
            (None, None) => Error::NoFile,
        }
    }
}

/// Files one after the other.
struct Chain {
    files: Files,
    first: Option<File>,
    reader: Reader,
    current: Option<Part>,
    last_ns: u64,
    over: bool,
}

impl Chain {
    fn next_part(&mut self) -> Result<Option<Part>, Error> {
        while let Some(file) = self.first.take().map_or_else(|| self.files.next_file(), |file| Ok(Some(file)))? {
            if self.reader.chooses(&file.name) {
                if let Some(part) = self.reader.part(file)? {
                    return Ok(Some(part));
                }
            }
        }
        Ok(None)
    }

    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        while let Some(part) = &mut self.current {
            std::mem::swap(batch, &mut part.batch);
            part.next_batch()?;
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
                self.current = self.next_part()?;
                continue;
            };
            if self.reader.options.out_of_order == OutOfOrder::Refuse && first.at_ns < self.last_ns {
                return Err(Error::FileOrder { file: part.name.clone(), first_ns: first.at_ns, last_ns: self.last_ns });
            }
            self.last_ns = last.at_ns;
            return Ok(());
        }
        Ok(())
    }
}

impl Source for Chain {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if self.over {
            return Ok(());
        }
        let filled = self.fill(batch);
        self.over = filled.is_err();
        filled
    }
}

/// Files merged by their times, each sorted in itself. Each is opened on its own: in an archive, behind those before it.
fn merged(inputs: &[Input], mut reader: Reader) -> Result<(Boxed, &'static Format), Error> {
    let mut places = Vec::new();
    for input in inputs {
        let mut files = Files::of(vec![input.clone()]);
        let mut number = 0;
        while let Some(file) = files.next_file()? {
            if file.name.is_empty() && reader.options.member.is_none() {
                return reader.whole(file);
            }
            if reader.chooses(&file.name) {
                places.push((input, number));
            }
            number += 1;
        }
    }
    if places.len() > MOST_MERGED {
        let wanted = format!("at most {MOST_MERGED} files to merge, found {}; --member chooses files", places.len());
        return Err(Error::Option { name: "out-of-order", value: "sort".into(), wanted });
    }
    let (mut parts, mut next) = (Vec::new(), BinaryHeap::new());
    for (input, number) in places {
        let mut files = Files::of(vec![input.clone()]);
        for _ in 0..number {
            files.next_file()?;
        }
        let Some(file) = files.next_file()? else { continue };
        if let Some(part) = reader.part(file)? {
            next.extend(part.batch.first().map(|first| Reverse((first.at_ns, parts.len()))));
            parts.push(part);
        }
    }
    match reader.format {
        Some(format) if !parts.is_empty() => Ok((Box::new(Merge { parts, next, failed: None }), format)),
        _ => Err(reader.nothing()),
    }
}

struct Merge {
    parts: Vec<Part>,
    /// Time of each part's next request; equal times are in the order of the files.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// What is to be said when the requests before it were given.
    failed: Option<Error>,
}

impl Source for Merge {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while batch.len() < BATCH {
            let Some(Reverse((_, number))) = self.next.pop() else {
                break;
            };
            let part = &mut self.parts[number];
            // Up to the next request of the other files, or the end of the batch that was read.
            let until = self.next.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
            while batch.len() < BATCH {
                let Some(request) = part.batch.get(part.given).filter(|request| (request.at_ns, number) <= until)
                else {
                    break;
                };
                batch.push(*request);
                part.given += 1;
            }
            if part.given == part.batch.len() {
                if let Err(error) = part.next_batch() {
                    self.next.clear();
                    self.failed = Some(error);
                    break;
                }
            }
            self.next.extend(part.batch.get(part.given).map(|first| Reverse((first.at_ns, number))));
        }
        match self.failed.take() {
            Some(error) if batch.is_empty() => Err(error),
            failed => {
                self.failed = failed;
                Ok(())
            }
        }
    }
}

/// Whether a pattern, in which `*` is any text and `?` any character, is a file's name from some folder on.
fn chosen(pattern: &str, name: &str) -> bool {
    let starts = std::iter::once(0).chain(name.match_indices('/').map(|(slash, _)| slash + 1));
    starts.into_iter().any(|start| matches(pattern.as_bytes(), &name.as_bytes()[start..]))
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut star) = (0, None);
    let mut begin = 0;
    while begin < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, begin));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[begin] => (at, begin) = (at + 1, begin + 1),
            // What the last star stands for gets longer by a byte.
            _ => match &mut star {
                Some((behind, from)) => {
                    *from += 1;
                    (at, begin) = (*behind + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}
