//! What the model of a drive is made of, as options say it: the names are those of a simulation's
//! options, times are in microseconds, and what is absent is as in the reference drive.

use std::collections::BTreeMap;

use ioassay_sim::BufferSpec;
use ioassay_sim::drive::{Controller, GcPolicy, Overlap, Pool, Spec, WearLevelling};
use ioassay_sim::engine::{BufferMode, Destaging, WriteBehind};
use ioassay_sim::policy::{BlockBy, Layout, Settings};
use serde::Deserialize;

use crate::Error;

/// Options of the drive that is modelled.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Geometry {
    pub elements: Option<u32>,
    pub dies: Option<u32>,
    pub planes: Option<u32>,
    pub blocks: Option<u32>,
    pub pages_per_block: Option<u32>,
    pub page_bytes: Option<u32>,
    pub spare_bytes: Option<u32>,
    pub channels: Option<u32>,
    /// Erasures after which a block is dead; without it blocks last for ever, unlike those of a
    /// simulation: a drive that is served for long is not to die of it.
    pub endurance: Option<u32>,
    pub read_us: Option<f64>,
    pub program_us: Option<f64>,
    pub erase_us: Option<f64>,
    pub transfer_us_per_byte: Option<f64>,
    pub channel_us_per_sector: Option<f64>,
    pub reserve: Option<f64>,
    pub min_free: Option<f64>,
    pub copy_back: Option<bool>,
    pub read_priority: Option<bool>,
    pub pool: Option<String>,
    pub cleaning: Option<String>,
    pub wear_levelling: Option<String>,
    pub wear_spread: Option<u32>,
    pub overlap: Option<String>,
    /// Options of the controller, by name.
    pub controller: BTreeMap<String, Vec<f64>>,
}

/// Options of the write buffer within the drive.
#[allow(clippy::struct_excessive_bools)] // they are a simulation's options
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BufferOptions {
    /// A policy's name; none: there is no buffer.
    pub policy: String,
    pub bytes: u64,
    /// Which pages make a block: lba or element.
    pub block_by: String,
    /// Missing pages are read, and blocks written whole.
    pub padding: bool,
    /// The drive does the reads of padding; else they take no time.
    pub pad_reads: bool,
    /// Blocks that were written in order leave first.
    pub compensation: bool,
    /// A block goes as one request.
    pub block_requests: bool,
    /// Elements that are given pages ahead of need: auto, off, idle or any.
    pub write_behind: String,
    /// Share of the slots above which destaging begins.
    pub high_watermark: Option<f64>,
    /// Share of the slots at which it ends.
    pub low_watermark: Option<f64>,
    /// Pages that an element has to program at most.
    pub destage_depth: Option<u32>,
}

impl Default for BufferOptions {
    fn default() -> Self {
        Self {
            policy: "none".into(),
            bytes: 8 << 20,
            block_by: "lba".into(),
            padding: false,
            pad_reads: true,
            compensation: false,
            block_requests: false,
            write_behind: "auto".into(),
            high_watermark: None,
            low_watermark: None,
            destage_depth: None,
        }
    }
}

impl Geometry {
    /// A drive that exports at least `size_bytes`. Unless options say otherwise, its elements keep their number, so
    /// that it is as parallel as the reference drive: planes, and then blocks, are as few as do.
    pub fn spec(&self, size_bytes: u64) -> Result<Spec, Error> {
        let mut spec = self.described()?;
        self.scale(&mut spec, size_bytes);
        spec.check()?;
        if spec.capacity_bytes() < size_bytes {
            return Err(Error::option(
                "size",
                size_bytes,
                format!("at most the {} bytes of the modelled drive, or more blocks", spec.capacity_bytes()),
            ));
        }
        Ok(spec)
    }

    fn described(&self) -> Result<Spec, Error> {
        let mut spec = Spec { endurance: 0, ..Spec::default() };
        for (place, value) in [
            (&mut spec.elements, self.elements),
            (&mut spec.dies, self.dies),
            (&mut spec.planes, self.planes),
            (&mut spec.blocks_per_plane, self.blocks),
            (&mut spec.pages_per_block, self.pages_per_block),
            (&mut spec.page_bytes, self.page_bytes),
            (&mut spec.spare_bytes_per_sector, self.spare_bytes),
            (&mut spec.channels, self.channels),
            (&mut spec.endurance, self.endurance),
        ] {
            set(place, value);
        }
        for (name, place, value_us) in [
            ("read_us", &mut spec.read_ps, self.read_us),
            ("program_us", &mut spec.program_ps, self.program_us),
            ("erase_us", &mut spec.erase_ps, self.erase_us),
            ("transfer_us_per_byte", &mut spec.transfer_ps_per_byte, self.transfer_us_per_byte),
            ("channel_us_per_sector", &mut spec.channel_ps_per_sector, self.channel_us_per_sector),
        ] {
            set(place, value_us.map(|us| ps(name, us)).transpose()?);
        }
        set(&mut spec.reserve, self.reserve);
        set(&mut spec.min_free, self.min_free);
        set(&mut spec.copy_back, self.copy_back);
        set(&mut spec.read_priority, self.read_priority);
        self.rules(&mut spec)?;
        let options = self.controller.iter();
        let options = options.map(|(name, values)| (name.as_str(), values.as_slice()));
        spec.controller = Controller::of(options)?;
        Ok(spec)
    }

    fn rules(&self, spec: &mut Spec) -> Result<(), Error> {
        let pools = [("element", Pool::Element), ("plane", Pool::Plane)];
        one_of("pool", self.pool.as_deref(), &pools, &mut spec.pool)?;
        let cleanings = [("greedy", GcPolicy::Greedy), ("cost-benefit", GcPolicy::CostBenefit)];
        let cleaning = self.cleaning.as_deref();
        one_of("cleaning", cleaning, &cleanings, &mut spec.gc_policy)?;
        let overlaps = [("off", Overlap::Off), ("dies", Overlap::Dies), ("planes", Overlap::Planes)];
        let overlap = self.overlap.as_deref();
        one_of("overlap", overlap, &overlaps, &mut spec.overlap)?;
        let levellings = [
            ("off", WearLevelling::Off),
            ("dynamic", WearLevelling::Dynamic),
            ("static", WearLevelling::Static(self.wear_spread.unwrap_or(8))),
        ];
        let levelling = self.wear_levelling.as_deref();
        one_of("wear_levelling", levelling, &levellings, &mut spec.wear_levelling)
    }

    fn scale(&self, spec: &mut Spec, size_bytes: u64) {
        let fewest = fewest_blocks(spec);
        if self.blocks.is_none() && self.planes.is_none() {
            while spec.planes > 1 && exported_bytes(spec, fewest) > size_bytes {
                spec.planes /= 2;
            }
            if self.dies.is_none() {
                spec.dies = spec.dies.min(spec.planes);
            }
        }
        if self.blocks.is_none() {
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

impl BufferOptions {
    /// The buffer of a drive; `None` for none.
    pub fn spec(&self, drive: &Spec) -> Result<Option<BufferSpec>, Error> {
        if self.policy == "none" || self.bytes == 0 {
            return Ok(None);
        }
        let layout = Layout { elements: drive.elements, pages_per_block: drive.pages_per_block, pages: drive.pages() };
        let pages = self.bytes / u64::from(drive.page_bytes);
        let mut settings = Settings::new(layout, usize::try_from(pages).unwrap_or(usize::MAX));
        settings.padding = self.padding;
        settings.compensation = self.compensation;
        settings.block_requests = self.block_requests;
        let blocks = [("lba", BlockBy::Lba), ("element", BlockBy::Element)];
        let block_by = Some(self.block_by.as_str());
        one_of("block_by", block_by, &blocks, &mut settings.block_by)?;
        let mut destaging = Destaging {
            high_watermark: self.high_watermark,
            low_watermark: self.low_watermark,
            depth: self.destage_depth,
            ..Destaging::default()
        };
        let write_behind = Some(self.write_behind.as_str());
        one_of("write_behind", write_behind, &WriteBehind::NAMES, &mut destaging.write_behind)?;
        Ok(Some(BufferSpec {
            destaging,
            policy: self.policy.clone(),
            settings,
            mode: BufferMode::Inline,
            pad_reads: self.pad_reads,
        }))
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Microseconds to picoseconds; a second at most, as the simulator takes them.
fn ps(name: &'static str, value_us: f64) -> Result<u64, Error> {
    if (0.0..=1e6).contains(&value_us) {
        return Ok((value_us * 1e6).round() as u64);
    }
    Err(Error::option(name, value_us, "0 to a second (1000000 microseconds)"))
}

fn one_of<T: Copy>(
    name: &'static str,
    value: Option<&str>,
    choices: &[(&'static str, T)],
    place: &mut T,
) -> Result<(), Error> {
    let Some(value) = value else {
        return Ok(());
    };
    let Some((_, choice)) = choices.iter().find(|(known, _)| *known == value) else {
        let known: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
        return Err(Error::option(name, value, known.join(" or ")));
    };
    *place = *choice;
    Ok(())
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
        assert_eq!((spec.read_ps, spec.overlap), (10_000_000, Overlap::Planes));
        assert_eq!(spec.endurance, 7);
        let few = Geometry { blocks: Some(32), ..geometry };
        assert!(few.spec(1 << 30).is_err());
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(serde_json::from_str::<Geometry>(r#"{"element": 4}"#).is_err());
        let geometry = Geometry { pool: Some("swimming".into()), ..Geometry::default() };
        let message = geometry.spec(1 << 30).expect_err("no such pool").to_string();
        assert_eq!(message, "pool is swimming, expected element or plane");
    }
}
