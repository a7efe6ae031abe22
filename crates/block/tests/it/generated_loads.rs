//! Made traces: the laws they were drawn from, and that a seed gives them for ever.

use std::collections::BTreeMap;

use ioassay_block::make::{Addresses, Arrivals, Recipe, Sizes};
use ioassay_block::{Error, Kind, Request, Source};
use proptest::prelude::*;

fn all(recipe: &Recipe) -> Vec<Request> {
    let mut source = recipe.source().expect("a recipe that can be");
    let (mut requests, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch).expect("making cannot fail");
        if batch.is_empty() {
            return requests;
        }
        requests.extend_from_slice(&batch);
    }
}

fn share(requests: &[Request], is: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|request| is(request)).count() as f64 / requests.len() as f64
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

fn gaps_ns(requests: &[Request]) -> impl Iterator<Item = f64> + '_ {
    requests
        .windows(2)
        .map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64)
}

fn near(seen: f64, wanted: f64, share: f64) {
    assert!(
        (seen / wanted - 1.0).abs() < share,
        "seen {seen}, wanted {wanted} to {share}"
    );
}

/// FNV-1a over all fields.
fn fingerprint(requests: &[Request]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for request in requests {
        let fields = [
            request.at_ns,
            request.offset_bytes,
            request.length_bytes,
            u64::from(request.device),
            request.kind as u64,
        ];
        for byte in fields.iter().flat_map(|field| field.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    hash
}

/// One of each law.
fn recipes() -> Vec<Recipe> {
    let usual = Recipe {
        requests: 3000,
        reads: 0.3,
        trims: 0.1,
        ..Recipe::default()
    };
    let with = |arrivals, addresses, sizes| Recipe {
        arrivals,
        addresses,
        sizes,
        ..usual.clone()
    };
    let per_second = 5e3;
    let poisson = Arrivals::Poisson { per_second };
    let uniform = Arrivals::Uniform { per_second };
    let fixed = Arrivals::Fixed { per_second: 3e3 };
    let bursts = Arrivals::Bursts {
        per_second,
        length: 8.0,
        peak_per_second: 1e5,
    };
    let hot_cold = Addresses::HotCold {
        accesses: 0.9,
        space: 0.1,
    };
    let sequential = Addresses::Sequential {
        run: 16.0,
        streams: 4,
    };
    let weighted = Sizes::Weighted(vec![(512, 1.0), (4096, 2.5), (65536, 0.5)]);
    let exponential = Sizes::Exponential { mean_bytes: 6000 };
    let four = Sizes::Fixed(4096);
    vec![
        with(poisson, Addresses::Uniform, four.clone()),
        with(uniform, Addresses::Normal, four.clone()),
        with(fixed, Addresses::Zipf { theta: 0.99 }, weighted),
        with(bursts, hot_cold, exponential),
        with(Arrivals::None, sequential, four),
    ]
}

/// Never change these: traces that were made are remade from their seeds.
const GOLDEN: [u64; 5] = [
    3_380_228_336_565_957_214,
    227_619_046_378_769_318,
    1_680_148_938_386_323_674,
    6_137_768_392_931_752_017,
    5_977_558_190_065_976_385,
];

#[test]
fn a_seed_gives_the_same_trace_for_ever() {
    let seen: Vec<u64> = recipes()
        .iter()
        .map(|recipe| fingerprint(&all(recipe)))
        .collect();
    assert_eq!(seen, GOLDEN);
}

#[test]
fn other_arrivals_leave_addresses_sizes_and_kinds_alone() {
    let recipe = recipes().remove(3);
    let other = Recipe {
        arrivals: Arrivals::None,
        ..recipe.clone()
    };
    let timeless = |recipe: &Recipe| {
        let mut requests = all(recipe);
        for request in &mut requests {
            request.at_ns = 0;
        }
        requests
    };
    assert_eq!(timeless(&recipe), timeless(&other));
    let another_seed = Recipe {
        seed: 2,
        ..recipe.clone()
    };
    assert_ne!(all(&recipe), all(&another_seed));
}

fn arriving(arrivals: Arrivals) -> Vec<Request> {
    all(&Recipe {
        requests: 200_000,
        arrivals,
        ..Recipe::default()
    })
}

#[test]
fn gaps_have_the_mean_and_the_deviation_of_their_law() {
    let per_second = 20_000.0;
    let laws = [
        (Arrivals::Fixed { per_second }, 0.0),
        (Arrivals::Uniform { per_second }, 50_000.0 / 3_f64.sqrt()),
        (Arrivals::Poisson { per_second }, 50_000.0),
    ];
    for (law, deviation_ns) in laws {
        let (mean, deviation) = moments(gaps_ns(&arriving(law)));
        near(mean, 50_000.0, 0.01);
        assert!(
            (deviation - deviation_ns).abs() < 500.0,
            "{law:?}: {deviation}"
        );
    }
    let none = arriving(Arrivals::None);
    assert!(none.iter().all(|request| request.at_ns == 0));
}

#[test]
fn a_rate_that_is_no_whole_number_of_nanoseconds_does_not_drift() {
    let last = arriving(Arrivals::Fixed { per_second: 3e8 })
        .last()
        .map(|last| last.at_ns);
    assert_eq!(last, Some(666_666));
}

#[test]
fn bursts_have_their_length_and_leave_the_rate() {
    let peak_per_second = f64::INFINITY;
    let requests = arriving(Arrivals::Bursts {
        per_second: 1000.0,
        length: 5.0,
        peak_per_second,
    });
    let times: BTreeMap<u64, u64> = requests.iter().fold(BTreeMap::new(), |mut times, request| {
        *times.entry(request.at_ns).or_default() += 1;
        times
    });
    near(requests.len() as f64 / times.len() as f64, 5.0, 0.02);
    near(moments(gaps_ns(&requests)).0, 1e6, 0.02);
}

#[test]
fn zipf_gives_the_hottest_places_the_share_of_the_exact_law() {
    let requests = all(&Recipe {
        requests: 500_000,
        addresses: Addresses::Zipf { theta: 0.99 },
        ..Recipe::default()
    });
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for request in &requests {
        *counts.entry(request.offset_bytes).or_default() += 1;
    }
    let mut hottest: Vec<u64> = counts.into_values().collect();
    hottest.sort_unstable_by(|left, right| right.cmp(left));
    let sum: f64 = (1..=262_144).map(|k| f64::from(k).powf(-0.99)).sum();
    for places in [1, 10, 100] {
        let seen = hottest[..places as usize].iter().sum::<u64>() as f64 / 5e5;
        let wanted: f64 = (1..=places).map(|k| f64::from(k).powf(-0.99) / sum).sum();
        near(seen, wanted, 0.02);
    }
}

#[test]
fn hot_and_cold_have_their_shares_and_kinds_theirs() {
    let requests = all(&Recipe {
        requests: 200_000,
        addresses: Addresses::HotCold {
            accesses: 0.8,
            space: 0.2,
        },
        reads: 0.3,
        trims: 0.05,
        ..Recipe::default()
    });
    let hot_bytes = (1 << 30) / 5;
    near(
        share(&requests, |request| request.offset_bytes < hot_bytes),
        0.8,
        0.01,
    );
    near(
        share(&requests, |request| request.kind == Kind::Read),
        0.3,
        0.02,
    );
    near(
        share(&requests, |request| request.kind == Kind::Trim),
        0.05,
        0.04,
    );
}

#[test]
fn normal_addresses_have_the_moments_of_a_normal_law_cut_at_three_deviations() {
    let requests = all(&Recipe {
        requests: 200_000,
        addresses: Addresses::Normal,
        ..Recipe::default()
    });
    let range = f64::from(1 << 30);
    let (mean, deviation) = moments(requests.iter().map(|request| request.offset_bytes as f64));
    near(mean, range / 2.0, 0.005);
    near(deviation, range / 6.0 * 0.986_58, 0.01);
}

#[test]
fn uniform_addresses_fill_the_range_evenly() {
    let requests = all(&Recipe {
        requests: 160_000,
        range_bytes: 16 * 4096,
        ..Recipe::default()
    });
    let mut seen = [0.0; 16];
    for request in &requests {
        seen[(request.offset_bytes / 4096) as usize] += 1.0;
    }
    let chi_square: f64 = seen.iter().map(|n: &f64| (n - 1e4).powi(2) / 1e4).sum();
    assert!(chi_square < 37.7, "15 degrees of freedom, 0.1 %: {seen:?}");
}

#[test]
fn sequential_runs_have_their_mean_length() {
    let run = 20.0;
    let recipe = |run, streams| Recipe {
        requests: 100_000,
        addresses: Addresses::Sequential { run, streams },
        ..Recipe::default()
    };
    let requests = all(&recipe(run, 1));
    let breaks = requests
        .windows(2)
        .filter(|pair| pair[0].end_bytes() != Some(pair[1].offset_bytes));
    near(1e5 / (breaks.count() + 1) as f64, run, 0.05);
    let endless = all(&recipe(f64::INFINITY, 1));
    let follows = |pair: &&[Request]| pair[0].end_bytes() == Some(pair[1].offset_bytes);
    assert!(endless.windows(2).filter(|pair| !follows(pair)).count() <= 1);
}

#[test]
fn sizes_have_their_weights_and_their_mean() {
    let sized = |sizes| {
        all(&Recipe {
            requests: 200_000,
            sizes,
            align_bytes: 512,
            ..Recipe::default()
        })
    };
    let weighted = sized(Sizes::Weighted(vec![(512, 1.0), (4096, 3.0), (8192, 0.0)]));
    near(
        share(&weighted, |request| request.length_bytes == 4096),
        0.75,
        0.01,
    );
    assert!(weighted.iter().all(|request| request.length_bytes < 8192));
    let exponential = sized(Sizes::Exponential { mean_bytes: 3500 });
    near(
        moments(
            exponential
                .iter()
                .map(|request| request.length_bytes as f64),
        )
        .0,
        3500.0,
        0.01,
    );
    assert!(
        exponential
            .iter()
            .all(|request| request.length_bytes % 512 == 0)
    );
}

#[test]
fn an_option_that_cannot_be_is_named() {
    type Spoil = fn(&mut Recipe);
    let cases: [(&str, Spoil); 14] = [
        ("range", |recipe| recipe.range_bytes = 0),
        ("range", |recipe| recipe.range_bytes = u64::MAX),
        ("align", |recipe| recipe.align_bytes = 0),
        ("reads", |recipe| recipe.reads = f64::NAN),
        ("trims", |recipe| (recipe.reads, recipe.trims) = (0.6, 0.5)),
        ("sizes", |recipe| recipe.sizes = Sizes::Fixed(2 << 30)),
        ("sizes", |recipe| {
            recipe.sizes = Sizes::Weighted(vec![(512, 0.0)]);
        }),
        ("sizes", |recipe| {
            recipe.sizes = Sizes::Exponential { mean_bytes: 1 }
        }),
        ("addresses", |recipe| {
            recipe.addresses = Addresses::Zipf { theta: 0.0 }
        }),
        ("addresses", |recipe| {
            recipe.addresses = Addresses::Sequential {
                run: 1.0,
                streams: 0,
            };
        }),
        ("addresses", |recipe| {
            recipe.addresses = Addresses::HotCold {
                accesses: 0.5,
                space: 1.0,
            };
        }),
        ("arrivals", |recipe| {
            recipe.arrivals = Arrivals::Poisson { per_second: 0.0 }
        }),
        ("arrivals", |recipe| {
            recipe.arrivals = Arrivals::Fixed { per_second: 1e-9 }
        }),
        ("arrivals", |recipe| {
            recipe.arrivals = Arrivals::Bursts {
                per_second: 100.0,
                length: 10.0,
                peak_per_second: 50.0,
            };
        }),
    ];
    for (wanted, spoil) in cases {
        let mut recipe = Recipe::default();
        spoil(&mut recipe);
        match recipe.source().err() {
            Some(Error::Option { name, .. }) => assert_eq!(name, wanted, "{recipe:?}"),
            other => panic!("{recipe:?}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn requests_lie_in_the_range_aligned_and_in_order_of_time(
        which in 0..5_usize,
        range_bytes in 65_536_u64..10_000_000,
        align_bytes in 1_u64..65_536,
        seed: u64,
    ) {
        let recipe = recipes().remove(which);
        let requests = all(&Recipe { requests: 500, range_bytes, align_bytes, seed, ..recipe });
        prop_assert_eq!(requests.len(), 500);
        prop_assert!(requests.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        for request in requests {
            prop_assert!(request.end_bytes().is_some_and(|end| end <= range_bytes));
            prop_assert!(request.length_bytes > 0);
            prop_assert_eq!(request.offset_bytes % align_bytes, 0);
        }
    }
}
