//! Made traces: the laws they were drawn from, and that a seed gives them for ever.

use std::collections::{BTreeMap, BTreeSet};

use crate::{all_of, with};
use ioassay_block::make::{Addresses, Arrivals, Recipe, Sizes};
use ioassay_block::{Error, Kind, Request};
use proptest::prelude::*;

fn all(recipe: &Recipe) -> Vec<Request> {
    let source = recipe.source().expect("a recipe that can be");
    all_of(source).expect("making cannot fail")
}

/// So many requests, of a recipe that is usual but for the change.
fn made(requests: u64, change: impl FnOnce(&mut Recipe)) -> Vec<Request> {
    let recipe = with(Recipe::default(), |recipe| recipe.requests = requests);
    all(&with(recipe, change))
}

fn share(requests: &[Request], is: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|request| is(request)).count() as f64 / requests.len() as f64
}

fn moments(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

fn gaps_ns(requests: &[Request]) -> impl Iterator<Item = f64> + '_ {
    let pairs = requests.windows(2);
    pairs.map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64)
}

fn near(seen: f64, wanted: f64, share: f64) {
    let off = (seen / wanted - 1.0).abs();
    assert!(off < share, "seen {seen}, expected {wanted} to {share}");
}

fn fingerprint(requests: &[Request]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for request in requests {
        let range = [request.at_ns, request.offset_bytes, request.length_bytes];
        let rest = [u64::from(request.device), request.kind as u64];
        let fields = [&range[..], &rest].concat();
        for byte in fields.iter().flat_map(|field| field.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    hash
}

fn recipes() -> Vec<Recipe> {
    let usual = with(Recipe::default(), |recipe| {
        (recipe.requests, recipe.reads, recipe.trims) = (3000, 0.3, 0.1);
    });
    let with = |arrivals, addresses, sizes| Recipe { arrivals, addresses, sizes, ..usual.clone() };
    let per_second = 5e3;
    let poisson = Arrivals::Poisson { per_second };
    let uniform = Arrivals::Uniform { per_second };
    let fixed = Arrivals::Fixed { per_second: 3e3 };
    let bursts = Arrivals::Bursts { per_second, length: 8.0, peak_per_second: 1e5 };
    let hot_cold = Addresses::HotCold { accesses: 0.9, space: 0.1 };
    let sequential = Addresses::Sequential { run: 16.0, streams: 4 };
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
    let recipes = recipes();
    let seen = recipes.iter().map(|recipe| fingerprint(&all(recipe)));
    assert!(seen.eq(GOLDEN));
}

#[test]
fn other_arrivals_leave_addresses_sizes_and_kinds_alone() {
    let recipe = recipes().remove(3);
    let other = with(recipe.clone(), |recipe| recipe.arrivals = Arrivals::None);
    let timeless = |recipe: &Recipe| {
        let mut requests = all(recipe);
        for request in &mut requests {
            request.at_ns = 0;
        }
        requests
    };
    assert_eq!(timeless(&recipe), timeless(&other));
    let another_seed = with(recipe.clone(), |recipe| recipe.seed = 2);
    assert_ne!(all(&recipe), all(&another_seed));
}

fn arriving(arrivals: Arrivals) -> Vec<Request> {
    made(200_000, |recipe| recipe.arrivals = arrivals)
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
        let off = (deviation - deviation_ns).abs();
        assert!(off < 500.0, "{law:?}: {deviation}");
    }
    let none = arriving(Arrivals::None);
    assert!(none.iter().all(|request| request.at_ns == 0));
}

#[test]
fn a_rate_that_is_no_whole_number_of_nanoseconds_does_not_drift() {
    let requests = arriving(Arrivals::Fixed { per_second: 3e8 });
    assert_eq!(requests[requests.len() - 1].at_ns, 666_666);
}

#[test]
fn bursts_have_their_length_and_leave_the_rate() {
    let peak_per_second = f64::INFINITY;
    let requests = arriving(Arrivals::Bursts { per_second: 1000.0, length: 5.0, peak_per_second });
    let times: BTreeSet<u64> = requests.iter().map(|request| request.at_ns).collect();
    near(requests.len() as f64 / times.len() as f64, 5.0, 0.02);
    near(moments(gaps_ns(&requests)).0, 1e6, 0.02);
}

#[test]
fn zipf_gives_the_hottest_places_the_share_of_the_exact_law() {
    let zipf = Addresses::Zipf { theta: 0.99 };
    let requests = made(500_000, |recipe| recipe.addresses = zipf);
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
    let (accesses, space) = (0.8, 0.2);
    let requests = made(200_000, |recipe| {
        recipe.addresses = Addresses::HotCold { accesses, space };
        (recipe.reads, recipe.trims) = (0.3, 0.05);
    });
    let hot_bytes = (1 << 30) / 5;
    let hot = share(&requests, |request| request.offset_bytes < hot_bytes);
    near(hot, 0.8, 0.01);
    let of = |kind| share(&requests, |request| request.kind == kind);
    near(of(Kind::Read), 0.3, 0.02);
    near(of(Kind::Trim), 0.05, 0.04);
}

#[test]
fn normal_addresses_have_the_moments_of_a_normal_law_cut_at_three_deviations() {
    let requests = made(200_000, |recipe| recipe.addresses = Addresses::Normal);
    let range = f64::from(1 << 30);
    let (mean, deviation) = moments(requests.iter().map(|request| request.offset_bytes as f64));
    near(mean, range / 2.0, 0.005);
    near(deviation, range / 6.0 * 0.986_58, 0.01);
}

#[test]
fn uniform_addresses_fill_the_range_evenly() {
    let requests = made(160_000, |recipe| recipe.range_bytes = 16 * 4096);
    let mut seen = [0.0; 16];
    for request in &requests {
        seen[(request.offset_bytes / 4096) as usize] += 1.0;
    }
    let chi_square: f64 = seen.iter().map(|n: &f64| (n - 1e4).powi(2) / 1e4).sum();
    assert!(chi_square < 37.7, "15 degrees of freedom, 0.1 %: {seen:?}");
}

#[test]
fn sequential_runs_have_their_mean_length() {
    let breaks = |run| {
        let addresses = Addresses::Sequential { run, streams: 1 };
        let requests = made(100_000, |recipe| recipe.addresses = addresses);
        let follows = |pair: &[Request]| pair[0].end_bytes() == Some(pair[1].offset_bytes);
        requests.windows(2).filter(|pair| !follows(pair)).count()
    };
    near(1e5 / (breaks(20.0) + 1) as f64, 20.0, 0.05);
    assert!(breaks(f64::INFINITY) <= 1);
}

#[test]
fn sizes_have_their_weights_and_their_mean() {
    let sized = |sizes| {
        made(200_000, |recipe| {
            (recipe.sizes, recipe.align_bytes) = (sizes, 512);
        })
    };
    let weighted = sized(Sizes::Weighted(vec![(512, 1.0), (4096, 3.0), (8192, 0.0)]));
    let of_a_page = share(&weighted, |request| request.length_bytes == 4096);
    near(of_a_page, 0.75, 0.01);
    assert!(weighted.iter().all(|request| request.length_bytes < 8192));
    let exponential = sized(Sizes::Exponential { mean_bytes: 3500 });
    let mut lengths = exponential.iter().map(|request| request.length_bytes);
    let (mean, _) = moments(lengths.clone().map(|length| length as f64));
    near(mean, 3500.0, 0.01);
    assert!(lengths.all(|length| length % 512 == 0));
}

type Spoil = Box<dyn Fn(&mut Recipe)>;

#[test]
fn an_option_that_cannot_be_is_named() {
    let (accesses, space, run) = (0.5, 1.0, 1.0);
    let (per_second, length, peak_per_second) = (100.0, 10.0, 50.0);
    let without_streams = Addresses::Sequential { run, streams: 0 };
    let slower_bursts = Arrivals::Bursts { per_second, length, peak_per_second };
    let addresses = |wrong: Addresses| -> Spoil { Box::new(move |recipe| recipe.addresses = wrong) };
    let arrivals = |wrong: Arrivals| -> Spoil { Box::new(move |recipe| recipe.arrivals = wrong) };
    let sizes = |wrong: Sizes| -> Spoil { Box::new(move |recipe| recipe.sizes = wrong.clone()) };
    let hot_everywhere = Addresses::HotCold { accesses, space };
    let more_than_all = Box::new(|recipe: &mut Recipe| (recipe.reads, recipe.trims) = (0.6, 0.5));
    let cases: [(&str, Spoil); 14] = [
        ("range", Box::new(|recipe| recipe.range_bytes = 0)),
        ("range", Box::new(|recipe| recipe.range_bytes = u64::MAX)),
        ("align", Box::new(|recipe| recipe.align_bytes = 0)),
        ("reads", Box::new(|recipe| recipe.reads = f64::NAN)),
        ("trims", more_than_all),
        ("sizes", sizes(Sizes::Fixed(2 << 30))),
        ("sizes", sizes(Sizes::Weighted(vec![(512, 0.0)]))),
        ("sizes", sizes(Sizes::Exponential { mean_bytes: 1 })),
        ("addresses", addresses(Addresses::Zipf { theta: 0.0 })),
        ("addresses", addresses(without_streams)),
        ("addresses", addresses(hot_everywhere)),
        ("arrivals", arrivals(Arrivals::Poisson { per_second: 0.0 })),
        ("arrivals", arrivals(Arrivals::Fixed { per_second: 1e-9 })),
        ("arrivals", arrivals(slower_bursts)),
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
