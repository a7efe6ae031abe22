//! Clients of vfio-user that send what they must not through real sockets, or take their memory away.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use crate::memory_drive::Served;
use crate::vfio_user::served;
use ioassay_device::client::nvme::Entry;
use ioassay_device::client::vfio_user::{Channel, Settings, connect, mapping};
use ioassay_device::client::{Initiator, Request};

const FLUSH: Request<'_> = Request::Flush;

/// Somebody who behaves is served.
fn serves(served: &Served) {
    let (_admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    queue.call(FLUSH).unwrap();
}

/// Waits until the drive closes the connection.
fn is_left(channel: &Channel) -> bool {
    let ended = (&channel.stream).read_to_end(&mut Vec::new());
    ended.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true)
}

fn header(command: u16, bytes: u32, flags: u32) -> Vec<u8> {
    [u32::from(command) << 16, bytes, flags, 0].map(u32::to_le_bytes).concat()
}

#[test]
fn whoever_does_not_speak_the_protocol_is_left_and_the_next_is_served() {
    let served = served(512);
    for bytes in [
        vec![0; 64],
        vec![0xff; 64],
        header(1, 15, 0),
        header(1, 1 << 20, 0),
        header(1, u32::MAX, 0),
        [header(1, 20, 1), vec![0, 0, 1, 0]].concat(), // a reply
        [header(1, 20, 0), vec![1, 0, 0, 0]].concat(), // version 1.0
        header(4, 16, 0),                              // no version at all
    ] {
        let channel = Channel::connect_silently(served.address.as_ref()).unwrap();
        channel.send(&bytes, &[]).unwrap();
        assert!(is_left(&channel), "{bytes:?}");
        serves(&served);
    }
}

#[test]
fn a_message_may_come_in_pieces_and_one_that_ends_early_ends_its_client() {
    let served = served(512);
    let message = [header(1, 20, 0), vec![0, 0, 1, 0]].concat();
    let mut channel = Channel::connect_silently(served.address.as_ref()).unwrap();
    for byte in &message {
        channel.send(std::slice::from_ref(byte), &[]).unwrap();
    }
    assert!(channel.receive().unwrap().0.starts_with(&[0, 0, 1, 0]));
    channel.send(&header(9, 32, 0), &[]).unwrap();
    drop(channel);
    serves(&served);
}

#[test]
fn a_client_that_comes_after_another_left_is_served() {
    let served = served(512);
    for _ in 0..2000 {
        let channel = Channel::connect(served.address.as_ref()).unwrap();
        channel.send(&header(9, 32, 0), &[]).unwrap();
    }
}

#[test]
fn requests_that_cannot_be_are_refused_and_the_client_goes_on() {
    let served = served(512);
    let mut channel = Channel::connect(served.address.as_ref()).unwrap();
    for command in 0..40u16 {
        for bytes in [0usize, 4, 15, 31] {
            // Information, and resets, are for all.
            let may_do = command == 13 || matches!(command, 4 | 7) && bytes >= 16;
            let done = channel.request(command, &vec![0; bytes], &[]);
            assert!(done.is_err() || may_do, "{command} with {bytes} bytes");
        }
    }
    let beyond = [(0, 0x3ffe, 4), (0, u64::MAX, 1), (7, 4096, 1), (0, 0, 0), (0, 0, 4097)];
    for (region, offset, bytes) in beyond.into_iter().chain([1, 9, u32::MAX].map(|region| (region, 0, 1))) {
        assert!(channel.read(region, offset, bytes).is_err(), "{region} {offset}");
    }
    assert!(channel.write(0, 2, &[0; 4]).is_err());
    assert!(channel.write(0, 0, &[0; 3]).is_err());
    assert!(channel.request(2, &mapping(0, u64::MAX - 4095, 8192), &[]).is_err());
    assert!(channel.read(0, 0, 64).is_ok());
}

#[test]
fn a_client_that_truncates_its_memory_ends_itself_alone() {
    let served = served(512);
    for opcode in [0x01, 0x02] {
        let (admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
        queue.call(FLUSH).unwrap();
        let page = queue.address_of(0);
        queue.place(&Entry::new(opcode, 0).namespace(1).pages((page, 0)));
        let file = queue.memory.file.try_clone().unwrap();
        // The queues remain, and what the command is about does not.
        fs::File::from(file).set_len(12_288).unwrap();
        queue.push().unwrap();
        // The command may be answered first, from memory of the drive alone.
        let ended = queue.wait().and_then(|_| queue.wait());
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        drop((admin, queue));
        serves(&served);
    }
}

/// Descriptors of this process that lead to files of this name.
fn open(name: &str) -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap().filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    files.filter(|file| file.to_string_lossy().contains(name)).count()
}

#[test]
fn a_flood_of_descriptors_is_closed() {
    let name = "ioassay-flood";
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let served = served(512);
    let many = [file.as_fd(); 64];
    {
        let mut channel = Channel::connect(served.address.as_ref()).unwrap();
        for _ in 0..20 {
            // Commands that take none, and one that is not known.
            assert!(channel.request(4, &[0; 16], &many).is_ok());
            assert!(channel.request(99, &[], &many).is_err());
        }
        assert_eq!(open(name), 1);
        // With each byte of a message, and more than may come with one.
        for _ in 0..3 {
            channel.send(&[0], &many).unwrap();
        }
        assert!(is_left(&channel));
    }
    let channel = Channel::connect(served.address.as_ref()).unwrap();
    channel.send(&header(4, 32, 0), &[file.as_fd(); 253]).unwrap();
    assert!(is_left(&channel));
    serves(&served);
    assert_eq!(open(name), 1);
}
