//! `fifo`: the page that came first leaves first, however often it was written since.
//! `lru`: the page whose last write is longest ago leaves.

use super::{Page, Policy, Settings, list::Lists, pages::Order, pages::Pages, slots::Slots};

/// Pages in one line: new ones join in front, the last one leaves. With `RENEWS`, a page that is
/// written again goes to the front.
#[derive(serde::Serialize, serde::Deserialize)]
struct Queue<const RENEWS: bool> {
    order: Lists,
}

pub(super) fn fifo(settings: &Settings) -> Box<dyn Policy + Send> {
    make::<false>(settings)
}

pub(super) fn lru(settings: &Settings) -> Box<dyn Policy + Send> {
    make::<true>(settings)
}

fn make<const RENEWS: bool>(settings: &Settings) -> Box<dyn Policy + Send> {
    Pages::boxed(settings, Queue::<RENEWS> { order: Lists::new(settings.capacity_pages, 1) })
}

impl<const RENEWS: bool> Order for Queue<RENEWS> {
    #[inline]
    fn insert(&mut self, slot: u32, _page: Page) {
        self.order.push_front(0, slot);
    }

    #[inline]
    fn hit(&mut self, slot: u32, _page: Page) {
        if RENEWS {
            self.order.renew(0, slot);
        }
    }

    #[inline]
    fn remove(&mut self, slot: u32) {
        self.order.unlink(slot);
    }

    #[inline]
    fn victim(&mut self, slots: &Slots, accepts: impl Fn(Page) -> bool, most: usize) -> Option<u32> {
        self.order.oldest_first(0).take(most).find(|&slot| accepts(slots.key(slot)))
    }
}
