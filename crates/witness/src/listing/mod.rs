//! A listing of calls on files, in the order in which they ended and the form of strace: whole to a file, or of each
//! file the first and last calls. Memory is bounded either way: a whole listing waits on disk until the paths are known.

mod event;
mod recorder;
mod text;

use std::path::PathBuf;

use serde::Serialize;

pub(crate) use recorder::Recorder;
pub(crate) use text::Paths;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// All of them, a line each, to this file.
    Whole(PathBuf),
    /// The first and the last of each file.
    Sample,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Calls that were listed or are behind the sample: all but those that found no room.
    pub calls: u64,
    /// Of a sample, the files in the order of their first call.
    pub files: Vec<ListedFile>,
}

/// The sample of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedFile {
    /// Empty for calls that are about no file.
    pub path: String,
    pub calls: u64,
    /// The first of them, as lines.
    pub first: Vec<String>,
    /// The last of them that are not among the first.
    pub last: Vec<String>,
}
