//! The compiled programs, as build.rs left them.

/// Empty where they could not be compiled.
pub(crate) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/witness.bpf.o"));

/// Why not; empty where they are there.
pub(crate) const NOT_BUILT: &str = env!("WITNESS_NOT_BUILT");
