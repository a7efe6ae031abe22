//! Notification of events while an engine runs.

use crate::policy::Page;

/// Receives events of requests, by the engine's own numbers, and of pages. All methods do nothing by
/// default, so that a run over a trace pays nothing for them.
pub(super) trait Listener {
    fn issued(&mut self, _request: u32) {}

    /// A request is complete; its number will be used again.
    fn completed(&mut self, _request: u32, _at_ps: u64) {}

    /// A written page is in the buffer.
    fn buffered(&mut self, _request: u32, _page: Page) {}

    /// A page was dropped from the buffer.
    fn dropped(&mut self, _page: Page) {}

    /// A page was queued at its element to be programmed: of a request, or evicted by the buffer.
    fn program_issued(&mut self, _request: Option<u32>, _page: Page) {}

    /// Such a page is programmed.
    fn programmed(&mut self, _request: Option<u32>, _page: Page) {}
}

pub(super) struct NoListener;

impl Listener for NoListener {}
