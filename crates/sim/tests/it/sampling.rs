//! Hit ratios of sampled buffers, against exact runs of the same buffers.

use crate::loads::{self, Chance, buffer_spec, each, flush, plain, read};
use crate::loads::{reference, request, simulated, with, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::Setup;
use ioassay_sim::engine::BufferMode;
use ioassay_sim::sampling::{SampledBuffer, SampledHits};

const SAMPLED: [&str; 6] = ["fifo", "lru", "clock", "epo", "bplru", "fab"];
const PAGES: u64 = 200_000;

fn setup(policy: &str, slots: usize) -> Setup {
    let drive = with(reference(8), |spec| {
        (spec.pages_per_block, spec.blocks_per_plane) = (16, 512);
    });
    let buffer = buffer_spec(&drive, policy, slots, BufferMode::Reshape);
    with(loads::setup(&drive), |setup| {
        (setup.buffer, setup.run) = (Some(buffer), plain());
    })
}

/// Below 1, and smaller numbers more often.
fn skewed(chance: &mut Chance) -> f64 {
    ((chance.next() >> 11) as f64 / (1_u64 << 53) as f64).powi(3)
}

/// Writes and reads of a page that become rarer with the page, now and then a discard; hot pages lie apart.
fn load(seed: u64, count: u64) -> Vec<Request> {
    let mut chance = Chance(seed);
    each(count, |number| {
        let at_ns = number * 100_000;
        let page = ((skewed(&mut chance) * PAGES as f64) as u64 * 7919 + seed * 12_347) % PAGES;
        match chance.next() % 50 {
            0 => request(Kind::Trim, at_ns, page, 1),
            1..10 => read(at_ns, page, 1),
            _ => write(at_ns, page, 1),
        }
    })
}

fn sampled(requests: &[Request], setup: &Setup, rate: f64) -> SampledHits {
    let mut buffer = SampledBuffer::new(setup, rate).unwrap();
    for batch in requests.chunks(1000) {
        buffer.take(batch).unwrap();
    }
    buffer.finish()
}

/// Write and read hits of all pages, by the simulation.
fn exact(requests: &[Request], setup: &Setup) -> (f64, f64) {
    let tally = simulated(requests, setup).tally;
    let ratio = |hits: u64, all: u64| hits as f64 / all as f64;
    let reads = ratio(tally.read_hits, tally.buffered_reads);
    (ratio(tally.write_hits, tally.buffered_writes), reads)
}

#[test]
fn a_rate_of_one_is_the_simulation() {
    let mut requests = load(1, 30_000);
    requests.insert(20_000, flush(requests[20_000].at_ns));
    for policy in SAMPLED {
        let setup = setup(policy, 2000);
        let all = sampled(&requests, &setup, 1.0);
        let (writes, reads) = exact(&requests, &setup);
        assert!((all.hit_ratio.value - writes).abs() < 1e-12, "{policy}");
        let of_reads = all.read_hit_ratio.unwrap().value;
        assert!((of_reads - reads).abs() < 1e-12, "{policy}");
        assert_eq!((all.hit_ratio.error, all.slots), (Some(0.0), 2000));
        assert!(all.optimum_hit_ratio.value >= writes);
    }
}

#[test]
fn samples_are_near_and_say_how_near() {
    let (mut inside, mut all) = (0, 0);
    for policy in SAMPLED {
        for (slots, seed) in [(4000, 0), (4000, 1), (20_000, 0), (20_000, 1)] {
            let requests = load(seed, 60_000);
            let setup = setup(policy, slots);
            let sample = sampled(&requests, &setup, 0.1);
            assert!((0.09..0.11).contains(&sample.rate) && sample.slots == slots / 10);
            assert!(sample.sampled_pages < 100_000);
            let bound = sampled(&requests, &setup, 1.0).optimum_hit_ratio;
            for (estimate, exact) in
                [(sample.hit_ratio, exact(&requests, &setup).0), (sample.optimum_hit_ratio, bound.value)]
            {
                let off = (estimate.value - exact).abs();
                assert!(off < 0.03, "{policy}, {slots}: {off} from {exact}");
                all += 1;
                inside += i32::from(off <= estimate.error.unwrap());
            }
        }
    }
    // Intervals have the exact ratio.
    assert!(inside >= all * 9 / 10, "{inside} of {all}");
}

#[test]
fn what_a_sample_does_not_stand_for_is_refused() {
    let refused = |setup: &Setup, rate| match SampledBuffer::new(setup, rate) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a sample of {rate}"),
    };
    let lru = setup("lru", 2000);
    for rate in [0.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
        assert!(refused(&lru, rate).contains("expected a rate above 0 and at most 1"));
    }
    assert!(refused(&lru, 0.01).contains("sample is 0.01, expected at least 3.22e-2"));
    assert!(SampledBuffer::new(&lru, 0.0322).is_ok());
    assert!(refused(&setup("bplru", 2000), 0.05).contains("expected at least 6.43e-2"));
    assert!(refused(&setup("lru", 20), 0.5).contains("expected 1, which is exact"));
    for policy in ["idle-cold", "epo-all"] {
        let said = refused(&setup(policy, 2000), 0.5);
        assert!(said.contains("with a sample, expected one whose hits"));
    }
    assert!(refused(&setup("none", 2000), 0.5).contains("expected a write buffer"));
    let mut inline = lru.clone();
    inline.buffer.as_mut().unwrap().mode = BufferMode::Inline;
    assert!(refused(&inline, 0.5).contains("mode is inline, expected reshape"));
}
