//! Numbers of what has only a name, which all files of a trace share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Names that stand for numbers in the order in which they come, for each column. Copies share them.
#[derive(Clone, Default)]
pub struct Names(Arc<Mutex<BTreeMap<&'static str, Numbers>>>);

type Numbers = BTreeMap<Vec<u8>, u64>;

impl Names {
    pub(crate) fn number(&self, column: &'static str, name: &[u8]) -> u64 {
        let mut columns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = columns.entry(column).or_default();
        let next = numbers.len() as u64;
        match numbers.get(name) {
            Some(number) => *number,
            None => *numbers.entry(name.to_vec()).or_insert(next),
        }
    }
}

/// They are found on the way, and are no option.
impl fmt::Debug for Names {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Names")
    }
}
