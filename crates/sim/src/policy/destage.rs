//! What a policy needs to know to choose a page that is written ahead of need (write-behind).
//!
//! *Which* page goes is the policy's decision, in `Policy::destage`. *When* pages go, and to which
//! elements, is decided outside (`engine::write_behind`), the same for every policy.

use super::{DriveState, Page};

/// Victims, in the policy's order, among which one for a ready element is looked for: a bound of the
/// search where few elements are ready, several times as many as a drive has elements.
pub(super) const SEARCH: usize = 256;

/// The elements that may be given pages now.
#[derive(Debug, Clone, Copy)]
pub struct DestageTargets<'a> {
    /// The state of the drive.
    pub drive_state: DriveState<'a>,
    /// For each element whether it may be given a page.
    pub ready: &'a [bool],
    /// Whether only idle elements are ready.
    pub only_idle: bool,
}

impl DestageTargets<'_> {
    /// Whether the element of a page may be given it.
    #[inline]
    pub(super) fn accepts(&self, page: Page) -> bool {
        self.ready[page as usize % self.ready.len()]
    }
}
