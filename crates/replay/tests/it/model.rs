//! What is on the disk after a replay, against a model of what the order of the trace says.

use std::collections::BTreeMap;

use ioassay_block::{Kind, Request};
use ioassay_replay::{Ended, Pace, SECTOR, Setup, stamp};
use proptest::prelude::*;

use crate::{BLOCK, Target, replayed, request};

const BLOCKS: u64 = 24;

/// The marks of all sectors after the requests, each done before the next begins.
fn expected(requests: &[Request], seed: u64) -> BTreeMap<u64, [u8; 16]> {
    let mut marks = BTreeMap::new();
    for (number, request) in (1..).zip(requests) {
        let sectors =
            request.offset_bytes / SECTOR as u64..(request.offset_bytes + request.length_bytes) / SECTOR as u64;
        for sector in sectors {
            match request.kind {
                Kind::Write => _ = marks.insert(sector, stamp(seed, number, sector)),
                Kind::Trim => _ = marks.insert(sector, [0; 16]),
                Kind::Read | Kind::Flush => {}
            }
        }
    }
    marks
}

fn compare(target: &Target, requests: &[Request], setup: &Setup) -> Result<(), TestCaseError> {
    let outcome = replayed(requests, setup).unwrap();
    prop_assert_eq!((outcome.ended, outcome.errors, outcome.requests), (Ended::Trace, 0, requests.len() as u64));
    prop_assert!(outcome.most_outstanding <= setup.depth());
    for (sector, mark) in expected(requests, setup.seed) {
        prop_assert_eq!(target.mark(sector), mark, "sector {}", sector);
    }
    Ok(())
}

fn any_request() -> impl Strategy<Value = Request> {
    let kinds =
        prop_oneof![3 => Just(Kind::Write), 2 => Just(Kind::Read), 1 => Just(Kind::Trim), 1 => Just(Kind::Flush)];
    (kinds, 0..BLOCKS, 1..=4_u64).prop_map(|(kind, block, blocks)| match kind {
        Kind::Flush => request(kind, 0, 0, 0),
        _ => request(kind, 0, block, blocks.min(BLOCKS - block)),
    })
}

proptest! {
    #[test]
    fn the_last_write_of_the_trace_wins(
        requests in prop::collection::vec(any_request(), 1..120),
        depth in 1..64_u32,
        direct: bool,
        fixed: bool,
    ) {
        let target = Target::new(BLOCKS);
        let setup = Setup { depth: Some(depth), direct, fixed, ..target.setup(Pace::Fast) };
        compare(&target, &requests, &setup)?;
    }
}

#[test]
fn writes_at_odd_offsets_go_through_the_page_cache() {
    let target = Target::new(4);
    let setup = Setup { direct: false, ..target.setup(Pace::Timed) };
    let write = Request { offset_bytes: 1000, length_bytes: 5, ..request(Kind::Write, 0, 0, 1) };
    assert_eq!(replayed(&[write], &setup).unwrap().write.bytes, 5);
    let content = std::fs::read(target.path()).unwrap();
    assert_eq!((&content[1000..1005], content[1005]), (&stamp(7, 1, 1)[..5], 0));
}

#[test]
fn neither_compression_nor_deduplication_finds_anything_in_what_is_written() {
    let target = Target::new(512);
    let requests: Vec<_> = (0..64).map(|number| request(Kind::Write, 0, 8 * number, 8)).collect();
    replayed(&requests, &target.setup(Pace::Timed)).unwrap();
    let content = std::fs::read(target.path()).unwrap();
    let mut sectors: Vec<_> = content.chunks(SECTOR).collect();
    sectors.sort_unstable();
    sectors.dedup();
    assert_eq!(sectors.len() as u64, 512 * BLOCK / SECTOR as u64);
    let mut bytes = [0_u64; 256];
    for &byte in &content {
        bytes[usize::from(byte)] += 1;
    }
    let mean = content.len() as f64 / 256.0;
    assert!(bytes.iter().all(|&count| (count as f64 - mean).abs() < 6.0 * mean.sqrt()), "{bytes:?}");
}

#[test]
fn data_outstanding_never_overlap_where_memory_is_scarce() {
    let target = Target::new(1024);
    // Three of these fit into the memory, or one of the long ones.
    let requests: Vec<_> =
        (0..60)
            .map(|number| {
                if number % 7 == 0 {
                    request(Kind::Write, 0, 0, 900)
                } else {
                    request(Kind::Write, 0, number * 10, 300)
                }
            })
            .collect();
    compare(&target, &requests, &target.setup(Pace::Fast)).unwrap();
}
