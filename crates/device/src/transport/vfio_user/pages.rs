//! Where a command's data lie in the client's memory: physical region pages (NVM Express Base Specification
//! 2.0, section 4.1.1).

use super::memory::{ClientMemory, Unmapped};
use crate::transport::nvme::entry::Submission;
use crate::transport::nvme::status::{self, Status};
use crate::transport::nvme::u64_at;

/// Bytes of a memory page, the only size that the controller has.
pub const PAGE_BYTES: u64 = 4096;

/// Bytes of an entry of a list.
const ENTRY_BYTES: usize = 8;

impl From<Unmapped> for Status {
    fn from(_: Unmapped) -> Self {
        status::DATA_TRANSFER_ERROR
    }
}

/// Visits the parts of a command's data in their order: the address and the length of each. Entries for
/// more than `length_bytes` are not looked at. A list cannot lead in circles, because each of its pages
/// but the first is whole, and so has entries of data.
pub fn visit(
    command: &Submission,
    length_bytes: u64,
    memory: &ClientMemory,
    mut visit: impl FnMut(u64, usize) -> Result<(), Status>,
) -> Result<(), Status> {
    let (first, second) = command.pages();
    if length_bytes == 0 {
        return Ok(());
    }
    if first % 4 != 0 {
        return Err(status::PAGE_OFFSET_INVALID);
    }
    let of_first = length_bytes.min(PAGE_BYTES - first % PAGE_BYTES);
    visit(first, of_first as usize)?;
    let left = length_bytes - of_first;
    if left == 0 {
        return Ok(());
    }
    if left <= PAGE_BYTES {
        return visit_page(second, left, &mut visit);
    }
    visit_list(second, left, memory, &mut visit)
}

fn visit_page(address: u64, left: u64, visit: &mut impl FnMut(u64, usize) -> Result<(), Status>) -> Result<(), Status> {
    if address % PAGE_BYTES != 0 {
        return Err(status::PAGE_OFFSET_INVALID);
    }
    visit(address, left.min(PAGE_BYTES) as usize)
}

fn visit_list(
    mut list: u64,
    mut left: u64,
    memory: &ClientMemory,
    visit: &mut impl FnMut(u64, usize) -> Result<(), Status>,
) -> Result<(), Status> {
    if list % ENTRY_BYTES as u64 != 0 {
        return Err(status::PAGE_OFFSET_INVALID);
    }
    let mut page = [0; PAGE_BYTES as usize];
    loop {
        let room = (PAGE_BYTES - list % PAGE_BYTES) as usize / ENTRY_BYTES;
        let wanted = left.div_ceil(PAGE_BYTES) as usize;
        let entries = &mut page[..room.min(wanted) * ENTRY_BYTES];
        memory.read(list, entries)?;
        // The last entry of a page leads on, unless it is the last of all.
        let of_data = if wanted > room { room - 1 } else { wanted };
        for at in 0..of_data {
            visit_page(u64_at(entries, at * ENTRY_BYTES), left, visit)?;
            left -= left.min(PAGE_BYTES);
        }
        if left == 0 {
            return Ok(());
        }
        list = u64_at(entries, of_data * ENTRY_BYTES);
        if list % PAGE_BYTES != 0 {
            return Err(status::PAGE_OFFSET_INVALID);
        }
    }
}

/// Copies a command's data from the client.
pub fn read(command: &Submission, memory: &ClientMemory, into: &mut [u8]) -> Result<(), Status> {
    let mut done = 0;
    visit(command, into.len() as u64, memory, |address, length| {
        memory.read(address, &mut into[done..done + length])?;
        done += length;
        Ok(())
    })
}

/// Copies a command's data to the client.
pub fn write(command: &Submission, memory: &ClientMemory, from: &[u8]) -> Result<(), Status> {
    let mut done = 0;
    visit(command, from.len() as u64, memory, |address, length| {
        memory.write(address, &from[done..done + length])?;
        done += length;
        Ok(())
    })
}
