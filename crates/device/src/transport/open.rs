//! From what somebody asks for, such as `nbd:unix:drive.sock`, to a transport: the literal list.

use std::path::Path;

use super::Transport;
use super::fuse::Fuse;
use super::nbd;
use super::nvme_tcp::{self, Subsystem};
use super::socket::{CONNECTION_BYTES, Endpoint, EndpointError, SHARED_BYTES};
use crate::Error;

/// Opens the transport of this number, at the place that is written behind its name.
type Open = fn(number: u32, place: &str) -> Result<Box<dyn Transport>, Error>;

/// A transport that can be asked for.
pub struct Entry {
    /// Its name, before the colon.
    pub name: &'static str,
    /// How it is asked for.
    pub form: &'static str,
    /// Connections at a time, each with memory of its own.
    connections: usize,
    open: Open,
}

/// Every transport there is.
pub const TRANSPORTS: &[Entry] = &[
    Entry {
        name: "nbd",
        form: "nbd:unix:PATH or nbd:tcp:ADDRESS:PORT",
        connections: nbd::USUAL_CONNECTIONS,
        open: open_nbd,
    },
    Entry {
        name: "nvme-tcp",
        form: "nvme-tcp:ADDRESS:PORT, with ,nqn=NAME and ,host=NAME as wanted",
        connections: nvme_tcp::USUAL_CONNECTIONS,
        open: open_nvme_tcp,
    },
    Entry {
        name: "fuse",
        form: "fuse:PATH",
        connections: 0,
        open: open_fuse,
    },
];

/// Opens what is asked for.
///
/// # Errors
/// [`Error::Option`] for a name that is in no entry or a place that cannot be, [`Error::System`].
pub fn open(number: u32, asked: &str) -> Result<Box<dyn Transport>, Error> {
    let (_, place) = asked.split_once(':').unwrap_or((asked, ""));
    match entry(asked) {
        Some(entry) => (entry.open)(number, place),
        None => Err(Error::Option {
            name: "transport",
            value: asked.to_owned(),
            wanted: TRANSPORTS
                .iter()
                .map(|entry| entry.form)
                .collect::<Vec<_>>()
                .join(", "),
        }),
    }
}

fn entry(asked: &str) -> Option<&'static Entry> {
    let name = asked.split_once(':').map_or(asked, |(name, _)| name);
    TRANSPORTS.iter().find(|entry| entry.name == name)
}

/// Memory that the connections of what is asked for take at most, in bytes: each its own, and what all
/// share.
#[must_use]
pub fn memory_bytes(asked: &[String]) -> u64 {
    let entries = asked.iter().filter_map(|one| entry(one));
    let own_bytes = entries
        .map(|entry| entry.connections as u64 * CONNECTION_BYTES)
        .sum::<u64>();
    if own_bytes > 0 {
        own_bytes + SHARED_BYTES
    } else {
        0
    }
}

/// A place for sockets that only this machine's programs can reach.
fn endpoint(place: &str) -> Result<Endpoint, Error> {
    let text = place.strip_prefix("tcp:").unwrap_or(place);
    let wrong = |error| Error::Option {
        name: "transport",
        value: place.to_owned(),
        wanted: match error {
            EndpointError::Unreadable { .. } => {
                "unix:PATH or ADDRESS:PORT, such as 127.0.0.1:4420".to_owned()
            }
            EndpointError::NotLoopback { address } => format!(
                "a loopback address, such as 127.0.0.1:{}: nothing protects the drive from other machines",
                address.port()
            ),
        },
    };
    text.parse::<Endpoint>()
        .and_then(Endpoint::local)
        .map_err(wrong)
}

fn open_nbd(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let at = endpoint(place)?;
    let server = nbd::serve(nbd::Export::default(), number, &at)
        .map_err(|error| Error::system("cannot serve NBD", std::io::Error::other(error)))?;
    Ok(Box::new(server))
}

fn open_nvme_tcp(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    // A name may contain commas: it ends where the next key begins.
    let mut parts = place.split(",host=");
    let (place, name) = named(parts.next().unwrap_or(""));
    let mut hosts = Vec::new();
    let mut names: Vec<&str> = name.into_iter().collect();
    for part in parts {
        let (host, name) = named(part);
        hosts.push(host);
        names.extend(name);
    }
    let mut subsystem = match names[..] {
        [] => Subsystem::unnamed(),
        [name] => Subsystem::new(name)?,
        _ => {
            return Err(Error::Option {
                name: "nqn",
                value: names.join(" and "),
                wanted: "one name of the subsystem".to_owned(),
            });
        }
    };
    for host in hosts {
        subsystem.allow(host)?;
    }
    let server = nvme_tcp::serve(subsystem, number, &endpoint(place)?).map_err(|error| {
        Error::system("cannot serve NVMe over TCP", std::io::Error::other(error))
    })?;
    Ok(Box::new(server))
}

/// What stands before the name of a subsystem, and the name.
fn named(text: &str) -> (&str, Option<&str>) {
    match text.split_once(",nqn=") {
        Some((before, name)) => (before, Some(name)),
        None => (text, None),
    }
}

fn open_fuse(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let mount = Fuse::new(number, Path::new(place));
    let mount = mount.map_err(|error| Error::system(format!("cannot mount on {place}"), error))?;
    Ok(Box::new(mount))
}
