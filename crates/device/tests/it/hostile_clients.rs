//! Hostile clients in small, always: the fuzz targets `nbd`, `nvme_tcp`, `fuse` and `vfio_user` try the same
//! at length. A failure prints the seed of its script.

use crate::hostile;
use ioassay_block::SplitMix64;

const SCRIPTS: u64 = 3000;

fn script(seed: u64) -> Vec<u8> {
    let mut chance = SplitMix64(seed);
    let length = chance.next() % 2000;
    (0..length).map(|_| chance.next() as u8).collect()
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
