//! The modelled drive of a served one: what options say of it, scaled to the size that is served. What options there
//! are and what they may be, `ioassay_sim::options` has.

use std::collections::BTreeMap;

use ioassay_sim::drive::Spec;
use ioassay_sim::options::{Given, OptionSet};
use serde::Deserialize;

use crate::Error;

/// Options of the drive that is modelled, by name; what is absent is as in the reference drive. Only `endurance` is 0
/// then, so that blocks last for ever: a drive that is served for long is not to die of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Geometry(BTreeMap<String, Given>);

impl Geometry {
    /// A drive that exports at least `size_bytes`. Unless options say otherwise, its elements keep their number, so
    /// that it is as parallel as the reference drive: planes, and then blocks, are as few as do.
    pub fn spec(&self, size_bytes: u64) -> Result<Spec, Error> {
        let mut spec = Spec { endurance: 0, ..Spec::default() };
        spec.set_all(self.0.iter().map(|(name, given)| (name.as_str(), given)))?;
        self.scale(&mut spec, size_bytes);
        spec.check()?;
        let most_bytes = spec.capacity_bytes();
        let wanted = format!("at most the {most_bytes} bytes of the modelled drive, or more blocks");
        Error::require(size_bytes <= most_bytes, "size", size_bytes, wanted)?;
        Ok(spec)
    }

    /// These options and one more.
    pub fn with(mut self, name: &str, given: impl Into<Given>) -> Self {
        self.0.insert(name.to_owned(), given.into());
        self
    }

    fn gives(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn scale(&self, spec: &mut Spec, size_bytes: u64) {
        let fewest = fewest_blocks(spec);
        if !self.gives("blocks") && !self.gives("planes") {
            while spec.planes > 1 && exported_bytes(spec, fewest) > size_bytes {
                spec.planes /= 2;
            }
            if !self.gives("dies") {
                spec.dies = spec.dies.min(spec.planes);
            }
        }
        if !self.gives("blocks") {
            // Twice, and then between: a plane exports more the more blocks it has.
            let (mut few, mut many) = (fewest, fewest);
            while exported_bytes(spec, many) < size_bytes && many < MOST_BLOCKS {
                (few, many) = (many, many * 2);
            }
            while few < many {
                let middle = few.midpoint(many);
                if exported_bytes(spec, middle) < size_bytes {
                    few = middle + 1;
                } else {
                    many = middle;
                }
            }
            spec.blocks_per_plane = many;
        }
    }
}

/// What a specification allows at most.
const MOST_BLOCKS: u32 = 1 << 22;

fn exported_bytes(spec: &Spec, blocks: u32) -> u64 {
    let spec = Spec { blocks_per_plane: blocks, ..spec.clone() };
    spec.capacity_bytes()
}

/// The fewest blocks of a plane with which the shares of reserve and free blocks work.
fn fewest_blocks(spec: &Spec) -> u32 {
    let works = |blocks: &u32| {
        let spec = Spec { blocks_per_plane: *blocks, ..spec.clone() };
        spec.check().is_ok()
    };
    // If none works, the fault is elsewhere: with many, the check names that.
    (4..4096).find(works).unwrap_or(4095)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_drive_shrinks_and_grows_to_the_size() {
        for size_bytes in [16 << 20, 300 << 20, 1 << 30, 5 << 30, 200 << 30_u64] {
            let spec = Geometry::default().spec(size_bytes).expect("a drive");
            assert_eq!((spec.elements, spec.pages_per_block), (48, 64));
            assert!(spec.capacity_bytes() >= size_bytes, "{spec:?}");
            // From the smallest drive of 48 elements on it is no larger than it has to be.
            let much = u64::max(size_bytes + size_bytes / 8, 220 << 20);
            assert!(spec.capacity_bytes() <= much, "{spec:?}");
            let spare = 1.0 - f64::from(spec.usable_blocks()) / f64::from(spec.blocks_per_plane);
            assert!((0.10..0.1501).contains(&spare), "{spare}");
        }
    }

    #[test]
    fn what_options_say_is_left_alone() {
        let geometry: Geometry = serde_json::from_str(
            r#"{"elements": 4, "planes": 2, "dies": 1, "read_us": 10, "overlap": "planes", "endurance": 7}"#,
        )
        .expect("options");
        let spec = geometry.spec(64 << 20).expect("a drive");
        assert_eq!((spec.elements, spec.planes, spec.dies), (4, 2, 1));
        assert_eq!((spec.read_ps, spec.overlap.to_string()), (10_000_000, "planes".into()));
        assert_eq!(spec.endurance, 7);
        assert!(geometry.with("blocks", 32).spec(1 << 30).is_err());
    }

    #[test]
    fn unknown_names_are_refused() {
        let message = |name, given: &str| {
            let refused = Geometry::default().with(name, given).spec(1 << 30);
            refused.expect_err("no such name").to_string()
        };
        assert_eq!(message("pool", "swimming"), "pool is swimming, expected element or plane");
        assert_eq!(message("element", "4"), "element is no option of a drive");
    }
}
