//! Messages of NBD as a client makes them: options, requests, and what comes before both.

/// What a client says first: it knows the handshake, and wants no zeroes after it.
pub const FLAGS: [u8; 4] = 3u32.to_be_bytes();

pub fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", &kind.to_be_bytes()[..], &length, data].concat()
}

/// A command with the cookie `a cookie`.
pub fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(b"a cookie");
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}
