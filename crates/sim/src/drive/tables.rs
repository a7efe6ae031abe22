//! The tables of a drive, saved and loaded: mapping, blocks, wear, counters.

use std::io::{Read, Write};

use super::Drive;
use crate::Error;
use crate::state::{Stored, put, take};

impl Stored for Drive {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        match &self.translation {
            None => put(output, &self.mapping)?,
            Some(translation) => translation.save(output)?,
        }
        put(output, &self.elements)
    }

    /// Takes over the tables of a drive with the same specification.
    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        match &mut self.translation {
            None => self.mapping = take(input)?,
            Some(translation) => translation.load(input)?,
        }
        self.elements = take(input)?;
        debug_assert_eq!(self.audit(), Ok(()), "the tables of a saved drive agree");
        Ok(())
    }
}
