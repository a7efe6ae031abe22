//! Files of saved states: a text of the caller's, which says what the state is of, and the state,
//! compressed and with a checksum.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use ioassay_sim::state::VERSION;
use pyo3::prelude::*;

use crate::errors::{CoreError, Failure, exception};

const MAGIC: &[u8; 16] = b"ioassay state\x1a\r\n";
/// The fastest: states of large drives are mostly small numbers.
const LEVEL: i32 = 1;
const MOST_LABEL_BYTES: u32 = 1 << 20;

/// The state that a simulation begins with.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSource {
    pub path: PathBuf,
    /// Whether the run goes on, or another one begins.
    pub resumed: bool,
}

/// Where a simulation's state goes.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateTarget {
    pub path: PathBuf,
    pub label: String,
}

impl StateTarget {
    /// Begins the file.
    pub fn create(&self) -> io::Result<zstd::Encoder<'static, BufWriter<File>>> {
        let mut file = BufWriter::new(File::create(&self.path)?);
        file.write_all(MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        file.write_all(&(self.label.len() as u32).to_le_bytes())?;
        file.write_all(self.label.as_bytes())?;
        let mut encoder = zstd::Encoder::new(file, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(encoder)
    }
}

/// Opens a state and reads its text; `CoreError` for what is none, or of another version.
fn open(path: &Path) -> PyResult<(String, BufReader<File>)> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(path, "it ends too early"),
        _ => of_file(error, path),
    };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let mut head = [0; 24];
    file.read_exact(&mut head).map_err(failed)?;
    if head[..16] != *MAGIC {
        let what = format!("{} is not a saved state of a simulation", path.display());
        return Err(exception(Failure::Argument(what)));
    }
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if number(16) != VERSION {
        let what = format!(
            "{} is a saved state of version {}, expected {VERSION}: save it again with this ioassay",
            path.display(),
            number(16)
        );
        return Err(exception(Failure::Argument(what)));
    }
    let length = number(20);
    if length > MOST_LABEL_BYTES {
        return Err(damaged(path, "its text is too long"));
    }
    let mut label = vec![0; length as usize];
    file.read_exact(&mut label).map_err(failed)?;
    let label = String::from_utf8(label).map_err(|_| damaged(path, "its text is no text"))?;
    Ok((label, file))
}

fn decoder(path: &Path) -> PyResult<zstd::Decoder<'static, BufReader<File>>> {
    let (_, file) = open(path)?;
    zstd::Decoder::with_buffer(file).map_err(|error| of_file(error, path))
}

impl StateSource {
    /// The state, after its checksum was checked: what is read from it cannot be damaged.
    pub fn open(&self) -> PyResult<impl Read + use<>> {
        io::copy(&mut decoder(&self.path)?, &mut io::sink())
            .map_err(|error| damaged(&self.path, &error.to_string()))?;
        decoder(&self.path)
    }
}

/// The text of a saved state.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "the types of Python arguments are owned")]
pub fn state_label(path: PathBuf) -> PyResult<String> {
    open(&path).map(|(label, _)| label)
}

fn damaged(path: &Path, what: &str) -> PyErr {
    CoreError::new_err(format!("{}: the saved state is damaged: {what}", path.display()))
}

/// What the file system says of a state's file.
pub fn of_file(error: io::Error, path: &Path) -> PyErr {
    exception(Failure::Trace(error.into(), Some(path)))
}
