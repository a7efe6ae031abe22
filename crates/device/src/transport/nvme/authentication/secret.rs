//! Secrets as `nvme gen-dhchap-key` prints them and Linux takes them, and what is computed with them
//! (NVM Express Base Specification 2.0, section 8.13.5).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};

/// What the transformation of a secret is done over, behind the name.
const TRANSFORMED: &[u8] = b"NVMe-over-Fabrics";

/// Bytes of the CRC behind a secret.
const CRC_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// All of them, by their identifiers, the first of which is 1.
pub const HASHES: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

impl Hash {
    pub fn of(id: u8) -> Option<Self> {
        HASHES.get(usize::from(id).checked_sub(1)?).copied()
    }

    pub fn id(self) -> u8 {
        self as u8 + 1
    }

    /// Bytes of what it computes.
    pub fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    fn key(self, key: &[u8]) -> hmac::Key {
        let algorithm = match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha384 => hmac::HMAC_SHA384,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::Key::new(algorithm, key)
    }

    fn of_bytes(self, bytes: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes)
    }
}

/// A secret of a host or of a controller.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: Vec<u8>,
    transformation: Option<Hash>,
}

/// A text that is no secret. It does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("is no secret, expected DHHC-1:HH:BASE64: as nvme gen-dhchap-key prints it")]
    Form,
    #[error("has {bytes} bytes, expected 32, 48 or 64 and a CRC of 4")]
    Length { bytes: usize },
    #[error("has a CRC that does not fit: a character was lost or changed")]
    Crc,
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let text = text.strip_prefix("DHHC-1:").ok_or(SecretError::Form)?;
        let text = text.strip_suffix(':').ok_or(SecretError::Form)?;
        let (hash, text) = text.split_once(':').ok_or(SecretError::Form)?;
        let transformation = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError::Form),
        };
        let mut key = STANDARD.decode(text).map_err(|_| SecretError::Form)?;
        // Of any transformation: nvme-cli and Linux do not compare its length with that of the key.
        if !matches!(key.len(), 36 | 52 | 68) {
            return Err(SecretError::Length { bytes: key.len() });
        }
        let crc = key.split_off(key.len() - CRC_BYTES);
        if crc != crc32fast::hash(&key).to_le_bytes() {
            return Err(SecretError::Crc);
        }
        Ok(Self { key, transformation })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Who responds to a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Host,
    Controller,
}

/// A challenge, and what else a response to it is computed over.
#[derive(Debug, Clone, Copy)]
pub struct Challenge<'a> {
    pub side: Side,
    pub hash: Hash,
    pub value: &'a [u8],
    /// What the exchange came to; empty without one.
    pub shared: &'a [u8],
    pub sequence: u32,
    pub transaction: u16,
    pub host: &'a [u8],
    pub subsystem: &'a [u8],
}

impl Secret {
    /// The response to a challenge.
    pub fn response(&self, to: &Challenge<'_>) -> Vec<u8> {
        hmac::sign(&self.key_of(to), &text_of(to)).as_ref().to_vec()
    }

    /// Whether a response is right; takes the same time wherever it is wrong.
    pub fn accepts(&self, response: &[u8], to: &Challenge<'_>) -> bool {
        hmac::verify(&self.key_of(to), &text_of(to), response).is_ok()
    }

    /// The key, transformed with the name of whose secret it is, if it is to be.
    fn key_of(&self, to: &Challenge<'_>) -> hmac::Key {
        let owner = match to.side {
            Side::Host => to.host,
            Side::Controller => to.subsystem,
        };
        match self.transformation {
            None => to.hash.key(&self.key),
            Some(hash) => {
                let transformed = hmac::sign(&hash.key(&self.key), &[owner, TRANSFORMED].concat());
                to.hash.key(transformed.as_ref())
            }
        }
    }
}

fn text_of(to: &Challenge<'_>) -> Vec<u8> {
    let value = if to.shared.is_empty() {
        to.value.to_vec()
    } else {
        let key = to.hash.of_bytes(to.shared);
        let augmented = hmac::sign(&to.hash.key(key.as_ref()), to.value);
        augmented.as_ref().to_vec()
    };
    let (role, first, second): (&[u8], _, _) = match to.side {
        Side::Host => (b"HostHost", to.host, to.subsystem),
        Side::Controller => (b"Controller", to.subsystem, to.host),
    };
    [
        &value,
        &to.sequence.to_le_bytes()[..],
        &to.transaction.to_le_bytes(),
        &[0], // no secure channel follows
        role,
        first,
        &[0],
        second,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the specification, which prints it as an example, with every transformation.
    const EXAMPLE: &str = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

    #[test]
    fn the_specifications_example_is_a_secret_with_every_transformation() {
        for hash in ["00", "01", "02", "03"] {
            let secret: Secret = format!("DHHC-1:{hash}:{EXAMPLE}").parse().unwrap();
            assert_eq!(secret.key.len(), 32);
            assert_eq!(format!("{secret:?}"), "Secret(…)");
        }
    }

    #[test]
    fn secrets_of_all_lengths_are_read_and_others_are_not() {
        for bytes in [0, 16, 31, 32, 48, 64, 65] {
            let key: Vec<u8> = (0..bytes).collect();
            let crc = crc32fast::hash(&key).to_le_bytes();
            let text = format!("DHHC-1:03:{}:", STANDARD.encode([&key[..], &crc].concat()));
            let secret = text.parse::<Secret>();
            match bytes {
                32 | 48 | 64 => assert_eq!(secret.unwrap().key, key),
                _ => assert!(matches!(secret, Err(SecretError::Length { .. }))),
            }
        }
    }

    #[test]
    fn a_secret_with_a_wrong_character_is_refused() {
        let text = format!("DHHC-1:01:{EXAMPLE}");
        let (start, end) = (10, text.len() - 1);
        for at in start..end {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let wrong = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert_eq!(wrong.parse::<Secret>(), Err(SecretError::Crc), "{wrong}");
        }
        for wrong in [
            "",
            "DHHC-1:",
            "DHHC-1:01:",
            "DHHC-1:04:AAAA:",
            "DHHC-1:01:?:",
            &text[..end],
            &text.replace("DHHC-1", "DHHC-2"),
        ] {
            assert_eq!(wrong.parse::<Secret>(), Err(SecretError::Form), "{wrong}");
        }
    }
}
