//! Reads any format that is lines of text: takes the lines, lets the format parse each, holds the
//! rules that are common to all.

use std::io::Read;

use super::fields::without_white_space;
use super::gate::Gate;
use super::lines::{Lines, Next};
use super::sniff::Misfit;
use super::{BadLines, Format, ReadOptions};
use crate::{BATCH, Error, Fault, Request, Source};

/// Parses the lines of one format.
pub(super) trait LineParser {
    /// The request of a line that is neither empty nor a comment and has no white space around it;
    /// nothing if the line is right and holds none.
    fn parse(&mut self, line: &[u8]) -> Result<Option<Request>, Fault>;
}

/// The requests of a text.
pub(super) struct TextSource<R, P> {
    format: &'static Format,
    lines: Lines<R>,
    parser: P,
    gate: Gate,
    bad_lines_left: u64,
    /// What is to be said when the requests before it were given.
    pending: Option<Error>,
    over: bool,
}

impl<R: Read, P: LineParser> TextSource<R, P> {
    pub(super) fn new(format: &'static Format, input: R, parser: P, options: &ReadOptions) -> Self {
        Self {
            format,
            lines: Lines::new(input),
            parser,
            gate: Gate::new(options),
            bad_lines_left: match options.bad_lines {
                BadLines::Refuse => 0,
                BadLines::SkipAtMost(lines) => lines,
            },
            pending: None,
            over: false,
        }
    }

    /// Fills the batch until it is full or the text ends.
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        while batch.len() < BATCH {
            let fault = match self.lines.next()? {
                Next::End => {
                    self.over = true;
                    return self.something();
                }
                Next::TooLong => {
                    let fault = Fault::TooLong(super::lines::LONGEST_LINE_BYTES);
                    return Err(fault.at_line(self.lines.taken()));
                }
                Next::Line(line) => match one(&mut self.parser, &mut self.gate, line) {
                    Ok(Some(request)) => {
                        batch.push(request);
                        continue;
                    }
                    Ok(None) => continue,
                    Err(fault) => explained(fault, line),
                },
            };
            if self.bad_lines_left == 0 {
                return Err(fault.at_line(self.lines.taken()));
            }
            self.bad_lines_left -= 1;
        }
        Ok(())
    }

    /// An error if the text held no request.
    fn something(&self) -> Result<(), Error> {
        if self.gate.given > 0 {
            return Ok(());
        }
        Err(Error::Nothing { format: self.format.name, seen: format!("{} lines", self.lines.taken()) })
    }
}

/// The request of one line, if it holds one that is to be given.
#[inline(always)]
fn one(parser: &mut impl LineParser, gate: &mut Gate, line: &[u8]) -> Result<Option<Request>, Fault> {
    let line = without_white_space(line);
    if line.is_empty() || line[0] == b'#' {
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

impl<R: Read, P: LineParser> Source for TextSource<R, P> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        if self.over {
            return Ok(());
        }
        match self.fill(batch) {
            Err(error) => {
                self.over = true;
                if batch.is_empty() {
                    return Err(error);
                }
                self.pending = Some(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// How many requests a text holds, if all of it is right.
pub(super) fn probe(format: &'static Format, head: &[u8], parser: impl LineParser) -> Result<u64, Misfit> {
    let mut source = TextSource::new(format, head, parser, &ReadOptions::default());
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        match source.next_batch(&mut batch) {
            Err(error) => return Err((source.gate.given, error)),
            Ok(()) if batch.is_empty() => return Ok(source.gate.given),
            Ok(()) => {}
        }
    }
}
