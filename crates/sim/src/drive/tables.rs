//! The tables of a drive, saved and loaded: mapping, blocks, wear, counters.

use std::io::{Read, Write};

use super::{Counters, Drive, Element};
use crate::Error;
use crate::state::{ensure, put, take};

impl Drive {
    pub(crate) fn save(&self, output: &mut dyn Write) -> Result<(), Error> {
        match &self.translation {
            None => put(output, &self.mapping)?,
            Some(translation) => translation.save(output)?,
        }
        put(output, &self.elements)
    }

    /// Takes over the tables of a drive with the same specification.
    pub(crate) fn load(&mut self, input: &mut dyn Read) -> Result<(), Error> {
        let Some(translation) = &mut self.translation else {
            self.mapping = take(input)?;
            self.elements = take(input)?;
            return self.check_counts();
        };
        translation.load(input)?;
        let elements: Vec<Element> = take(input)?;
        let alike = |(found, own): (&Element, &Element)| {
            found.erases.len() == own.erases.len() && found.blocks.is_empty() && found.planes.is_empty()
        };
        let all_alike = elements.iter().zip(&self.elements).all(alike);
        ensure(elements.len() == self.elements.len() && all_alike, "its elements are those of another drive")?;
        self.elements = elements;
        self.check_counts()
    }

    /// Whether the counts that were read can go on.
    fn check_counts(&self) -> Result<(), Error> {
        let counts = self.elements.iter().map(|element| element.counters);
        ensure(counts.into_iter().all(Counters::can_grow), "its counts are beyond all that a drive can do")
    }
}
