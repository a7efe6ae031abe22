//! `lru`: the page whose last write is longest ago leaves.

use super::{Error, Policy, Settings, queue::Queue};

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("lru", 1, "it keeps pages")?;
    Ok(Box::new(Queue::<true>::new(settings.capacity_pages)))
}
