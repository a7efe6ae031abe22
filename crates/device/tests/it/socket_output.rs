//! What a socket gets, however little it takes at a time, and while the content changes.

use std::io::{self, ErrorKind, IoSlice, Write};

use ioassay_device::transport::socket::Output;
use proptest::prelude::*;

use crate::drives::is_all;
use crate::memory_drive::Memory;

const PAGE_BYTES: usize = 4096;

fn drive(pages: usize) -> Memory {
    Memory::new((pages * PAGE_BYTES) as u64, 512)
}

/// Takes this much, and then no more.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for slice in slices {
            let length = slice.len().min(self.1);
            self.0.extend_from_slice(&slice[..length]);
            self.1 -= length;
            taken += length;
        }
        if taken == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_full_socket_does_not_take_is_sent_later() {
    let drive = drive(1);
    let mut output = Output::default();
    output.bytes.extend(0..100u8);
    let mut socket = Full(Vec::new(), 70);
    assert!(!output.send(&mut socket, &drive).unwrap());
    assert_eq!((output.left(), output.kept()), (30, 30));
    output.bytes.extend(100..110u8);
    socket.1 = 1000;
    assert!(output.send(&mut socket, &drive).unwrap());
    assert_eq!(socket.0, (0..110).collect::<Vec<u8>>());
}

#[test]
fn a_page_that_was_begun_ends_as_it_began_and_those_behind_it_are_as_they_are_then() {
    const LENGTH: usize = 3 * PAGE_BYTES;
    for taken in [1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, LENGTH - 1, LENGTH + 3] {
        let mut drive = drive(5);
        let mut output = Output::default();
        output.content((512, LENGTH as u64), true, &drive);
        let mut socket = Full(Vec::new(), taken);
        assert!(!output.send(&mut socket, &drive).unwrap());
        assert!(output.kept() < PAGE_BYTES);
        drive.bytes.fill(1);
        socket.1 = usize::MAX;
        assert!(output.send(&mut socket, &drive).unwrap());
        let (content, digest) = socket.0.split_at(LENGTH);
        // It begins in the middle of a page.
        let old = ((taken.min(LENGTH) + 512).next_multiple_of(PAGE_BYTES) - 512).min(LENGTH);
        assert!(is_all(&content[..old], 0) && is_all(&content[old..], 1), "{taken}");
        assert_eq!(digest, crc32c::crc32c(content).to_le_bytes());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Bytes(usize),
    Content(usize, usize, bool),
    Send(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let within = (0..40 * 1024usize, 1..12_000usize, any::<bool>());
    prop_oneof![
        (0..300usize).prop_map(Step::Bytes),
        within.prop_map(|(from, length, digest)| Step::Content(from, length, digest)),
        (0..30_000usize).prop_map(Step::Send),
    ]
}

proptest! {
    #[test]
    fn all_arrives_in_order_whatever_the_socket_takes(
        steps in prop::collection::vec(step(), 0..200)
    ) {
        let mut drive = drive(16);
        for (at, byte) in drive.bytes.iter_mut().enumerate() {
            *byte = (at * 7 + at / 251) as u8;
        }
        let (mut output, mut socket, mut wanted) = (Output::default(), Full(Vec::new(), 0), Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Bytes(length) => {
                    output.bytes.resize(output.bytes.len() + length, number as u8);
                    wanted.resize(wanted.len() + length, number as u8);
                }
                Step::Content(from, length, digest) => {
                    output.content((from as u64, length as u64), digest, &drive);
                    let content = &drive.bytes[from..from + length];
                    wanted.extend_from_slice(content);
                    if digest {
                        wanted.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
                    }
                }
                Step::Send(takes) => {
                    socket.1 = takes;
                    let all = output.send(&mut socket, &drive).unwrap();
                    prop_assert_eq!(all, output.left() == 0);
                }
            }
            prop_assert_eq!(socket.0.len() + output.left(), wanted.len());
        }
        socket.1 = usize::MAX;
        prop_assert!(output.send(&mut socket, &drive).unwrap());
        prop_assert!(socket.0 == wanted);
        prop_assert_eq!((output.left(), output.kept()), (0, 0));
    }
}
