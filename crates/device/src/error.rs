//! Why a drive cannot be served.

use std::path::PathBuf;

/// A drive that cannot be, or cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be.
    #[error("{name} is {value}, wanted {wanted}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: String,
    },
    /// Not enough memory.
    #[error(
        "a drive of {size_bytes} bytes takes {needed_bytes} bytes of memory and {available_bytes} are available: \
         wanted a smaller drive, or more memory"
    )]
    Memory {
        /// Size of the drive.
        size_bytes: u64,
        /// Memory that it takes.
        needed_bytes: u64,
        /// Memory that there is.
        available_bytes: u64,
    },
    /// The backing file cannot be used.
    #[error("backing file {path}: {what}")]
    Backing {
        /// Where it is.
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
    /// The model.
    #[error(transparent)]
    Model(#[from] ioassay_sim::Error),
}

impl Error {
    pub(crate) fn option(
        name: &'static str,
        value: impl Copy + ToString,
        wanted: impl Into<String>,
    ) -> Self {
        Self::Option {
            name,
            value: value.to_string(),
            wanted: wanted.into(),
        }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System {
            what: what.into(),
            source: source.into(),
        }
    }
}
