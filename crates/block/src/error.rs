//! What can be wrong with a trace, said so that it can be found and mended.

/// A trace that cannot be read, written, made or prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source or the sink failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Something at a place of a trace is not what its format says.
    #[error("{place}: {fault}")]
    At {
        /// Where: `line 12` or `byte 4096`.
        place: String,
        /// What is wrong there.
        fault: Fault,
    },
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
}

/// What is wrong at one place of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A field that cannot be read.
    #[error("{column} is `{seen}`, wanted {wanted}")]
    Field {
        /// Name of the column.
        column: &'static str,
        /// The field, shortened.
        seen: String,
        /// What was wanted.
        wanted: &'static str,
    },
}
