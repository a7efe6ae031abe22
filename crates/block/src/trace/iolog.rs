//! What fio's iologs of both versions share: actions and files.
//!
//! Files become device numbers in the order in which they are first used; their names are not kept.
//! `sync`, `datasync` and `sync_file_range` are flushes; `add`, `open` and `close` are no requests.

use std::collections::BTreeMap;

use super::fields::Spaces;
use crate::{Fault, Kind, Request};

const ACTIONS: &str = "read, write, trim, sync, datasync, sync_file_range, add, open or close (or wait, version 2)";

/// The files of an iolog.
#[derive(Default)]
pub(super) struct Files {
    numbers: BTreeMap<Vec<u8>, u32>,
    last: Vec<u8>,
    last_number: u32,
}

impl Files {
    /// The number of a file, a new one where it has none.
    fn number(&mut self, name: &[u8]) -> Result<u32, Fault> {
        if self.last != name {
            let next = self.numbers.len() as u64;
            self.last_number = match self.numbers.get(name) {
                Some(number) => *number,
                None => super::fields::device("file", next)?,
            };
            self.numbers.insert(name.to_vec(), self.last_number);
            self.last.clear();
            self.last.extend_from_slice(name);
        }
        Ok(self.last_number)
    }

    /// The request of what follows a file's name, if it is one.
    pub(super) fn action(
        &mut self,
        file: &[u8],
        action: &[u8],
        fields: &mut Spaces<'_>,
        at_ns: u64,
    ) -> Result<Option<Request>, Fault> {
        let kind = match action {
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => Kind::Flush,
            b"add" | b"open" | b"close" => {
                fields.end("no offset behind add, open and close")?;
                return Ok(None);
            }
            other => return Err(Fault::field("action", other, ACTIONS)),
        };
        let offset_bytes = fields.whole("offset")?;
        let length_bytes = fields.whole("length")?;
        fields.end("file, action, offset and length")?;
        let mut request = Request { at_ns, device: self.number(file)?, kind, ..Request::default() };
        if kind != Kind::Flush {
            (request.offset_bytes, request.length_bytes) = (offset_bytes, length_bytes);
        }
        Ok(Some(request))
    }
}

/// Reads the header, which must be the first line.
pub(super) fn header(line: &[u8], header: &str, wanted: &'static str) -> Result<(), Fault> {
    if line == header.as_bytes() {
        return Ok(());
    }
    Err(Fault::form(line, wanted))
}

/// Which files were named to fio.
#[derive(Default)]
pub(super) struct Named(std::collections::BTreeSet<u32>);

impl Named {
    /// Writes what introduces a file, the first time; each line begins with `stamp`.
    pub(super) fn introduce(&mut self, device: u32, stamp: &[u8], out: &mut Vec<u8>) {
        if !self.0.insert(device) {
            return;
        }
        for action in [b" add\n".as_slice(), b" open\n"] {
            out.extend_from_slice(stamp);
            name(device, out);
            out.extend_from_slice(action);
        }
    }
}

fn name(device: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"device");
    super::sink::whole(out, u64::from(device));
}

/// Writes file, action, offset and length.
pub(super) fn line(request: &Request, out: &mut Vec<u8>) {
    name(request.device, out);
    out.extend_from_slice(match request.kind {
        Kind::Read => b" read ".as_slice(),
        Kind::Write => b" write ",
        Kind::Trim => b" trim ",
        Kind::Flush => b" sync ",
    });
    super::sink::joined(out, b' ', &[request.offset_bytes, request.length_bytes]);
    out.push(b'\n');
}

/// Writes a pause, as version 2 has them.
pub(super) fn wait(request: &Request, wait_us: u64, out: &mut Vec<u8>) {
    name(request.device, out);
    out.extend_from_slice(b" wait ");
    super::sink::whole(out, wait_us);
    out.extend_from_slice(b" 0\n");
}
