//! Finds a trace's format by what it begins with. Strict: every complete line or record of the
//! head must be right in a format, and only one may fit. Where bad lines are allowed, a format may have so many, but no
//! more than requests, and the one with the fewest fits. Names of files never decide alone.

use super::csv::COLUMN_NAME;
use super::gate::{Head, Misfit, Probed, SNIFF_BYTES};
use super::table::OTHER_UNIT;
use super::{FORMATS, Form, Format, ReadOptions};
use crate::error::excerpt;
use crate::{Error, Fault};

/// What the header of bpftrace's biosnoop.bt has in all versions. Its output is no trace.
const BIOSNOOP_BT: [&[u8]; 5] = [b"TIME(ms)", b"DISK", b"COMM", b"PID", b"LAT(ms)"];

/// How many formats an error explains.
const NEAREST: usize = 3;

/// What a trace was found to be.
#[derive(Debug, Clone, Copy)]
pub struct Sniffed {
    pub format: &'static Format,
    /// Another format that has the same lines with the same meaning: either reads the trace.
    pub same: Option<&'static Format>,
    /// How many requests were looked at.
    pub requests: u64,
}

/// What is known of a head that is as a format wants it.
type Fit = (&'static Format, Probed);

/// The format of a trace that begins with `head`: all of it, or its first [`SNIFF_BYTES`].
/// `name_hint` is its file's name; it only chooses among formats that mean the same.
pub fn sniff(head: &[u8], name_hint: Option<&str>) -> Result<Sniffed, Error> {
    sniff_as(head, name_hint, &ReadOptions::default())
}

/// [`sniff`]; where nothing fits, by what may be wrong as `options` say: lines, lengths, the order of times.
pub fn sniff_tolerant(head: &[u8], name_hint: Option<&str>, options: &ReadOptions) -> Result<Sniffed, Error> {
    match sniff(head, name_hint) {
        Err(Error::Unknown { .. }) => sniff_as(head, name_hint, options),
        strict => strict,
    }
}

fn sniff_as(head: &[u8], name_hint: Option<&str>, options: &ReadOptions) -> Result<Sniffed, Error> {
    let mut fitting: Vec<Fit> = Vec::new();
    let mut others = Vec::new();
    for format in FORMATS {
        match (format.probe)(format, Head { bytes: complete(format, head), options }) {
            Ok(probed) => fitting.push((format, probed)),
            Err(misfit) => others.push((format, misfit)),
        }
    }
    let fewest = fitting.iter().map(|(_, probed)| probed.bad).min();
    fitting.retain(|(_, probed)| Some(probed.bad) == fewest);
    match fitting.as_slice() {
        [] if head.is_empty() => Err(Error::Nothing { format: "any format", seen: "0 bytes".into() }),
        [] => Err(unknown(head, others)),
        [(format, probed)] => Ok(Sniffed { format, same: None, requests: probed.requests }),
        [one, other] if other.0.same_as == Some(one.0.name) => Ok(either(*one, *other, name_hint)),
        [one, other] if one.0.same_as == Some(other.0.name) => Ok(either(*other, *one, name_hint)),
        several => Err(ambiguous(several)),
    }
}

/// Of two formats that mean the same the first, unless the file is named as the second's are.
fn either(first: Fit, second: Fit, name_hint: Option<&str>) -> Sniffed {
    let name = name_hint.map_or("", |name| {
        let packed = [".gz", ".bz2", ".xz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending));
        packed.unwrap_or(name)
    });
    let named = |format: &Format| format.endings.iter().any(|ending| name.ends_with(ending));
    let second_named = named(second.0) && !named(first.0);
    let (chosen, same) = if second_named { (second, first) } else { (first, second) };
    Sniffed { format: chosen.0, same: Some(same.0), requests: chosen.1.requests }
}

/// The head without the line that is cut at its end. Binary formats know the length of a record.
fn complete<'a>(format: &Format, head: &'a [u8]) -> &'a [u8] {
    if head.len() < SNIFF_BYTES {
        return head;
    }
    let head = &head[..SNIFF_BYTES];
    match (format.form, memchr::memrchr(b'\n', head)) {
        (Form::Text, Some(feed)) => &head[..feed],
        _ => head,
    }
}

fn ambiguous(fitting: &[Fit]) -> Error {
    let names: Vec<&str> = fitting.iter().map(|(format, _)| format.name).collect();
    Error::Ambiguous { candidates: names.join(" or ") }
}

/// Explains the formats that got furthest; where none got anywhere, shows what it was.
fn unknown(head: &[u8], mut others: Vec<(&'static Format, Misfit)>) -> Error {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    if BIOSNOOP_BT.iter().all(|word| memchr::memmem::find(line, word).is_some()) {
        let nearest = "bpftrace's biosnoop.bt prints no addresses; bcc's biosnoop does".into();
        return Error::Unknown { nearest, began: true };
    }
    others.sort_by_key(|(_, (requests, _))| std::cmp::Reverse(*requests));
    let nearest: Vec<String> = others
        .iter()
        .filter(|(_, (requests, error))| *requests > 0 || begins_right(error))
        .take(NEAREST)
        .map(|(format, (_, error))| format!("{}: {error}", format.name))
        .collect();
    if !nearest.is_empty() {
        let nearest = nearest.join("; ");
        return Error::Unknown { nearest, began: true };
    }
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).filter(|name| *name != "regex").collect();
    let beginning = excerpt(line.trim_ascii());
    Error::Unknown { nearest: format!("none of {} begins with `{beginning}`", names.join(", ")), began: false }
}

/// Whether the beginning is right, a header for example, though no request was read.
fn begins_right(error: &Error) -> bool {
    match error {
        Error::At { place, fault } => {
            let header =
                matches!(fault, Fault::Field { column, wanted, .. } if *column == COLUMN_NAME || *wanted == OTHER_UNIT);
            header || !matches!(place.as_str(), "line 1" | "byte 0")
        }
        _ => false,
    }
}
