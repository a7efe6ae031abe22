//! Compressed traces, whole, in pieces, and broken off.

use std::io::{Cursor, Read, Write as _};

use flate2::{Compression, write::GzEncoder};
use std::sync::Arc;

use ioassay_block::Error;
use ioassay_block::container::{Files, Input};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn read(bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    let input = Input { name: String::new(), open: Arc::new(move || Ok(Box::new(Cursor::new(bytes.clone())))) };
    let mut all = Vec::new();
    Files::of(vec![input]).next_file()?.expect("a file").content.read_to_end(&mut all)?;
    Ok(all)
}

fn text(lines: u32) -> Vec<u8> {
    let lines = (0..lines).map(|line| format!("{line}.5 0 8 16 1\n"));
    lines.collect::<String>().into_bytes()
}

#[test]
fn what_is_not_compressed_stays_as_it_is() {
    for bytes in [vec![], vec![0x1f], vec![0x28, 0xb5, 0x2f], text(3)] {
        assert_eq!(read(bytes.clone()).unwrap(), bytes);
    }
}

#[test]
fn gzip_and_zstd_are_told_by_their_first_bytes() {
    let whole = text(50_000);
    let (one, other) = whole.split_at(333_333);
    assert_eq!(read(gzip(&whole)).unwrap(), whole);
    assert_eq!(read(zstd(&whole)).unwrap(), whole);
    assert_eq!(read([gzip(one), gzip(other)].concat()).unwrap(), whole);
    assert_eq!(read([zstd(one), zstd(other)].concat()).unwrap(), whole);
}

#[test]
fn a_compressed_trace_that_breaks_off_says_so() {
    for (compressed, name) in [(gzip(&text(9000)), "gzip"), (zstd(&text(9000)), "zstd")] {
        for length in [5, compressed.len() / 2, compressed.len() - 1] {
            let error = read(compressed[..length].to_vec()).unwrap_err().to_string();
            let wanted = format!("the {name} stream breaks off");
            assert!(error.starts_with(&wanted), "{length}: {error}");
        }
    }
}

#[test]
fn a_damaged_trace_is_refused_where_it_has_a_checksum() {
    let mut damaged = gzip(&text(9000));
    let middle = damaged.len() / 2;
    damaged[middle..middle + 40].fill(0xff);
    assert!(read(damaged).is_err());
}
