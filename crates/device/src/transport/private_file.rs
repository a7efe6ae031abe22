//! Files that are secrets, which private keys are.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Whether others may read a file that is a secret. Its group may, if it is not the user's own file: an
/// administrator gave it to a group of services.
pub(super) fn is_exposed(file: &Metadata) -> bool {
    let own = file.uid() == rustix::process::geteuid().as_raw();
    let others = if own { 0o077 } else { 0o007 };
    file.mode() & others != 0
}
