//! Gives the readers of traces a name that changes with their sources, so that what an older reader
//! left in the cache of parsed traces is never taken for what this one would read.

use std::fs;
use std::path::PathBuf;

const READERS: [&str; 2] = ["src/trace", "src/container"];

fn main() {
    println!("cargo::rerun-if-changed=src/names.rs");
    println!("cargo::rerun-if-changed=src/request.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let mut sources: Vec<PathBuf> = vec!["src/names.rs".into(), "src/request.rs".into()];
    for folder in READERS {
        println!("cargo::rerun-if-changed={folder}");
        let entries = fs::read_dir(folder).expect("the readers are there");
        sources.extend(entries.flatten().map(|entry| entry.path()));
    }
    sources.sort();
    // FNV-1a, of G. Fowler, L. C. Noll, K.-P. Vo: 64 bits are plenty for versions of one program.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in sources {
        for byte in fs::read(&path).expect("a reader is readable") {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=IOASSAY_TRACE_PARSER={hash:016x}");
}
