//! Where a transport listens, as it is written on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// A place to listen at, or to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Unix(PathBuf),
    /// An address and a port, `127.0.0.1:4420` or `[::1]:4420`; port 0 lets the kernel choose.
    Tcp(SocketAddr),
}

/// An endpoint that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no place to listen at: write unix:PATH or ADDRESS:PORT, such as 127.0.0.1:4420")]
pub struct EndpointError {
    pub text: String,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let unreadable = || EndpointError { text: text.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            let whole = !path.is_empty() && !path.contains('\0');
            return whole.then(|| Endpoint::Unix(path.into())).ok_or_else(unreadable);
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| unreadable())?;
            return Ok(Endpoint::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        text.parse().map(Endpoint::Tcp).map_err(|_| unreadable())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written_alike() {
        for text in ["unix:/run/drive.sock", "127.0.0.1:4420", "[::1]:10809"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:1".parse::<Endpoint>().unwrap().to_string(), "127.0.0.1:1");
    }

    #[test]
    fn what_is_neither_form_is_refused() {
        for text in ["", "unix:", "4420", "127.0.0.1", "127.0.0.1:99999", "unix:a\0b", "localhost:x"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }
}
