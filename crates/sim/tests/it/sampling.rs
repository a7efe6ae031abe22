//! Hit ratios of sampled buffers, against exact runs of the same buffers.

use crate::loads::{Chance, MEMORY, flush, plain, read, reference, request, write};
use ioassay_block::{Kind, Request};
use ioassay_sim::drive::Spec;
use ioassay_sim::engine::{BufferMode, Destaging, OneThread};
use ioassay_sim::policy::{Layout, Settings};
use ioassay_sim::sampling::{SampledBuffer, SampledHits};
use ioassay_sim::{BufferSpec, Setup, simulate};

const SAMPLED: [&str; 6] = ["fifo", "lru", "clock", "epo", "bplru", "fab"];
const PAGES: u64 = 200_000;

fn spec() -> Spec {
    Spec {
        pages_per_block: 16,
        blocks_per_plane: 512,
        ..reference(8)
    }
}

fn setup(policy: &str, slots: usize) -> Setup {
    let drive = spec();
    let layout = Layout {
        elements: drive.elements,
        pages_per_block: drive.pages_per_block,
        pages: drive.pages(),
    };
    Setup {
        buffer: Some(BufferSpec {
            policy: policy.into(),
            settings: Settings::new(layout, slots),
            mode: BufferMode::Reshape,
            pad_reads: true,
            destaging: Destaging::default(),
        }),
        drive,
        preconditioning: None,
        run: plain(),
        available_bytes: MEMORY,
    }
}

/// Below 1, and smaller numbers more often.
fn skewed(chance: &mut Chance) -> f64 {
    ((chance.next() >> 11) as f64 / (1_u64 << 53) as f64).powi(3)
}

/// Writes and reads of a page that become rarer with the page, now and then a discard; hot pages lie apart.
fn load(seed: u64, count: u64) -> Vec<Request> {
    let mut chance = Chance(seed);
    let one = |at_ns| {
        let page = ((skewed(&mut chance) * PAGES as f64) as u64 * 7919 + seed * 12_347) % PAGES;
        match chance.next() % 50 {
            0 => request(Kind::Trim, at_ns, page, 1),
            1..10 => read(at_ns, page, 1),
            _ => write(at_ns, page, 1),
        }
    };
    (0..count).map(|number| number * 100_000).map(one).collect()
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
    let tally = simulate(&mut &requests[..], setup, &OneThread, &mut || true)
        .unwrap()
        .tally;
    (
        tally.write_hits as f64 / tally.buffered_writes as f64,
        tally.read_hits as f64 / tally.buffered_reads as f64,
    )
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
        assert!(
            (all.read_hit_ratio.unwrap().value - reads).abs() < 1e-12,
            "{policy}"
        );
        assert_eq!((all.hit_ratio.error, all.slots), (Some(0.0), 2000));
        assert!(all.optimum_hit_ratio.value >= writes);
    }
}

#[test]
fn samples_are_near_and_say_how_near() {
    let (mut inside, mut all) = (0, 0);
    for (policy, slots) in SAMPLED
        .into_iter()
        .flat_map(|policy| [(policy, 4000), (policy, 20_000)])
    {
        for seed in 0..2 {
            let requests = load(seed, 60_000);
            let setup = setup(policy, slots);
            let sample = sampled(&requests, &setup, 0.1);
            assert!((0.09..0.11).contains(&sample.rate) && sample.slots == slots / 10);
            assert!(sample.sampled_pages < 100_000);
            let bound = sampled(&requests, &setup, 1.0).optimum_hit_ratio;
            for (estimate, exact) in [
                (sample.hit_ratio, exact(&requests, &setup).0),
                (sample.optimum_hit_ratio, bound.value),
            ] {
                let off = (estimate.value - exact).abs();
                assert!(
                    off < 0.03,
                    "{policy}, {slots}: {}, exact {exact}",
                    estimate.value
                );
                all += 1;
                inside += i32::from(off <= estimate.error.unwrap());
            }
        }
    }
    assert!(
        inside >= all * 9 / 10,
        "{inside} of {all} intervals have the exact ratio"
    );
}

#[test]
fn what_a_sample_does_not_stand_for_is_refused() {
    let refused = |setup: &Setup, rate| match SampledBuffer::new(setup, rate) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a sample of {rate}"),
    };
    let lru = setup("lru", 2000);
    for rate in [0.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
        assert!(refused(&lru, rate).contains("wanted a rate above 0 and at most 1"));
    }
    assert!(refused(&lru, 0.01).contains("sample is 0.01, wanted at least 3.22e-2"));
    assert!(SampledBuffer::new(&lru, 0.0322).is_ok());
    assert!(refused(&setup("bplru", 2000), 0.05).contains("wanted at least 6.43e-2"));
    assert!(refused(&setup("lru", 20), 0.5).contains("wanted 1, which is exact"));
    for policy in ["idle-cold", "epo-all"] {
        assert!(
            refused(&setup(policy, 2000), 0.5).contains("with a sample, wanted one whose hits")
        );
    }
    assert!(refused(&setup("none", 2000), 0.5).contains("wanted a write buffer"));
    let mut inline = lru.clone();
    inline.buffer.as_mut().unwrap().mode = BufferMode::Inline;
    assert!(refused(&inline, 0.5).contains("mode is inline, wanted reshape"));
}
