//! Where an engine's requests come from: a trace, or somebody who submits them one by one.

use std::collections::VecDeque;

use crate::Error;
use crate::drive::Drive;
use crate::engine::load::requests::Fed;
use crate::engine::tally::Tally;
use crate::policy::Outlook;

/// Requests in the order of their time.
pub(in crate::engine) trait Arrivals {
    /// The next request, which stays; `None` when none is ready.
    fn peek(&self) -> Option<&Fed>;

    /// Passes over the request that `peek` showed. Then `refill` is due if `peek` shows none.
    fn pass(&mut self);

    /// Makes requests ready, unless there are none.
    fn refill(
        &mut self,
        drive: &Drive,
        outlook: &Outlook<'_>,
        tally: &mut Tally,
    ) -> Result<(), Error>;

    /// Pages that are held on the way.
    fn held(&self) -> u64;
}

/// Requests that were submitted.
impl Arrivals for VecDeque<Fed> {
    fn peek(&self) -> Option<&Fed> {
        self.front()
    }

    fn pass(&mut self) {
        self.pop_front();
    }

    fn refill(&mut self, _: &Drive, _: &Outlook<'_>, _: &mut Tally) -> Result<(), Error> {
        Ok(())
    }

    fn held(&self) -> u64 {
        0
    }
}
