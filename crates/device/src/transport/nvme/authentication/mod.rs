//! DH-HMAC-CHAP: hosts show that they know their secret, and the controller that it knows its own, on
//! each queue by itself (NVM Express Base Specification 2.0, section 8.13.5).
//!
//! Deliberately absent: secure channels (TLS) that follow, so data are authenticated when a host
//! connects, and neither encrypted nor protected afterwards.

mod group;
pub(crate) mod message;
mod secret;
mod secrets_file;

use std::fmt;
use std::io;

use ring::rand::{SecureRandom, SystemRandom};

pub use group::{GROUPS, Group};
pub use secret::{Challenge, HASHES, Hash, Secret, SecretError, Side};
pub use secrets_file::{HostSecrets, Secrets, SecretsError};

use super::entry::{FABRICS, Outcome, Submission};
use super::status::{self, Status};
use message::{Failure, FromHost, Offer, Reply};

/// Bit of Connect's result (`ATR`): the host has to authenticate itself before anything else.
pub const REQUIRED: u64 = 1 << 17;

const SEND: u8 = 0x05;
const RECEIVE: u8 = 0x06;

/// Security protocol, and what is specific to it, of both commands.
const PROTOCOL: u32 = 0xe9_0101;

/// Bytes of the longest message of a host that is taken: a response, a challenge and a public value have 1168 at most.
const MOST_BYTES: usize = 4096;

/// Hashes, the one that is preferred first: hosts have to have it.
const PREFERRED_HASHES: [Hash; 3] = HASHES;

/// Groups, the one that is preferred first. The shortest exponents take least of the time in which
/// the drive answers no other client, and an exchange at all is better than none.
const PREFERRED_GROUPS: [Group; 6] =
    [Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe6144, Group::Ffdhe8192, Group::Null];

/// Where challenges and exponents come from.
pub trait Entropy: fmt::Debug + Send {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()>;
}

#[derive(Debug, Default)]
pub struct SystemEntropy(SystemRandomness);

/// The system's randomness, which has nothing to show.
#[derive(Default)]
struct SystemRandomness(Option<SystemRandom>);

impl fmt::Debug for SystemRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemRandom")
    }
}

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let system = self.0.0.get_or_insert_with(SystemRandom::new);
        let filled = system.fill(bytes);
        filled.map_err(|_| io::Error::other("the system gives no random bytes"))
    }
}

/// Whether a command is one of authentication.
pub fn concerns(command: &Submission) -> bool {
    command.opcode() == FABRICS && matches!(command.fabrics_type(), SEND | RECEIVE)
}

/// What the data of such a command have to be.
pub fn data_bytes(command: &Submission) -> Result<usize, Status> {
    if !concerns(command) || command.fabrics_type() != SEND {
        return Ok(0);
    }
    let length = command.word(11) as usize;
    if command.word(10) >> 8 != PROTOCOL || !(1..=MOST_BYTES).contains(&length) {
        return Err(status::INVALID_FIELD);
    }
    Ok(length)
}

/// What the connection does after a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Goes(Outcome),
    /// It ends once the command was answered.
    Ends(Outcome),
}

/// Who talks to whom, and with what.
#[derive(Debug, Clone, Copy)]
pub struct Parties<'a> {
    pub host: &'a HostSecrets,
    pub subsystem: &'a [u8],
}

/// The authentication of one queue.
#[derive(Debug, Default)]
pub struct Authentication {
    state: State,
    is_done: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Nothing, or all, has been said.
    #[default]
    Rests,
    /// A challenge is to be given.
    Challenges(Transaction),
    /// Its response is waited for.
    Waits(Transaction),
    /// The host is accepted; the response to its own challenge is to be given.
    Accepts(Transaction, Option<Vec<u8>>),
    /// The host is to accept that.
    WaitsForHost(u16),
    /// A failure is to be told.
    Fails(u16, Failure),
}

/// What was agreed and drawn.
#[derive(Debug)]
struct Transaction {
    id: u16,
    hash: Hash,
    group: Group,
    sequence: u32,
    challenge: Vec<u8>,
    private: Private,
}

struct Private(Vec<u8>);

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Private(…)")
    }
}

impl Authentication {
    /// Whether the queue takes other commands.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Carries a command out whose data are there.
    pub fn execute(
        &mut self,
        command: &Submission,
        data: &[u8],
        parties: Parties<'_>,
        entropy: &mut dyn Entropy,
    ) -> Step {
        if command.word(10) >> 8 != PROTOCOL {
            return Step::Goes(status::INVALID_FIELD.into());
        }
        if command.fabrics_type() == SEND { self.send(data, parties, entropy) } else { self.receive(command) }
    }

    /// A message of the host. What is wrong with it is told when the host asks for the next one.
    fn send(&mut self, data: &[u8], parties: Parties<'_>, entropy: &mut dyn Entropy) -> Step {
        let id = FromHost::transaction(data);
        let next = match (FromHost::read(data), std::mem::take(&mut self.state)) {
            (Ok(FromHost::Failure2), _) => {
                self.is_done = false;
                return Step::Ends(Outcome::Done(0));
            }
            (Ok(FromHost::Negotiate(offer)), State::Rests) => {
                Transaction::of(&offer, entropy).map_or_else(|why| State::Fails(id, why), State::Challenges)
            }
            (Ok(FromHost::Reply(reply)), State::Waits(transaction)) => match transaction.verify(&reply, parties) {
                Ok(response) => State::Accepts(transaction, response),
                Err(why) => State::Fails(id, why),
            },
            (Ok(FromHost::Success2 { transaction }), State::WaitsForHost(expected)) if transaction == expected => {
                self.is_done = true;
                State::Rests
            }
            (Ok(FromHost::Success2 { .. }), State::WaitsForHost(_)) => State::Fails(id, Failure::Payload),
            (Err(why), _) => State::Fails(id, why),
            (Ok(_), _) => State::Fails(id, Failure::Message),
        };
        // Who was accepted once and fails now is not accepted any more.
        self.is_done &= !matches!(next, State::Fails(..));
        self.state = next;
        Step::Goes(Outcome::Done(0))
    }

    /// The host asks for the next message.
    fn receive(&mut self, command: &Submission) -> Step {
        let (message, next, ends) = match std::mem::take(&mut self.state) {
            State::Challenges(transaction) => (transaction.challenge(), State::Waits(transaction), false),
            State::Accepts(transaction, None) => {
                self.is_done = true;
                let message = message::success1(transaction.id, transaction.hash, None);
                (message, State::Rests, false)
            }
            State::Accepts(transaction, response) => {
                let (id, hash) = (transaction.id, transaction.hash);
                let message = message::success1(id, hash, response.as_deref());
                (message, State::WaitsForHost(id), false)
            }
            State::Fails(id, why) => (message::failure1(id, why), State::Rests, true),
            State::Rests | State::Waits(_) | State::WaitsForHost(_) => {
                self.is_done = false;
                (message::failure1(0, Failure::Message), State::Rests, true)
            }
        };
        self.state = next;
        let outcome = given(command, message);
        if ends || matches!(outcome, Outcome::Refused(..)) { Step::Ends(outcome) } else { Step::Goes(outcome) }
    }
}

/// A message as the host has room for it: its end is zeroes.
fn given(command: &Submission, mut message: Vec<u8>) -> Outcome {
    let (room, wanted) = match command.room() {
        Ok(room) => (room, command.word(11) as usize),
        Err(status) => return status.into(),
    };
    if wanted < message.len() || room < message.len() {
        return status::INVALID_FIELD.into();
    }
    message.resize(wanted.min(room).min(MOST_BYTES), 0);
    Outcome::Data(message)
}

impl Transaction {
    fn of(offer: &Offer<'_>, entropy: &mut dyn Entropy) -> Result<Self, Failure> {
        if offer.concatenates {
            return Err(Failure::Concatenation);
        }
        let mut hashes = PREFERRED_HASHES.into_iter();
        let hash = hashes.find(|&hash| offer.has_hash(hash));
        let hash = hash.ok_or(Failure::Hash)?;
        let mut groups = PREFERRED_GROUPS.into_iter();
        let group = groups.find(|&group| offer.has_group(group));
        let group = group.ok_or(Failure::Group)?;
        let mut drawn = |bytes: usize| -> Result<Vec<u8>, Failure> {
            let mut drawn = vec![0; bytes];
            entropy.fill(&mut drawn).map_err(|_| Failure::Failed)?;
            Ok(drawn)
        };
        let number = drawn(4)?;
        Ok(Self {
            id: offer.transaction,
            hash,
            group,
            // 0 means that there is no challenge.
            sequence: super::u32_at(&number, 0).max(1),
            challenge: drawn(hash.bytes())?,
            private: Private(drawn(group.private_bytes())?),
        })
    }

    fn challenge(&self) -> Vec<u8> {
        message::challenge(
            self.id,
            (self.hash, self.group),
            self.sequence,
            &self.challenge,
            &self.group.public(&self.private.0),
        )
    }

    /// The response to the host's own challenge, if it has one and its response is right.
    fn verify(&self, reply: &Reply<'_>, parties: Parties<'_>) -> Result<Option<Vec<u8>>, Failure> {
        let fits = reply.transaction == self.id
            && reply.response.len() == self.hash.bytes()
            && reply.public.len() == self.group.public_bytes();
        if !fits {
            return Err(Failure::Payload);
        }
        let shared = self.group.shared(reply.public, &self.private.0);
        let shared = shared.ok_or(Failure::Payload)?;
        let challenge = Challenge {
            side: Side::Host,
            hash: self.hash,
            value: &self.challenge,
            shared: &shared,
            sequence: self.sequence,
            transaction: self.id,
            host: parties.host.host.as_bytes(),
            subsystem: parties.subsystem,
        };
        if !parties.host.secret.accepts(reply.response, &challenge) {
            return Err(Failure::Failed);
        }
        let Some(value) = reply.challenge else {
            return Ok(None);
        };
        // A host that repeats the challenge could have its own response given back.
        let secret = parties.host.controller.as_ref();
        let secret = secret.filter(|_| value != self.challenge);
        let response = secret.ok_or(Failure::Failed)?.response(&Challenge {
            side: Side::Controller,
            value,
            sequence: reply.sequence,
            ..challenge
        });
        Ok(Some(response))
    }
}
