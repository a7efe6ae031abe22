//! vfio-user through its socket and shared memory, with this crate's own client.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::host::copy;
use crate::memory_drive::{Memory, Served};
use crate::served::{read_of, read_what_it_wrote, trim_of, write_of, zeroes_of};
use ioassay_device::client::nvme::Entry;
use ioassay_device::client::vfio_user::{Admin, Channel, Queue, Settings, connect};
use ioassay_device::client::{Initiator, Request};
use ioassay_device::command::{Op, Status, Trouble};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

const SIZE_BYTES: u64 = 16 << 20;

fn serve(drive: Memory) -> Served {
    Served::start("vfio-user:FOLDER", drive)
}

pub fn served(block_bytes: u32) -> Served {
    serve(Memory::new(SIZE_BYTES, block_bytes))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::yield_now();
    }
}

/// What becomes of a command.
fn status(queue: &mut Queue, entry: &Entry) -> u16 {
    queue.place(entry);
    queue.push().unwrap();
    queue.wait().unwrap().status
}

fn signalled(event: &OwnedFd) -> bool {
    rustix::io::read(event, &mut [0; 8]).is_ok()
}

#[test]
fn what_is_written_is_read_with_data_of_any_length() {
    for block_bytes in [512, 4096] {
        let served = served(block_bytes);
        let settings = Settings { entries: 8, data_bytes: 1 << 20, copies: true };
        let (mut admin, mut queue) = connect(served.address.as_ref(), &settings).unwrap();
        assert_eq!(queue.size_bytes(), SIZE_BYTES);
        assert_eq!(queue.block_bytes(), block_bytes);
        read_what_it_wrote(&mut queue, &[(0, 4096), (4096, 8192), (1 << 20, 1 << 20), (12288, 12288), (0, 516 << 10)]);
        queue.call(Request::Flush).unwrap();
        admin.shut_down().unwrap();
    }
}

#[test]
fn trims_zeroes_and_forced_writes_reach_the_drive_as_such() {
    let served = served(4096);
    let (_admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    let write = |fua| write_of(8192, &[7; 4096], fua);
    for request in [write(true), trim_of(8192, 4096), write(false), zeroes_of(8192, 4096), Request::Flush] {
        queue.call(request).unwrap();
    }
    let seen = served.stop().seen;
    assert!(seen.iter().map(|one| one.op).eq([Op::Write, Op::Trim, Op::Write, Op::WriteZeroes, Op::Flush]));
    assert!(seen.iter().map(|one| one.fua).eq([true, false, false, false, false]));
}

#[test]
fn a_queue_wraps_around_at_any_depth() {
    let served = served(512);
    for entries in [2, 3, 8] {
        let settings = Settings { entries, ..Settings::default() };
        let (admin, mut queue) = connect(served.address.as_ref(), &settings).unwrap();
        for _ in 0..40 {
            for tag in 0..entries - 1 {
                queue.submit(tag, read_of(u64::from(tag) * 512, 512));
            }
            queue.push().unwrap();
            let mut left = entries - 1;
            while left > 0 {
                let reaped = queue.reap(&mut |done| assert_eq!(done.error, 0));
                left -= reaped.unwrap() as u16;
            }
        }
        drop((admin, queue));
    }
}

#[test]
fn queues_are_created_and_deleted_as_the_specification_says() {
    let served = served(512);
    let mut admin = Admin::connect(served.address.as_ref()).unwrap();
    let memory = admin.share(1 << 20).unwrap();
    let (at, completions, submissions) = (memory.address, 0x05, 0x01);
    for (opcode, id, entries, at, flags, status) in [
        // No completion queue of that number yet; none of number 0 or beyond the most.
        (submissions, 1, 8, at, (1 << 16) | 1, 0x100),
        (completions, 0, 8, at, 1, 0x101),
        (completions, 33, 8, at, 1, 0x101),
        (completions, 1, 1, at, 1, 0x102),
        (completions, 1, 1025, at, 1, 0x102),
        (completions, 1, 8, at, 0, 0x002),
        (completions, 1, 8, at + 8, 1, 0x013),
        (completions, 1, 8, at, (33 << 16) | 3, 0x108),
        (completions, 1, 8, at, 1, 0),
        (completions, 1, 8, at, 1, 0x101),
        (submissions, 1, 8, at + 4096, (1 << 16) | 1, 0),
        (submissions, 2, 8, at + 8192, (1 << 16) | 1, 0),
    ] {
        let number = admin.submit(opcode, 0, at, &[((entries - 1) << 16) | id, flags]);
        let entry = admin.commands.wait().unwrap();
        assert_eq!(entry.id, number);
        assert_eq!(entry.status & 0x7ff, status, "{opcode} {id}");
    }
    let mut delete = |opcode, id: u32| admin.call(opcode, 0, &[id]).unwrap().status & 0x7ff;
    assert_eq!(delete(0x04, 1), 0x10c);
    assert_eq!((delete(0x00, 1), delete(0x00, 1)), (0, 0x101));
    assert_eq!((delete(0x04, 1), delete(0x00, 2)), (0x10c, 0));
    assert_eq!((delete(0x04, 1), delete(0x04, 1)), (0, 0x101));
    assert_eq!((delete(0x04, 0), delete(0x00, 0)), (0x101, 0x101));
}

#[test]
fn a_reset_begins_anew() {
    let served = served(512);
    let mut admin = Admin::connect(served.address.as_ref()).unwrap();
    for _ in 0..3 {
        let mut queue = admin.queue(1, &Settings::default(), None).unwrap();
        queue.call(read_of(0, 512)).unwrap();
        admin.disable().unwrap();
        admin.enable().unwrap();
    }
    admin.channel.request(13, &[], &[]).unwrap();
    assert_eq!(admin.state().unwrap(), 0);
    admin.enable().unwrap();
    admin.queue(1, &Settings::default(), None).unwrap();
    // A reset of the function, by the configuration space.
    admin.channel.write(7, 0x5c, &[0, 0x80]).unwrap();
    assert_eq!(admin.state().unwrap(), 0);
}

#[test]
fn the_controller_describes_a_device_on_a_bus() {
    let served = served(512);
    let mut admin = Admin::connect(served.address.as_ref()).unwrap();
    admin.require(0x06, 0, &[1]).unwrap();
    let page = admin.data();
    assert_eq!(&page[4..10], b"IA0001");
    // No keep alive, no scatter-gather lists, no capsules.
    assert_eq!(page[320..322], [0; 2]);
    assert_eq!(page[536..540], [0; 4]);
    assert_eq!(page[1792..1804], [0; 12]);
    assert_eq!(admin.call(0x7f, 0, &[]).unwrap().status & 0x7ff, 1);
    // The number of queues: 32 of each, however many are asked for.
    let granted = admin.require(0x09, 0, &[7, 0x00ff_00ff]).unwrap();
    assert_eq!(granted.result, (31 << 16) | 31);
    admin.require(0x09, 0, &[8, 0x1234]).unwrap();
    assert_eq!(admin.require(0x0a, 0, &[8]).unwrap().result, 0x1234);
    admin.set_data(&[9; 16]);
    admin.require(0x09, 0, &[0x81, 1]).unwrap();
    admin.set_data(&[0; 16]);
    admin.require(0x0a, 0, &[0x81, 1]).unwrap();
    assert_eq!(admin.data()[..16], [9; 16]);
    // The log of commands has those of queues.
    admin.require(0x02, 0, &[5 | (1023 << 16), 0, 0, 0]).unwrap();
    let page = admin.data();
    assert_eq!([0, 4, 16, 20, 24].map(|at| page[at]), [1; 5]);
}

#[test]
fn interrupts_come_where_the_client_set_them() {
    let served = served(512);
    let mut admin = Admin::connect(served.address.as_ref()).unwrap();
    let events = [(); 3].map(|()| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
    let borrowed = events.each_ref().map(AsFd::as_fd);
    admin.channel.set_interrupts(0, &borrowed).unwrap();
    let mut queue = admin.queue(1, &Settings::default(), Some(2)).unwrap();
    wait_until("the admin queue's interrupt", || signalled(&events[0]));
    assert!(!signalled(&events[2]));
    queue.call(Request::Flush).unwrap();
    wait_until("the queue's interrupt", || signalled(&events[2]));
    assert!(!signalled(&events[1]));
    // Sockets and pipes could make the drive wait.
    let (_reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(admin.channel.set_interrupts(0, &[writer.as_fd()]).is_err());
    assert!(admin.channel.set_interrupts(33, &borrowed).is_err());
    // None from the first on: all are off.
    admin.channel.set_interrupts(0, &[]).unwrap();
    admin.channel.request(8, &[20u32, 1 | (1 << 5), 2, 0, 0].map(u32::to_le_bytes).concat(), &[]).unwrap();
    queue.call(Request::Flush).unwrap();
    assert!(!signalled(&events[2]));
}

#[test]
fn events_are_told_and_aborted() {
    let trouble = Trouble { unreliable: true, ..Trouble::default() };
    let served = serve(Memory { trouble, ..Memory::new(SIZE_BYTES, 512) });
    let mut admin = Admin::connect(served.address.as_ref()).unwrap();
    let first = admin.submit(0x0c, 0, 0, &[]);
    assert_eq!(admin.commands.reap_now(), None);
    let aborted = admin.submit(0x08, 0, 0, &[u32::from(first) << 16]);
    let (one, other) = (admin.commands.wait().unwrap(), admin.commands.wait().unwrap());
    assert_eq!((one.id, one.status & 0x7ff), (first, 0x007));
    assert_eq!((other.id, other.status, other.result), (aborted, 0, 0));
    admin.require(0x09, 0, &[0x0b, 0xff]).unwrap();
    let second = admin.submit(0x0c, 0, 0, &[]);
    let event = admin.commands.wait().unwrap();
    assert_eq!((event.id, event.result & 0xff), (second, 1));
}

#[test]
fn errors_of_the_drive_are_statuses_and_are_logged() {
    let served = serve(Memory { status: Status::Media, ..Memory::new(SIZE_BYTES, 512) });
    let (mut admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    let refused = queue.call(read_of(512, 512)).unwrap_err().to_string();
    assert!(refused.contains("0x4281"), "{refused}");
    admin.require(0x02, 0, &[1 | (15 << 16), 0, 0, 0]).unwrap();
    let line = admin.data();
    assert_eq!((line[8], line[16]), (1, 1)); // of queue 1, at block 1
}

#[test]
fn compare_and_verify_look_at_what_is_stored() {
    let served = served(512);
    let (_admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    let data: Vec<u8> = (0..4096u32).map(|byte| byte as u8).collect();
    queue.call(write_of(0, &data, false)).unwrap();
    let page = queue.address_of(0);
    let mut compare = |page: u64, opcode: u8| status(&mut queue, &Entry::new(opcode, 0).blocks(0, 8).pages((page, 0)));
    assert_eq!(compare(page, 0x05), 0);
    assert_eq!(compare(0, 0x0c), 0);
    assert_eq!(compare(page + 4096, 0x05) & 0x7ff, 0x285);
    assert_eq!(compare(4096, 0x05) & 0x7ff, 0x285); // memory that is not mapped
}

#[test]
fn a_copy_has_what_its_sources_had() {
    let served = served(512);
    let (_admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    let data: Vec<u8> = (0..8192u32).map(|byte| (byte / 512) as u8 + 1).collect();
    queue.call(write_of(0, &data, false)).unwrap();
    let (entry, ranges) = copy(100, &[(6, 1), (0, 3)]);
    queue.memory.write(queue.data_at(0), &ranges);
    let page = queue.address_of(0);
    assert_eq!(status(&mut queue, &entry.pages((page, 0))), 0);
    let copied = queue.call(read_of(100 * 512, 2048)).unwrap();
    assert_eq!(copied, [&data[6 * 512..7 * 512], &data[..1536]].concat());
}

#[test]
fn a_client_that_vanishes_leaves_the_device_to_the_next() {
    let served = served(512);
    for _ in 0..5 {
        let (admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
        let data = vec![1; 65_536];
        for tag in 0..100 {
            queue.submit(tag, write_of(u64::from(tag) * 65_536, &data, false));
        }
        queue.push().unwrap();
        drop((admin, queue));
    }
}

#[test]
fn a_second_client_is_turned_away_while_the_first_is_served() {
    let served = served(512);
    let (_admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    assert!(Channel::connect(served.address.as_ref()).is_err());
    queue.call(Request::Flush).unwrap();
}

#[test]
fn the_socket_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let served = served(512);
    let path = std::path::Path::new(&served.address);
    assert!(path.ends_with("cntrl"));
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn is_failed_until_reset(admin: &mut Admin) {
    admin.wait_for_state(2, 2).unwrap();
    admin.disable().unwrap();
    admin.enable().unwrap();
    admin.queue(1, &Settings::default(), None).unwrap();
}

#[test]
fn unmapped_memory_ends_commands_and_not_the_drive() {
    let served = served(512);
    let (mut admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    let other = admin.share(1 << 20).unwrap();
    let read_to =
        |queue: &mut Queue, page: u64| status(queue, &Entry::new(0x02, 0).namespace(1).pages((page, 0))) & 0x7ff;
    assert_eq!(read_to(&mut queue, other.address), 0);
    admin.channel.unmap(other.address, 1 << 20).unwrap();
    assert_eq!(read_to(&mut queue, other.address), 0x004);
    assert_eq!(read_to(&mut queue, u64::MAX - 3), 0x004);
    assert_eq!(read_to(&mut queue, other.address + 1), 0x013);
    // Without its queues' memory the controller fails, and a reset helps.
    admin.channel.unmap(queue.memory.address, queue.memory.length_bytes as u64).unwrap();
    queue.push().unwrap();
    queue.place(&Entry::new(0x00, 0).namespace(1).pages((0, 0)));
    queue.push().unwrap();
    is_failed_until_reset(&mut admin);
}

#[test]
fn a_doorbell_beyond_its_queue_fails_the_controller_until_it_is_reset() {
    let served = served(512);
    let (mut admin, queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
    queue.ring(128);
    is_failed_until_reset(&mut admin);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pages of a command may lie anywhere, in any order, and its first may begin within a page.
    #[test]
    fn data_go_to_the_pages_that_a_command_names(
        offset in (0u64..1024).prop_map(|word| word * 4),
        blocks in 1u32..2048, list_at in 0u64..512, seed: u64,
    ) {
        let served = served(512);
        let (mut admin, mut queue) = connect(served.address.as_ref(), &Settings::default()).unwrap();
        let pages: u64 = 257 + 1;
        let memory = admin.share((pages as usize + 3) * 4096).unwrap();
        let bytes = blocks as usize * 512;
        let data: Vec<u8> = (0..bytes).map(|byte| (byte as u64 ^ (byte as u64 >> 9) ^ seed) as u8).collect();
        // Every page at a place of its own: steps that have no divisor in common with their number.
        let place = |page: u64| memory.address + (page * 37 + seed) % pages * 4096;
        let first = place(0) + offset;
        let of_first = bytes.min(4096 - offset as usize);
        let count = (bytes - of_first).div_ceil(4096) as u64;
        let behind = (1..=count).zip((of_first..).step_by(4096)).map(|(page, start)| (place(page), start..(start + 4096).min(bytes)));
        let chunks: Vec<_> = std::iter::once((first, 0..of_first)).chain(behind).collect();
        let lists = memory.address + pages * 4096;
        let second = match count {
            0 => 0,
            1 => place(1),
            _ => {
                // The list begins within a page, and goes on in the next.
                let room = 512 - list_at;
                let mut entries: Vec<u64> = (1..=count).map(place).collect();
                if count > room {
                    entries.insert(room as usize - 1, lists + 4096);
                }
                let entries: Vec<u8> = entries.into_iter().flat_map(u64::to_le_bytes).collect();
                memory.write((pages * 4096 + list_at * 8) as usize, &entries);
                lists + list_at * 8
            }
        };
        for (address, range) in &chunks {
            memory.write((address - memory.address) as usize, &data[range.clone()]);
        }
        let mut command =
            |opcode| status(&mut queue, &Entry::new(opcode, 0).blocks(0, blocks).pages((first, second)));
        prop_assert_eq!(command(0x01), 0);
        for (address, range) in &chunks {
            memory.write((address - memory.address) as usize, &vec![0; range.len()]);
        }
        prop_assert_eq!(command(0x02), 0);
        let mut read = vec![0; bytes];
        for (address, range) in &chunks {
            memory.read((address - memory.address) as usize, &mut read[range.clone()]);
        }
        prop_assert!(read == data);
        prop_assert_eq!(command(0x05), 0);
        prop_assert!(served.stop().bytes[..bytes] == data);
    }
}
