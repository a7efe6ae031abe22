//! Why a drive cannot be served. A command that fails has a [`Status`](crate::Status) and no error.

use std::path::PathBuf;

/// Why a drive cannot be made, or cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has a value that is not allowed.
    #[error("{name} is {value}, expected {wanted}")]
    Option { name: &'static str, value: String, wanted: String },
    #[error(
        "a drive of {size_bytes} bytes takes {needed_bytes} bytes of memory and {available_bytes} are available: \
         expected a smaller drive, or more memory"
    )]
    Memory { size_bytes: u64, needed_bytes: u64, available_bytes: u64 },
    /// Not enough memory for all drives of a process.
    #[error(
        "{drives} drives take {needed_bytes} bytes of memory together and {available_bytes} are available: expected \
         smaller drives, fewer, or more memory"
    )]
    MemoryOfAll { drives: usize, needed_bytes: u64, available_bytes: u64 },
    #[error("drive[{number}]: {source}")]
    OfDrive {
        /// The drive's place among all drives, from 0 on.
        number: usize,
        /// Why this drive cannot be served.
        source: Box<Self>,
    },
    /// The backing file cannot be used.
    #[error("backing file {path}: {what}")]
    Backing {
        path: PathBuf,
        /// The problem, and what is expected.
        what: String,
    },
    /// A socket, a mount, or something else of the system.
    #[error("{what}: {source}")]
    System {
        /// The action that failed.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The name of the NVMe subsystem.
    #[error(transparent)]
    Name(#[from] crate::transport::nvme_tcp::NameError),
    #[error(transparent)]
    Certificates(#[from] crate::transport::nbd::CertificateError),
    #[error(transparent)]
    Model(#[from] ioassay_sim::Error),
}

impl Error {
    pub(crate) fn option(name: &'static str, value: impl Copy + ToString, wanted: impl Into<String>) -> Self {
        Self::Option { name, value: value.to_string(), wanted: wanted.into() }
    }

    /// Refuses the value of an option unless a condition holds.
    pub(crate) fn require(
        holds: bool,
        name: &'static str,
        value: impl Copy + ToString,
        wanted: impl Into<String>,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::option(name, value, wanted)) }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}
