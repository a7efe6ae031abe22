//! The table of zones as it is kept in a backing file, behind the content: what survives the process.
//!
//! An entry has the state of a zone and how far it is durable. A footer in the last 4 KiB says what zones there are, so
//! that a file is not taken for what it is not. The entries are checked when they are read.

use super::{ZoneGeometry, ZoneState, Zones};

const MAGIC: &[u8; 16] = b"ioassay zones 1\n";
const ENTRY_BYTES: u64 = 16;
/// Bytes of the footer, and what the table is filled up to.
pub(crate) const FOOTER_BYTES: u64 = 4096;

/// Why a table cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("holds a drive without zones, expected one with zones")]
    Absent,
    #[error("holds zones of {zone_bytes} bytes with a capacity of {capacity_bytes}, expected the same zones")]
    Other {
        /// Bytes from the beginning of a zone to that of the next.
        zone_bytes: u64,
        /// Bytes of a zone that can be written.
        capacity_bytes: u64,
    },
    /// An entry that cannot be.
    #[error("has a damaged table of zones: zone {number} cannot be as it says")]
    Damaged { number: u32 },
}

/// What a footer says: bytes of the drive, of a zone and of its capacity.
pub(crate) fn read_footer(footer: &[u8]) -> Option<[u64; 3]> {
    let (magic, rest) = footer.split_at_checked(MAGIC.len())?;
    let number = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
    (magic == MAGIC).then_some([number(0)?, number(8)?, number(16)?])
}

impl ZoneGeometry {
    /// Bytes of the table with its footer.
    pub fn table_bytes(&self) -> u64 {
        (u64::from(self.count) * ENTRY_BYTES).next_multiple_of(FOOTER_BYTES) + FOOTER_BYTES
    }

    fn footer(&self) -> [u8; FOOTER_BYTES as usize] {
        let mut footer = [0; FOOTER_BYTES as usize];
        footer[..16].copy_from_slice(MAGIC);
        let size_bytes = u64::from(self.count) * self.zone_bytes;
        for (at, number) in [size_bytes, self.zone_bytes, self.capacity_bytes].iter().enumerate() {
            footer[16 + 8 * at..24 + 8 * at].copy_from_slice(&number.to_le_bytes());
        }
        footer
    }
}

impl Zones {
    /// The table, its footer included.
    pub fn table(&self) -> Vec<u8> {
        let mut table = vec![0; self.geometry.table_bytes() as usize];
        for number in 0..self.geometry.count {
            let (at, entry) = self.entry(number);
            table[at as usize..][..entry.len()].copy_from_slice(&entry);
        }
        let footer = table.len() - FOOTER_BYTES as usize;
        table[footer..].copy_from_slice(&self.geometry.footer());
        table
    }

    /// The entry of a zone, and where it is in the table.
    pub fn entry(&self, number: u32) -> (u64, [u8; ENTRY_BYTES as usize]) {
        let zone = self.all[number as usize];
        let mut entry = [0; ENTRY_BYTES as usize];
        entry[0] = zone.state as u8;
        // Whether it was written to its end: full for another reason, it stays full whatever is lost.
        entry[1] = u8::from(zone.write_pointer_bytes == self.end_bytes(number));
        entry[8..].copy_from_slice(&(zone.durable_bytes - self.start_bytes(number)).to_le_bytes());
        (u64::from(number) * ENTRY_BYTES, entry)
    }

    /// The zones of a table after its drive ended, and no zone is open.
    pub fn from_table(geometry: ZoneGeometry, table: &[u8]) -> Result<Self, TableError> {
        let footer = table.len().checked_sub(FOOTER_BYTES as usize).map(|at| &table[at..]);
        let [size_bytes, zone_bytes, capacity_bytes] = footer.and_then(read_footer).ok_or(TableError::Absent)?;
        if [zone_bytes, capacity_bytes] != [geometry.zone_bytes, geometry.capacity_bytes]
            || size_bytes != u64::from(geometry.count) * zone_bytes
            || table.len() as u64 != geometry.table_bytes()
        {
            return Err(TableError::Other { zone_bytes, capacity_bytes });
        }
        let mut zones = Self::new(geometry);
        for (number, entry) in (0..geometry.count).zip(table.chunks_exact(ENTRY_BYTES as usize)) {
            zones.take_entry(number, entry).ok_or(TableError::Damaged { number })?;
        }
        zones.lose_power(|_| {});
        Ok(zones)
    }

    fn take_entry(&mut self, number: u32, entry: &[u8]) -> Option<()> {
        let state = match entry[0] {
            0x1 => ZoneState::Empty,
            0x2..=0x4 => ZoneState::Closed,
            0xd => ZoneState::ReadOnly,
            0xe => ZoneState::Full,
            0xf => ZoneState::Offline,
            _ => return None,
        };
        let durable = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        let fits = match state {
            ZoneState::Empty => durable == 0,
            ZoneState::Closed => durable < self.geometry.capacity_bytes,
            _ => durable <= self.geometry.capacity_bytes,
        };
        if !fits || entry[1] > 1 || durable % 512 != 0 {
            return None;
        }
        // Written full, but not durably: its end is lost.
        let cut = state == ZoneState::Full && entry[1] == 1 && durable < self.geometry.capacity_bytes;
        let end = self.start_bytes(number) + durable;
        let zone = &mut self.all[number as usize];
        (zone.write_pointer_bytes, zone.durable_bytes) = (end, end);
        self.set(number, if cut { ZoneState::Closed } else { state });
        Some(())
    }
}
