//! Interrupts: descriptors of the client that are written when a completion queue has something for it.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::registers::MOST_QUEUES;

/// Vectors: one for each queue pair.
pub const VECTORS: usize = MOST_QUEUES as usize + 1;

/// The name of an event descriptor in `/proc/self/fd` (eventfd(2)).
const EVENT_DESCRIPTOR: &str = "anon_inode:[eventfd]";

/// All vectors of a device.
#[derive(Debug)]
pub struct Interrupts {
    vectors: [Option<OwnedFd>; VECTORS],
    /// Vectors that are due, a bit each.
    raised: u64,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self { vectors: [const { None }; VECTORS], raised: 0 }
    }
}

impl Interrupts {
    /// Sets vectors from `start` on; those without a descriptor are off.
    pub fn set(&mut self, start: usize, descriptors: Vec<Option<OwnedFd>>) -> Result<(), Errno> {
        let end = start.checked_add(descriptors.len()).ok_or(Errno::INVAL)?;
        let vectors = self.vectors.get_mut(start..end).ok_or(Errno::INVAL)?;
        for descriptor in descriptors.iter().flatten() {
            prepare(descriptor)?;
        }
        for (vector, descriptor) in vectors.iter_mut().zip(descriptors) {
            *vector = descriptor;
        }
        Ok(())
    }

    /// A vector is to be signalled, if the client set it.
    pub fn raise(&mut self, vector: u16) {
        if let Some(Some(_)) = self.vectors.get(usize::from(vector)) {
            self.raised |= 1 << vector;
        }
    }

    pub fn send(&mut self) -> Result<(), Errno> {
        let mut raised = std::mem::take(&mut self.raised);
        while raised != 0 {
            let vector = raised.trailing_zeros() as usize;
            raised &= raised - 1;
            if let Some(Some(descriptor)) = self.vectors.get(vector) {
                signal(descriptor)?;
            }
        }
        Ok(())
    }
}

/// Checks that a descriptor is of events, and makes writes to it never wait.
fn prepare(descriptor: &OwnedFd) -> Result<(), Errno> {
    let link = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    if link.map_err(|_| Errno::INVAL)?.to_str() != Some(EVENT_DESCRIPTOR) {
        return Err(Errno::INVAL);
    }
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)
}

/// Adds one. The client has the same open file, and may have changed its mode since.
fn signal(descriptor: &OwnedFd) -> Result<(), Errno> {
    if !rustix::fs::fcntl_getfl(descriptor)?.contains(OFlags::NONBLOCK) {
        return Err(Errno::PERM);
    }
    match rustix::io::write(descriptor, &1u64.to_ne_bytes()) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()), // full: it is signalled already
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn counted(descriptor: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(descriptor, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn what_was_raised_is_signalled_once() {
        let mut interrupts = Interrupts::default();
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let vectors = vec![None, Some(event.try_clone().unwrap())];
        interrupts.set(3, vectors).unwrap();
        for vector in [3, 4, 4, 5, 200] {
            interrupts.raise(vector);
        }
        interrupts.send().unwrap();
        assert_eq!((counted(&event), counted(&event)), (1, 0));
        interrupts.set(4, vec![None]).unwrap();
        interrupts.raise(4);
        interrupts.send().unwrap();
        assert_eq!(counted(&event), 0);
    }

    #[test]
    fn no_descriptor_can_make_the_drive_wait() {
        let mut interrupts = Interrupts::default();
        let (_reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(interrupts.set(0, vec![Some(writer.into())]), Err(Errno::INVAL));
        assert_eq!(interrupts.set(VECTORS, vec![None]), Err(Errno::INVAL));
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let copy = event.try_clone().unwrap();
        interrupts.set(0, vec![Some(copy)]).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        interrupts.raise(0);
        interrupts.send().unwrap();
        rustix::fs::fcntl_setfl(&event, OFlags::empty()).unwrap();
        interrupts.raise(0);
        assert_eq!(interrupts.send(), Err(Errno::PERM));
    }
}
