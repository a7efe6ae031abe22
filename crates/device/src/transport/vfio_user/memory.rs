//! The client's memory, as its commands name it: by addresses of regions that it mapped.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::mapping::{self, Mapping};
use crate::transport::nvme::status::{self, Status};

/// Regions of one client. SPDK has one for each huge page, if its files are not single segments.
const MOST_REGIONS: usize = 512;

/// Bytes of all of them.
const MOST_BYTES: u64 = 1 << 40;

/// Files in memory alone (statfs(2)): reading one of a disk or of FUSE could take any time, in which the
/// drive would serve no client.
const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;

/// An address that belongs to no region, or may not be accessed so.
const UNMAPPED: Status = status::DATA_TRANSFER_ERROR;

/// A region that a client maps.
#[derive(Debug)]
struct Mapped {
    address: u64,
    length_bytes: u64,
    /// Without a file it can only be accessed by messages, which this device does not do.
    mapping: Option<Mapping>,
}

impl Mapped {
    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.length_bytes
    }
}

#[derive(Debug, Default)]
pub struct ClientMemory {
    /// In the order of their addresses.
    regions: Vec<Mapped>,
    /// The one that was accessed last.
    last: Cell<usize>,
    losses: u64,
}

impl ClientMemory {
    pub fn new() -> Self {
        Self { losses: mapping::losses(), ..Self::default() }
    }

    /// Maps a region: whether the device may read and write it, its file, and where it begins in that.
    pub fn map(
        &mut self,
        (address, length_bytes): (u64, u64),
        (may_read, may_write): (bool, bool),
        file: Option<(OwnedFd, u64)>,
    ) -> Result<(), Errno> {
        let end = address.checked_add(length_bytes).ok_or(Errno::INVAL)?;
        if length_bytes == 0 || !may_read && !may_write {
            return Err(Errno::INVAL);
        }
        let at = self.regions.partition_point(|other| other.address < address);
        let next = self.regions.get(at).filter(|next| next.address < end);
        let before = at.checked_sub(1).map(|before| &self.regions[before]);
        if next.is_some() || before.is_some_and(|before| before.contains(address)) {
            return Err(Errno::EXIST);
        }
        let all_bytes: u64 = self.regions.iter().map(|region| region.length_bytes).sum();
        if self.regions.len() >= MOST_REGIONS || all_bytes.saturating_add(length_bytes) > MOST_BYTES {
            return Err(Errno::NOSPC);
        }
        let mapping = match file {
            None => None,
            Some((file, offset_bytes)) => {
                let kind = rustix::fs::fstatfs(&file)?.f_type;
                if ![TMPFS, HUGETLBFS].contains(&kind) {
                    return Err(Errno::NOTSUP);
                }
                Some(Mapping::new(file, offset_bytes, length_bytes, may_write)?)
            }
        };
        self.regions.insert(at, Mapped { address, length_bytes, mapping });
        Ok(())
    }

    /// Unmaps all regions within a range.
    pub fn unmap(&mut self, address: u64, length_bytes: u64) -> Result<(), Errno> {
        let end = address.checked_add(length_bytes).ok_or(Errno::INVAL)?;
        let is_within = |region: &Mapped| region.address >= address && region.address - address < length_bytes;
        let overlaps = |region: &Mapped| is_within(region) || region.contains(address);
        let is_cut = |region: &Mapped| {
            overlaps(region) && (region.address < address || region.address + region.length_bytes > end)
        };
        if self.regions.iter().any(is_cut) {
            return Err(Errno::INVAL);
        }
        let before = self.regions.len();
        self.regions.retain(|region| !is_within(region));
        self.last.set(0);
        if self.regions.len() == before {
            return Err(Errno::NOENT);
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.regions.clear();
    }

    /// Whether a file of a region was truncated under it.
    pub fn is_lost(&mut self) -> bool {
        let losses = mapping::losses();
        if std::mem::replace(&mut self.losses, losses) == losses {
            return false;
        }
        let mut mappings = self.regions.iter().filter_map(|one| one.mapping.as_ref());
        mappings.any(Mapping::is_lost)
    }

    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Status> {
        self.copy(address, into.len(), |mapping, at, part| mapping.read(at, &mut into[part]))
    }

    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Status> {
        self.copy(address, from.len(), |mapping, at, part| mapping.write(at, &from[part]))
    }

    /// Copies part by part, over the bounds of regions that lie side by side.
    fn copy(
        &self,
        address: u64,
        length_bytes: usize,
        mut copy: impl FnMut(&Mapping, usize, Range<usize>) -> bool,
    ) -> Result<(), Status> {
        let mut done = 0;
        while done < length_bytes {
            let (mapping, at, room) = self.find(address.checked_add(done as u64).ok_or(UNMAPPED)?)?;
            let part = done..done + room.min(length_bytes - done);
            done = part.end;
            if !copy(mapping, at, part) {
                return Err(UNMAPPED);
            }
        }
        Ok(())
    }

    /// Writes a word, after all that was written before.
    pub fn store(&self, address: u64, value: u32) -> Result<(), Status> {
        let (mapping, at, _) = self.find(address)?;
        if mapping.store(at, value) { Ok(()) } else { Err(UNMAPPED) }
    }

    /// Where an address lies, and how many bytes there are from there on.
    fn find(&self, address: u64) -> Result<(&Mapping, usize, usize), Status> {
        let last = self.regions.get(self.last.get());
        let region = if let Some(region) = last.filter(|region| region.contains(address)) {
            region
        } else {
            let behind = self.regions.partition_point(|region| region.address <= address);
            let at = behind.checked_sub(1).ok_or(UNMAPPED)?;
            self.last.set(at);
            &self.regions[at]
        };
        let at = address - region.address;
        if at >= region.length_bytes {
            return Err(UNMAPPED);
        }
        let mapping = region.mapping.as_ref().ok_or(UNMAPPED)?;
        Ok((mapping, at as usize, (region.length_bytes - at) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps a file of its own in memory at this address.
    fn map(memory: &mut ClientMemory, address: u64, length_bytes: u64) -> Result<(), Errno> {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, length_bytes).unwrap();
        memory.map((address, length_bytes), (true, true), Some((file, 0)))
    }

    #[test]
    fn regions_side_by_side_are_one_memory_and_gaps_are_none() {
        let mut memory = ClientMemory::new();
        map(&mut memory, 0x3000, 4096).unwrap();
        map(&mut memory, 0x2000, 4096).unwrap();
        map(&mut memory, 0x8000, 4096).unwrap();
        memory.write(0x2ffe, b"abcd").unwrap();
        let mut read = [0; 4];
        memory.read(0x2ffe, &mut read).unwrap();
        assert_eq!(&read, b"abcd");
        for address in [0, 0x1ffe, 0x3ffe, 0x7fff, 0x8ffe, u64::MAX - 1] {
            assert_eq!(memory.write(address, b"abcd"), Err(UNMAPPED), "{address:x}");
        }
        memory.unmap(0x2000, 0x2000).unwrap();
        assert_eq!(memory.read(0x2ffe, &mut read), Err(UNMAPPED));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let mut memory = ClientMemory::new();
        map(&mut memory, 0x2000, 0x2000).unwrap();
        for (address, length_bytes) in [(0x1000, 0x2000), (0x2000, 0x1000), (0x3000, 0x4000)] {
            let refused = map(&mut memory, address, length_bytes);
            assert_eq!(refused, Err(Errno::EXIST), "{address:x}");
        }
        assert_eq!(map(&mut memory, u64::MAX - 0xfff, 0x2000), Err(Errno::INVAL));
        assert_eq!(memory.unmap(0x1000, 0x2000), Err(Errno::INVAL));
        assert_eq!(memory.unmap(0x3000, 0x2000), Err(Errno::INVAL));
        assert_eq!(memory.unmap(0x5000, 0x2000), Err(Errno::NOENT));
        let of_disk = std::fs::File::open("/proc/self/maps").unwrap().into();
        let refused = memory.map((0x10_000, 0x1000), (true, true), Some((of_disk, 0)));
        assert_eq!(refused, Err(Errno::NOTSUP));
        let mut count = 1;
        while map(&mut memory, 0x100_0000 + 0x1000 * count, 0x1000).is_ok() {
            count += 1;
        }
        assert_eq!(count, MOST_REGIONS as u64);
    }
}
