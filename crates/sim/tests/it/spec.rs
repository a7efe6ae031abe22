//! Drives at and beyond the limits: an impossible one is an error that names the option, before anything is made; a
//! possible one runs.

use crate::loads::{MEMORY, Unsaid, buffer_spec, each, setup, small, with};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::{Drive, Overlap, Pool, Spec, WearLevelling};
use ioassay_sim::engine::{BufferMode, RunOptions, run};
use ioassay_sim::{BufferSpec, Error, Preconditioning};

const SECOND_PS: u64 = 1_000_000_000_000;

fn refused(spec: &Spec) -> (&'static str, String) {
    let error = spec.check().expect_err("a drive that cannot be");
    assert!(Drive::new(spec, u64::MAX).is_err());
    let Error::Option { name, .. } = error else { panic!("{error}") };
    (name, error.to_string())
}

/// The option that an error names, and the change of a possible drive that causes it.
type Fault = (&'static str, fn(&mut Spec));

const FAULTS: &[Fault] = &[
    ("elements", |spec| spec.elements = 0),
    ("elements", |spec| spec.elements = u32::MAX),
    ("planes", |spec| spec.planes = 0),
    ("planes", |spec| spec.planes = u32::MAX),
    ("dies", |spec| spec.dies = 0),
    ("dies", |spec| spec.dies = 3),
    ("blocks", |spec| spec.blocks_per_plane = 0),
    ("blocks", |spec| spec.blocks_per_plane = 3),
    ("blocks", |spec| spec.blocks_per_plane = u32::MAX),
    ("pages_per_block", |spec| spec.pages_per_block = 0),
    ("pages_per_block", |spec| spec.pages_per_block = 1),
    ("pages_per_block", |spec| spec.pages_per_block = u32::MAX),
    ("page", |spec| spec.page_bytes = 0),
    ("page", |spec| spec.page_bytes = 511),
    ("page", |spec| spec.page_bytes = 4097),
    ("page", |spec| spec.page_bytes = u32::MAX),
    ("channels", |spec| spec.channels = 0),
    ("channels", |spec| spec.channels = 3),
    ("reserve", |spec| spec.reserve = 0.0),
    ("reserve", |spec| spec.reserve = 0.25),
    ("reserve", |spec| spec.reserve = 1.0),
    ("reserve", |spec| spec.reserve = -0.5),
    ("reserve", |spec| spec.reserve = f64::NAN),
    ("reserve", |spec| spec.reserve = f64::INFINITY),
    ("reserve", |spec| spec.min_free = 0.5),
    ("min_free", |spec| spec.min_free = 0.0),
    ("min_free", |spec| spec.min_free = 0.12),
    ("min_free", |spec| spec.min_free = 1.0),
    ("min_free", |spec| spec.min_free = f64::NAN),
    ("read", |spec| spec.read_ps = u64::MAX),
    ("program", |spec| spec.program_ps = u64::MAX),
    ("erase", |spec| spec.erase_ps = u64::MAX),
    ("transfer", |spec| spec.transfer_ps_per_byte = u64::MAX),
    ("transfer", |spec| spec.transfer_ps_per_byte = 1_000_000_000),
    ("channel", |spec| spec.channel_ps_per_sector = u64::MAX),
    ("channel", |spec| spec.channel_ps_per_sector = 1_000_000_001),
    ("spare_bytes", |spec| spec.spare_bytes_per_sector = u32::MAX),
];

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (number, (wanted, spoil)) in FAULTS.iter().enumerate() {
        let mut spec = small();
        spoil(&mut spec);
        let (name, message) = refused(&spec);
        assert_eq!(name, *wanted, "fault {number}: {message}");
        assert!(message.starts_with(name), "{message}");
    }
}

#[test]
fn a_refusal_says_what_would_do() {
    // 8 blocks: one is the least that can be kept free, and then 3 are the least reserve.
    let faults: [Fault; 3] = [
        ("at least 0.1250", |spec| spec.min_free = 0.0),
        ("at least 3 of the 8 blocks", |spec| spec.reserve = 0.25),
        ("a divisor of the 8 planes", |spec| {
            (spec.planes, spec.dies) = (8, 3);
        }),
    ];
    for (wanted, spoil) in faults {
        let (_, message) = refused(&with(small(), spoil));
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn more_pages_than_32_bits_count_are_refused() {
    let large = with(Spec::default(), |spec| {
        (spec.elements, spec.blocks_per_plane) = (256, 1 << 16);
    });
    let (name, message) = refused(&large);
    assert_eq!(name, "blocks");
    assert!(message.contains("use larger pages"), "{message}");
    // One element of too many pages, of which few are exported.
    let physical = Spec {
        elements: 1,
        planes: 1024,
        blocks_per_plane: 1 << 22,
        pages_per_block: 1 << 14,
        reserve: 0.999_999,
        min_free: 0.5,
        ..Spec::default()
    };
    assert_eq!(refused(&physical).0, "blocks");
}

#[test]
fn more_memory_than_was_granted_is_refused_with_the_number() {
    let spec = Spec::default();
    let needed = spec.memory_bytes();
    assert!(spec.check_memory(needed).is_ok());
    let error = spec.check_memory(needed - 1).expect_err("too little");
    for number in [needed, spec.pages().into()] {
        assert!(error.to_string().contains(&number.to_string()), "{error}");
    }
    assert!(matches!(Drive::new(&spec, 1000), Err(Error::Memory { .. })));
    // Twelve bytes a page are enough.
    assert!(needed < 12 * u64::from(spec.pages()));
}

#[test]
fn numbers_of_the_reference_drive() {
    let spec = Spec::default();
    assert_eq!(spec.check().map_err(|error| error.to_string()), Ok(()));
    assert_eq!(spec.reserved_blocks(), 307); // 15 % of 2048
    assert_eq!(spec.low_blocks(), 102); // 5 %
    assert_eq!(spec.pages_per_element(), (2048 - 307) * 8 * 63);
    assert_eq!(spec.pages(), 48 * 877_464);
    // 0.3056 ms, and a 63rd of 0.2132 ms.
    assert_eq!(spec.mean_write_ps(), 305_600_000 + 213_200_000 / 63);
}

/// Changes of a possible drive to the ends of what is allowed.
const EXTREMES: &[fn(&mut Spec)] = &[
    |spec| {
        (spec.read_ps, spec.program_ps, spec.erase_ps) = (SECOND_PS, SECOND_PS, SECOND_PS);
        (spec.transfer_ps_per_byte, spec.channel_ps_per_sector) = (SECOND_PS / 4224, SECOND_PS / 1000);
        spec.copy_back = false;
    },
    |spec| {
        (spec.read_ps, spec.program_ps, spec.erase_ps) = (0, 0, 0);
        (spec.transfer_ps_per_byte, spec.spare_bytes_per_sector, spec.channel_ps_per_sector) = (0, 0, 0);
    },
    |spec| {
        (spec.elements, spec.planes, spec.blocks_per_plane, spec.pages_per_block) = (1, 1, 4, 2);
        (spec.page_bytes, spec.reserve, spec.min_free) = (512, 0.75, 0.25);
    },
    |spec| (spec.planes, spec.dies, spec.page_bytes) = (1024, 1024, 1 << 20),
    |spec| (spec.elements, spec.planes, spec.pages_per_block) = (1, 1, 1 << 14),
    |spec| (spec.elements, spec.channels) = (4096, 4096),
];

#[test]
fn what_is_extreme_and_can_be_runs() {
    for change in EXTREMES {
        let spec = with(small(), change);
        for overlap in [Overlap::Off, Overlap::Dies, Overlap::Planes] {
            for pool in [Pool::Element, Pool::Plane] {
                let (wear_levelling, wear_spread) = (WearLevelling::Static, 0);
                let spec = Spec { overlap, pool, wear_levelling, wear_spread, ..spec.clone() };
                let second = 512.min(512 * (u64::from(spec.pages()) - 1));
                let load = each(200, |number| Request {
                    kind: [Kind::Write, Kind::Read][usize::from(number % 5 == 0)],
                    offset_bytes: second * (number % 2),
                    length_bytes: 512,
                    ..Request::default()
                });
                let mut drive = Drive::new(&spec, MEMORY).expect("a drive");
                let options = RunOptions::default();
                let run = run(&mut drive, &mut Unsaid(&load), None, &options);
                let (tally, _) = run.expect("a run");
                assert_eq!(tally.transfers().count(), 200, "{spec:?}");
                drive.audit().expect("tables that agree");
            }
        }
    }
}

#[test]
fn a_setup_is_checked_without_a_run() {
    let setup = setup(&small());
    assert!(setup.check().is_ok());
    let little = with(setup.clone(), |setup| setup.available_bytes = 10);
    assert!(matches!(little.check(), Err(Error::Memory { .. })));
    let unknown = BufferSpec { policy: "lrv".into(), ..buffer_spec(&small(), "lru", 8, BufferMode::Inline) };
    let buffered = with(setup.clone(), |setup| setup.buffer = Some(unknown));
    assert!(matches!(buffered.check(), Err(Error::Policy(_))));
}

#[test]
fn preconditioning_that_cannot_be_is_refused_by_name() {
    let usual = Preconditioning::default;
    for (wanted, how) in [
        ("precondition", Preconditioning { share: 0.0, ..usual() }),
        ("precondition", Preconditioning { share: f64::NAN, ..usual() }),
        ("precondition", Preconditioning { share: 1.01, ..usual() }),
        ("rounds", Preconditioning { rounds: 1, ..usual() }),
        ("rounds", Preconditioning { rounds: 50, ..usual() }),
        ("most_rounds", Preconditioning { most_rounds: 10_001, ..usual() }),
        ("tolerance", Preconditioning { tolerance: f64::NAN, ..usual() }),
        ("tolerance", Preconditioning { tolerance: -0.1, ..usual() }),
    ] {
        let setup = with(setup(&small()), |setup| setup.preconditioning = Some(how));
        let error = setup.check().expect_err(wanted);
        assert!(error.to_string().starts_with(wanted), "{error}");
    }
}
