//! Any bytes as a drive and what is done to it, against a plain map: each page that was not
//! discarded lies at a place of its own, the tables agree with each other, and a drive runs out of
//! blocks only when they die. Then the rest as a load, through a write buffer or none. A drive with a
//! controller gets loads only: one after the other, after preconditioning or without.

#![no_main]

use std::collections::BTreeSet;

use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Controller, Drive, GcPolicy, Overlap, Pool, Spec, WearLevelling};
use ioassay_sim::engine::{BufferMode, Destaging, End, IssueMode, RunOptions, Scheduler, WriteBehind};
use ioassay_sim::engine::{WriteBuffer, run};
use ioassay_sim::options::Given;
use ioassay_sim::policy::{Layout, POLICIES, Settings, make};
use ioassay_sim::{Error, Preconditioning, precondition};
use libfuzzer_sys::fuzz_target;

/// Bytes that are used up; zeros behind their end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u32 {
        self.0.next().copied().unwrap_or(0).into()
    }

    fn flag(&mut self) -> bool {
        self.next() & 1 == 1
    }

    fn is_over(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

fn spec(bytes: &mut Bytes<'_>) -> Spec {
    let blocks = 5 + bytes.next() % 8;
    let low = 1 + bytes.next() % (blocks - 4);
    let reserved = low + 2 + bytes.next() % (blocks - low - 2);
    // Half a block more than wanted, so that no rounding takes it away.
    let share = |blocks_of: u32| (f64::from(blocks_of) + 0.5) / f64::from(blocks);
    let planes = [1, 2, 4, 3][bytes.next() as usize % 4];
    let elements = 1 + bytes.next() % 3;
    Spec {
        elements,
        dies: if planes % 2 == 0 { 2 } else { 1 },
        planes,
        blocks_per_plane: blocks,
        pages_per_block: 2 + bytes.next() % 5,
        page_bytes: 512 << (bytes.next() % 2),
        reserve: share(reserved),
        min_free: share(low),
        channels: 1 + bytes.next() % elements,
        copy_back: bytes.flag(),
        pool: if bytes.flag() { Pool::Plane } else { Pool::Element },
        gc_policy: if bytes.flag() { GcPolicy::CostBenefit } else { GcPolicy::Greedy },
        wear_levelling: match bytes.next() % 4 {
            0 | 1 => WearLevelling::Off,
            2 => WearLevelling::Dynamic,
            _ => WearLevelling::Static,
        },
        wear_spread: bytes.next() % 5,
        overlap: [Overlap::Off, Overlap::Dies, Overlap::Planes][bytes.next() as usize % 3],
        read_priority: bytes.flag(),
        endurance: bytes.next() % 16,
        ..Spec::default()
    }
}

/// A controller with options of all kinds, and what of the specification it depends on.
fn with_controller(spec: &mut Spec, bytes: &mut Bytes<'_>) {
    let page = f64::from(spec.page_bytes);
    let unit = 1 + bytes.next() % 6;
    let flash_page = [1, unit, 2][bytes.next() as usize % 3];
    let own_superblocks = bytes.next() % 2;
    let low = 1 + bytes.next() % 2;
    let reserved = low + 3 + 2 * own_superblocks + bytes.next() % 4;
    let background = bytes.next() % (reserved - 2 - own_superblocks);
    spec.blocks_per_plane = reserved + 1 + bytes.next() % 6;
    let share = |blocks: u32| (f64::from(blocks) + 0.5) / f64::from(spec.blocks_per_plane);
    (spec.reserve, spec.min_free) = (share(reserved), share(low));
    let background_free = share(background);
    spec.elements = 1 + bytes.next() % 4;
    spec.pages_per_block = unit * (1 + bytes.next() % 3).max(2 / unit.min(2));
    (spec.channels, spec.dies, spec.planes) = (1, 1, 1 + bytes.next() % 2);
    (spec.pool, spec.overlap, spec.wear_levelling) = (Pool::Element, Overlap::Off, WearLevelling::Off);
    let mut some = |most: u32| if bytes.flag() { f64::from(bytes.next() % (most + 1)) } else { 0.0 };
    let types: Vec<f64> = (0..some(3) as u32).map(|_| some(90)).collect();
    let suspensions = if spec.read_priority { [some(3), some(3)] } else { [0.0; 2] };
    let suspend_us = if suspensions == [0.0; 2] { 0.0 } else { some(50) };
    let cache_pages = if some(1) > 0.0 { f64::from(unit) + some(40) } else { 0.0 };
    let numbers = [
        ("write_cache", cache_pages * page),
        ("program_unit", f64::from(unit) * page),
        ("flash_page", f64::from(flash_page) * page),
        ("command_read_us", some(30)),
        ("command_write_us", some(30)),
        ("command_read_us_per_4k", some(3)),
        ("command_write_us_per_4k", some(3)),
        ("command_rate", some(200) * 1000.0),
        ("flash_channels", some(spec.elements)),
        ("flash_channel_mb_s", some(250)),
        ("flash_command_us", some(2)),
        ("link_mb_s", some(250)),
        ("program_suspensions", suspensions[0]),
        ("erase_suspensions", suspensions[1]),
        ("suspend_us", suspend_us),
        ("background_free", if background > 0 { background_free } else { 0.0 }),
        ("superblock", some(spec.elements)),
    ];
    let small = some(20);
    let duplex = some(1) > 0.0;
    let numbers = numbers.into_iter().map(|(name, number)| (name, Given::from(number)));
    let options = numbers.chain([
        ("link_duplex", duplex.into()),
        ("hot_cold", (own_superblocks > 0).into()),
        ("page_type_read_us", types.into()),
        ("small_read_us", small.into()),
    ]);
    spec.controller = Controller::of(options).expect("options that can be");
}

/// Loads on a drive with a controller: none loses a request or a page.
fn run_controller(spec: &Spec, bytes: &mut Bytes<'_>) {
    let mut drive = Drive::new(spec, 1 << 24).expect("a drive that was checked");
    if bytes.flag() {
        let how = Preconditioning { share: 0.5, most_rounds: 3, ..Preconditioning::default() };
        if let Err(error) = precondition(&mut drive, &how, &mut || true) {
            return worn_out(spec, &error);
        }
        drive.audit().expect("tables that agree after preconditioning");
    }
    let mut trims = false;
    for _ in 0..2 {
        let (mut options, buffer) = (options(bytes), buffer(spec, bytes));
        // What is in the cache when the last request is issued is in flight.
        options.end = End::Drained;
        let half = bytes.0.as_slice().len() / 2;
        let mut own = Bytes(bytes.0.as_slice()[..half].iter());
        bytes.0 = bytes.0.as_slice()[half..].iter();
        let load = load(spec, &mut own);
        trims |= load.iter().any(|request| request.kind == Kind::Trim);
        match run(&mut drive, &mut &load[..], buffer, &options) {
            Err(error) => return worn_out(spec, &error),
            Ok((tally, _)) => {
                let done = tally.reads.count() + tally.writes.count() + tally.others.count();
                assert_eq!((done, tally.unfinished), (tally.issued, 0));
            }
        }
        drive.audit().expect("tables that agree");
        let lost = (0..spec.pages()).filter(|&page| drive.physical_page(page).is_none()).count();
        assert!(trims || lost == 0, "{lost} pages have no place, and none was discarded");
    }
}

fn agree(drive: &Drive, map: &BTreeSet<u32>) {
    drive.audit().expect("tables that agree");
    for page in 0..drive.spec().pages() {
        assert_eq!(drive.physical_page(page).is_some(), map.contains(&page));
    }
}

/// Only a drive whose blocks die may run out of them.
fn worn_out(spec: &Spec, error: &Error) {
    assert!(matches!(error, Error::WornOut { .. }), "{error}");
    assert!(spec.endurance > 0, "{error}");
}

fn touch(drive: &mut Drive, map: &mut BTreeSet<u32>, bytes: &mut Bytes<'_>) -> Result<(), Error> {
    let (what, page) = (bytes.next(), bytes.next() << 8 | bytes.next());
    let page = page % drive.spec().pages();
    let place = drive.place(page);
    match what % 16 {
        0 => {
            drive.trim(place);
            map.remove(&page);
        }
        1 => assert_eq!(drive.read(place, 1) > 0, map.contains(&page)),
        2 => drop(drive.collect_garbage(place.element)),
        _ => {
            drive.collect_garbage(place.element);
            drive.write(place)?;
            map.insert(page);
        }
    }
    Ok(())
}

fn load(spec: &Spec, bytes: &mut Bytes<'_>) -> Vec<Request> {
    let mut at_ns = 0;
    let mut load = Vec::new();
    while !bytes.is_over() {
        at_ns += u64::from(bytes.next()) * 4000;
        let what = bytes.next();
        let sectors = spec.capacity_bytes() / 512;
        let first = u64::from(bytes.next() << 8 | bytes.next()) % sectors;
        let length = (1 + u64::from(what >> 4)).min(sectors - first);
        load.push(Request {
            at_ns,
            offset_bytes: first * 512,
            length_bytes: length * 512,
            device: 0,
            kind: match what % 8 {
                0 => Kind::Trim,
                1 => Kind::Flush,
                2 | 3 => Kind::Read,
                _ => Kind::Write,
            },
        });
    }
    load
}

fn options(bytes: &mut Bytes<'_>) -> RunOptions {
    RunOptions {
        issue_mode: match bytes.next() % 4 {
            0 => IssueMode::OpenLoop,
            1 => IssueMode::ScaledOpenLoop(0.1),
            2 => IssueMode::ClosedLoop(1 + bytes.next() % 20),
            _ => IssueMode::Bursts { size: 1 + bytes.next() % 20, gap_ps: 1_000_000_000 },
        },
        window: bytes.flag().then_some(1 + bytes.next() % 8),
        scheduler: if bytes.flag() { Scheduler::Fcfs } else { Scheduler::Clook },
        end: if bytes.flag() { End::LastIssued } else { End::Drained },
        series_rows: 8,
        ..RunOptions::default()
    }
}

fn buffer(spec: &Spec, bytes: &mut Bytes<'_>) -> Option<WriteBuffer> {
    let layout = Layout { elements: spec.elements, pages_per_block: spec.pages_per_block, pages: spec.pages() };
    let name = POLICIES[bytes.next() as usize % POLICIES.len()].name;
    let mut settings = Settings::new(layout, 1 + bytes.next() as usize % 32);
    settings.padding = bytes.flag();
    settings.block_requests = bytes.flag();
    let policy = make(name, &settings).ok()?;
    let mode = if bytes.flag() && spec.controller.is_none() { BufferMode::Inline } else { BufferMode::Reshape };
    let kinds = [WriteBehind::Auto, WriteBehind::Off, WriteBehind::Idle, WriteBehind::Any];
    let destaging = Destaging { write_behind: kinds[bytes.next() as usize % 4], ..Destaging::default() };
    let (eager, slots) = (policy.writes_behind(), policy.capacity());
    let destager = destaging.destager(mode, eager, slots, spec.elements).ok()?;
    (slots > 0).then(|| WriteBuffer { policy, destager, mode, pad_reads: bytes.flag() })
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes.iter());
    let mut spec = spec(&mut bytes);
    if bytes.flag() {
        with_controller(&mut spec, &mut bytes);
        // Some draws contradict each other.
        if spec.check().is_ok() {
            run_controller(&spec, &mut bytes);
        }
        return;
    }
    let mut drive = Drive::new(&spec, 1 << 24).expect("a drive that can be");
    let mut map: BTreeSet<u32> = (0..spec.pages()).collect();
    for _ in 0..bytes.next() << 8 | bytes.next() {
        if bytes.is_over() {
            break;
        }
        if let Err(error) = touch(&mut drive, &mut map, &mut bytes) {
            worn_out(&spec, &error);
            break;
        }
    }
    agree(&drive, &map);
    let (options, buffer) = (options(&mut bytes), buffer(&spec, &mut bytes));
    let load = load(&spec, &mut bytes);
    match run(&mut drive, &mut &load[..], buffer, &options) {
        Err(error) => worn_out(&spec, &error),
        Ok((tally, _)) => {
            let done = tally.reads.count() + tally.writes.count() + tally.others.count();
            assert_eq!(done + tally.unfinished, tally.issued);
            assert!(options.end == End::LastIssued || tally.unfinished == 0);
        }
    }
    drive.audit().expect("tables that agree");
});
