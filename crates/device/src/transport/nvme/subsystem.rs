//! The subsystem that is served: its name, its identifiers and its limits.

use std::net::SocketAddr;

use super::DISCOVERY_NAME;
use crate::namespace::FIRST;

/// A subsystem, and how much of it hosts may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subsystem {
    /// The qualified name. If it is empty, one is made of the place where the subsystem listens.
    pub name: String,
    /// The universally unique identifier of the first namespace.
    pub uuid: [u8; 16],
    /// I/O queues of a controller, at most.
    pub io_queues: u16,
    /// Controllers, which is hosts and discoveries, at a time.
    pub controllers: u16,
    /// Names of the hosts that may connect; any may if there are none. A name is no secret: the list keeps
    /// hosts from the wrong drive, and is no protection from hostile ones.
    pub hosts: Vec<String>,
    /// Where the discovery service says that it is, port 0 for the port that it listens at; where it
    /// listens, if nothing is said.
    pub address: Option<SocketAddr>,
    /// The vendor of a controller that lies on a bus, and has nothing of fabrics.
    pub pci_vendor: Option<u16>,
}

impl Subsystem {
    /// A subsystem of this name. The namespaces' identifiers follow from it, so that the same drive has the same.
    pub fn new(name: &str) -> Result<Self, NameError> {
        checked(name).map(Self::named)
    }

    /// A subsystem whose name follows from the place where it will listen, so that hosts find the same drive
    /// again where it was.
    pub fn unnamed() -> Self {
        Self::named(String::new())
    }

    /// A subsystem whose name is made of some text, such as the drive's serial number.
    pub fn of(text: &str) -> Self {
        let id = identifier(text.as_bytes());
        let digits = format!("{:032x}", u128::from_be_bytes(id));
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", parts.join("-"));
        Self { uuid: id, ..Self::named(name) }
    }

    /// Where it listens, as far as that is not said.
    pub(crate) fn listens(&mut self, at: SocketAddr) {
        let address = self.address.get_or_insert(at);
        if address.port() == 0 {
            address.set_port(at.port());
        }
        if self.name.is_empty() {
            let named = Self::of(&at.to_string());
            (self.name, self.uuid) = (named.name, named.uuid);
        }
    }

    /// The universally unique identifier of a namespace.
    pub(super) fn uuid_of(&self, namespace: u32) -> [u8; 16] {
        if namespace == FIRST {
            return self.uuid;
        }
        identifier(&[&self.uuid[..], &namespace.to_le_bytes()].concat())
    }

    fn named(name: String) -> Self {
        Self {
            uuid: identifier(name.as_bytes()),
            name,
            io_queues: 16,
            controllers: 16,
            hosts: Vec::new(),
            address: None,
            pci_vendor: None,
        }
    }

    /// Lets a host of this name connect, and none that has no such name.
    pub fn allow(&mut self, host: &str) -> Result<(), NameError> {
        self.hosts.push(checked(host)?);
        Ok(())
    }

    /// Whether a host of this name may connect.
    pub(crate) fn allows(&self, host: &[u8]) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|name| name.as_bytes() == host)
    }
}

/// Longest name (NVM Express Base Specification 2.0, section 4.5).
const MAX_NAME_BYTES: usize = 223;

/// A name that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nqn is {name:?}, expected nqn.YEAR-MONTH.DOMAIN:TEXT with at most 223 bytes, such as \
     nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"
)]
pub struct NameError {
    pub name: String,
}

/// A qualified name, if it is one and not the discovery service's.
fn checked(name: &str) -> Result<String, NameError> {
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = name.starts_with("nqn.") && (5..=MAX_NAME_BYTES).contains(&name.len());
    let name = name.to_owned();
    if printable && fits && name != DISCOVERY_NAME { Ok(name) } else { Err(NameError { name }) }
}

/// An identifier of version 8, which is one's own affair (RFC 9562, section 5.8): two halves of
/// FNV-1a, the second over the text and the first.
fn identifier(text: &[u8]) -> [u8; 16] {
    let hash =
        |start: u64| text.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let first = hash(0xcbf2_9ce4_8422_2325);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&first.to_be_bytes());
    id[8..].copy_from_slice(&hash(first.rotate_left(32)).to_be_bytes());
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(Subsystem::new("nqn.2016-06.io.example:drive").is_ok());
        let long = format!("nqn.{}", "x".repeat(220));
        for name in ["", "drive", "nqn.", "nqn.a b", super::super::DISCOVERY_NAME, &long] {
            assert!(Subsystem::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_same_text_gives_the_same_name_and_another_text_another() {
        assert_eq!(Subsystem::of("IA0001"), Subsystem::of("IA0001"));
        assert_ne!(Subsystem::of("IA0001").name, Subsystem::of("IA0002").name);
        assert!(Subsystem::new(&Subsystem::of("IA0001").name).is_ok());
    }
}
