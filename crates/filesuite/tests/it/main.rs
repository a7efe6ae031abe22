//! Whole runs on small files: what is done, what is reported, and that nothing is left behind.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ioassay_filesuite::table::{self, Unit};
use ioassay_filesuite::{
    Cache, Cell, Check, Content, Error, Event, Fault, Matrix, Msync, Outcome, Setup, run,
};
use tempfile::TempDir;

const KIB: u64 = 1024;

fn setup(folder: &TempDir, tests: &[u8], file: u64, record: u64) -> Setup {
    Setup {
        tests: tests.to_vec(),
        matrix: Matrix {
            files: vec![file],
            records: vec![record],
            ..Matrix::default()
        },
        path: folder.path().join("file"),
        ..Setup::default()
    }
}

fn events(setup: &Setup) -> Vec<Event> {
    let mut events = Vec::new();
    run(setup, &AtomicBool::new(false), &mut |event| {
        events.push(event);
    })
    .unwrap();
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

fn names(outcomes: &[Outcome]) -> Vec<&str> {
    outcomes.iter().map(|outcome| outcome.pass.name).collect()
}

#[test]
fn every_test_moves_each_record_once() {
    let folder = tempfile::tempdir().unwrap();
    for content in [
        Content::Random,
        Content::Iozone,
        Content::Zeros,
        Content::Fill(9),
    ] {
        let all: Vec<u8> = (0..13).collect();
        let setup = Setup {
            content,
            ..setup(&folder, &all, 200 * KIB + 1, 4 * KIB)
        };
        let outcomes = outcomes(&setup);
        assert_eq!(
            outcomes.len(),
            21,
            "all but the mix: {:?}",
            names(&outcomes)
        );
        for outcome in &outcomes {
            assert_eq!(outcome.fault, None, "{}", outcome.pass.name);
            assert_eq!(
                (outcome.done.operations, outcome.done.bytes),
                (50, 200 * KIB)
            );
            assert!(outcome.start_ns > 0 && outcome.end_ns >= outcome.start_ns);
            assert!(outcome.fsync_ns.is_some() && outcome.close_ns.is_some());
            assert!(!outcome.prepared);
        }
        let ordered = outcomes
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].start_ns);
        assert!(ordered, "intervals overlap");
    }
}

#[test]
fn what_happens_beside_the_claims_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let usual = setup(&folder, &[0, 1, 3], 64 * KIB, 4 * KIB);
    let told = |setup: &Setup| -> Vec<(bool, u32)> {
        let found = outcomes(setup);
        found
            .iter()
            .map(|one| (one.primed, one.silent_passes))
            .collect()
    };
    let (none, primed, silent) = ((false, 0), (true, 0), (false, 1));
    assert_eq!(told(&usual), [none, none, primed, primed, silent]);
    let plain = Setup {
        plain: true,
        ..usual
    };
    assert_eq!(told(&plain), [none; 5]);
}

#[test]
fn fsync_and_close_are_inside_only_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (fsync, close) in [(false, false), (true, false), (false, true), (true, true)] {
        let setup = Setup {
            fsync,
            close,
            ..setup(&folder, &[0, 1, 6, 7], 64 * KIB, 4 * KIB)
        };
        for outcome in outcomes(&setup) {
            assert_eq!(outcome.fault, None);
            assert_eq!(
                (outcome.fsync_included, outcome.close_included),
                (fsync, close)
            );
            // -c without -e: there is no fsync at all.
            assert_eq!(
                outcome.fsync_ns.is_some(),
                fsync || !close,
                "{}",
                outcome.pass.name
            );
            assert!(outcome.close_ns.is_some());
        }
    }
}

#[test]
fn a_file_that_no_test_wrote_is_written_beforehand_once() {
    let folder = tempfile::tempdir().unwrap();
    let found = outcomes(&setup(&folder, &[1, 2], 64 * KIB, 4 * KIB));
    assert_eq!(
        names(&found),
        ["read", "reread", "random_read", "random_write"]
    );
    assert!(found.iter().all(|one| one.fault.is_none()));
    let prepared: Vec<bool> = found.iter().map(|one| one.prepared).collect();
    assert_eq!(prepared, [true, false, false, false]);
}

#[test]
fn repetitions_go_round_all_cells() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Matrix {
        files: vec![64 * KIB, 128 * KIB],
        records: vec![4 * KIB],
        ..Matrix::default()
    };
    let setup = Setup {
        matrix,
        repetitions: 2,
        ..setup(&folder, &[9], KIB, KIB)
    };
    let found = outcomes(&setup);
    let order: Vec<_> = found
        .iter()
        .map(|one| (one.repetition, one.cell.file_bytes / KIB))
        .collect();
    assert_eq!(
        order,
        [
            (0, 64),
            (0, 64),
            (0, 128),
            (0, 128),
            (1, 64),
            (1, 64),
            (1, 128),
            (1, 128)
        ]
    );
}

#[test]
fn the_cache_is_warmed_on_purpose() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup {
        cache: Cache::Warm,
        ..setup(&folder, &[0, 1], 256 * KIB, 4 * KIB)
    };
    for outcome in outcomes(&setup)
        .iter()
        .filter(|one| one.pass.name.contains("read"))
    {
        assert!(
            outcome.resident_share.is_none_or(|share| share > 0.99),
            "{outcome:?}"
        );
    }
}

#[test]
fn the_whole_file_is_looked_at_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup {
        check: Check::After,
        ..setup(&folder, &[0, 2, 4], 64 * KIB, 4 * KIB)
    };
    let found = events(&setup);
    let Some(Event::Checked(checked)) = found.last() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (checked.bytes, checked.differing, &checked.fault),
        (64 * KIB, 0, &None)
    );
}

#[test]
fn workers_move_all_their_bytes_on_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup {
        workers: 3,
        ..setup(&folder, &[0, 8], 64 * KIB, 4 * KIB)
    };
    let found = events(&setup);
    let passes = found.iter().filter_map(|event| match event {
        Event::Pass(one) => Some((one.pass.name, one.worker, one.kind.name(), one.done.bytes)),
        _ => None,
    });
    let passes: Vec<_> = passes.collect();
    assert_eq!(passes.len(), 9);
    assert!(passes.iter().all(|one| one.3 == 64 * KIB));
    let mix: Vec<_> = passes
        .iter()
        .filter(|one| one.0 == "random_mix")
        .map(|one| one.2)
        .collect();
    assert_eq!(mix, ["read", "write", "read"]);
    for group in found.iter().filter_map(|event| match event {
        Event::Group(group) => Some(group),
        _ => None,
    }) {
        assert_eq!(group.workers, 3);
        assert!(group.start_ns <= group.end_ns);
    }
}

#[test]
fn a_user_who_stops_it_finds_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(&folder, &[0, 1], 64 * KIB, 4 * KIB);
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
    assert!(
        row[24..].starts_with("        -        -        -        -"),
        "{row}"
    );
}

#[test]
fn what_is_there_stays_there() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(&folder, &[0], 64 * KIB, 4 * KIB);
    std::fs::write(&setup.path, "precious").unwrap();
    let ended = run(&setup, &AtomicBool::new(false), &mut |event| {
        panic!("{event:?}")
    });
    assert!(matches!(ended, Err(Error::Refused { .. })), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&setup.path).unwrap(), "precious");
    let overwriting = Setup {
        overwrite: true,
        ..setup
    };
    assert!(outcomes(&overwriting).iter().all(|one| one.fault.is_none()));
}

fn outcome_of(bytes: u64, operations: u64, nanoseconds: u64) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let mut outcome = outcomes(&setup(&folder, &[0], 64 * KIB, 4 * KIB)).remove(0);
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
    assert_eq!(
        Unit::KibPerS.of(&outcome_of(1023, 1, 1_000_000_000)),
        Some(0)
    );
}

#[test]
fn columns_have_least_widths_and_may_touch() {
    let cell = Cell {
        file_bytes: 64 * KIB,
        record_bytes: 4 * KIB,
    };
    let header = table::header(&[0, 9, 10]);
    let last = header.lines().last().unwrap();
    assert_eq!(last.len(), 24 + 36 + 18 + 9 + 10 + 10 + 18 + 17 + 18 + 17);
    assert!(last.starts_with("              kB  reclen    write  rewrite"));
    let wide = outcome_of(1_000_000_000_000 * KIB, 1, 1_000_000_000);
    let rewrite = Outcome {
        pass: &ioassay_filesuite::TESTS[0].passes[1],
        ..wide.clone()
    };
    let row = table::row(cell, &[wide, rewrite], &[0], Unit::KibPerS);
    assert!(
        row.starts_with("              64       410000000000001000000000000 "),
        "{row}"
    );
    assert_eq!(
        row.trim_end_matches('\n').len(),
        24 + 26 + 18 + 18 + 9 + 10 + 10 + 18 + 17
    );
}

#[test]
fn matrices_have_sizes_in_quotes_and_zeros_beyond_the_crossover() {
    let cells = [(64, 4), (64, 64), (128, 64)];
    let of = |(file, record): (u64, u64)| Outcome {
        cell: Cell {
            file_bytes: file * KIB,
            record_bytes: record * KIB,
        },
        ..outcome_of(1000 * KIB, 1, 1_000_000_000)
    };
    let found: Vec<_> = cells.into_iter().map(of).collect();
    let text = table::matrices(&found, Unit::KibPerS);
    let wanted =
        "\"Writer report\"\n        \"4\"  \"64\"\n\"64\"   1000  1000 \n\"128\"   0  1000 \n\n";
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
            assert_eq!(
                (outcome.done.operations, outcome.done.bytes),
                (25, 200 * KIB)
            );
            let streamed = outcome.pass.name.starts_with('f');
            assert_eq!(outcome.mapped, !streamed, "{}", outcome.pass.name);
        }
    }
}

#[test]
fn jitter_reads_two_bytes_more_before_every_hundredth_record() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup {
        jitter: true,
        ..setup(&folder, &[0, 1, 3], 201 * KIB, KIB)
    };
    let done: Vec<_> = outcomes(&setup)
        .iter()
        .map(|outcome| (outcome.done.operations, outcome.done.bytes))
        .collect();
    let (exact, more) = ((201, 201 * KIB), (207, 201 * KIB + 6));
    assert_eq!(done, [exact, exact, more, more, exact]);
}

#[test]
fn each_call_is_timed_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup {
        latencies: true,
        ..setup(&folder, &[0, 3, 4, 6], 32 * KIB, 8 * KIB)
    };
    let outcomes = outcomes(&setup);
    for outcome in &outcomes {
        assert_eq!(outcome.latencies_ns.len(), 4);
        let sum_ns: u64 = outcome.latencies_ns.iter().sum();
        assert!(sum_ns <= outcome.nanoseconds().unwrap(), "{outcome:?}");
    }
    let kib = |outcome: &Outcome| -> Vec<u64> {
        outcome.offsets.iter().map(|offset| offset / KIB).collect()
    };
    let backward = outcomes.iter().find(|outcome| outcome.test == 3).unwrap();
    assert_eq!(kib(backward), [24, 16, 8, 0]);
    let same = outcomes.iter().find(|outcome| outcome.test == 4).unwrap();
    assert_eq!(kib(same), [0; 4]);
    let lines = table::latencies(backward);
    let fields: Vec<_> = lines.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!((fields[0], fields[2]), ("16", "8192"));
}

#[test]
fn a_kept_file_is_read_by_a_later_run_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let writing = Setup {
        keep: true,
        repetitions: 2,
        ..setup(&folder, &[0], 64 * KIB, 4 * KIB)
    };
    let go = |setup: &Setup| run(setup, &AtomicBool::new(false), &mut |_| {});
    go(&writing).unwrap();
    let written = std::fs::read(&writing.path).unwrap();
    assert_eq!(written.len() as u64, 64 * KIB);
    let mut faults = Vec::new();
    let reading = Setup {
        tests: vec![1, 3, 5, 7],
        check: Check::Whole,
        ..writing.clone()
    };
    run(&reading, &AtomicBool::new(false), &mut |event| {
        if let Event::Pass(outcome) = event {
            faults.push((outcome.fault, outcome.prepared));
        }
    })
    .unwrap();
    assert_eq!(faults.len(), 2 * 6);
    assert!(
        faults.iter().all(|fault| *fault == (None, false)),
        "{faults:?}"
    );
    assert_eq!(std::fs::read(&writing.path).unwrap(), written);
    let larger = Setup {
        matrix: Matrix {
            files: vec![128 * KIB],
            ..reading.matrix.clone()
        },
        ..reading
    };
    assert!(matches!(go(&larger), Err(Error::Refused { .. })));
    assert!(
        matches!(go(&writing), Err(Error::Refused { .. })),
        "it is written"
    );
}

#[test]
fn numbers_of_workers_are_measured_one_after_another_on_named_files() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["a", "b", "c"]
        .map(|name| folder.path().join(name))
        .to_vec();
    let setup = Setup {
        workers: 3,
        workers_from: Some(2),
        paths: paths.clone(),
        ..setup(&folder, &[1], 64 * KIB, 4 * KIB)
    };
    let passes: Vec<_> = outcomes(&setup)
        .into_iter()
        .filter(|outcome| outcome.place == 0)
        .collect();
    let order: Vec<_> = passes
        .iter()
        .map(|outcome| (outcome.workers, outcome.path.clone(), outcome.primed))
        .collect();
    let wanted = [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
        .map(|(workers, worker): (u32, usize)| (workers, paths[worker].clone(), false));
    assert_eq!(order, wanted);
}

#[test]
fn what_cannot_go_together_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mapped = Some(Msync::Async);
    let names = |count: u8| -> Vec<_> {
        let name = |worker: u8| folder.path().join(worker.to_string());
        (0..count).map(name).collect()
    };
    let twice = vec![folder.path().join("a"); 2];
    let with = |change: &dyn Fn(&mut Setup)| {
        let mut setup = setup(&folder, &[0, 1], 64 * KIB, 4 * KIB);
        change(&mut setup);
        setup
    };
    let small = setup(&folder, &[0], KIB, 512);
    let cases = [
        (
            "-I",
            with(&|setup| (setup.mapped, setup.direct) = (mapped, true)),
        ),
        (
            "-o",
            with(&|setup| (setup.mapped, setup.sync) = (mapped, true)),
        ),
        ("page", Setup { mapped, ..small }),
        (
            "-K",
            with(&|setup| (setup.jitter, setup.direct) = (true, true)),
        ),
        ("stride", with(&|setup| setup.stride = 0)),
        (
            "-l",
            with(&|setup| (setup.workers, setup.workers_from) = (2, Some(3))),
        ),
        (
            "-F",
            with(&|setup| (setup.workers, setup.paths) = (2, names(1))),
        ),
        (
            "twice",
            with(&|setup| (setup.workers, setup.paths) = (2, twice.clone())),
        ),
        ("processor", with(&|setup| setup.processor = Some(99_999))),
    ];
    for (name, setup) in cases {
        let ended = run(&setup, &AtomicBool::new(false), &mut |event| {
            panic!("{event:?}")
        });
        assert!(
            matches!(&ended, Err(error @ Error::Option { .. }) if error.to_string().contains(name)),
            "{name}: {ended:?}"
        );
    }
}
