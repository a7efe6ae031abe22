//! The files that blktrace leaves, one for each processor, as one trace.
//!
//! As with blkparse, the name of any of them means all, and so does what stands before `.blktrace.` in their names.

use std::fs;
use std::path::{Path, PathBuf};

const FORMAT: &str = "blktrace";
const ENDING: &str = ".blktrace.";

/// The files of all processors, by their numbers; none for a trace that is one file.
pub(super) fn files(path: Option<&Path>, format: Option<&str>) -> Option<Vec<PathBuf>> {
    let path = path?;
    let name = path.file_name()?.to_str()?;
    let stem = match name.rsplit_once(ENDING) {
        Some((stem, end)) if end == "*" || number(end).is_some() => stem,
        _ if path.exists() => return None,
        _ => name,
    };
    if format.is_some_and(|format| format != FORMAT) {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let end = name.strip_prefix(stem)?.strip_prefix(ENDING)?;
            Some((number(end)?, entry.path()))
        })
        .collect();
    found.sort();
    let is_whole = matches!(found.as_slice(), [] | [_]) && path.exists();
    (!is_whole && !found.is_empty()).then(|| found.into_iter().map(|(_, path)| path).collect())
}

fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}
