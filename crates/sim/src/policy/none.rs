//! `none`: no buffer. Every page goes straight to the drive. What all others are compared with.

use super::{Access, DestageTargets, DriveState, Eviction, Page, Policy, Settings};

#[derive(serde::Serialize, serde::Deserialize)]
struct None;

pub(super) fn make(_settings: &Settings) -> Box<dyn Policy + Send> {
    Box::new(None)
}

impl Policy for None {
    fn write(&mut self, page: Page, _drive_state: &DriveState<'_>, evicted: &mut Vec<Eviction>) -> Access {
        evicted.push(Eviction::of(page));
        Access::Bypass
    }

    fn holds(&self, _page: Page) -> bool {
        false
    }

    fn discard(&mut self, _page: Page) -> bool {
        false
    }

    fn len(&self) -> usize {
        0
    }

    fn capacity(&self) -> usize {
        0
    }

    fn destage(&mut self, _targets: &DestageTargets<'_>, _evicted: &mut Vec<Eviction>) -> bool {
        false
    }

    fn drain(&mut self, _evicted: &mut Vec<Eviction>) {}
}
