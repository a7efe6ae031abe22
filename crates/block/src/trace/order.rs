//! Puts requests into the order of their times, within a window, in memory of the window's size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::OutOfOrder;
use crate::{BATCH, Error, Fault, Request, Source};

/// The source in the order that is asked for.
pub(super) fn ordered(source: Box<dyn Source + Send>, order: OutOfOrder) -> Result<Box<dyn Source + Send>, Error> {
    match order {
        OutOfOrder::Refuse | OutOfOrder::Keep => Ok(source),
        OutOfOrder::Sort(0) => Err(Error::Option {
            name: "out of order",
            value: "sort:0".into(),
            wanted: "a window of at least 1 request".into(),
        }),
        OutOfOrder::Sort(window) => Ok(Box::new(Sorted {
            source,
            window,
            held: BinaryHeap::new(),
            batch: Vec::with_capacity(BATCH),
            taken: 0,
            given: 0,
            last_ns: 0,
            state: State::Reading,
        })),
    }
}

/// Several traces as one, in the order of their times; of equal times the first trace's come first. Those without any
/// request are passed over, unless all are. The name of each stands in its errors.
pub fn merged(parts: Vec<(String, Box<dyn Source + Send>)>) -> impl Source + Send {
    let parts = parts.into_iter().map(|(name, source)| Part { name, source, batch: Vec::new(), given: 0 }).collect();
    Merged { parts, next: BinaryHeap::new(), state: State::Reading, is_begun: false, nothing: None }
}

struct Part {
    name: String,
    source: Box<dyn Source + Send>,
    batch: Vec<Request>,
    given: usize,
}

struct Merged {
    parts: Vec<Part>,
    /// The time of each part's next request, and the part: the heap's smallest is the next.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    state: State,
    is_begun: bool,
    /// What is wrong with a part without any request.
    nothing: Option<Error>,
}

impl Merged {
    /// Makes the part's next request one of those that may be given.
    fn offer(&mut self, number: usize) -> Result<(), Error> {
        let part = &mut self.parts[number];
        if part.given == part.batch.len() {
            part.given = 0;
            match part.source.next_batch(&mut part.batch) {
                Err(nothing @ (Error::Nothing { .. } | Error::Option { .. })) => {
                    part.batch.clear();
                    self.nothing = Some(nothing);
                }
                Err(Error::At { place, fault }) => {
                    let place = format!("{}, {place}", part.name);
                    return Err(Error::At { place, fault });
                }
                other => other?,
            }
        }
        if let Some(request) = part.batch.get(part.given) {
            self.next.push(Reverse((request.at_ns, number)));
        }
        Ok(())
    }

    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if !std::mem::replace(&mut self.is_begun, true) {
            (0..self.parts.len()).try_for_each(|number| self.offer(number))?;
            if self.next.is_empty() {
                return self.nothing.take().map_or(Ok(()), Err);
            }
        }
        while batch.len() < BATCH {
            let Some(Reverse((_, number))) = self.next.pop() else { break };
            let part = &mut self.parts[number];
            batch.push(part.batch[part.given]);
            part.given += 1;
            self.offer(number)?;
        }
        Ok(())
    }
}

impl Source for Merged {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        if let State::Reading = self.state {
            if let Err(error) = self.fill(batch) {
                self.state = State::Failed(error);
            }
        }
        if batch.is_empty() {
            if let State::Failed(error) = std::mem::replace(&mut self.state, State::Ended) {
                return Err(error);
            }
        }
        Ok(())
    }
}

enum State {
    Reading,
    Failed(Error),
    Ended,
}

struct Sorted<S> {
    source: S,
    window: usize,
    /// Time, place in the trace, request: the heap's smallest is the next.
    held: BinaryHeap<Reverse<(u64, u64, Request)>>,
    batch: Vec<Request>,
    taken: u64,
    /// How many of `batch` have moved into the heap.
    given: usize,
    last_ns: u64,
    state: State,
}

impl<S: Source> Sorted<S> {
    /// Takes requests until one more than the window is held, or there are none.
    fn hold(&mut self) {
        while matches!(self.state, State::Reading) && self.held.len() <= self.window {
            if let Some(&request) = self.batch.get(self.given) {
                self.held.push(Reverse((request.at_ns, self.taken, request)));
                self.given += 1;
                self.taken += 1;
                continue;
            }
            self.given = 0;
            match self.source.next_batch(&mut self.batch) {
                Err(error) => {
                    self.batch.clear();
                    self.state = State::Failed(error);
                }
                Ok(()) if self.batch.is_empty() => self.state = State::Ended,
                Ok(()) => {}
            }
        }
    }

    /// A request that came more than a window too late.
    fn late(&mut self, place: u64, request: Request) {
        self.held.clear();
        let fault = Fault::TimeBack { at_ns: request.at_ns, last_ns: self.last_ns };
        self.state = State::Failed(fault.at_request(place + 1));
    }
}

impl<S: Source> Source for Sorted<S> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while batch.len() < BATCH {
            self.hold();
            let Some(Reverse((at_ns, place, request))) = self.held.pop() else {
                break;
            };
            if at_ns < self.last_ns {
                self.late(place, request);
                break;
            }
            self.last_ns = at_ns;
            batch.push(request);
        }
        if batch.is_empty() && matches!(self.state, State::Failed(_)) {
            if let State::Failed(error) = std::mem::replace(&mut self.state, State::Ended) {
                return Err(error);
            }
        }
        Ok(())
    }
}
