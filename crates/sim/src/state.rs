//! The state of a simulation as bytes: what a saved run consists of, value by value.
//!
//! Values follow each other in the encoding of the crate postcard, in an order that
//! code fixes: that of the `parts` of an engine, and of each `save`, next to the `load` that reads it. [`VERSION`] changes whenever one of these values does. Compression, file and checksum are
//! the caller's, who verifies the checksum first: what is loaded here is trusted, and its parts are not compared.

use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Version of what is written.
pub const VERSION: u32 = 6;

/// Longest text of a state, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;

pub(crate) fn put(output: &mut dyn Write, value: &impl Serialize) -> Result<(), Error> {
    postcard::to_io(value, output).map_err(|error| Error::State(error.to_string()))?;
    Ok(())
}

pub(crate) fn take<T: DeserializeOwned>(input: &mut dyn Read) -> Result<T, Error> {
    let mut text = vec![0; LONGEST_TEXT];
    let taken = postcard::from_io((input, &mut text[..]));
    let (value, _) = taken.map_err(|error| Error::State(error.to_string()))?;
    Ok(value)
}

/// Something with a state that can be saved, and loaded into another one of the same kind.
pub trait Stored {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error>;

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error>;
}

impl<T: Serialize + DeserializeOwned> Stored for T {
    fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        put(output, self)
    }

    fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        *self = take(input)?;
        Ok(())
    }
}
