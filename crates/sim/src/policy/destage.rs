//! The elements that may be given pages ahead of need (write-behind), from which a policy chooses its victim.
//!
//! *Which* page goes is the policy's decision, in `Policy::destage`. *When* pages go, and to which
//! elements, is decided outside (`engine::write_behind`), the same for every policy.

use super::{DriveState, Page};

/// Pages, in the policy's order, among which one of a ready element is looked for: all of a buffer of
/// 16 MiB. The oldest pages are those of the elements that have been busy longest, so a short search
/// finds nothing for idle ones: with 256, a closed loop over the reference drive is 7 % slower.
pub(super) const SEARCH_PAGES: usize = 4096;
/// Blocks among which one is looked for. Blocks of many pages rarely find all their elements ready: a longer search
/// takes the small ones and leaves a buffer of large ones behind.
pub(super) const SEARCH_BLOCKS: usize = 256;

/// The elements that may be given pages now.
#[derive(Debug, Clone, Copy)]
pub struct DestageTargets<'a> {
    /// The state of the drive.
    pub drive_state: DriveState<'a>,
    /// For each element whether it may be given a page.
    pub ready: &'a [bool],
}

impl DestageTargets<'_> {
    /// Whether the element of a page may be given it.
    #[inline]
    pub(super) fn accepts(&self, page: Page) -> bool {
        self.ready[page as usize % self.ready.len()]
    }
}
