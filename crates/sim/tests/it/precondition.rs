//! Preconditioning: what it does to a drive, when it ends, and that its write amplification is that of theory.

use crate::loads::{drive, each, setup, simulated, with, write};
use ioassay_sim::drive::{Drive, Spec};
use ioassay_sim::{Error, Preconditioned, Preconditioning, precondition};

fn spec(reserve: f64) -> Spec {
    Spec {
        elements: 2,
        dies: 1,
        planes: 1,
        blocks_per_plane: 256,
        pages_per_block: 32,
        reserve,
        min_free: 0.004,
        endurance: 0,
        ..Spec::default()
    }
}

fn done(spec: &Spec, how: &Preconditioning) -> (Drive, Preconditioned) {
    let mut drive = drive(spec);
    let done = precondition(&mut drive, how, &mut || true).expect("no error");
    drive.audit().expect("tables that agree");
    (drive, done)
}

/// Write amplification of uniform random overwrites under greedy garbage collection.
///
/// Of many blocks of b pages all are cleaned when they are down to the same number m of valid ones. A block loses its
/// (j+1)-th to j-th page in U / j writes, where U are the pages of the drive; so T / b blocks, one of which is cleaned
/// every b - m writes, last T (b - m) / b = U (1/b + 1/(b-1) + … + 1/(m+1)) writes (P. Desnoyers, "Analytic Modeling of
/// SSD Write Performance", SYSTOR 2012; the fixed point of the mean field in B. Van Houdt, "A Mean Field Model for a
/// Class of Garbage Collection Algorithms in Flash-based Solid State Drives", SIGMETRICS 2013). The share of valid
/// pages between two numbers of them is interpolated. Amplification is b / (b - m).
fn theory(block_pages: u32, blocks: f64, pages: f64) -> f64 {
    let b = f64::from(block_pages);
    let excess = |m: u32| {
        let decay: f64 = (m + 1..=block_pages).map(|j| 1.0 / f64::from(j)).sum();
        blocks * (b - f64::from(m)) - pages * decay
    };
    // Below the number where there are as many blocks as it takes there are too few.
    let mut m = block_pages - 1;
    while m > 0 && excess(m) > 0.0 {
        m -= 1;
    }
    let (here, above) = (excess(m), excess(m + 1));
    let part = here / (here - above);
    b / (b - f64::from(m) - part)
}

#[test]
fn amplification_of_uniform_overwrites_is_that_of_theory() {
    for reserve in [0.1, 0.15, 0.2, 0.3] {
        let spec = spec(reserve);
        let how = with(Preconditioning::default(), |how| {
            (how.most_rounds, how.tolerance) = (30, 0.01);
        });
        let (_, done) = done(&spec, &how);
        let last = &done.write_amplification[done.write_amplification.len() - 3..];
        let seen = last.iter().sum::<f64>() / 3.0;
        // Not in turn: two free blocks, the one that is never cleaned, and half of the open one.
        let blocks = f64::from(spec.blocks_per_plane) - 3.5;
        let pages = f64::from(spec.pages_per_element());
        let wanted = theory(spec.data_pages(), blocks, pages);
        let off = (seen / wanted - 1.0).abs();
        assert!(off < 0.03, "{reserve}: {seen}, {wanted}");
    }
}

#[test]
fn it_settles_and_says_what_it_did() {
    let how = Preconditioning::default();
    let (drive, done) = done(&spec(0.2), &how);
    assert!(done.settled);
    let rounds = done.write_amplification.len();
    assert!((3..how.most_rounds).contains(&rounds), "{rounds}");
    // Half of the pages a round.
    let pages = u64::from(drive.spec().pages().div_ceil(2));
    assert_eq!(done.pages, rounds as u64 * pages);
    assert_eq!(drive.counters().written_pages, done.pages);
    let recent = &done.write_amplification[rounds - 3..];
    let mean = recent.iter().sum::<f64>() / 3.0;
    let is_settled = |round: &f64| (round / mean - 1.0).abs() <= 0.02;
    assert!(mean > 2.0 && recent.iter().all(is_settled), "{recent:?}");
}

#[test]
fn it_ends_where_nothing_settles() {
    let impossible = with(Preconditioning::default(), |how| {
        (how.tolerance, how.most_rounds) = (0.0, 6);
    });
    let (_, given_up) = done(&spec(0.2), &impossible);
    assert!(!given_up.settled);
    assert_eq!(given_up.write_amplification.len(), 6);
    // A single page never makes a drive clean, however often it is written.
    let little = with(Preconditioning::default(), |how| how.share = 1e-9);
    let (_, little) = done(&spec(0.2), &little);
    assert_eq!((little.settled, little.pages), (false, 40));
}

#[test]
fn its_seed_alone_decides() {
    let seeded = |seed| {
        let how = with(Preconditioning::default(), |how| how.seed = seed);
        let (drive, done) = done(&spec(0.2), &how);
        let pages = 0..drive.spec().pages();
        let homes = pages.map(|page| drive.physical_page(page));
        (done, drive.counters(), homes.collect::<Vec<_>>())
    };
    let (first, again, other) = (seeded(1), seeded(1), seeded(2));
    assert!(first == again);
    assert!(first.2 != other.2);
}

#[test]
fn it_touches_no_page_beyond_its_share() {
    let how = with(Preconditioning::default(), |how| how.share = 0.5);
    let (worked, _) = done(&spec(0.2), &how);
    let untouched = drive(&spec(0.2));
    let pages = worked.spec().pages();
    let moved = |page| worked.physical_page(page) != untouched.physical_page(page);
    assert!((0..pages / 2).filter(|&page| moved(page)).count() > pages as usize / 4);
    // Cold blocks are full, and never worth collecting.
    assert!(!(pages / 2 + 200..pages).any(moved));
}

#[test]
fn it_stops_when_it_may_not_proceed() {
    let mut drive = drive(&spec(0.2));
    let mut questions = 0;
    let mut proceed = || {
        questions += 1;
        questions < 3
    };
    let stopped = precondition(&mut drive, &Preconditioning::default(), &mut proceed);
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(questions, 3);
    drive.audit().expect("tables that agree");
}

#[test]
fn a_drive_that_wears_out_meanwhile_is_an_error() {
    let mut drive = drive(&with(spec(0.1), |spec| spec.endurance = 2));
    let worn = precondition(&mut drive, &Preconditioning::default(), &mut || true);
    assert!(matches!(worn, Err(Error::WornOut { .. })));
    drive.audit().expect("tables that agree");
}

#[test]
fn a_simulation_counts_what_came_after_it() {
    let setup = with(setup(&spec(0.2)), |setup| {
        setup.preconditioning = Some(Preconditioning::default());
    });
    let load = each(1000, |number| write(10_000_000 * number, number, 1));
    let run = simulated(&load, &setup);
    let before = run.preconditioned.expect("it was asked for");
    assert!(before.settled);
    assert_eq!(run.counters.written_pages, 1000);
    let of_rows = run.series.rows.iter().map(|row| row.counters.written_pages);
    assert_eq!(of_rows.sum::<u64>(), 1000);
    assert!(run.counters.erases > 20 && run.counters.erases < 1000);
    let worn = run.elements.iter().map(|element| element.most_block_erases);
    assert!(worn.max() > Some(2)); // erasures of preconditioning are there
}
