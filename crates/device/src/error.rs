//! Why a drive cannot be served.

use std::path::PathBuf;

/// A drive that cannot be, or cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be.
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
        /// Its place among them, from 0 on.
        number: usize,
        /// What is wrong with it.
        source: Box<Self>,
    },
    /// The backing file cannot be used.
    #[error("backing file {path}: {what}")]
    Backing {
        path: PathBuf,
        /// What is wrong with it, and what was wanted.
        what: String,
    },
    /// A socket, a mount, or something else of the system.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: String,
        /// Why it could not be.
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

    /// Says of an error which drive it concerns.
    pub(crate) fn of_drive(number: usize) -> impl Fn(Self) -> Self {
        move |error| Self::OfDrive { number, source: Box::new(error) }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}
