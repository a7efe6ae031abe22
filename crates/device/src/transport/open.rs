//! The list of transports, and how an option such as `nbd:unix:drive.sock` becomes one.

use std::net::SocketAddr;
use std::path::Path;

use super::Transport;
use super::fuse::Fuse;
use super::nbd::{self, Certificates};
use super::nvme_tcp::{self, Subsystem};
use super::socket::{CONNECTION_BYTES, Endpoint, EndpointError, ListenError, SHARED_BYTES, TLS_BYTES};
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
        bytes: || 0,
        open: open_nbd,
    },
    Entry {
        name: "nvme-tcp",
        form: "nvme-tcp:ADDRESS:PORT, with ,nqn=NAME, ,host=NAME, ,encryption=none and ,advertise=ADDRESS as wanted",
        connections: nvme_tcp::USUAL_CONNECTIONS,
        bytes: || 0,
        open: open_nvme_tcp,
    },
    Entry {
        name: "fuse",
        form: "fuse:PATH, with ,namespace=NUMBER as wanted",
        connections: 0,
        bytes: || 0,
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
    match entry(asked) {
        Some((entry, place)) => (entry.open)(number, place),
        None => Err(Error::Option {
            name: "transport",
            value: asked.to_owned(),
            wanted: TRANSPORTS.iter().map(|entry| entry.form).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// The transport that is asked for, and its place.
fn entry(asked: &str) -> Option<(&'static Entry, &str)> {
    let (name, place) = asked.split_once(':').unwrap_or((asked, ""));
    Some((TRANSPORTS.iter().find(|entry| entry.name == name)?, place))
}

/// Memory that the connections of what is asked for take at most, in bytes: each its own, and what all share.
pub fn memory_bytes(asked: &[String]) -> u64 {
    let (mut connections_bytes, mut others_bytes) = (0, 0);
    for (entry, place) in asked.iter().filter_map(|one| entry(one)) {
        let is_encrypted = entry.name == "nbd" && keyed(place, NBD_KEYS).len() > 1;
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

fn served<T: Transport + 'static>(what: &str, bound: Result<T, ListenError>) -> Result<Box<dyn Transport>, Error> {
    match bound {
        Ok(transport) => Ok(Box::new(transport)),
        Err(error) => Err(Error::system(format!("cannot serve {what}"), std::io::Error::other(error))),
    }
}

/// Keys behind the place of NBD.
const NBD_KEYS: &[&str] = &["tls"];

fn open_nbd(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let settings = keyed(place, NBD_KEYS);
    let folder = only("tls", &settings, "one folder")?;
    let remedy = ",tls=FOLDER with certificates: nothing protects the drive from other machines";
    let at = endpoint(settings[0].1, folder.is_some(), remedy)?;
    let certificates = folder.map(|folder| Certificates::read(Path::new(folder)));
    let export = nbd::Export { certificates: certificates.transpose()?, ..nbd::Export::default() };
    served("NBD", nbd::serve(export, number, &at))
}

fn open_nvme_tcp(number: u32, place: &str) -> Result<Box<dyn Transport>, Error> {
    let settings = keyed(place, &["nqn", "host", "advertise", "secrets", "encryption"]);
    let mut subsystem = match only("nqn", &settings, "one name of the subsystem")? {
        None => Subsystem::unnamed(),
        Some(name) => Subsystem::new(name)?,
    };
    for host in values("host", &settings) {
        subsystem.allow(host)?;
    }
    let wanted = "one address, such as 192.0.2.1 or 192.0.2.1:4420";
    if let Some(text) = only("advertise", &settings, wanted)? {
        // Without a port it is the one that is listened at.
        let address = text.parse().map(|address| SocketAddr::new(address, 0));
        let address = address.or_else(|_| text.parse::<SocketAddr>());
        subsystem.address = Some(address.map_err(|_| Error::option("advertise", text, wanted))?);
    }
    if let Some(file) = values("secrets", &settings).next() {
        let wanted =
            "no secrets: NVMe over TCP is without authentication; use a tunnel to loopback (ssh -L, WireGuard)";
        return Err(Error::option("secrets", file, wanted));
    }
    let wanted = "none: data on NVMe over TCP are never encrypted";
    let in_the_clear = match only("encryption", &settings, wanted)? {
        None => false,
        Some("none") => true,
        Some(other) => return Err(Error::option("encryption", other, wanted)),
    };
    let remedy = ",encryption=none: any host that reaches the address then reads and writes the drive";
    let at = endpoint(settings[0].1, in_the_clear, remedy)?;
    served("NVMe over TCP", nvme_tcp::serve(subsystem, number, &at))
}

/// Each key with its value; the first, without a name, is the place before them. A value may contain commas: it ends
/// where the next key begins.
fn keyed<'a>(text: &'a str, keys: &[&'static str]) -> Vec<(&'static str, &'a str)> {
    let next = |text: &str| {
        let places = keys.iter().filter_map(|&key| Some((text.find(&format!(",{key}="))?, key)));
        places.min()
    };
    let (mut settings, mut key, mut rest) = (Vec::new(), "", text);
    while let Some((at, of)) = next(rest) {
        settings.push((key, &rest[..at]));
        (key, rest) = (of, &rest[at + of.len() + 2..]);
    }
    settings.push((key, rest));
    settings
}

/// The values of a key.
fn values<'a>(key: &'static str, settings: &[(&'static str, &'a str)]) -> impl Iterator<Item = &'a str> {
    settings.iter().filter_map(move |&(of, value)| (of == key).then_some(value))
}

/// The value of a key that may be given once.
fn only<'a>(key: &'static str, settings: &[(&'static str, &'a str)], wanted: &str) -> Result<Option<&'a str>, Error> {
    match values(key, settings).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        ref all => Err(Error::option(key, all.join(" and ").as_str(), wanted)),
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
    served("vfio-user", VfioUser::bind(number, Path::new(place)))
}
