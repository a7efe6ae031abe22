//! Digests of headers and data: CRC-32C, sent with its least significant byte first (NVMe/TCP
//! Transport Specification 1.0, section 3.3.1).

pub const DIGEST_BYTES: usize = 4;

/// The digest of some bytes as it is sent.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_rfc_3720() {
        // RFC 3720, appendix B.4, in the order in which they are sent.
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(digest(&rising), [0x4e, 0x79, 0xdd, 0x46]);
    }
}
