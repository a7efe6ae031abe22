//! Hostile clients in small, always: the fuzz targets `nbd`, `nvme_tcp`, `fuse` and `vfio_user` try the same
//! at length. A failure prints the seed of its script.

use crate::hostile;

/// Scripts of each protocol.
const SCRIPTS: u64 = 3000;

/// `SplitMix64` (Steele, Lea and Flood 2014).
fn script(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let length = next() % 2000;
    (0..length).map(|_| next() as u8).collect()
}

fn try_all(one: fn(&[u8])) {
    for seed in 0..SCRIPTS {
        let tried = std::panic::catch_unwind(|| one(&script(seed)));
        assert!(tried.is_ok(), "the script of seed {seed}");
    }
}

#[test]
fn clients_of_nbd_harm_nobody() {
    try_all(hostile::nbd);
}

#[test]
fn hosts_of_nvme_over_tcp_harm_nobody() {
    try_all(hostile::nvme_tcp);
}

#[test]
fn requests_of_fuse_harm_nobody() {
    try_all(hostile::fuse);
}

#[test]
fn clients_of_vfio_user_harm_no_other() {
    try_all(hostile::vfio_user);
}
