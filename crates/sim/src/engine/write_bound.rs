//! The bound of a load's write hits: its pages in the order of the trace, without a drive.

use ioassay_block::{Kind, Source};

use super::load::paging::Unaligned;
use super::load::trace_input::{IssueMode, TraceInput};
use crate::Error;
use crate::drive::Spec;
use crate::policy::belady::OfflineOptimum;

/// The offline optimum of a buffer of `slots` pages on a load, which is read once.
///
/// A trimmed page is discarded, and a flush empties the buffer. The order is that of the trace: a
/// buffer inside the drive sees another one where the host's queue reorders.
pub fn write_bound(
    source: &mut dyn Source,
    drive: &Spec,
    slots: usize,
    unaligned: Unaligned,
) -> Result<OfflineOptimum, Error> {
    let mut input = TraceInput::new(source, drive, IssueMode::OpenLoop, unaligned);
    let mut optimum = OfflineOptimum::new(slots, drive.pages());
    let mut requests = Vec::new();
    while input.read_batch(&mut requests)? {
        for request in requests.drain(..) {
            let pages = request.first..request.first + request.pages;
            match request.kind {
                Kind::Read => {}
                Kind::Write => pages.for_each(|page| optimum.write(page)),
                Kind::Trim => pages.for_each(|page| optimum.discard(page)),
                Kind::Flush => optimum.flush(),
            }
        }
    }
    Ok(optimum)
}
