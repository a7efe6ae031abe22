//! `fifo`: the page that came first leaves first, however often it was written since.

use super::{Error, Policy, Settings, queue::Queue};

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Policy + Send>, Error> {
    settings.need("fifo", 1, "it keeps pages")?;
    Ok(Box::new(Queue::<false>::new(settings.capacity_pages)))
}
