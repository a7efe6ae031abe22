//! Zstandard for results of other tools: Python's own library has no reader of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use pyo3::prelude::*;

/// Unpacks a file, at most `most_bytes` of it, and returns how many these are.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn unpack_zstd(py: Python<'_>, path: PathBuf, to: PathBuf, most_bytes: u64) -> PyResult<u64> {
    let unpacked: io::Result<u64> = py.detach(|| {
        let packed = zstd::Decoder::new(File::open(&path)?)?;
        io::copy(&mut packed.take(most_bytes), &mut File::create(&to)?)
    });
    Ok(unpacked?)
}
