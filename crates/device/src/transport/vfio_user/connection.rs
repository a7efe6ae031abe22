//! The socket of one client: whole messages with their descriptors, never waiting.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, OwnedFd};
use std::slice;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::message::{HEADER_BYTES, Header, MOST_DESCRIPTORS, MOST_MESSAGE_BYTES, Message};
use crate::transport::socket::Stream;

/// Replies that a client may leave unread before it is read no further.
const MOST_UNREAD: usize = 16;

/// How long a client may take for a message that it began.
const MESSAGE_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Connection {
    pub stream: Stream,
    pub opened: Instant,
    input: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// When the message in `input` began.
    begun: Option<Instant>,
    output: VecDeque<Message>,
    /// Bytes of the first message in `output` that were sent.
    sent: usize,
}

impl Connection {
    /// A connection over a stream that does not wait.
    pub fn new(stream: Stream, opened: Instant) -> Self {
        Self {
            stream,
            opened,
            input: Vec::new(),
            descriptors: Vec::new(),
            begun: None,
            output: VecDeque::new(),
            sent: 0,
        }
    }

    /// The next message, if it is there as a whole. Only the bytes of one message are read at a time, so that
    /// descriptors belong to the message with which they come; they are closed unless they are taken.
    pub fn receive(&mut self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        if self.output.len() >= MOST_UNREAD {
            return Ok(None);
        }
        loop {
            let wanted = match Header::read(&self.input) {
                _ if self.input.len() < HEADER_BYTES => HEADER_BYTES,
                Some(header) => header.bytes,
                None => return Err(ErrorKind::InvalidData.into()),
            };
            if self.input.len() == wanted {
                self.begun = None;
                return Ok(Some((mem::take(&mut self.input), mem::take(&mut self.descriptors))));
            }
            if !self.receive_some(wanted)? {
                return Ok(None);
            }
        }
    }

    /// Reads up to this length; false if there is nothing to be read.
    fn receive_some(&mut self, wanted: usize) -> io::Result<bool> {
        let before = self.input.len();
        debug_assert!(wanted <= MOST_MESSAGE_BYTES);
        self.input.resize(wanted, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            self.stream.as_fd(),
            &mut [IoSliceMut::new(&mut self.input[before..])],
            &mut ancillary,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        );
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.input.truncate(before + received.as_ref().map_or(0, |received| received.bytes));
        match received {
            Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => return Err(ErrorKind::InvalidData.into()),
            Ok(_) if self.descriptors.len() > MOST_DESCRIPTORS => return Err(ErrorKind::InvalidData.into()),
            Ok(received) if received.bytes == 0 => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.begun.get_or_insert_with(Instant::now);
        Ok(true)
    }

    /// Sends a message, now or when the client reads.
    pub fn send(&mut self, message: Message) -> io::Result<()> {
        self.output.push_back(message);
        self.flush().map(|_| ())
    }

    /// Sends what is left; whether there was anything.
    pub fn flush(&mut self) -> io::Result<bool> {
        let mut any = false;
        while let Some(message) = self.output.front_mut() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptor = message.descriptor.as_ref().map(AsFd::as_fd);
            if let Some(descriptor) = &descriptor {
                ancillary.push(SendAncillaryMessage::ScmRights(slice::from_ref(descriptor)));
            }
            let bytes = IoSlice::new(&message.bytes[self.sent..]);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(self.stream.as_fd(), &[bytes], &mut ancillary, flags) {
                Ok(count) => {
                    any = true;
                    message.descriptor = None; // went with the first byte
                    self.sent += count;
                    if self.sent == message.bytes.len() {
                        self.sent = 0;
                        self.output.pop_front();
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(any)
    }

    /// Whether the client takes too long for a message that it began.
    pub fn is_late(&self, now: Instant) -> bool {
        self.begun.is_some_and(|begun| now.saturating_duration_since(begun) > MESSAGE_TIME)
    }
}
