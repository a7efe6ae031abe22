//! Formats that are lines of text: takes the lines, lets the format parse each.

use std::io::Read;

use super::gate::{Fill, Gate, Head, Misfit, Probed, Reader};
use super::lines::{LONGEST_LINE_BYTES, Line, Lines, Next};
use super::{Format, ReadOptions};
use crate::{BATCH, Error, Fault, Request, Source};

/// Parses the lines of one format.
pub(super) trait LineParser: Send {
    /// The request of a line that is neither empty nor a comment and has no white space around it;
    /// nothing if the line is right and holds none.
    fn parse(&mut self, line: Line<'_>) -> Result<Option<Request>, Fault>;

    /// What is wrong with a text none of whose lines gave a request, where the format knows.
    fn nothing(&self) -> Option<Error> {
        None
    }
}

struct Text<R, P> {
    format: &'static Format,
    lines: Lines<R>,
    parser: P,
    gate: Gate,
}

/// The requests of a text.
pub(super) fn source(
    format: &'static Format,
    input: Box<dyn Read + Send>,
    parser: impl LineParser + 'static,
    options: &ReadOptions,
) -> Box<dyn Source + Send> {
    Box::new(Reader::new(Text { format, lines: Lines::new(input), parser, gate: Gate::new(options) }))
}

/// How many requests a text holds.
pub(super) fn probe(format: &'static Format, head: Head<'_>, parser: impl LineParser) -> Result<Probed, Misfit> {
    let gate = Gate::new(head.options);
    Reader::new(Text { format, lines: Lines::new(head.bytes), parser, gate }).probe()
}

impl<R: Read, P: LineParser> Fill for Text<R, P> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error> {
        while batch.len() < BATCH {
            let fault = match self.lines.next()? {
                Next::End => {
                    let seen = format!("{} lines", self.lines.taken());
                    let ended = self.gate.end(self.format, seen).map(|()| true);
                    return ended.map_err(|nothing| self.parser.nothing().unwrap_or(nothing));
                }
                Next::TooLong => return Err(Fault::TooLong(LONGEST_LINE_BYTES).at_line(self.lines.taken())),
                Next::Line(line) => match request(&mut self.parser, &mut self.gate, line) {
                    Ok(Some(request)) => {
                        batch.push(request);
                        continue;
                    }
                    Ok(None) => continue,
                    Err(fault) => explained(fault, &line),
                },
            };
            if !self.gate.forgives() {
                return Err(fault.at_line(self.lines.taken()));
            }
        }
        Ok(false)
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// The request of one line, if it holds one that is to be given.
#[inline(always)]
fn request(parser: &mut impl LineParser, gate: &mut Gate, line: Line<'_>) -> Result<Option<Request>, Fault> {
    let line = line.trimmed();
    if matches!(line.byte(0), None | Some(b'#')) {
        return Ok(None);
    }
    match parser.parse(line)? {
        Some(request) if gate.admits(&request)? => Ok(Some(request)),
        _ => Ok(None),
    }
}

/// A line with a NUL byte is no bad line of text: it is no text.
#[cold]
fn explained(fault: Fault, line: &[u8]) -> Fault {
    if line.contains(&0) { Fault::Binary } else { fault }
}
