//! Dictionaries from Python, read key by key: a key that nobody knows is an error.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::{Failure, exception};

/// The items of a dictionary that have not been taken.
pub struct Fields<'py> {
    /// What the dictionary is, for messages: `trace.read`.
    name: String,
    left: Bound<'py, PyDict>,
    known: Vec<&'static str>,
}

impl<'py> Fields<'py> {
    /// The items of `dictionary`, which is left as it is.
    pub fn of(name: impl Into<String>, dictionary: &Bound<'py, PyDict>) -> PyResult<Self> {
        Ok(Self { name: name.into(), left: dictionary.copy()?, known: Vec::new() })
    }

    /// The item `key`; nothing where it is absent or None.
    pub fn item(&mut self, key: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.known.push(key);
        let found = self.left.get_item(key)?;
        if found.is_some() {
            self.left.del_item(key)?;
        }
        Ok(found.filter(|item| !item.is_none()))
    }

    /// The item `key` as a whole number from 0 on.
    pub fn whole(&mut self, key: &'static str) -> PyResult<Option<u64>> {
        let Some(item) = self.item(key)? else {
            return Ok(None);
        };
        match item.extract() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.wrong(key, &item, "a whole number from 0 to 18446744073709551615")),
        }
    }

    /// The item `key` as a number.
    pub fn number(&mut self, key: &'static str) -> PyResult<Option<f64>> {
        let Some(item) = self.item(key)? else {
            return Ok(None);
        };
        match item.extract() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.wrong(key, &item, "a number")),
        }
    }

    /// The item `key` as text.
    pub fn text(&mut self, key: &'static str) -> PyResult<Option<String>> {
        let Some(item) = self.item(key)? else {
            return Ok(None);
        };
        match item.cast::<PyString>() {
            Ok(text) => Ok(Some(text.to_str()?.to_owned())),
            Err(_) => Err(self.wrong(key, &item, "text")),
        }
    }

    /// What the item `key`, one of some words, stands for.
    pub fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(item) = self.item(key)? else {
            return Ok(None);
        };
        let word: Option<String> = item.extract().ok();
        match words.iter().find(|(known, _)| word.as_deref() == Some(*known)) {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.wrong(key, &item, &ioassay_block::listed(words))),
        }
    }

    /// The item `key` as true or false.
    pub fn flag(&mut self, key: &'static str) -> PyResult<Option<bool>> {
        let Some(item) = self.item(key)? else {
            return Ok(None);
        };
        match item.extract() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.wrong(key, &item, "true or false")),
        }
    }

    /// The item `key` as a dictionary.
    pub fn fields(&mut self, key: &'static str) -> PyResult<Option<Self>> {
        let Some(item) = self.item(key)? else {
            return Ok(None);
        };
        match item.cast::<PyDict>() {
            Ok(dictionary) => Self::of(format!("{}.{key}", self.name), dictionary).map(Some),
            Err(_) => Err(self.wrong(key, &item, "a dictionary")),
        }
    }

    /// That `key` is something else than what was wanted.
    pub fn wrong(&self, key: &str, seen: &Bound<'py, PyAny>, wanted: &str) -> PyErr {
        let name = &self.name;
        exception(Failure::Argument(format!("{name}.{key} is {seen}, expected {wanted}")))
    }

    /// Nothing is left.
    pub fn finish(self) -> PyResult<()> {
        match self.left.keys().get_item(0) {
            Err(_) => Ok(()),
            Ok(key) => Err(exception(Failure::Argument(format!(
                "{}.{key} is unknown, expected {}",
                self.name,
                self.known.join(", ")
            )))),
        }
    }
}
