//! Whole runs on small files: what is done, what is reported, and that nothing is left behind.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ioassay_filesuite::table::{self, Unit};
use ioassay_filesuite::{Cache, Cell, Check, Content, Error, Event, Fault, Matrix, Msync, Outcome, Setup, run};
use tempfile::TempDir;

const KIB: u64 = 1024;

fn setup(folder: &TempDir, tests: &[u8], file: u64, record: u64) -> Setup {
    Setup {
        tests: tests.to_vec(),
        matrix: with(Matrix::default(), |matrix| {
            (matrix.files, matrix.records) = (vec![file], vec![record]);
        }),
        path: folder.path().join("file"),
        ..Setup::default()
    }
}

/// The same with a change.
fn with<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}

/// One file of 64 KiB, in records of 4 KiB.
fn small(folder: &TempDir, tests: &[u8]) -> Setup {
    setup(folder, tests, 64 * KIB, 4 * KIB)
}

fn go(setup: &Setup, mut see: impl FnMut(Event)) -> Result<(), Error> {
    run(setup, &AtomicBool::new(false), &mut see)
}

fn events(setup: &Setup) -> Vec<Event> {
    let mut events = Vec::new();
    go(setup, |event| events.push(event)).unwrap();
    assert!(is_empty(setup.path.parent().unwrap()), "something is left");
    events
}

fn outcomes(setup: &Setup) -> Vec<Outcome> {
    let passes = events(setup).into_iter().filter_map(|event| match event {
        Event::Pass(outcome) => Some(outcome),
        _ => None,
    });
    passes.collect()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn moved(outcome: &Outcome) -> (u64, u64) {
    (outcome.done.operations, outcome.done.bytes)
}

fn names(outcomes: &[Outcome]) -> Vec<&str> {
    outcomes.iter().map(|outcome| outcome.pass.name).collect()
}

#[test]
fn every_test_moves_each_record_once() {
    let folder = tempfile::tempdir().unwrap();
    let fill = Content::Fill(9);
    for content in [Content::Random, Content::Iozone, Content::Zeros, fill] {
        let all: Vec<u8> = (0..13).collect();
        let setup = Setup { content, ..setup(&folder, &all, 200 * KIB + 1, 4 * KIB) };
        let outcomes = outcomes(&setup);
        assert_eq!(outcomes.len(), 21, "{:?}", names(&outcomes)); // all but the mix
        for outcome in &outcomes {
            assert_eq!(outcome.fault, None, "{}", outcome.pass.name);
            assert_eq!(moved(outcome), (50, 200 * KIB));
            assert!(outcome.start_ns > 0 && outcome.end_ns >= outcome.start_ns);
            assert!(outcome.fsync_ns.is_some() && outcome.close_ns.is_some());
            assert!(!outcome.prepared);
        }
        let mut pairs = outcomes.windows(2);
        assert!(pairs.all(|pair| pair[0].end_ns <= pair[1].start_ns));
    }
}

#[test]
fn what_happens_beside_the_claims_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let usual = small(&folder, &[0, 1, 3]);
    let told = |setup: &Setup| -> Vec<(bool, u32)> {
        let found = outcomes(setup).into_iter();
        found.map(|one| (one.primed, one.silent_passes)).collect()
    };
    let (none, primed, silent) = ((false, 0), (true, 0), (false, 1));
    assert_eq!(told(&usual), [none, none, primed, primed, silent]);
    let plain = with(usual, |setup| setup.plain = true);
    assert_eq!(told(&plain), [none; 5]);
}

#[test]
fn fsync_and_close_are_inside_only_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (fsync, close) in [(false, false), (true, false), (false, true), (true, true)] {
        let setup = Setup { fsync, close, ..small(&folder, &[0, 1, 6, 7]) };
        for outcome in outcomes(&setup) {
            assert_eq!(outcome.fault, None);
            let included = (outcome.fsync_included, outcome.close_included);
            assert_eq!(included, (fsync, close));
            // -c without -e: there is no fsync at all.
            let (synced, name) = (outcome.fsync_ns.is_some(), outcome.pass.name);
            assert_eq!(synced, fsync || !close, "{name}");
            assert!(outcome.close_ns.is_some());
        }
    }
}

#[test]
fn a_file_that_no_test_wrote_is_written_beforehand_once() {
    let folder = tempfile::tempdir().unwrap();
    let found = outcomes(&small(&folder, &[1, 2]));
    let wanted = ["read", "reread", "random_read", "random_write"];
    assert_eq!(names(&found), wanted);
    assert!(found.iter().all(|one| one.fault.is_none()));
    let prepared: Vec<bool> = found.iter().map(|one| one.prepared).collect();
    assert_eq!(prepared, [true, false, false, false]);
}

#[test]
fn repetitions_go_round_all_cells() {
    let folder = tempfile::tempdir().unwrap();
    let setup = with(setup(&folder, &[9], 64 * KIB, 4 * KIB), |setup| {
        setup.matrix.files.push(128 * KIB);
        setup.repetitions = 2;
    });
    let found = outcomes(&setup);
    let place = |one: &Outcome| (one.repetition, one.cell.file_bytes / KIB);
    let order = found.iter().map(place);
    let wanted = [(0, 64), (0, 128), (1, 64), (1, 128)];
    let wanted = wanted.into_iter().flat_map(|cell| [cell, cell]);
    assert_eq!(order.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
}

#[test]
fn the_cache_is_warmed_on_purpose() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { cache: Cache::Warm, ..setup(&folder, &[0, 1], 256 * KIB, 4 * KIB) };
    let is_resident = |one: &Outcome| one.resident_share.is_none_or(|share| share > 0.99);
    let all_are = |found: Vec<Outcome>| {
        let mut reads = found.iter().filter(|one| one.pass.name.contains("read"));
        reads.all(is_resident)
    };
    // The kernel may take memory back at any time.
    assert!((0..100).any(|_| all_are(outcomes(&setup))));
}

#[test]
fn the_whole_file_is_looked_at_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { check: Check::After, ..small(&folder, &[0, 2, 4]) };
    let found = events(&setup);
    let Some(Event::Checked(checked)) = found.last() else {
        panic!("{found:?}");
    };
    assert_eq!((checked.bytes, checked.differing), (64 * KIB, 0));
    assert_eq!(checked.fault, None);
}

#[test]
fn workers_move_all_their_bytes_on_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { workers: 3, ..small(&folder, &[0, 8]) };
    let found = events(&setup);
    let (mut passes, mut mix) = (0, Vec::new());
    for event in found {
        match event {
            Event::Pass(one) => {
                passes += 1;
                assert_eq!(one.done.bytes, 64 * KIB);
                if one.pass.name == "random_mix" {
                    mix.push(one.kind.name());
                }
            }
            Event::Group(group) => {
                assert_eq!(group.workers, 3);
                assert!(group.start_ns <= group.end_ns);
            }
            Event::Checked(_) => {}
        }
    }
    assert_eq!((passes, mix), (9, vec!["read", "write", "read"]));
}

#[test]
fn a_user_who_stops_it_finds_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let setup = small(&folder, &[0, 1]);
    let stop = AtomicBool::new(false);
    let mut found = Vec::new();
    run(&setup, &stop, &mut |event| {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found.push(event);
    })
    .unwrap();
    assert_eq!(found.len(), 1);
    assert!(is_empty(folder.path()));
}

#[test]
fn without_room_a_cell_is_not_begun_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let found = outcomes(&setup(&folder, &[0, 1], 1 << 60, 1 << 20));
    assert_eq!(found.len(), 4);
    for outcome in &found {
        assert!(matches!(&outcome.fault, Some(Fault::NotRun(why)) if why.contains("room")));
        assert_eq!(outcome.nanoseconds(), None);
    }
    let cell = found[0].cell;
    let row = table::row(cell, &found, &[0, 1], Unit::KibPerS);
    assert!(row[24..].starts_with(&"        -".repeat(4)), "{row}");
}

#[test]
fn what_is_there_stays_there() {
    let folder = tempfile::tempdir().unwrap();
    let setup = small(&folder, &[0]);
    std::fs::write(&setup.path, "precious").unwrap();
    let ended = go(&setup, |event| panic!("{event:?}"));
    assert!(matches!(ended, Err(Error::Refused { .. })), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&setup.path).unwrap(), "precious");
    let overwriting = with(setup, |setup| setup.overwrite = true);
    assert!(outcomes(&overwriting).iter().all(|one| one.fault.is_none()));
}

fn cell(file_kib: u64, record_kib: u64) -> Cell {
    Cell { file_bytes: file_kib * KIB, record_bytes: record_kib * KIB }
}

fn outcome_of(bytes: u64, operations: u64, nanoseconds: u64) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let mut outcome = outcomes(&small(&folder, &[0])).remove(0);
    (outcome.done.bytes, outcome.done.operations) = (bytes, operations);
    (outcome.start_ns, outcome.end_ns) = (1, 1 + nanoseconds);
    outcome
}

#[test]
fn rates_are_rounded_down_to_bytes_and_then_to_kib() {
    let outcome = outcome_of(64 * KIB, 16, 30_000);
    // 2184533333.3 bytes/s: 2133333.3 KiB/s.
    assert_eq!(Unit::KibPerS.of(&outcome), Some(2_133_333));
    assert_eq!(Unit::OpsPerS.of(&outcome), Some(533_333));
    assert_eq!(Unit::UsPerOp.of(&outcome), Some(1));
    let less = outcome_of(1023, 1, 1_000_000_000);
    assert_eq!(Unit::KibPerS.of(&less), Some(0));
}

#[test]
fn columns_have_least_widths_and_may_touch() {
    let cell = cell(64, 4);
    let header = table::header(&[0, 9, 10]);
    let last = header.lines().last().unwrap();
    assert_eq!(last.len(), 24 + 36 + 18 + 9 + 10 + 10 + 18 + 17 + 18 + 17);
    assert!(last.starts_with("              kB  reclen    write  rewrite"));
    let wide = outcome_of(1_000_000_000_000 * KIB, 1, 1_000_000_000);
    let mut rewrite = wide.clone();
    rewrite.pass = &ioassay_filesuite::TESTS[0].passes[1];
    let row = table::row(cell, &[wide, rewrite], &[0], Unit::KibPerS);
    let wanted = "              64       410000000000001000000000000 ";
    assert!(row.starts_with(wanted), "{row}");
    let length = 24 + 26 + 18 + 18 + 9 + 10 + 10 + 18 + 17;
    assert_eq!(row.trim_end_matches('\n').len(), length);
}

#[test]
fn matrices_have_sizes_in_quotes_and_zeros_beyond_the_crossover() {
    let cells = [(64, 4), (64, 64), (128, 64)];
    let of = |(file, record)| Outcome { cell: cell(file, record), ..outcome_of(1000 * KIB, 1, 1_000_000_000) };
    let found: Vec<_> = cells.into_iter().map(of).collect();
    let text = table::matrices(&found, Unit::KibPerS);
    let wanted = "\"Writer report\"\n        \"4\"  \"64\"\n\"64\"   1000  1000 \n\"128\"   0  1000 \n\n";
    assert_eq!(text, wanted);
}

#[test]
fn a_mapping_moves_the_same_records_as_calls_do() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<u8> = (0..13).collect();
    for msync in [Msync::Never, Msync::Async, Msync::Sync] {
        let setup = Setup {
            mapped: Some(msync),
            check: Check::Whole,
            fsync: msync == Msync::Sync,
            close: msync == Msync::Async,
            ..setup(&folder, &all, 200 * KIB + 1, 8 * KIB)
        };
        for outcome in outcomes(&setup) {
            assert_eq!(outcome.fault, None, "{}", outcome.pass.name);
            assert_eq!(moved(&outcome), (25, 200 * KIB));
            let streamed = outcome.pass.name.starts_with('f');
            assert_eq!(outcome.mapped, !streamed, "{}", outcome.pass.name);
        }
    }
}

#[test]
fn jitter_reads_two_bytes_more_before_every_hundredth_record() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { jitter: true, ..setup(&folder, &[0, 1, 3], 201 * KIB, KIB) };
    let done: Vec<_> = outcomes(&setup).iter().map(moved).collect();
    let (exact, more) = ((201, 201 * KIB), (207, 201 * KIB + 6));
    assert_eq!(done, [exact, exact, more, more, exact]);
}

#[test]
fn each_call_is_timed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { latencies: true, ..setup(&folder, &[0, 3, 4, 6], 32 * KIB, 8 * KIB) };
    let outcomes = outcomes(&setup);
    for outcome in &outcomes {
        assert_eq!(outcome.latencies_ns.len(), 4);
        let sum_ns: u64 = outcome.latencies_ns.iter().sum();
        assert!(sum_ns <= outcome.nanoseconds().unwrap(), "{outcome:?}");
    }
    let of = |test| outcomes.iter().find(|one| one.test == test).unwrap();
    let backward = of(3);
    assert_eq!(backward.offsets, [24 * KIB, 16 * KIB, 8 * KIB, 0]);
    assert_eq!(of(4).offsets, [0; 4]);
    let lines = table::latencies(backward);
    let fields: Vec<_> = lines.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!((fields[0], fields[2]), ("16", "8192"));
}

#[test]
fn a_kept_file_is_read_by_a_later_run_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let writing = with(small(&folder, &[0]), |setup| {
        (setup.keep, setup.repetitions) = (true, 2);
    });
    go(&writing, |_| ()).unwrap();
    let written = std::fs::read(&writing.path).unwrap();
    assert_eq!(written.len() as u64, 64 * KIB);
    let mut faults = Vec::new();
    let reading = with(writing.clone(), |setup| {
        (setup.tests, setup.check) = (vec![1, 3, 5, 7], Check::Whole);
    });
    let read = go(&reading, |event| {
        if let Event::Pass(outcome) = event {
            faults.push((outcome.fault, outcome.prepared));
        }
    });
    read.unwrap();
    assert_eq!(faults, vec![(None, false); 2 * 6]);
    assert_eq!(std::fs::read(&writing.path).unwrap(), written);
    let larger = with(reading, |setup| setup.matrix.files = vec![128 * KIB]);
    for refused in [larger, writing] {
        let ended = go(&refused, |_| ());
        assert!(matches!(ended, Err(Error::Refused { .. }))); // it is written
    }
}

#[test]
fn numbers_of_workers_are_measured_one_after_another_on_named_files() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
    let setup = Setup { workers: 3, workers_from: Some(2), paths: paths.to_vec(), ..small(&folder, &[1]) };
    let mut passes = outcomes(&setup);
    passes.retain(|outcome| outcome.place == 0);
    let passes = passes.iter();
    let order = passes.map(|one| (one.workers, &one.path, one.primed));
    let wanted = [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)];
    let wanted = wanted.map(|(workers, worker): (u32, usize)| (workers, &paths[worker], false));
    assert_eq!(order.collect::<Vec<_>>(), wanted);
}

type Change<'a> = &'a dyn Fn(&mut Setup);

#[test]
fn what_cannot_go_together_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: u8| folder.path().join(name.to_string());
    let cases: [(&str, Change); 8] = [
        ("-I", &|setup| {
            (setup.mapped, setup.direct) = (Some(Msync::Async), true);
        }),
        ("-o", &|setup| {
            (setup.mapped, setup.sync) = (Some(Msync::Async), true);
        }),
        ("-K", &|setup| (setup.jitter, setup.direct) = (true, true)),
        ("stride", &|setup| setup.stride = 0),
        ("-l", &|setup| {
            (setup.workers, setup.workers_from) = (2, Some(3));
        }),
        ("-F", &|setup| {
            (setup.workers, setup.paths) = (2, vec![path(0)]);
        }),
        ("twice", &|setup| {
            (setup.workers, setup.paths) = (2, vec![path(0); 2]);
        }),
        ("processor", &|setup| setup.processor = Some(99_999)),
    ];
    let changed = |(name, change): (_, Change)| (name, with(small(&folder, &[0, 1]), change));
    let mut half_page = setup(&folder, &[0], KIB, 512);
    half_page.mapped = Some(Msync::Async);
    let cases = cases.map(changed).into_iter().chain([("page", half_page)]);
    for (name, setup) in cases {
        let ended = go(&setup, |event| panic!("{event:?}"));
        let Err(error @ Error::Option { .. }) = ended else { panic!("{name}: {ended:?}") };
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
}
