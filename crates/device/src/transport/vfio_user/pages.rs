//! Where a command's data lie in the client's memory: physical region pages (NVM Express Base Specification
//! 2.0, section 4.1.1).

use std::ops::Range;

use super::memory::ClientMemory;
use crate::transport::nvme::entry::Submission;
use crate::transport::nvme::status::{self, Status};
use crate::transport::nvme::u64_at;

/// Bytes of a memory page, the only size that the controller has.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of an entry of a list.
const ENTRY_BYTES: usize = 8;

/// How far an address lies behind the beginning of its page.
pub fn offset(address: u64) -> usize {
    address as usize % PAGE_BYTES
}

/// Visits the parts of a command's data in their order: the address of each, and which bytes of the data it has. Entries
/// for more than `length_bytes` are not looked at. A list cannot lead in circles, because each of its pages but the first
/// is whole, and so has entries of data.
pub fn visit(
    command: &Submission,
    length_bytes: usize,
    memory: &ClientMemory,
    mut visit: impl FnMut(u64, Range<usize>) -> Result<(), Status>,
) -> Result<(), Status> {
    let aligned = |is: bool| if is { Ok(()) } else { Err(status::PAGE_OFFSET_INVALID) };
    let (first, second) = command.pages();
    if length_bytes == 0 {
        return Ok(());
    }
    aligned(first % 4 == 0)?;
    let mut done = length_bytes.min(PAGE_BYTES - offset(first));
    visit(first, 0..done)?;
    let mut visit_page = |address, done: usize| {
        aligned(offset(address) == 0)?;
        let end = length_bytes.min(done + PAGE_BYTES);
        visit(address, done..end).map(|()| end)
    };
    if done == length_bytes {
        return Ok(());
    }
    if length_bytes - done <= PAGE_BYTES {
        return visit_page(second, done).map(|_| ());
    }
    let (mut list, mut page) = (second, [0; PAGE_BYTES]);
    aligned(offset(list) % ENTRY_BYTES == 0)?;
    loop {
        let room = (PAGE_BYTES - offset(list)) / ENTRY_BYTES;
        let wanted = (length_bytes - done).div_ceil(PAGE_BYTES);
        let entries = &mut page[..room.min(wanted) * ENTRY_BYTES];
        memory.read(list, entries)?;
        // The last entry of a page leads on, unless it is the last of all.
        let of_data = if wanted > room { room - 1 } else { wanted };
        for at in 0..of_data {
            done = visit_page(u64_at(entries, at * ENTRY_BYTES), done)?;
        }
        if done == length_bytes {
            return Ok(());
        }
        list = u64_at(entries, of_data * ENTRY_BYTES);
        aligned(offset(list) == 0)?;
    }
}

/// Copies a command's data from the client.
pub fn read(command: &Submission, memory: &ClientMemory, into: &mut [u8]) -> Result<(), Status> {
    visit(command, into.len(), memory, |address, part| memory.read(address, &mut into[part]))
}

/// Copies a command's data to the client.
pub fn write(command: &Submission, memory: &ClientMemory, from: &[u8]) -> Result<(), Status> {
    visit(command, from.len(), memory, |address, part| memory.write(address, &from[part]))
}
