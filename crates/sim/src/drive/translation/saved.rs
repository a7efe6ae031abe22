//! The mapping and the superblocks, saved and loaded.

use std::io::{Read, Write};

use super::Translation;
use crate::Error;
use crate::state::{Stored, put, take};

impl Stored for Translation {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, &(&self.map, &self.reverse, &self.superblocks, &self.groups))
    }

    /// Takes over the tables of a drive with the same specification.
    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        (self.map, self.reverse, self.superblocks, self.groups) = take(input)?;
        Ok(())
    }
}
