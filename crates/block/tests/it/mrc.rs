//! Miss ratio curves against a plain list of pages, and samples against exact ones.

use crate::each;
use ioassay_block::mrc::{Curve, Mrc, References, Sampling};
use ioassay_block::{Error, Kind, Request, SplitMix64};
use proptest::prelude::*;

fn request(kind: Kind, page: u64, pages: u64, device: u32) -> Request {
    Request { device, kind, ..crate::write(0, page * 4096, pages * 4096) }
}

fn curve(requests: &[Request], of: References, sampling: Sampling) -> Curve {
    let mut mrc = Mrc::new(4096, of, sampling).unwrap();
    for batch in requests.chunks(7) {
        mrc.take(batch).unwrap();
    }
    mrc.finish()
}

/// The hits of an LRU list that is as simple as can be.
fn plain_misses(requests: &[Request], of: &[Kind], size: usize) -> f64 {
    let (mut list, mut misses, mut references): (Vec<(u64, u32)>, _, _) = (Vec::new(), 0, 0);
    for request in requests {
        if !of.contains(&request.kind) {
            continue;
        }
        let first = request.offset_bytes / 4096;
        for page in first..first + request.length_bytes / 4096 {
            references += 1;
            let place = (page, request.device);
            match list.iter().position(|&known| known == place) {
                Some(at) => drop(list.remove(at)),
                None => misses += 1,
            }
            list.insert(0, place);
            list.truncate(size);
        }
    }
    if references == 0 {
        return 1.0;
    }
    f64::from(misses) / f64::from(references)
}

proptest! {
    #[test]
    fn exact_curves_are_those_of_lists(
        load in proptest::collection::vec((0_usize..4, 0_u64..60, 1_u64..5, 0_u32..2), 0..400),
    ) {
        let kinds = [Kind::Read, Kind::Write, Kind::Trim, Kind::Flush];
        let load: Vec<Request> = load.into_iter()
            .map(|(kind, page, pages, device)| request(kinds[kind], page, pages, device)).collect();
        let sizes: Vec<u64> = (0..140).collect();
        for (of, kinds) in [
            (References::Reads, &kinds[..1]), (References::Writes, &kinds[1..2]), (References::Both, &kinds[..2]),
        ] {
            let ratios = curve(&load, of, Sampling::Exact).miss_ratios(&sizes);
            for (&size, (ratio, error)) in sizes.iter().zip(ratios) {
                prop_assert!((ratio - plain_misses(&load, kinds, size as usize)).abs() < 1e-12, "{size} pages");
                prop_assert_eq!(error, None);
            }
        }
    }
}

/// References that become rarer with the page, to 200,000 pages.
fn skewed(seed: u64, count: u64) -> Vec<Request> {
    let mut chance = SplitMix64(seed);
    each(count, |_| {
        let share = (chance.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let page = (share.powi(3) * 200_000.0) as u64;
        request(Kind::Write, page * 8, 1, 0)
    })
}

const SIZES: [u64; 8] = [100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000];

#[test]
fn times_are_counted_again_without_a_trace() {
    // Few pages and many references: the tree is full many times.
    let load = each(100_000, |number| request(Kind::Write, number % 10, 1, 0));
    let ratios = curve(&load, References::Writes, Sampling::Exact).miss_ratios(&[9, 10]);
    assert!((ratios[0].0 - 1.0).abs() < 1e-12);
    assert!((ratios[1].0 - 1e-4).abs() < 1e-12);
}

#[test]
fn a_rate_of_one_is_exact() {
    let load = skewed(1, 30_000);
    let exact = curve(&load, References::Both, Sampling::Exact).miss_ratios(&SIZES);
    let all = curve(&load, References::Both, Sampling::Rate(1.0)).miss_ratios(&SIZES);
    for ((exact, _), (all, _)) in exact.iter().zip(all) {
        assert!((exact - all).abs() < 1e-9);
    }
}

#[test]
fn samples_are_near_and_say_how_near() {
    let (mut inside, mut all) = (0, 0);
    for seed in 0..2 {
        let load = skewed(seed, 300_000);
        let exact = curve(&load, References::Both, Sampling::Exact).miss_ratios(&SIZES);
        for sampling in [Sampling::Rate(0.05), Sampling::Pages(4_000)] {
            let sample = curve(&load, References::Both, sampling);
            assert!(sample.sampled < load.len() as u64 / 5);
            for ((exact, _), (ratio, error)) in exact.iter().zip(sample.miss_ratios(&SIZES)) {
                let off = (exact - ratio).abs();
                assert!(off < 0.05, "{sampling:?}: {ratio}, exact {exact}");
                all += 1;
                inside += i32::from(off <= error.unwrap());
            }
        }
    }
    // Intervals have the exact ratio.
    assert!(inside >= all * 8 / 10, "{inside} of {all}");
}

#[test]
fn a_sample_of_fixed_size_keeps_to_it() {
    let load = skewed(9, 300_000);
    let sample = curve(&load, References::Both, Sampling::Pages(100));
    assert!(sample.rate < 0.01);
    let off = (sample.pages / 150_000.0 - 1.0).abs();
    assert!(off < 0.5, "{} pages", sample.pages);
}

#[test]
fn nothing_has_a_curve_too() {
    let empty = curve(&[], References::Both, Sampling::Rate(0.1));
    assert_eq!(empty.references, 0);
    assert!((empty.miss_ratios(&[1, 2])[1].0 - 1.0).abs() < 1e-12);
}

#[test]
fn options_that_cannot_be_are_refused() {
    let refused = |page, sampling| {
        let mrc = Mrc::new(page, References::Both, sampling);
        matches!(mrc, Err(Error::Option { .. }))
    };
    assert!(refused(0, Sampling::Exact));
    for rate in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(refused(4096, Sampling::Rate(rate)));
    }
    assert!(refused(4096, Sampling::Pages(10)));
    assert!(References::named("all").is_err());
}
