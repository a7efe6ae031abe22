//! Namespaces: parts of a drive, each with blocks of its own, that share its flash, buffer and channels
//! (NVM Express Base Specification 2.0, section 3.2).
//!
//! Transports translate no addresses. They submit the commands of a client to a [`NamespaceDrive`],
//! which is a drive of the namespace's size and lets nothing through that lies beyond it. Answers and
//! content have the addresses of the whole drive.

use crate::Error;
use crate::command::{Command, Drive, DriveInfo, Extent, Health, Op, Status, Tag, Trouble};
use crate::zones::Zones;

pub use crate::command::{FIRST_NAMESPACE as FIRST, Namespace};

/// Namespaces of a drive, at most.
pub const MOST_NAMESPACES: usize = 128;

/// No byte of any drive lies there.
const NOWHERE: u64 = u64::MAX;

/// How a drive is divided.
#[derive(Debug, Clone)]
pub struct Namespaces {
    /// Size of the whole drive.
    pub drive_bytes: u64,
    /// Of each namespace: where it begins, and what it is.
    parts: Vec<(u64, DriveInfo)>,
}

impl Namespaces {
    /// The whole drive is one namespace.
    pub fn whole(drive: &DriveInfo) -> Self {
        Self { drive_bytes: drive.size_bytes, parts: vec![(0, drive.clone())] }
    }

    /// Namespaces of these sizes, one behind the other; the whole drive without any. What is left of the drive belongs
    /// to none. All but the last are whole pages of `page_bytes`, so that no two share a page.
    pub fn of_sizes(drive: &DriveInfo, sizes_bytes: &[u64], page_bytes: u64) -> Result<Self, Error> {
        if sizes_bytes.is_empty() {
            return Ok(Self::whole(drive));
        }
        let require = |holds: bool, value: u64, wanted: String| Error::require(holds, "namespaces", value, wanted);
        let count = sizes_bytes.len();
        let wanted = format!("sizes of 1 to {MOST_NAMESPACES} namespaces");
        require(count <= MOST_NAMESPACES, count as u64, wanted)?;
        let block_bytes = u64::from(drive.block_bytes.max(1));
        let mut parts = Vec::with_capacity(count);
        let mut end_bytes = 0_u64;
        for (number, &size_bytes) in (1..).zip(sizes_bytes) {
            let (what, unit_bytes) =
                if number == count { ("blocks", block_bytes) } else { ("pages", page_bytes.max(block_bytes)) };
            let wanted = format!("whole {what} of {unit_bytes} bytes, and at least one");
            require(size_bytes > 0 && size_bytes % unit_bytes == 0, size_bytes, wanted)?;
            parts.push((end_bytes, DriveInfo { size_bytes, ..drive.clone() }));
            end_bytes = end_bytes.saturating_add(size_bytes);
        }
        let wanted = format!("at most the drive's {} bytes together", drive.size_bytes);
        require(end_bytes <= drive.size_bytes, end_bytes, wanted)?;
        Ok(Self { drive_bytes: drive.size_bytes, parts })
    }

    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// A namespace, if there is one with this number.
    pub fn get(&self, id: u32) -> Option<Namespace<'_>> {
        let (start_bytes, facts) = self.parts.get(id.checked_sub(FIRST)? as usize)?;
        Some(Namespace { id, start_bytes: *start_bytes, facts })
    }

    /// All of them, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Namespace<'_>> {
        (FIRST..).map_while(|id| self.get(id))
    }

    /// The place of the namespace that has this byte of the drive in a list of all.
    pub fn index_at(&self, offset_bytes: u64) -> Option<usize> {
        let index = self.parts.partition_point(|part| part.0 <= offset_bytes).checked_sub(1)?;
        let (start_bytes, facts) = &self.parts[index];
        (offset_bytes - start_bytes < facts.size_bytes).then_some(index)
    }

    /// The drive can only be read from now on.
    pub fn refuse_writes(&mut self) {
        for (_, facts) in &mut self.parts {
            facts.read_only = true;
        }
    }
}

/// One namespace as a drive of its own: addresses begin at 0, and no command reaches a byte that is not
/// the namespace's.
pub struct NamespaceDrive<'a> {
    drive: &'a mut dyn Drive,
    id: u32,
    start_bytes: u64,
    size_bytes: u64,
}

impl<'a> NamespaceDrive<'a> {
    /// The namespace of this number, if the drive has it.
    pub fn new(drive: &'a mut dyn Drive, id: u32) -> Option<Self> {
        let namespace = drive.namespace(id)?;
        let (start_bytes, size_bytes) = (namespace.start_bytes, namespace.facts.size_bytes);
        Some(Self { drive, id, start_bytes, size_bytes })
    }

    /// The place of a range on the drive, if it lies within the namespace.
    fn placed(&self, offset_bytes: u64, length_bytes: u64) -> Option<u64> {
        let end_bytes = offset_bytes.checked_add(length_bytes)?;
        (end_bytes <= self.size_bytes).then(|| self.start_bytes + offset_bytes)
    }
}

impl Drive for NamespaceDrive<'_> {
    fn facts(&self) -> &DriveInfo {
        match self.drive.namespace(self.id) {
            Some(namespace) => namespace.facts,
            None => self.drive.facts(), // it was there, and stays
        }
    }

    fn namespace(&self, id: u32) -> Option<Namespace<'_>> {
        self.drive.namespace(id)
    }

    fn namespace_count(&self) -> u32 {
        self.drive.namespace_count()
    }

    fn submit(&mut self, command: Command, data: &[u8]) {
        let placed = match command.op {
            Op::Flush => Some(self.start_bytes),
            _ => self.placed(command.offset_bytes, command.length_bytes),
        };
        let offset_bytes = placed.unwrap_or(NOWHERE); // the drive answers that it is out of range
        self.drive.submit(Command { offset_bytes, ..command }, data);
    }

    fn abort(&mut self, tag: Tag) -> bool {
        self.drive.abort(tag)
    }

    fn content(&self, offset_bytes: u64, length_bytes: u64) -> &[u8] {
        match self.placed(offset_bytes, length_bytes) {
            Some(at) => self.drive.content(at, length_bytes),
            None => &[],
        }
    }

    fn load(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Status> {
        let at = self.placed(offset_bytes, length_bytes).ok_or(Status::OutOfRange)?;
        self.drive.load(at, length_bytes)
    }

    fn extent(&self, offset_bytes: u64, length_bytes: u64) -> Extent {
        match self.placed(offset_bytes, length_bytes) {
            Some(at) => self.drive.extent(at, length_bytes),
            None => Extent { length_bytes, is_allocated: false },
        }
    }

    fn health(&self) -> Health {
        self.drive.health()
    }

    fn trouble(&self) -> Trouble {
        self.drive.trouble()
    }

    /// A zoned drive is one namespace.
    fn zones(&self) -> Option<&Zones> {
        self.drive.zones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(size_bytes: u64) -> DriveInfo {
        DriveInfo { size_bytes, ..DriveInfo::default() }
    }

    #[test]
    fn namespaces_lie_one_behind_the_other_and_share_no_page() {
        let of = |sizes: &[u64]| Namespaces::of_sizes(&facts(1 << 20), sizes, 4096);
        let three = of(&[8192, 4096, 1024]).expect("namespaces");
        let ranges: Vec<_> = three.iter().map(|namespace| namespace.range()).collect();
        assert_eq!(ranges, [0..8192, 8192..12_288, 12_288..13_312]);
        assert_eq!(three.count(), 3);
        for (offset_bytes, index) in
            [(0, Some(0)), (8191, Some(0)), (8192, Some(1)), (13_311, Some(2)), (13_312, None), (NOWHERE, None)]
        {
            assert_eq!(three.index_at(offset_bytes), index, "{offset_bytes}");
        }
        assert!(three.get(0).is_none() && three.get(4).is_none() && three.get(NOWHERE as u32).is_none());
        for sizes in
            [&[0][..], &[512, 4096], &[4096, 100], &[1 << 20, 512], &[!4095, 4096], &[4096; MOST_NAMESPACES + 1]]
        {
            assert!(of(sizes).is_err(), "{sizes:?}");
        }
    }
}
