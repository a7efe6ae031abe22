//! The PCI configuration space: what the device is, and where a guest finds its registers (PCI Local Bus
//! Specification 3.0, section 6; PCI Express Base Specification 4.0, section 7.5).

use super::interrupts::VECTORS;
use super::registers::{BAR_BYTES, PENDING_BITS_AT, VECTOR_TABLE_AT};

/// Bytes of it; those behind the first 256 are zero.
pub const CONFIGURATION_BYTES: usize = 4096;

const HEADER_BYTES: usize = 256;

const COMMAND: usize = 0x04;
const POWER: usize = 0x40;
const VECTORS_AT: usize = 0x48;
const EXPRESS: usize = 0x54;

/// The control register of the PCI Express capability, and its bit for a reset of the function.
const EXPRESS_CONTROL: usize = EXPRESS + 8;
const RESET: u16 = 1 << 15;

/// The vendor: a number without an owner, which SPDK's devices have, too.
pub const VENDOR: u16 = 0x4e58;

const VENDOR_AND_DEVICE: [u8; 4] = [VENDOR.to_le_bytes()[0], VENDOR.to_le_bytes()[1], 0x01, 0x00];

/// Its fields: where they begin, their bytes after a reset, and the bits that hosts may write.
const FIELDS: &[(usize, &[u8], &[u8])] = &[
    (0x00, &VENDOR_AND_DEVICE, &[]),
    (COMMAND, &[], &[0x07, 0x04]),          // memory, bus master, no interrupt pin
    (0x06, &[1 << 4], &[]),                 // there are capabilities
    (0x08, &[0x00, 0x02, 0x08, 0x01], &[]), // mass storage, non-volatile memory, NVM Express
    (0x10, &[0x04], &(!(BAR_BYTES as u64 - 1)).to_le_bytes()), // the registers: 64 bits of address
    (0x2c, &VENDOR_AND_DEVICE, &[]),
    (0x34, &[POWER as u8], &[]),
    (0x3c, &[], &[0xff]),
    (POWER, &[0x01, VECTORS_AT as u8, 0x03, 0x00, 0x08], &[]), // keeps its state in a reset
    (POWER + 4, &[], &[0x03]),
    (VECTORS_AT, &[0x11, EXPRESS as u8, VECTORS as u8 - 1], &[]),
    (VECTORS_AT + 2, &[], &[0x00, 0xc0]), // on, all masked
    (VECTORS_AT + 4, &(VECTOR_TABLE_AT as u32).to_le_bytes(), &[]),
    (VECTORS_AT + 8, &(PENDING_BITS_AT as u32).to_le_bytes(), &[]),
    (EXPRESS, &[0x10, 0x00, 0x02, 0x00], &[]), // version 2, an endpoint
    (EXPRESS + 4, &((1u32 << 28) | (1 << 15)).to_le_bytes(), &[]), // can be reset, and tells errors by their roles
    (EXPRESS_CONTROL, &[], &[0xff, 0x7f]),
    (EXPRESS + 12, &[0x11], &[]), // a link of one lane
    (EXPRESS + 18, &[0x11], &[]),
];

/// The bytes of the configuration space, and the bits that hosts may write.
#[derive(Debug, Clone)]
pub struct Configuration {
    bytes: [u8; HEADER_BYTES],
    writable: [u8; HEADER_BYTES],
}

impl Default for Configuration {
    /// The state after a reset.
    fn default() -> Self {
        let mut space = Self { bytes: [0; HEADER_BYTES], writable: [0; HEADER_BYTES] };
        for &(at, bytes, bits) in FIELDS {
            space.bytes[at..][..bytes.len()].copy_from_slice(bytes);
            space.writable[at..][..bits.len()].copy_from_slice(bits);
        }
        space
    }
}

impl Configuration {
    /// Copies from it; zeroes where nothing is.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        for (place, byte) in into.iter_mut().enumerate() {
            *byte = self.bytes.get(at + place).copied().unwrap_or(0);
        }
    }

    /// Writes what may be written; whether the function is to be reset.
    pub fn write(&mut self, at: usize, from: &[u8]) -> bool {
        let mut resets = false;
        for (place, &byte) in (at..).zip(from) {
            let (Some(now), Some(writable)) = (self.bytes.get_mut(place), self.writable.get(place)) else {
                break;
            };
            *now = (*now & !writable) | (byte & writable);
            resets |= place == EXPRESS_CONTROL + 1 && byte & (RESET >> 8) as u8 != 0;
        }
        if resets {
            *self = Self::default();
        }
        resets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(space: &Configuration, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        space.read(at, &mut bytes);
        bytes
    }

    #[test]
    fn it_is_an_nvme_controller_with_message_signalled_interrupts() {
        let space = Configuration::default();
        assert_eq!(bytes(&space, 9), [0x02, 0x08, 0x01]);
        let mut at = usize::from(bytes::<1>(&space, 0x34)[0]);
        let mut capabilities = Vec::new();
        while at != 0 {
            let [id, next] = bytes(&space, at);
            capabilities.push(id);
            at = usize::from(next);
        }
        assert_eq!(capabilities, [0x01, 0x11, 0x10]);
        assert_eq!(bytes(&space, 4090), [0; 16]);
    }

    #[test]
    fn a_host_finds_how_large_the_registers_are_as_on_any_bus() {
        let mut space = Configuration::default();
        assert!(!space.write(0x10, &[0xff; 8]));
        let size = !(u64::from_le_bytes(bytes(&space, 0x10)) & !0xf) + 1;
        assert_eq!(size, BAR_BYTES as u64);
    }

    #[test]
    fn only_what_may_be_written_is_and_a_reset_undoes_it() {
        let mut space = Configuration::default();
        assert!(!space.write(0, &[0xff; EXPRESS_CONTROL]));
        assert_eq!(bytes(&space, 0), [0x58, 0x4e, 0x01, 0x00]);
        assert_eq!(bytes(&space, COMMAND), [0x07, 0x04]);
        assert!(space.write(EXPRESS_CONTROL, &[0x00, 0x80]));
        assert_eq!(bytes(&space, COMMAND), [0x00, 0x00]);
        assert!(!space.write(4095, &[0xff; 16]));
    }
}
