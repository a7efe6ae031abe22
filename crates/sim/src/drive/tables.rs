//! The tables of a drive, saved and loaded: mapping, blocks, wear, counters.

use std::io::{Read, Write};

use super::Drive;
use crate::Error;
use crate::state::{put, take};

impl Drive {
    pub(crate) fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, &self.mapping)?;
        put(output, &self.elements)
    }

    /// Takes over the tables of a drive with the same specification.
    pub(crate) fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        self.mapping = take(input)?;
        self.elements = take(input)?;
        Ok(())
    }
}
