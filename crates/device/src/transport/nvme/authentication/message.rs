//! Messages of the protocol (NVM Express Base Specification 2.0, section 8.13.5). Numbers are little-endian.

use super::super::{u16_at, u32_at};
use super::group::Group;
use super::secret::Hash;

/// Types of messages: those of authentication at large, and of this protocol.
mod kind {
    pub const COMMON: u8 = 0;
    pub const DH_HMAC_CHAP: u8 = 1;
}

mod id {
    pub const NEGOTIATE: u8 = 0x00;
    pub const CHALLENGE: u8 = 0x01;
    pub const REPLY: u8 = 0x02;
    pub const SUCCESS1: u8 = 0x03;
    pub const SUCCESS2: u8 = 0x04;
    pub const FAILURE2: u8 = 0xf0;
    pub const FAILURE1: u8 = 0xf1;
}

/// The protocol's own number in a host's offer.
const DH_HMAC_CHAP: u8 = 1;

/// Hashes, and groups, that an offer has room for.
const OFFERED: usize = 30;

/// Bytes of an offer's head, and of one protocol in it.
const OFFER_BYTES: usize = 8;
const PROTOCOL_BYTES: usize = 64;

/// Bytes before the values of the other messages.
const HEAD_BYTES: usize = 16;

/// Why the authentication failed: its code is always 1, and these explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Failure {
    /// The response, or what was needed to give one, is wrong.
    Failed = 1,
    /// No protocol of the offer is known.
    Protocol = 2,
    /// A secure channel is to follow, which there is not.
    Concatenation = 3,
    /// No hash of the offer is known.
    Hash = 4,
    /// No group of the offer is known.
    Group = 5,
    /// The message has values that cannot be.
    Payload = 6,
    /// It is not the time for this message.
    Message = 7,
}

/// A message of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromHost<'a> {
    Negotiate(Offer<'a>),
    Reply(Reply<'a>),
    /// It accepts the controller's response.
    Success2 {
        transaction: u16,
    },
    /// It does not, or gives up.
    Failure2,
}

/// What a host can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer<'a> {
    pub transaction: u16,
    /// Whether a secure channel is to follow.
    pub concatenates: bool,
    hashes: &'a [u8],
    groups: &'a [u8],
}

/// A host's response, and its own challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    pub transaction: u16,
    pub response: &'a [u8],
    /// The challenge, where there is one.
    pub challenge: Option<&'a [u8]>,
    pub sequence: u32,
    pub public: &'a [u8],
}

impl<'a> FromHost<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, Failure> {
        let head = bytes.get(..OFFER_BYTES).ok_or(Failure::Payload)?;
        match (head[0], head[1]) {
            (kind::COMMON, id::NEGOTIATE) => Offer::read(bytes).map(FromHost::Negotiate),
            (kind::DH_HMAC_CHAP, id::REPLY) => Reply::read(bytes).map(FromHost::Reply),
            (kind::DH_HMAC_CHAP, id::SUCCESS2) => Ok(FromHost::Success2 { transaction: u16_at(bytes, 4) }),
            (kind::DH_HMAC_CHAP, id::FAILURE2) => Ok(FromHost::Failure2),
            _ => Err(Failure::Message),
        }
    }

    /// The transaction, as far as it is known.
    pub fn transaction(bytes: &[u8]) -> u16 {
        bytes.get(4..6).map_or(0, |two| u16_at(two, 0))
    }
}

impl<'a> Offer<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Failure> {
        let protocols = usize::from(bytes[7]);
        let all = bytes.get(OFFER_BYTES..OFFER_BYTES + protocols * PROTOCOL_BYTES).ok_or(Failure::Payload)?;
        let protocol =
            all.chunks_exact(PROTOCOL_BYTES).find(|protocol| protocol[0] == DH_HMAC_CHAP).ok_or(Failure::Protocol)?;
        let (hashes, groups) = (usize::from(protocol[2]), usize::from(protocol[3]));
        if hashes > OFFERED || groups > OFFERED {
            return Err(Failure::Payload);
        }
        Ok(Self {
            transaction: u16_at(bytes, 4),
            concatenates: bytes[6] != 0,
            hashes: &protocol[4..4 + hashes],
            groups: &protocol[4 + OFFERED..4 + OFFERED + groups],
        })
    }

    /// Whether a hash is offered.
    pub fn has_hash(&self, hash: Hash) -> bool {
        self.hashes.contains(&hash.id())
    }

    /// Whether a group is offered.
    pub fn has_group(&self, group: Group) -> bool {
        self.groups.contains(&group.id())
    }
}

impl<'a> Reply<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Failure> {
        let head = bytes.get(..HEAD_BYTES).ok_or(Failure::Payload)?;
        let hash_bytes = usize::from(head[6]);
        let public_bytes = usize::from(u16_at(head, 10));
        let values = &bytes[HEAD_BYTES..];
        let (response, rest) = values.split_at_checked(hash_bytes).ok_or(Failure::Payload)?;
        let (challenge, rest) = rest.split_at_checked(hash_bytes).ok_or(Failure::Payload)?;
        let challenges = match head[8] {
            0 => false,
            1 => true,
            _ => return Err(Failure::Payload),
        };
        Ok(Self {
            transaction: u16_at(head, 4),
            response,
            challenge: challenges.then_some(challenge),
            sequence: u32_at(head, 12),
            public: rest.get(..public_bytes).ok_or(Failure::Payload)?,
        })
    }
}

pub fn challenge(
    transaction: u16,
    (hash, group): (Hash, Group),
    sequence: u32,
    value: &[u8],
    public: &[u8],
) -> Vec<u8> {
    let mut message = head(id::CHALLENGE, transaction);
    message[6] = value.len() as u8;
    (message[8], message[9]) = (hash.id(), group.id());
    message[10..12].copy_from_slice(&(public.len() as u16).to_le_bytes());
    message[12..16].copy_from_slice(&sequence.to_le_bytes());
    [&message[..], value, public].concat()
}

/// The controller accepts the host's response, and gives its own to the host's challenge if there was one.
pub fn success1(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let mut message = head(id::SUCCESS1, transaction);
    message[6] = hash.bytes() as u8;
    message[8] = u8::from(response.is_some());
    [&message[..], response.unwrap_or_default()].concat()
}

/// The controller does not accept the host.
pub fn failure1(transaction: u16, why: Failure) -> Vec<u8> {
    let mut message = head(id::FAILURE1, transaction)[..OFFER_BYTES].to_vec();
    (message[6], message[7]) = (1, why as u8);
    message
}

fn head(id: u8, transaction: u16) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    (head[0], head[1]) = (kind::DH_HMAC_CHAP, id);
    head[4..6].copy_from_slice(&transaction.to_le_bytes());
    head
}

/// The same from the host's side, for clients.
pub mod host {
    use super::{DH_HMAC_CHAP, Group, HEAD_BYTES, Hash, OFFER_BYTES, OFFERED, PROTOCOL_BYTES, head, id, kind};

    /// Its offer of hashes and groups, at most 30 each.
    pub fn negotiate(transaction: u16, hashes: &[Hash], groups: &[Group]) -> Vec<u8> {
        let mut message = vec![0; OFFER_BYTES + PROTOCOL_BYTES];
        (message[0], message[1], message[7]) = (kind::COMMON, id::NEGOTIATE, 1);
        message[4..6].copy_from_slice(&transaction.to_le_bytes());
        let protocol = &mut message[OFFER_BYTES..];
        protocol[0] = DH_HMAC_CHAP;
        (protocol[2], protocol[3]) = (hashes.len() as u8, groups.len() as u8);
        for (to, hash) in protocol[4..4 + OFFERED].iter_mut().zip(hashes) {
            *to = hash.id();
        }
        for (to, group) in protocol[4 + OFFERED..].iter_mut().zip(groups) {
            *to = group.id();
        }
        message
    }

    /// Its response, and its own challenge with a number.
    pub fn reply(transaction: u16, response: &[u8], challenge: Option<(&[u8], u32)>, public: &[u8]) -> Vec<u8> {
        let mut message: [u8; HEAD_BYTES] = head(id::REPLY, transaction);
        message[6] = response.len() as u8;
        message[8] = u8::from(challenge.is_some());
        message[10..12].copy_from_slice(&(public.len() as u16).to_le_bytes());
        let nothing = vec![0; response.len()];
        let (value, sequence) = challenge.unwrap_or((&nothing, 0));
        message[12..16].copy_from_slice(&sequence.to_le_bytes());
        [&message[..], response, value, public].concat()
    }

    /// It accepts the controller's response.
    pub fn success2(transaction: u16) -> Vec<u8> {
        head(id::SUCCESS2, transaction).to_vec()
    }

    pub fn failure2(transaction: u16) -> Vec<u8> {
        let mut message = head(id::FAILURE2, transaction)[..OFFER_BYTES].to_vec();
        (message[6], message[7]) = (1, 1);
        message
    }

    /// Whether a message is the controller's challenge, or its acceptance.
    pub fn is_challenge(message: &[u8]) -> bool {
        message.len() >= HEAD_BYTES && message[..2] == [kind::DH_HMAC_CHAP, id::CHALLENGE]
    }

    pub fn is_success1(message: &[u8]) -> bool {
        message.len() >= HEAD_BYTES && message[..2] == [kind::DH_HMAC_CHAP, id::SUCCESS1]
    }

    /// Why the controller did not accept the host, if that is what it says.
    pub fn failure1(message: &[u8]) -> Option<u8> {
        let fails = message.len() >= OFFER_BYTES && message[..2] == [kind::DH_HMAC_CHAP, id::FAILURE1];
        fails.then(|| message[7])
    }
}
