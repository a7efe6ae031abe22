//! A zoned drive: what a power loss and a kill leave of its zones, what resets cost, and what faults do to them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::drives::{Bench, Setup, any_drive, is_all, runs, tag};
use ioassay_block::SplitMix64;
use ioassay_device::command::Drive;
use ioassay_device::faults::{Fault, Kind};
use ioassay_device::geometry::Geometry;
use ioassay_device::store::Backing;
use ioassay_device::zones::{ZoneAction, ZoneCounts, ZoneError, ZoneGeometry, ZoneOptions, ZoneState, Zones};
use ioassay_device::{Op, Status};
use proptest::prelude::*;

const BLOCK: u64 = 512;
const ZONE: u64 = 64 << 10;
const CAPACITY: u64 = 48 << 10;

fn geometry(setup: &Setup) -> ZoneGeometry {
    let options = ZoneOptions { zone_bytes: ZONE, capacity_bytes: Some(CAPACITY), ..ZoneOptions::default() };
    ZoneGeometry::new(&options, setup.size_bytes(), 512, u64::from(setup.page_bytes), 1 << 20).expect("zones")
}

fn zoned(setup: &Setup) -> Bench {
    let mut bench = Bench::new(setup);
    bench.drive.set_zones(Zones::new(geometry(setup)));
    bench
}

/// A drive with zones over a file, as it is served.
fn backed(setup: &Setup, path: &Path) -> Bench {
    let geometry = geometry(setup);
    let backing = Backing::open(path, Some(setup.size_bytes()), geometry.table_bytes(), false).expect("a backing file");
    let zones = match backing.table().expect("a table") {
        None => Zones::new(geometry),
        Some(table) => Zones::from_table(geometry, &table).expect("zones"),
    };
    let mut bench = Bench::over(setup, Some(backing));
    bench.drive.set_zones(zones);
    bench
}

fn state(bench: &Bench, zone: usize) -> (ZoneState, u64) {
    let of = bench.drive.zones().expect("zones").all()[zone];
    (of.state, of.write_pointer_bytes - zone as u64 * ZONE)
}

fn manage(bench: &mut Bench, action: ZoneAction, zone: u64) -> u64 {
    bench.ask(Op::Zone(action, false), zone * ZONE, ZONE)
}

/// What was written to a zone since its reset, and how much of it must survive.
#[derive(Debug, Clone, Default)]
struct PlainZone {
    generation: u64,
    written: Vec<u8>,
    must_survive: usize,
    is_finished: bool,
}

/// A place in a zone: which zone, in which of its lives, and how many blocks are before it.
type Mark = (usize, u64, usize);

#[derive(Default)]
struct Plain {
    zones: Vec<PlainZone>,
    buffered: bool,
    /// What answers make durable, and what they only acknowledge.
    settles: BTreeMap<u64, Vec<Mark>>,
    acknowledges: BTreeMap<u64, Mark>,
    acknowledged: Vec<Mark>,
}

impl Plain {
    fn new(zones: usize, buffered: bool) -> Self {
        Self { zones: vec![PlainZone::default(); zones], buffered, ..Self::default() }
    }

    fn wrote(&mut self, id: u64, zone: usize, value: u8, blocks: u64, fua: bool) {
        let of = &mut self.zones[zone];
        of.written.extend(std::iter::repeat_n(value, blocks as usize));
        let mark = (zone, of.generation, of.written.len());
        if fua || !self.buffered {
            self.settles.insert(id, vec![mark]);
        } else {
            self.acknowledges.insert(id, mark);
        }
    }

    fn answered(&mut self, id: u64) {
        for (zone, generation, end) in self.settles.remove(&id).unwrap_or_default() {
            let of = &mut self.zones[zone];
            if of.generation == generation {
                of.must_survive = of.must_survive.max(end);
            }
        }
        self.acknowledged.extend(self.acknowledges.remove(&id));
    }

    /// The zones after a power loss must be what they may be; from then on they are that.
    fn lost_power(&mut self, bench: &Bench) {
        let content = bench.content();
        for (number, of) in self.zones.iter_mut().enumerate() {
            let (state, pointer) = state(bench, number);
            let blocks = (pointer / BLOCK) as usize;
            let range = of.must_survive..=of.written.len();
            assert!(range.contains(&blocks), "{number}: {blocks} of {range:?}");
            let zone = &content[number * ZONE as usize..][..ZONE as usize];
            for (at, block) in zone.chunks(512).enumerate() {
                let wanted = if at < blocks { of.written[at] } else { 0 };
                assert!(is_all(block, wanted), "zone {number}, block {at}");
            }
            let wanted = match blocks as u64 * BLOCK {
                _ if of.is_finished => ZoneState::Full,
                CAPACITY => ZoneState::Full,
                0 => ZoneState::Empty,
                _ => ZoneState::Closed,
            };
            assert_eq!(state, wanted, "zone {number}");
            of.written.truncate(blocks);
            of.must_survive = blocks;
        }
        self.settles.clear();
        self.acknowledges.clear();
        self.acknowledged.clear();
    }
}

fn step(bench: &mut Bench, plain: &mut Plain, chance: &mut SplitMix64, value: u8) {
    let zone = chance.below_wide(plain.zones.len() as u64 / 2) as usize;
    let written = plain.zones[zone].written.len() as u64;
    let fua = chance.below_wide(6) == 0;
    match chance.below_wide(24) {
        0 => drop(plain.settles.insert(bench.flush(), plain.acknowledged.clone())),
        1 => {
            manage(bench, ZoneAction::Reset, zone as u64);
            let generation = plain.zones[zone].generation + 1;
            plain.zones[zone] = PlainZone { generation, ..PlainZone::default() };
        }
        2 if chance.below_wide(3) == 0 => {
            manage(bench, ZoneAction::Finish, zone as u64);
            plain.zones[zone].is_finished |= written * BLOCK < CAPACITY;
        }
        _ => {
            let left = CAPACITY / BLOCK - written;
            if left == 0 || plain.zones[zone].is_finished {
                return;
            }
            let blocks = left.min(1 + chance.below_wide(20));
            let offset = zone as u64 * ZONE + written * BLOCK;
            let length = blocks * BLOCK;
            let (op, value) = match chance.below_wide(8) {
                0 => (Op::WriteZeroes, 0),
                _ => (Op::Write, value),
            };
            let data = vec![value; if op == Op::Write { length as usize } else { 0 }];
            let id = bench.submit(op, offset, length, fua, &data);
            plain.wrote(id, zone, value, blocks, fua);
        }
    }
}

fn answered(bench: &Bench, plain: &mut Plain, from: &mut usize) {
    for answer in &bench.answers[*from..] {
        assert_eq!(answer.status, Status::Done, "{:?}", answer.command);
        plain.answered(answer.command.tag.command);
    }
    *from = bench.answers.len();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_power_loss_leaves_zones_without_gaps_and_all_that_is_durable(setup in any_drive(128), seed: u64) {
        let mut bench = zoned(&setup);
        let mut chance = SplitMix64(seed);
        let mut plain = Plain::new(8, setup.policy != "none");
        let mut from = 0;
        for number in 0..150_u32 {
            step(&mut bench, &mut plain, &mut chance, (1 + number % 255) as u8);
            bench.pass_at_random(&mut chance);
            answered(&bench, &mut plain, &mut from);
            if chance.below_wide(30) == 0 {
                bench.drive.power_cut();
                bench.pass(0);
                from = bench.answers.len();
                plain.lost_power(&bench);
            }
        }
        bench.settle();
        bench.flush();
        bench.settle();
        prop_assert_eq!(bench.drive.report().volatile_pages, 0);
    }

    #[test]
    fn a_drive_that_is_killed_has_its_zones_again(setup in any_drive(128), seed: u64) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backing");
        let mut chance = SplitMix64(seed);
        let mut plain = Plain::new(8, setup.policy != "none");
        for _ in 0..4 {
            let mut bench = backed(&setup, &path);
            bench.ask(Op::Read, 0, setup.size_bytes());
            bench.settle();
            plain.lost_power(&bench);
            let mut from = bench.answers.len();
            for number in 0..30_u32 {
                step(&mut bench, &mut plain, &mut chance, (1 + number) as u8);
                bench.pass(chance.below_wide(400_000_000));
                answered(&bench, &mut plain, &mut from);
            }
            if chance.below_wide(2) == 0 {
                bench.settle();
                answered(&bench, &mut plain, &mut from);
                bench.drive.finish().expect("the file takes it");
                for of in &mut plain.zones {
                    of.must_survive = of.written.len();
                }
            }
            plain.acknowledged.clear(); // it is killed here: nothing more is written
        }
    }
}

/// Whether all commands so far were done.
fn is_well(bench: &Bench) -> bool {
    bench.answers.iter().all(|answer| answer.status == Status::Done)
}

fn counts(bench: &Bench) -> ZoneCounts {
    bench.drive.zones().expect("zones").counts()
}

/// The write amplification of `rounds` zones of so many pages, each reset and written again in random order.
fn amplification(zone_pages: u64, rounds: u64) -> f64 {
    let setup = Setup { pages: 4096, ..Setup::default() };
    let options = ZoneOptions { zone_bytes: zone_pages * 4096, ..ZoneOptions::default() };
    let zones = ZoneGeometry::new(&options, setup.size_bytes(), 512, 4096, 1 << 20).expect("zones");
    let mut bench = Bench::with(&setup, &flash(&setup), None);
    bench.drive.set_zones(Zones::new(zones));
    let mut chance = SplitMix64(1);
    for _ in 0..rounds {
        let start = chance.below_wide(zones.count.into()) * zones.zone_bytes;
        bench.ask(Op::Zone(ZoneAction::Reset, false), start, zones.zone_bytes);
        for page in 0..zone_pages {
            bench.write(start + page * 4096, &[1; 4096]);
        }
        bench.settle();
    }
    assert!(is_well(&bench));
    write_amplification(&bench)
}

fn flash(setup: &Setup) -> Geometry {
    setup.geometry().with("reserve", 0.15)
}

fn write_amplification(bench: &Bench) -> f64 {
    bench.drive.report().flash.expect("flash").write_amplification.expect("writes")
}

#[test]
fn zones_of_whole_erase_blocks_hardly_amplify_writes() {
    let setup = Setup { pages: 4096, ..Setup::default() };
    let mut plain = Bench::with(&setup, &flash(&setup), None);
    let mut chance = SplitMix64(1);
    for _ in 0..16_384 {
        plain.write(chance.below_wide(4096) * 4096, &[1; 4096]);
        plain.settle();
    }
    // 8 pages a block, two planes of three elements: 48 pages are erased together.
    let (small, large) = (amplification(16, 1024), amplification(1024, 16));
    let of_all = [large, small, write_amplification(&plain)];
    assert!(large < 1.1 && of_all.is_sorted(), "{of_all:?}");
}

/// A drive of 256 zones, all of which are full: a reset of all is more than is trimmed at once.
fn full() -> Bench {
    let mut bench = zoned(&Setup { pages: 4096, ..Setup::default() });
    for zone in 0..256 {
        bench.write(zone * ZONE, &vec![1; CAPACITY as usize]);
    }
    bench.settle();
    bench.ask(Op::Zone(ZoneAction::Reset, true), 0, 4096 * 4096);
    bench
}

#[test]
fn a_zone_is_written_again_while_its_reset_is_still_trimming() {
    let mut bench = full();
    assert_eq!(bench.drive.in_flight(), 1); // it goes on
    bench.write(255 * ZONE, &[2; 4096]);
    bench.settle();
    assert!(is_well(&bench));
    assert_eq!(state(&bench, 255), (ZoneState::ImplicitlyOpened, 4096));
    assert_eq!(runs(&bench.content()), [(0, 255 * ZONE as usize), (2, 4096), (0, ZONE as usize - 4096)]);
    assert_eq!(counts(&bench).resets, 256);
}

#[test]
fn a_reset_that_a_power_loss_meets_is_done() {
    let mut bench = full();
    bench.drive.power_cut();
    bench.pass(0);
    assert!(is_all(&bench.content(), 0));
    assert_eq!(counts(&bench).empty, 256);
}

#[test]
fn what_zones_refuse_changes_nothing() {
    let mut bench = zoned(&Setup::default());
    bench.write(0, &[1; 4096]);
    bench.settle();
    let offline = Op::Zone(ZoneAction::Offline, false);
    for (op, offset, length, error) in [
        (Op::Write, 0, 4096, ZoneError::InvalidWrite),
        (Op::WriteZeroes, 8192, 4096, ZoneError::InvalidWrite),
        (Op::Write, 4096, CAPACITY, ZoneError::Boundary),
        (offline, 0, ZONE, ZoneError::InvalidTransition),
    ] {
        assert_eq!(bench.status(op, offset, length, 2), Status::Zone(error), "{op:?}");
    }
    assert_eq!(state(&bench, 0), (ZoneState::ImplicitlyOpened, 4096));
    assert!(is_all(&bench.content()[4096..], 0));
    // A deallocation moves no write pointer.
    assert_eq!(bench.status(Op::Trim, 0, 4096, 0), Status::Done);
    assert_eq!(state(&bench, 0), (ZoneState::ImplicitlyOpened, 4096));
    assert!(is_all(&bench.content(), 0));
}

fn fault(kind: Kind) -> Fault {
    let kind = serde_json::to_value(kind).expect("a kind");
    serde_json::from_value(serde_json::json!({ "kind": kind })).expect("a fault")
}

fn arm(bench: &mut Bench, fault: Fault) {
    bench.drive.clear_faults(None);
    bench.drive.arm_faults(vec![fault]).expect("it can be");
}

#[test]
fn a_write_that_fails_moves_no_write_pointer_and_one_that_is_lost_or_torn_does() {
    let mut bench = zoned(&Setup::default());
    arm(&mut bench, fault(Kind::WriteError));
    assert_eq!(bench.status(Op::Write, 0, 4096, 1), Status::Media);
    assert_eq!(state(&bench, 0), (ZoneState::Empty, 0));
    assert_eq!(bench.status(Op::Zone(ZoneAction::Reset, false), 0, ZONE, 0), Status::Media); // a reset is a trim to faults
    for kind in [Kind::LostWrite, Kind::TornWrite] {
        arm(&mut bench, fault(kind));
        let (_, at) = state(&bench, 0);
        assert_eq!(bench.status(Op::Write, at, 4096, 1), Status::Done);
        assert_eq!(state(&bench, 0), (ZoneState::ImplicitlyOpened, at + 4096));
        assert_eq!(bench.content()[at as usize + 4095], 0, "its end is missing");
    }
}

#[test]
fn a_zone_whose_pages_are_worn_can_only_be_read() {
    let mut bench = zoned(&Setup::default());
    arm(&mut bench, Fault { offset_bytes: ZONE, length_bytes: Some(ZONE), endurance: 1, ..fault(Kind::Worn) });
    let refused = Status::Zone(ZoneError::InvalidTransition);
    for statuses in [[Status::Done, Status::Done], [Status::Media, refused]] {
        let ops = [(Op::Write, 4096), (Op::Zone(ZoneAction::Reset, false), ZONE)];
        assert_eq!(ops.map(|(op, length)| bench.status(op, ZONE, length, 1)), statuses);
    }
    assert_eq!(state(&bench, 1).0, ZoneState::ReadOnly);
    assert_eq!(bench.drive.zones().expect("zones").changed(), [1]);
    assert_eq!(bench.status(Op::Write, 2 * ZONE, 4096, 1), Status::Done); // another zone is not concerned
}

#[test]
fn zones_of_a_drive_that_wore_out_can_only_be_read() {
    let setup = Setup::default();
    let mut bench = Bench::with(&setup, &setup.geometry().with("endurance", 1), None);
    bench.drive.set_zones(Zones::new(geometry(&setup)));
    for turn in 0..200 {
        let zone = turn % 8;
        manage(&mut bench, ZoneAction::Reset, zone);
        bench.write(zone * ZONE, &vec![1; CAPACITY as usize]);
        bench.settle();
    }
    assert!(bench.drive.facts().read_only);
    assert_eq!(counts(&bench).read_only, 8);
}

#[test]
fn a_write_is_not_aborted_because_that_would_leave_a_gap() {
    let mut bench = zoned(&Setup::default());
    let write = bench.write(0, &[1; 4096]);
    assert!(!bench.drive.abort(tag(write)));
    let read = bench.ask(Op::Read, 0, 4096);
    assert!(bench.drive.abort(tag(read)));
    bench.settle();
}
