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
