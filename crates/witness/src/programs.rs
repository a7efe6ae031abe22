//! `struct program_event` of `bpf/shapes.h`, and the programs behind the events.

use std::collections::HashMap;

use crate::gather::{self, dev_name};
use crate::observation::Program;
use crate::program_set::ProgramSet;
use crate::shape::{self, Health, PROGRAM_EVENT_BYTES, WORDS_BYTES, halves};

/// What ran; nothing where it is not known of all.
pub(crate) fn taken_from(loaded: &mut ProgramSet) -> Vec<Program> {
    let complete = gather::health(loaded, Health::Unnamed) == 0;
    let mut found = Programs::default();
    while let Some(item) = loaded.began.next() {
        found.add(&item);
    }
    if complete { found.all } else { Vec::new() }
}

#[derive(Default)]
struct Programs {
    all: Vec<Program>,
    running: HashMap<u32, usize>,
}

impl Programs {
    fn add(&mut self, event: &[u8]) {
        let Some((head, words)) = event.split_at_checked(PROGRAM_EVENT_BYTES) else {
            return;
        };
        let [at_ns, whose, output, error, devices] = shape::words(head);
        let (process, bytes) = halves(whose);
        if let Some(last) = self.running.remove(&process) {
            self.all[last].ended_ns = at_ns;
        }
        if words.is_empty() {
            return;
        }
        let (out_dev, error_dev) = halves(devices);
        self.running.insert(process, self.all.len());
        self.all.push(Program {
            process,
            words: texts(&words[..WORDS_BYTES.min(bytes as usize).min(words.len())]),
            is_whole: 0 < bytes && bytes as usize <= WORDS_BYTES,
            began_ns: at_ns,
            ended_ns: 0,
            outputs: [identity(out_dev, output), identity(error_dev, error)],
        });
    }
}

fn identity(dev: u32, inode: u64) -> String {
    if inode == 0 { String::new() } else { format!("{}:{inode}", dev_name(dev)) }
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let ended = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    ended.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(at_ns: u64, process: u32, words: &str) -> Vec<u8> {
        let mut bytes = ends(at_ns, process);
        bytes[12..16].copy_from_slice(&(words.len() as u32).to_ne_bytes());
        bytes[16..24].copy_from_slice(&7u64.to_ne_bytes());
        bytes.extend(words.as_bytes());
        bytes.resize(PROGRAM_EVENT_BYTES + WORDS_BYTES, 0);
        bytes
    }

    fn ends(at_ns: u64, process: u32) -> Vec<u8> {
        let mut bytes = vec![0; PROGRAM_EVENT_BYTES];
        bytes[..8].copy_from_slice(&at_ns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&process.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_program_ends_with_its_process_or_where_that_begins_another() {
        let mut found = Programs::default();
        found.add(&begins(1, 5, "nice\0dd\0if=a b\0\0"));
        found.add(&begins(2, 5, "dd\0if=a b\0\0"));
        found.add(&begins(3, 6, "cat\0"));
        found.add(&ends(9, 5));
        let [nice, dd, cat] = &found.all[..] else { panic!("three programs") };
        assert_eq!(dd.words, ["dd", "if=a b", ""]);
        assert_eq!(dd.outputs, ["0:0:7".to_owned(), String::new()]);
        assert_eq!((nice.ended_ns, dd.ended_ns, cat.ended_ns), (2, 9, 0));
    }
}
