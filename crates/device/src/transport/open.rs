//! The list of transports, and how an option such as `nbd:unix:drive.sock` becomes one.

use std::net::SocketAddr;
use std::path::Path;

use super::Transport;
use super::fuse::Fuse;
use super::nbd::{self, Certificates};
use super::nvme_tcp::{self, Subsystem};
use super::socket::{CONNECTION_BYTES, Endpoint, EndpointError, SHARED_BYTES, TLS_BYTES};
use super::vfio_user::{self, VfioUser};
use crate::Error;
use crate::namespace::FIRST;

/// Opens the transport of this number, at the place that is written behind its name.
type Open = fn(number: u32, place: &str) -> Result<Box<dyn Transport>, Error>;

/// A transport that can be asked for.
pub struct Entry {
    /// The name before the colon.
    pub name: &'static str,
    /// The form of the option.
    pub form: &'static str,
    /// Connections at a time, each with memory of its own.
    connections: usize,
    /// Memory in addition to that of connections.
    bytes: fn() -> u64,
    open: Open,
}

pub const TRANSPORTS: &[Entry] = &[
    Entry {
        name: "nbd",
        form: "nbd:unix:PATH or nbd:tcp:ADDRESS:PORT, with ,tls=FOLDER as wanted",
        connections: nbd::USUAL_CONNECTIONS,
        bytes: no_bytes,
        open: open_nbd,
    },
    Entry {
        name: "nvme-tcp",
        form: "nvme-tcp:ADDRESS:PORT, with ,nqn=NAME, ,host=NAME, ,encryption=none and ,advertise=ADDRESS as wanted",
        connections: nvme_tcp::USUAL_CONNECTIONS,
        bytes: no_bytes,
        open: open_nvme_tcp,
    },
    Entry {
        name: "fuse",
        form: "fuse:PATH, with ,namespace=NUMBER as wanted",
        connections: 0,
        bytes: no_bytes,
        open: open_fuse,
    },
    Entry {
        name: "vfio-user",
        form: "vfio-user:PATH",
        connections: 0,
        bytes: vfio_user::memory_bytes,
        open: open_vfio_user,
    },
];

/// Opens what is asked for.
pub fn open(number: u32, asked: &str) -> Result<Box<dyn Transport>, Error> {
    let (_, place) = asked.split_once(':').unwrap_or((asked, ""));
    match entry(asked) {
        Some(entry) => (entry.open)(number, place),
        None => Err(Error::Option {
            name: "transport",
            value: asked.to_owned(),
            wanted: TRANSPORTS.iter().map(|entry| entry.form).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn entry(asked: &str) -> Option<&'static Entry> {
    let name = asked.split_once(':').map_or(asked, |(name, _)| name);
    TRANSPORTS.iter().find(|entry| entry.name == name)
}

fn no_bytes() -> u64 {
    0
}

/// Memory that the connections of what is asked for take at most, in bytes: each its own, and what all share.
pub fn memory_bytes(asked: &[String]) -> u64 {
    let entries = asked.iter().filter_map(|one| Some((one, entry(one)?)));
    let (mut connections_bytes, mut others_bytes) = (0, 0);
    for (one, entry) in entries {
        let is_encrypted = entry.name == "nbd" && !keyed(one, &NBD_KEYS).1.is_empty();
        let tls_bytes = if is_encrypted { TLS_BYTES } else { 0 };
        connections_bytes += entry.connections as u64 * (CONNECTION_BYTES + tls_bytes);
        others_bytes += (entry.bytes)();
    }
    let shared_bytes = if connections_bytes > 0 { SHARED_BYTES } else { 0 };
    connections_bytes + shared_bytes + others_bytes
}

/// A place for sockets. Beyond this machine it is one only where `protected`; else `remedy` says what would protect it.
fn endpoint(place: &str, protected: bool, remedy: &str) -> Result<Endpoint, Error> {
    let text = place.strip_prefix("tcp:").unwrap_or(place);
    let wrong = |error| Error::Option {
        name: "transport",
        value: place.to_owned(),
        wanted: match error {
            EndpointError::Unreadable { .. } => "unix:PATH or ADDRESS:PORT, such as 127.0.0.1:4420".to_owned(),
            EndpointError::NotLoopback { address } => {
                format!("a loopback address, such as 127.0.0.1:{}, or {remedy}", address.port())
            }
        },
    };
    let endpoint = text.parse::<Endpoint>().map_err(wrong)?;
    if protected { Ok(endpoint) } else { endpoint.local().map_err(wrong) }
}

/// Keys behind the place of NBD.
const NBD_KEYS: [&str; 1] = [",tls="];

fn open_nbd(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let (place, settings) = keyed(place, &NBD_KEYS);
    let folder = only("tls", values(&settings, NBD_KEYS[0]), "one folder")?;
    let remedy = ",tls=FOLDER with certificates: nothing protects the drive from other machines";
    let at = endpoint(place, folder.is_some(), remedy)?;
    let certificates = folder.map(|folder| Certificates::read(Path::new(folder)));
    let export = nbd::Export { certificates: certificates.transpose()?, ..nbd::Export::default() };
    let server = nbd::serve(export, number, &at)
        .map_err(|error| Error::system("cannot serve NBD", std::io::Error::other(error)))?;
    Ok(Box::new(server))
}

/// Keys behind the place of NVMe over TCP.
const NVME_KEYS: [&str; 5] = [",nqn=", ",host=", ",advertise=", ",secrets=", ",encryption="];

fn open_nvme_tcp(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let (place, settings) = keyed(place, &NVME_KEYS);
    let of = |at: usize| values(&settings, NVME_KEYS[at]);
    let mut subsystem = match only("nqn", of(0), "one name of the subsystem")? {
        None => Subsystem::unnamed(),
        Some(name) => Subsystem::new(name)?,
    };
    for host in of(1) {
        subsystem.allow(host)?;
    }
    let wanted = "one address, such as 192.0.2.1 or 192.0.2.1:4420";
    if let Some(text) = only("advertise", of(2), wanted)? {
        // Without a port it is the one that is listened at.
        let address = text.parse().map(|address| SocketAddr::new(address, 0));
        let address = address.or_else(|_| text.parse::<SocketAddr>());
        subsystem.address = Some(address.map_err(|_| Error::option("advertise", text, wanted))?);
    }
    if let Some(file) = of(3).next() {
        let wanted =
            "no secrets: NVMe over TCP is without authentication; use a tunnel to loopback (ssh -L, WireGuard)";
        return Err(Error::option("secrets", file, wanted));
    }
    let wanted = "none: data on NVMe over TCP are never encrypted";
    let in_the_clear = match only("encryption", of(4), wanted)? {
        None => false,
        Some("none") => true,
        Some(other) => return Err(Error::option("encryption", other, wanted)),
    };
    let remedy = ",encryption=none: any host that reaches the address then reads and writes the drive";
    let at = endpoint(place, in_the_clear, remedy)?;
    let server = nvme_tcp::serve(subsystem, number, &at)
        .map_err(|error| Error::system("cannot serve NVMe over TCP", std::io::Error::other(error)))?;
    Ok(Box::new(server))
}

/// The place before the first key, and each key with its value. A value may contain commas: it
/// ends where the next key begins.
fn keyed<'a>(text: &'a str, keys: &[&'static str]) -> (&'a str, Vec<(&'static str, &'a str)>) {
    let next = |text: &str| {
        let places = keys.iter().filter_map(|&key| Some((text.find(key)?, key)));
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

/// The values of a key.
fn values<'a>(settings: &[(&'static str, &'a str)], key: &'static str) -> impl Iterator<Item = &'a str> {
    let settings = settings.iter();
    settings.filter_map(move |&(of, value)| (of == key).then_some(value))
}

/// The value of a key that may be given once.
fn only<'a>(name: &'static str, values: impl Iterator<Item = &'a str>, wanted: &str) -> Result<Option<&'a str>, Error> {
    let values: Vec<&str> = values.collect();
    match values[..] {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(Error::option(name, values.join(" and ").as_str(), wanted)),
    }
}

fn open_fuse(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let (place, namespace) = match place.rsplit_once(",namespace=") {
        None => (place, FIRST),
        Some((place, text)) => {
            let id = text.parse().ok().filter(|id| *id >= FIRST);
            let wanted = "the number of a namespace: 1 and up";
            (place, id.ok_or_else(|| Error::option("namespace", text, wanted))?)
        }
    };
    let mount = Fuse::new(number, Path::new(place), namespace);
    let mount = mount.map_err(|error| Error::system(format!("cannot mount on {place}"), error))?;
    Ok(Box::new(mount))
}

fn open_vfio_user(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    if place.is_empty() {
        let wanted = "vfio-user:PATH, such as vfio-user:drive/cntrl";
        return Err(Error::option("transport", "vfio-user:", wanted));
    }
    let server = VfioUser::bind(number, Path::new(place))
        .map_err(|error| Error::system("cannot serve vfio-user", std::io::Error::other(error)))?;
    Ok(Box::new(server))
}
