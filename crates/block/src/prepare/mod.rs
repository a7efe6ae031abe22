//! Traces that are prepared: requests dropped, moved, rounded, cut, and their times scaled.
//!
//! [`Prepared`] is a source over another one. It does what a [`Preparation`] says, refuses what cannot be, and counts
//! in [`Changes`] all that it did. It deliberately does not sort: a trace whose times go back keeps them.

mod changes;
mod place;
mod preparation;
mod refusal;

pub use changes::Changes;
pub use preparation::{Beyond, Devices, Kinds, Offsets, Preparation, Shrink, Sizing};
pub use refusal::Refusal;

use crate::{BATCH, Error, Kind, Request, Source};
use changes::Moves;
use place::{Fit, Places};

/// Pages that one request may be split into: 4 GiB in sectors of 512 bytes.
const MOST_PAGES: u64 = 1 << 23;

/// A source over another one, as a [`Preparation`] says.
pub struct Prepared<S> {
    source: S,
    wanted: Preparation,
    places: Places,
    changes: Changes,
    taken: Vec<Request>,
    next: usize,
    /// What is left of a request that is split.
    pages: Option<Request>,
    /// Requests given, before they were split.
    kept: u64,
    first_ns: Option<u64>,
    /// An error that waits until the requests before it were given.
    failed: Option<Error>,
    ended: bool,
}

impl<S: Source> Prepared<S> {
    pub fn new(source: S, wanted: Preparation) -> Result<Self, Error> {
        wanted.check()?;
        Ok(Self {
            source,
            wanted,
            places: Places::new(&wanted),
            changes: Changes::default(),
            taken: Vec::new(),
            next: 0,
            pages: None,
            kept: 0,
            first_ns: None,
            failed: None,
            ended: false,
        })
    }

    /// What was done so far.
    pub fn changes(&self) -> Changes {
        self.changes
    }

    /// The next request to give: a page of the one being split, or one that is kept.
    fn next(&mut self) -> Result<Option<Request>, Error> {
        if let Some(rest) = self.pages.take() {
            return Ok(Some(self.page_of(rest)));
        }
        while self.wanted.first.is_none_or(|first| self.kept < first) {
            let Some(request) = self.take()? else {
                return Ok(None);
            };
            let prepared =
                self.prepare(request).map_err(|refusal| Error::Refused { number: self.changes.seen, refusal })?;
            if let Some(request) = prepared {
                return Ok(Some(self.page_of(request)));
            }
        }
        Ok(None)
    }

    /// A whole batch, where nothing is wanted but that no request is empty.
    fn pass_on(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if let Some(error) = self.failed.take() {
            batch.clear();
            return Err(error);
        }
        self.source.next_batch(batch)?;
        let empty = |request: &Request| request.length_bytes == 0 && request.kind != Kind::Flush;
        if let Some(place) = batch.iter().position(empty) {
            batch.truncate(place);
            self.failed =
                Some(Error::Refused { number: self.changes.seen + place as u64 + 1, refusal: Refusal::Empty });
            if place == 0 {
                return self.failed.take().map_or(Ok(()), Err);
            }
        }
        let bytes: u64 = batch.iter().fold(0, |sum: u64, request| sum.saturating_add(request.length_bytes));
        self.changes.pass(batch.len() as u64, bytes);
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Request>, Error> {
        if self.next == self.taken.len() {
            self.source.next_batch(&mut self.taken)?;
            self.next = 0;
        }
        let Some(&request) = self.taken.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        self.changes.seen += 1;
        self.changes.bytes_seen = self.changes.bytes_seen.saturating_add(request.length_bytes);
        Ok(Some(request))
    }

    /// One request, as it is to be; nothing where it is dropped.
    fn prepare(&mut self, mut request: Request) -> Result<Option<Request>, Refusal> {
        let before_bytes = request.length_bytes;
        if self.is_dropped(&request)? {
            return Ok(None);
        }
        let mut moves = Moves::default();
        if request.kind == Kind::Flush {
            request.device = match self.wanted.devices {
                Devices::Keep => request.device,
                _ => 0,
            };
        } else if self.places.place(&mut request, &mut moves)? == Fit::Beyond {
            self.changes.dropped_beyond += 1;
            return Ok(None);
        }
        if self.changes.skipped < self.wanted.skip {
            self.changes.skipped += 1;
            return Ok(None);
        }
        let pages = match self.wanted.sizes {
            Sizing::Split => (request.length_bytes / self.wanted.page_bytes).max(1),
            _ => 1,
        };
        if pages > MOST_PAGES {
            return Err(Refusal::TooManyPages {
                length_bytes: before_bytes,
                page_bytes: self.wanted.page_bytes,
                pages,
            });
        }
        self.kept += 1;
        (self.changes).keep(before_bytes, moves, request.length_bytes, pages);
        request.at_ns = self.scaled(request.at_ns);
        Ok(Some(request))
    }

    fn is_dropped(&mut self, request: &Request) -> Result<bool, Refusal> {
        if let Devices::Only(device) = self.wanted.devices {
            if device != request.device {
                self.changes.dropped_device += 1;
                return Ok(true);
            }
        }
        if !self.wanted.keep.has(request.kind) {
            self.changes.dropped_kind += 1;
            return Ok(true);
        }
        let empty = request.length_bytes == 0 && request.kind != Kind::Flush;
        if empty && !self.wanted.drop_empty {
            return Err(Refusal::Empty);
        }
        self.changes.dropped_empty += u64::from(empty);
        Ok(empty)
    }

    /// Times before the first request, where a trace goes back, become 0 when it is rebased.
    fn scaled(&mut self, at_ns: u64) -> u64 {
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        let since_ns = if self.wanted.rebase { at_ns.saturating_sub(first_ns) } else { at_ns };
        if (self.wanted.time_scale - 1.0).abs() < f64::EPSILON {
            return since_ns;
        }
        (since_ns as f64 * self.wanted.time_scale).round() as u64
    }

    /// The first page of a request where it is to be split; the rest waits.
    fn page_of(&mut self, mut request: Request) -> Request {
        let page_bytes = self.wanted.page_bytes;
        if self.wanted.sizes == Sizing::Split && request.length_bytes > page_bytes {
            self.pages = Some(Request {
                offset_bytes: request.offset_bytes + page_bytes,
                length_bytes: request.length_bytes - page_bytes,
                ..request
            });
            request.length_bytes = page_bytes;
        }
        request
    }
}

impl<S: Source> Source for Prepared<S> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if self.wanted == Preparation::default() {
            return self.pass_on(batch);
        }
        batch.clear();
        while batch.len() < BATCH && !self.ended {
            match self.next() {
                Ok(Some(request)) => batch.push(request),
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.failed = Some(error);
                    self.ended = true;
                }
            }
        }
        match self.failed.take() {
            Some(error) if batch.is_empty() => Err(error),
            waiting => {
                self.failed = waiting;
                Ok(())
            }
        }
    }

    fn only_writes(&self) -> bool {
        self.wanted.keep == Kinds::WRITES || self.source.only_writes()
    }
}
