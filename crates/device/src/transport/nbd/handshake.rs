//! The negotiation: the client sends options until one of them begins the transmission.

use super::wire::{
    MAX_PAYLOAD_BYTES, NBD_MAGIC, OPTION_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC, allocation, can, hello, info, option,
    reply, u16_at, u32_at, u64_at,
};
use crate::command::{Drive, DriveInfo};
use crate::namespace::{FIRST, Namespace};
use crate::transport::socket::{End, Received, Then};

/// Data of the longest option: an export's name has at most 4096 bytes, and a few numbers follow.
const MAX_OPTION_BYTES: u32 = 8 << 10;

/// The settings of the transmission, as client and server agreed on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    pub structured: bool,
    /// The client may ask what is allocated.
    pub allocation: bool,
    /// The namespace that its export is.
    pub namespace: u32,
}

/// Options that a client may send; real ones send about five.
const MAX_OPTIONS: u32 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Nothing is encrypted, since there are no certificates.
    None,
    /// Nothing is encrypted yet. The client may only ask for TLS, or leave (mode `FORCEDTLS` of the document).
    Required,
    Tls,
}

#[derive(Debug)]
pub struct Handshake {
    encryption: Encryption,
    /// The client's flags, once they came.
    flags: Option<u16>,
    structured: bool,
    /// The export of which the client may ask what is allocated.
    allocation_of: Option<u32>,
    options: u32,
}

enum Step {
    Goes,
    Follows(Then),
    /// The transmission begins, of this export.
    Agreed(u32),
}

/// Why an option is refused: the type of the answer, and words.
type Refusal = (u32, &'static str);

const UNKNOWN: Refusal = (reply::ERR_UNKNOWN, "no export has that name");

const ENDS: Step = Step::Follows(Then::Ends(End::Now));

impl Handshake {
    pub fn new(encryption: Encryption, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&NBD_MAGIC.to_be_bytes());
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&(hello::FIXED_NEWSTYLE | hello::NO_ZEROES).to_be_bytes());
        Self { encryption, flags: None, structured: false, allocation_of: None, options: 0 }
    }

    /// Takes what the client sent; and what was agreed on when the transmission begins. `name` is that of the first
    /// export, next to the empty one.
    pub fn received(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        name: &str,
        drive: &dyn Drive,
    ) -> (Received, Option<Agreement>) {
        let exports = Exports { name, drive };
        let mut consumed = 0;
        loop {
            let (used, step) = match self.flags {
                None => self.take_flags(&bytes[consumed..]),
                Some(_) => self.take_option(&bytes[consumed..], out, &exports),
            };
            consumed += used;
            let (then, agreement) = match step {
                Step::Goes => continue,
                Step::Follows(then) => (then, None),
                Step::Agreed(namespace) => {
                    let allocation = self.allocation_of == Some(namespace);
                    (Then::Wants(1), Some(Agreement { structured: self.structured, allocation, namespace }))
                }
            };
            return (Received { consumed, then }, agreement);
        }
    }

    /// How many bytes the client's flags are, and what follows.
    fn take_flags(&mut self, bytes: &[u8]) -> (usize, Step) {
        if bytes.len() < 4 {
            return (0, Step::Follows(Then::Wants(4)));
        }
        let flags = u32_at(bytes, 0);
        if flags & !u32::from(hello::FIXED_NEWSTYLE | hello::NO_ZEROES) != 0 {
            return (0, ENDS);
        }
        self.flags = Some(flags as u16);
        (4, Step::Goes)
    }

    /// How many bytes an option is, and what follows.
    fn take_option(&mut self, bytes: &[u8], out: &mut Vec<u8>, exports: &Exports<'_>) -> (usize, Step) {
        if bytes.len() < OPTION_BYTES {
            return (0, Step::Follows(Then::Wants(OPTION_BYTES)));
        }
        let length = u32_at(bytes, 12);
        if u64_at(bytes, 0) != OPTION_MAGIC || length > MAX_OPTION_BYTES || self.options == MAX_OPTIONS {
            return (0, ENDS);
        }
        let whole = OPTION_BYTES + length as usize;
        let Some(data) = bytes.get(OPTION_BYTES..whole) else {
            return (0, Step::Follows(Then::Wants(whole)));
        };
        self.options += 1;
        (whole, self.choose(u32_at(bytes, 8), data, out, exports))
    }

    /// Carries out an option, and answers it.
    fn choose(&mut self, kind: u32, data: &[u8], out: &mut Vec<u8>, exports: &Exports<'_>) -> Step {
        let in_the_clear = self.encryption == Encryption::Required;
        let done = match kind {
            option::STARTTLS if in_the_clear && data.is_empty() => {
                // What was agreed in the clear is void, and nothing more may have come: whoever is between the
                // client and the drive could have sent it.
                (self.encryption, self.structured, self.allocation_of) = (Encryption::Tls, false, None);
                Ok(Step::Follows(Then::Encrypts))
            }
            option::STARTTLS if self.encryption != Encryption::None => {
                Err((reply::ERR_INVALID, "malformed, or a second time"))
            }
            option::EXPORT_NAME => {
                let Some(namespace) = exports.find(data).filter(|_| !in_the_clear) else {
                    return ENDS; // there is no way to say no
                };
                out.extend(size_and_flags(namespace.facts, self.structured));
                if self.flags.unwrap_or(0) & hello::NO_ZEROES == 0 {
                    out.extend_from_slice(&[0; 124]);
                }
                return Step::Agreed(namespace.id);
            }
            option::ABORT => Ok(ENDS),
            _ if in_the_clear => Err((reply::ERR_TLS_REQD, "only with TLS")),
            option::GO | option::INFO => self.describe(kind, data, out, exports),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(kind, data, out, exports),
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                Err((reply::ERR_INVALID, "this option has no data"))
            }
            option::LIST => {
                for id in FIRST..=exports.drive.namespace_count() {
                    let name = exports.name_of(id);
                    let length = (name.len() as u32).to_be_bytes();
                    answer(out, kind, reply::SERVER, &[&length, name.as_bytes()].concat());
                }
                Ok(Step::Goes)
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                Ok(Step::Goes)
            }
            _ => Err((reply::ERR_UNSUP, "")),
        };
        let (result, words) = done.as_ref().err().copied().unwrap_or((reply::ACK, ""));
        answer(out, kind, result, words.as_bytes());
        done.unwrap_or(Step::Goes)
    }

    /// Lists the contexts that a client asks for, or sets them: there is one at most.
    fn contexts(&mut self, kind: u32, data: &[u8], out: &mut Vec<u8>, exports: &Exports<'_>) -> Result<Step, Refusal> {
        let sets = kind == option::SET_META_CONTEXT;
        if sets {
            self.allocation_of = None; // each such option replaces what was set before
        }
        let asked = contexts(data).filter(|_| self.structured);
        let (export, queries) = asked.ok_or((reply::ERR_INVALID, "malformed, or too early"))?;
        let namespace = exports.find(export).ok_or(UNKNOWN)?;
        let is_of_it = |query: &&[u8]| *query == allocation::NAME || !sets && *query == allocation::FAMILY;
        if !sets && queries.is_empty() || queries.iter().any(is_of_it) {
            if sets {
                self.allocation_of = Some(namespace.id);
            }
            let id = allocation::ID.to_be_bytes();
            answer(out, kind, reply::META_CONTEXT, &[&id[..], allocation::NAME].concat());
        }
        Ok(Step::Goes)
    }

    /// Describes the export that a client names, which begins the transmission if it is to go. Behind the name comes which
    /// information is asked for.
    fn describe(&self, kind: u32, data: &[u8], out: &mut Vec<u8>, exports: &Exports<'_>) -> Result<Step, Refusal> {
        let malformed = (reply::ERR_INVALID, "malformed");
        let (name, rest) = word(data).ok_or(malformed)?;
        let infos = rest.get(2..).filter(|infos| infos.len() == 2 * usize::from(u16_at(rest, 0)));
        let infos = infos.ok_or(malformed)?;
        let asks_for = |kind: u16| infos.chunks_exact(2).any(|info| u16_at(info, 0) == kind);
        let Namespace { id, facts, .. } = exports.find(name).ok_or(UNKNOWN)?;
        let mut inform = |subject: u16, data: &[u8]| {
            answer(out, kind, reply::INFO, &[&subject.to_be_bytes(), data].concat());
        };
        inform(info::EXPORT, &size_and_flags(facts, self.structured));
        if asks_for(info::NAME) {
            inform(info::NAME, exports.name_of(id).as_bytes());
        }
        if asks_for(info::DESCRIPTION) {
            inform(info::DESCRIPTION, facts.model.as_bytes());
        }
        // Clients that do not ask need it, too: nothing less than a block is served.
        let sizes = [facts.block_bytes, facts.preferred_bytes, MAX_PAYLOAD_BYTES].map(u32::to_be_bytes);
        inform(info::BLOCK_SIZE, &sizes.concat());
        Ok(if kind == option::GO { Step::Agreed(id) } else { Step::Goes })
    }
}

/// The exports: one for each namespace. The first has the name, the others `-` and their number behind it.
struct Exports<'a> {
    name: &'a str,
    drive: &'a dyn Drive,
}

impl<'a> Exports<'a> {
    fn name_of(&self, id: u32) -> String {
        match id {
            FIRST => self.name.to_owned(),
            _ => format!("{}-{id}", self.name),
        }
    }

    /// The export of this name, or the first where it is empty.
    fn find(&self, name: &[u8]) -> Option<Namespace<'a>> {
        let id = if name.is_empty() {
            FIRST
        } else {
            let mut ids = FIRST..=self.drive.namespace_count();
            ids.find(|&id| self.name_of(id).as_bytes() == name)?
        };
        self.drive.namespace(id)
    }
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`: an export, and names of contexts.
fn contexts(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (export, rest) = word(data)?;
    let count = u32_at(rest.get(..4)?, 0);
    let mut rest = &rest[4..];
    let mut queries = Vec::new(); // as many as the data hold, whatever the number is
    for _ in 0..count {
        let (query, after) = word(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((export, queries))
}

/// Bytes behind their length, and what follows them.
fn word(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32_at(data.get(..4)?, 0) as usize;
    data[4..].split_at_checked(length)
}

fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The size of an export, and the capabilities of the drive. Any connection's flush covers what was answered on all of them, because there
/// is one drive behind them: so several connections are welcome.
fn size_and_flags(facts: &DriveInfo, structured: bool) -> Vec<u8> {
    let mut flags = can::HAS_FLAGS | can::FLUSH | can::FUA | can::MULTI_CONN | can::CACHE;
    if facts.read_only {
        flags |= can::READ_ONLY;
    } else {
        flags |= can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO;
    }
    if structured {
        flags |= can::DF;
    }
    [&facts.size_bytes.to_be_bytes()[..], &flags.to_be_bytes()].concat()
}
