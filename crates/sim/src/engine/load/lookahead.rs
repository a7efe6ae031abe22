//! What the engine issues next: the trace's requests, or what a reshaping buffer makes of them.

use crate::Error;
use crate::drive::{Drive, Place};
use crate::engine::Feed;
use crate::engine::load::arrivals::Arrivals;
use crate::engine::load::requests::Fed;
use crate::engine::load::reshaping_buffer::Reshape;
use crate::engine::load::trace_input::{Feeding, Intake};
use crate::engine::tally::Tally;
use crate::policy::Outlook;

/// How many requests of the trace go through the buffer before the drive sees what it evicted.
/// Many, so that memory is asked for early; one, where the buffer wants to know the drive's state.
const LOOKAHEAD: usize = 256;

pub(in crate::engine) struct Supply<'a> {
    intake: Intake<'a>,
    reshape: Option<Reshape>,
    feeding: Feeding,
    lookahead: usize,
    /// Requests of the trace, from `taken` on.
    arrivals: Vec<Fed>,
    taken: usize,
    /// Requests for the drive, from `issued` on.
    ready: Vec<Fed>,
    issued: usize,
    issued_before: u64,
    places: Vec<Place>,
}

impl<'a> Supply<'a> {
    pub fn new(intake: Intake<'a>, feed: &Feed, reshape: Option<Reshape>, watches: bool) -> Self {
        Self {
            intake,
            reshape,
            feeding: feed.feeding,
            lookahead: if watches { 1 } else { LOOKAHEAD },
            arrivals: Vec::new(),
            taken: 0,
            ready: Vec::new(),
            issued: 0,
            issued_before: 0,
            places: Vec::new(),
        }
    }

    /// All that is ready, at once; `give_back` returns the vector's memory.
    pub fn take_ready(&mut self) -> Vec<Fed> {
        self.issued_before += self.ready.len() as u64;
        std::mem::take(&mut self.ready)
    }

    pub fn give_back(&mut self, ready: Vec<Fed>) {
        self.ready = ready;
        self.ready.clear();
    }

    fn make_ready(&mut self, outlook: &Outlook<'_>, tally: &mut Tally) {
        let until = (self.taken + self.lookahead).min(self.arrivals.len());
        let arrived = &self.arrivals[self.taken..until];
        match &mut self.reshape {
            None => self.ready.extend_from_slice(arrived),
            Some(reshape) => {
                for fed in arrived {
                    reshape.take(fed, outlook, &mut self.ready, tally);
                }
            }
        }
        self.taken = until;
    }

    /// Lots have times of their own.
    fn date(&mut self) {
        if let Feeding::Batches { size, gap_ps } = self.feeding {
            for (fed, number) in self.ready.iter_mut().zip(self.issued_before..) {
                fed.at_ps = (number / u64::from(size)).saturating_mul(gap_ps);
            }
        }
    }

    fn anticipate(&mut self, drive: &Drive) {
        self.places.clear();
        self.places.extend(
            self.ready
                .iter()
                .filter(|fed| fed.pages > 0)
                .map(|fed| drive.place(fed.first)),
        );
        drive.anticipate(&self.places);
    }
}

impl Arrivals for Supply<'_> {
    #[inline]
    fn peek(&self) -> Option<&Fed> {
        self.ready.get(self.issued)
    }

    #[inline]
    fn pass(&mut self) {
        self.issued += 1;
    }

    fn refill(
        &mut self,
        drive: &Drive,
        outlook: &Outlook<'_>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        self.issued_before += self.issued as u64;
        self.issued = 0;
        self.ready.clear();
        while self.ready.is_empty() {
            if self.taken == self.arrivals.len() {
                self.taken = 0;
                self.arrivals.clear();
                if !self.intake.take(&mut self.arrivals)? {
                    return Ok(());
                }
            }
            self.make_ready(outlook, tally);
        }
        self.date();
        self.anticipate(drive);
        Ok(())
    }

    fn held(&self) -> u64 {
        self.reshape.as_ref().map_or(0, Reshape::held)
    }
}
