//! From what somebody asks for, such as `nbd:unix:drive.sock`, to a transport: the literal list.

use std::net::SocketAddr;
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
        form: "nvme-tcp:ADDRESS:PORT, with ,nqn=NAME, ,host=NAME and ,advertise=ADDRESS as wanted",
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

/// Keys behind the place of NVMe over TCP.
const KEYS: [&str; 3] = [",nqn=", ",host=", ",advertise="];

fn open_nvme_tcp(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let (place, settings) = keyed(place);
    let of = |key| {
        let settings = settings.iter();
        settings.filter_map(move |&(of, value)| (of == key).then_some(value))
    };
    let mut subsystem = match only("nqn", of(KEYS[0]), "one name of the subsystem")? {
        None => Subsystem::unnamed(),
        Some(name) => Subsystem::new(name)?,
    };
    for host in of(KEYS[1]) {
        subsystem.allow(host)?;
    }
    let wanted = "one address, such as 192.0.2.1 or 192.0.2.1:4420";
    if let Some(text) = only("advertise", of(KEYS[2]), wanted)? {
        // Without a port it is the one that is listened at.
        let address = text.parse().map(|address| SocketAddr::new(address, 0));
        let address = address.or_else(|_| text.parse::<SocketAddr>());
        subsystem.address = Some(address.map_err(|_| Error::option("advertise", text, wanted))?);
    }
    let server = nvme_tcp::serve(subsystem, number, &endpoint(place)?).map_err(|error| {
        Error::system("cannot serve NVMe over TCP", std::io::Error::other(error))
    })?;
    Ok(Box::new(server))
}

/// What stands before the first key, and each key with its value. A name may contain commas: it ends
/// where the next key begins.
fn keyed(text: &str) -> (&str, Vec<(&'static str, &str)>) {
    let next = |text: &str| {
        let places = KEYS.iter().filter_map(|&key| Some((text.find(key)?, key)));
        places.min()
    };
    let (mut settings, mut rest, mut key) = (Vec::new(), text, None);
    loop {
        let found = next(rest);
        let value = found.map_or(rest, |(at, _)| &rest[..at]);
        settings.extend(key.map(|key| (key, value)));
        let Some((at, of)) = found else { break };
        (key, rest) = (Some(of), &rest[at + of.len()..]);
    }
    let place = next(text).map_or(text, |(at, _)| &text[..at]);
    (place, settings)
}

/// The value of a key that may be given once.
fn only<'a>(
    name: &'static str,
    values: impl Iterator<Item = &'a str>,
    wanted: &str,
) -> Result<Option<&'a str>, Error> {
    let values: Vec<&str> = values.collect();
    match values[..] {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(Error::option(name, values.join(" and ").as_str(), wanted)),
    }
}

fn open_fuse(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let mount = Fuse::new(number, Path::new(place));
    let mount = mount.map_err(|error| Error::system(format!("cannot mount on {place}"), error))?;
    Ok(Box::new(mount))
}
