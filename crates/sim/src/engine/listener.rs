//! Who is told what happens while an engine runs.

use crate::policy::Page;

/// Is told of requests, by the engine's own numbers, and of pages. All is empty where nobody listens,
/// so that it costs a trace's run nothing.
pub(super) trait Listener {
    /// A request was issued.
    fn issued(&mut self, _request: u32) {}

    /// A request is complete; its number will be used again.
    fn completed(&mut self, _request: u32, _at_ps: u64) {}

    /// A written page is in the buffer.
    fn arrived(&mut self, _request: u32, _page: Page) {}

    /// A page was dropped from the buffer.
    fn dropped(&mut self, _page: Page) {}

    /// A page was given to its element, to be programmed: of a request, or out of the buffer.
    fn leaves(&mut self, _request: Option<u32>, _page: Page) {}

    /// It is programmed.
    fn programmed(&mut self, _request: Option<u32>, _page: Page) {}
}

/// Nobody listens.
pub(super) struct Nobody;

impl Listener for Nobody {}
