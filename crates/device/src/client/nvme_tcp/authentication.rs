//! The host's side of DH-HMAC-CHAP (NVM Express Base Specification 2.0, section 8.13.5).

use std::io;

use super::Channel;
use super::channel::nonsense;
use super::command::{Answer, answer, entry, pointer, succeeded};
use crate::transport::nvme::authentication::message::host as message;
use crate::transport::nvme::authentication::{
    Challenge, Entropy, GROUPS, Group, HASHES, Hash, HostSecrets, Side, SystemEntropy,
};
use crate::transport::nvme_tcp::pdu::{u16_at, u32_at};

const ROOM_BYTES: u32 = 4096;

/// What a host knows, and offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its secret, and the controller's if it wants to know whom it talks to.
    pub secrets: HostSecrets,
    pub hashes: Vec<Hash>,
    pub groups: Vec<Group>,
}

impl Credentials {
    /// With all hashes and groups.
    pub fn new(secrets: HostSecrets) -> Self {
        Self { secrets, hashes: HASHES.to_vec(), groups: GROUPS.to_vec() }
    }
}

/// Why a host was not accepted, or did not accept the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// The controller says so, with this explanation.
    #[error("the controller does not accept the host: {explanation}")]
    Host {
        /// As the specification numbers them; 1 is a wrong response.
        explanation: u8,
    },
    /// The controller does not know its secret.
    #[error("the controller's response is wrong")]
    Controller,
}

/// Authenticates the host on a queue, and the controller if the host has its secret.
pub fn authenticate(channel: &mut Channel, credentials: &Credentials, subsystem: &str) -> io::Result<()> {
    let mut entropy = SystemEntropy::default();
    let mut drawn = |bytes: usize| -> io::Result<Vec<u8>> {
        let mut drawn = vec![0; bytes];
        entropy.fill(&mut drawn)?;
        Ok(drawn)
    };
    let id = u16_at(&drawn(2)?, 0);
    let (hashes, groups) = (&credentials.hashes, &credentials.groups);
    send(channel, &message::negotiate(id, hashes, groups))?;
    let challenge = receive(channel)?;
    if !message::is_challenge(&challenge) {
        return Err(nonsense("no challenge"));
    }
    let hash = Hash::of(challenge[8]).ok_or_else(|| nonsense("a hash"))?;
    let group = Group::of(challenge[9]).ok_or_else(|| nonsense("a group"))?;
    let (value, public) = challenge[16..].split_at_checked(hash.bytes()).ok_or_else(|| nonsense("a challenge"))?;
    let public = public.get(..group.public_bytes()).unwrap_or_default();
    let private = drawn(group.private_bytes())?;
    let shared = group.shared(public, &private);
    let shared = shared.ok_or_else(|| nonsense("a public value"))?;
    let secrets = &credentials.secrets;
    let asked = Challenge {
        side: Side::Host,
        hash,
        value,
        shared: &shared,
        sequence: u32_at(&challenge, 12),
        transaction: id,
        host: secrets.host.as_bytes(),
        subsystem: subsystem.as_bytes(),
    };
    let response = secrets.secret.response(&asked);
    let own = drawn(hash.bytes())?;
    let own_challenge = secrets.controller.as_ref().map(|_| (&own[..], 1));
    let public = group.public(&private);
    send(channel, &message::reply(id, &response, own_challenge, &public))?;
    let accepted = receive(channel)?;
    if !message::is_success1(&accepted) {
        return Err(nonsense("no acceptance"));
    }
    let Some(controller) = &secrets.controller else {
        return Ok(());
    };
    let expected = Challenge { side: Side::Controller, value: &own, sequence: 1, ..asked };
    let response = accepted[16..].get(..hash.bytes()).unwrap_or_default();
    if accepted[8] != 1 || !controller.accepts(response, &expected) {
        send(channel, &message::failure2(id))?;
        return Err(io::Error::other(Unauthenticated::Controller));
    }
    send(channel, &message::success2(id))
}

pub fn send(channel: &mut Channel, message: &[u8]) -> io::Result<()> {
    let mut entry = command(0x05, message.len() as u32);
    pointer(&mut entry, message.len() as u32, true);
    channel.command(&entry, message);
    succeeded(answer(channel)?).map(|_| ())
}

/// Asks for the controller's message.
pub fn receive(channel: &mut Channel) -> io::Result<Vec<u8>> {
    let mut entry = command(0x06, ROOM_BYTES);
    pointer(&mut entry, ROOM_BYTES, false);
    channel.command(&entry, &[]);
    let Answer { data, .. } = succeeded(answer(channel)?)?;
    match message::failure1(&data) {
        Some(explanation) => Err(io::Error::other(Unauthenticated::Host { explanation })),
        None => Ok(data),
    }
}

fn command(kind: u8, length_bytes: u32) -> [u8; 64] {
    let mut entry = entry(0x7f, 1);
    entry[4] = kind;
    entry[40..44].copy_from_slice(&0xe901_0100_u32.to_le_bytes());
    entry[44..48].copy_from_slice(&length_bytes.to_le_bytes());
    entry
}
