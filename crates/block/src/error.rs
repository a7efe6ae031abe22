//! What can be wrong with a trace, said so that it can be found and mended.

use std::fmt::Write as _;

use crate::prepare::Refusal;

/// A trace that cannot be read, written, made or prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source or the sink failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Something at a place of a trace is not what its format says.
    #[error("{place}: {fault}")]
    At {
        /// Where: `line 12`, `byte 4096`, or `request 7` of what is written.
        place: String,
        fault: Fault,
    },
    /// A request that preparation refuses.
    #[error("request {number}: {refusal}")]
    Refused {
        /// Which request of the source, from 1.
        number: u64,
        refusal: Refusal,
    },
    /// An option that cannot be.
    #[error("{name} is {value}, expected {wanted}")]
    Option { name: &'static str, value: String, wanted: String },
    /// A trace without any request.
    #[error(
        "the trace parses to nothing: {seen} read as {format}, no request among them; \
         is it another format?"
    )]
    Nothing {
        /// Name of the format it was read as.
        format: &'static str,
        /// What was read: `12 lines`, `0 bytes`.
        seen: String,
    },
    /// No format fits what a trace begins with.
    #[error(
        "no known trace format fits ({nearest}); say which it is with --format, or with --pattern what its lines are"
    )]
    Unknown {
        /// The formats that came nearest, each with why it does not fit.
        nearest: String,
        /// Whether its beginning is right in one of them.
        began: bool,
    },
    /// More than one format fits what a trace begins with.
    #[error("the trace could be {candidates}; say which it is with --format")]
    Ambiguous { candidates: String },
    /// What is wrong with one file of an archive or folder.
    #[error("{file}: {error}")]
    In { file: String, error: Box<Error> },
    /// A file whose requests are earlier than those of the files before it.
    #[error(
        "{file} begins at {first_ns} ns, before the {last_ns} ns at which the file before it ends \
         (--out-of-order sort:1 merges files by time)"
    )]
    FileOrder { file: String, first_ns: u64, last_ns: u64 },
    /// An archive or a folder of other files; `more` of them are not named.
    #[error("it has no trace: {file} ({why}){more}")]
    NoTrace { file: String, why: String, more: String },
    #[error("it has no files, expected a trace in it")]
    NoFile,
}

impl Error {
    /// The same of a file of an archive or folder; of the trace itself where that has no name.
    pub fn inside(self, file: &str) -> Self {
        if file.is_empty() { self } else { Self::In { file: file.to_owned(), error: Box::new(self) } }
    }
}

/// What is wrong at one place of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field that cannot be read.
    #[error("{column} is `{seen}`, expected {wanted}")]
    Field { column: &'static str, seen: String, wanted: &'static str },
    /// More or fewer columns than the format has.
    #[error("{seen} columns, expected {wanted}")]
    Columns { seen: usize, wanted: String },
    /// A number that does not fit once it is nanoseconds or bytes.
    #[error("{column} `{seen}` is too large: {limit}")]
    Overflow {
        column: &'static str,
        /// The value, as it stands there.
        seen: String,
        /// What it would have to fit into.
        limit: &'static str,
    },
    /// A request that was issued before the one that stands before it.
    #[error(
        "goes back in time: {at_ns} ns after {last_ns} ns \
         (--out-of-order sort:N puts requests right that are up to N lines late)"
    )]
    TimeBack {
        at_ns: u64,
        /// Time of the request before.
        last_ns: u64,
    },
    /// A read, write or trim of no byte.
    #[error("a request of no length (--zero-length skip leaves such out)")]
    ZeroLength,
    /// A line far longer than any of the format.
    #[error("longer than {0} bytes, expected lines of text: this is no trace in this format")]
    TooLong(usize),
    /// A byte that no text has.
    #[error("holds a NUL byte, expected text: is it a binary trace, or compressed in another way?")]
    Binary,
    /// A binary trace that ends within a record.
    #[error("the trace ends {seen} bytes into a record of {wanted}")]
    Truncated {
        /// Bytes of the record that are there.
        seen: usize,
        /// Bytes that a record has.
        wanted: usize,
    },
    /// A line or record that is wrong as a whole.
    #[error("`{seen}` is not {wanted}")]
    Form { seen: String, wanted: &'static str },
    /// Something that the format which is written has no words for.
    #[error("{format} cannot hold {what}")]
    Inexpressible {
        format: &'static str,
        /// What it cannot hold, and the option that mends it.
        what: String,
    },
}

impl Fault {
    #[cold]
    pub(crate) fn field(column: &'static str, seen: &[u8], wanted: &'static str) -> Self {
        Self::Field { column, seen: excerpt(seen), wanted }
    }

    #[cold]
    pub(crate) fn overflow(column: &'static str, seen: &[u8], limit: &'static str) -> Self {
        Self::Overflow { column, seen: excerpt(seen), limit }
    }

    #[cold]
    pub(crate) fn form(seen: &[u8], wanted: &'static str) -> Self {
        Self::Form { seen: excerpt(seen), wanted }
    }

    pub(crate) fn at_line(self, line: u64) -> Error {
        Error::At { place: format!("line {line}"), fault: self }
    }

    pub(crate) fn at_byte(self, byte: u64) -> Error {
        Error::At { place: format!("byte {byte}"), fault: self }
    }

    pub(crate) fn at_request(self, request: u64) -> Error {
        Error::At { place: format!("request {request}"), fault: self }
    }
}

/// What a word of an option stands for.
pub(crate) fn choice<T: Copy>(name: &'static str, word: &str, words: &[(&str, T)]) -> Result<T, Error> {
    let known = words.iter().find(|(known, _)| *known == word);
    known.map(|(_, value)| *value).ok_or_else(|| Error::Option { name, value: word.to_owned(), wanted: listed(words) })
}

/// The words of an option, for a message: `keep, cut or split`.
pub fn listed<T>(words: &[(&str, T)]) -> String {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    match words.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => words.concat(),
    }
}

/// Longest piece of a trace that a message repeats.
const EXCERPT_BYTES: usize = 60;

/// The beginning of `text`, unprintable bytes escaped, with an ellipsis where it was cut.
pub(crate) fn excerpt(text: &[u8]) -> String {
    let mut shown = String::new();
    for &byte in text.iter().take(EXCERPT_BYTES) {
        // Writing into a String cannot fail.
        let _ = write!(shown, "{}", byte.escape_ascii());
    }
    if text.len() > EXCERPT_BYTES {
        shown.push('…');
    }
    shown
}
