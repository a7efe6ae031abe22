//! Parsed requests in columns: what is written is read back, and no damage goes unnoticed.

use std::io::Cursor;

use crate::{all_of, each};
use ioassay_block::trace::columns::{ColumnReader, ColumnWriter};
use ioassay_block::{BATCH, Error, Kind, Request, Source};
use proptest::prelude::*;

fn written(requests: &[Request], batch: usize) -> Vec<u8> {
    let mut writer = ColumnWriter::new(Cursor::new(Vec::new()), "csv").unwrap();
    for part in requests.chunks(batch) {
        writer.put(part).unwrap();
    }
    let announced = writer.bytes;
    let bytes = writer.finish().unwrap().into_inner();
    assert!(announced <= bytes.len() as u64);
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<Request>, Error> {
    let reader = ColumnReader::new(bytes)?;
    let announced = reader.head().requests;
    let all = all_of(reader)?;
    assert_eq!(announced, all.len() as u64);
    Ok(all)
}

/// Numbers of all sizes, the largest among them.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64, 0_u32..64).prop_map(|(number, right, left)| (number >> right).rotate_left(left))
}

fn request() -> impl Strategy<Value = Request> {
    (number(), number(), number(), any::<u32>(), 0_usize..4).prop_map(
        |(at_ns, offset_bytes, length_bytes, device, kind)| Request {
            at_ns,
            offset_bytes,
            length_bytes,
            device,
            kind: [Kind::Read, Kind::Write, Kind::Trim, Kind::Flush][kind],
        },
    )
}

/// As traces are: times that grow by microseconds, pages, few sizes.
fn ordinary(count: u64) -> Vec<Request> {
    each(count, |number| Request {
        at_ns: 7 + number * number % 97 * 1000 + number * 100_000,
        offset_bytes: number.wrapping_mul(0x9e37_79b9) % (1 << 22) * 4096,
        length_bytes: 512 << (number % 8),
        device: 3,
        kind: Kind::Write,
    })
}

proptest! {
    #[test]
    fn requests_of_any_kind_are_read_back(
        requests in proptest::collection::vec(request(), 0..200),
        batch in 1_usize..300,
    ) {
        prop_assert_eq!(read(&written(&requests, batch)).unwrap(), requests);
    }

    #[test]
    fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), change in 1_u8..) {
        let mut bytes = written(&ordinary(3000), BATCH);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(read(&bytes).is_err(), "byte {at}");
    }

    #[test]
    fn a_missing_end_is_noticed(at in any::<prop::sample::Index>()) {
        let bytes = written(&ordinary(3000), BATCH);
        prop_assert!(read(&bytes[..at.index(bytes.len())]).is_err());
    }
}

#[test]
fn many_blocks_are_read_back_in_few_bytes() {
    let requests = ordinary(10 * BATCH as u64 + 17);
    let bytes = written(&requests, 1000);
    assert_eq!(read(&bytes).unwrap(), requests);
    assert!(bytes.len() < 6 * requests.len(), "{} bytes", bytes.len());
}

#[test]
fn blocks_that_changed_places_are_noticed() {
    let one_block = [ordinary(BATCH as u64), ordinary(BATCH as u64)].concat();
    let mut bytes = written(&one_block, BATCH);
    let length = (bytes.len() - 72) / 2;
    assert_eq!(bytes.len(), 72 + 2 * length);
    // Blocks of the same requests differ in nothing but their checksums.
    let (first, second) = bytes[72..].split_at_mut(length);
    assert_eq!(first[16..], second[16..]);
    first.swap_with_slice(second);
    assert!(read(&bytes).is_err());
}

#[test]
fn kinds_are_known_before_they_are_read() {
    let mut requests = ordinary(5);
    let only_writes = |requests: &[Request]| {
        let bytes = written(requests, 5);
        let reader = ColumnReader::new(&bytes[..]).unwrap();
        reader.only_writes()
    };
    assert!(only_writes(&requests));
    requests[2].kind = Kind::Flush;
    assert!(!only_writes(&requests));
}

#[test]
fn an_unfinished_file_is_no_file() {
    let mut output = Cursor::new(Vec::new());
    let mut writer = ColumnWriter::new(&mut output, "csv").unwrap();
    writer.put(&ordinary(5000)).unwrap();
    drop(writer);
    assert!(read(output.get_ref()).is_err());
    assert!(read(&[]).is_err());
}
