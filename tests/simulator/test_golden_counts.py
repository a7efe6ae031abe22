"""Exact counts over the traces that are shipped: a change of one of them is a change of what is simulated."""

from __future__ import annotations

from typing import Any

import pytest

import ioassay
from ioassay import simulator

SMALL = {"elements": 4, "blocks": 64, "pages_per_block": 16, "endurance": 0, "buffer": "256KiB"}
"""A drive that the traces make clean, and a buffer that they overflow."""
COUNTS = ("write_hits", "evicted_pages", "left", "pad_reads", "pad_writes")


def counted(trace: str, policy: str, mode: str) -> tuple[int, ...]:
    prepare = {"page_bytes": 4096, "offsets": "down", "sizes": "round-out", "shrink_to_bytes": 64 << 20}
    options: dict[str, Any] = {**SMALL, "mode": mode, "padding": policy == "bplru"}
    if policy != "bplru":
        del options["padding"]
    done = ioassay.simulate(trace, policy=policy, prepare=prepare, **options)
    raw = done.raw
    buffer = [raw["buffer"][name] for name in COUNTS]
    drive = [raw["drive"][name] for name in ("written_pages", "moved_pages", "cleanings")]
    return (*buffer, *drive, raw["all"]["mean_response_ps"])


def test_all_policies_have_their_counts() -> None:
    assert {policy["name"] for policy in simulator.policies()} == {policy for _, policy, _ in GOLDEN}


GOLDEN: dict[tuple[str, str, str], tuple[Any, ...]] = {
    ("oltp", "none", "reshape"): (0, 0, 0, 0, 0, 9262, 18228, 1673, 1657708756.04),
    ("oltp", "none", "inline"): (0, 0, 0, 0, 0, 9262, 18228, 1673, 1657708756.04),
    ("oltp", "fifo", "reshape"): (632, 8566, 64, 0, 0, 8566, 15787, 1464, 1410514922.941704),
    ("oltp", "fifo", "inline"): (632, 8566, 64, 0, 0, 8566, 15787, 1464, 1372001029.68),
    ("oltp", "lru", "reshape"): (753, 8445, 64, 0, 0, 8445, 15362, 1427, 1376278375.9207056),
    ("oltp", "lru", "inline"): (753, 8445, 64, 0, 0, 8445, 15362, 1427, 1321203988.56),
    ("oltp", "clock", "reshape"): (826, 8372, 64, 0, 0, 8372, 15191, 1411, 1387395472.8073394),
    ("oltp", "clock", "inline"): (826, 8372, 64, 0, 0, 8372, 15191, 1411, 1325502576.88),
    ("oltp", "sieve", "reshape"): (1434, 7764, 64, 0, 0, 7764, 13610, 1265, 1295124150.395257),
    ("oltp", "sieve", "inline"): (1434, 7764, 64, 0, 0, 7764, 13610, 1265, 1146337692.08),
    ("oltp", "s3-fifo", "reshape"): (1516, 7682, 64, 0, 0, 7682, 13038, 1222, 1250312035.7428114),
    ("oltp", "s3-fifo", "inline"): (1516, 7682, 64, 0, 0, 7682, 13038, 1222, 1097387464.4),
    ("oltp", "arc", "reshape"): (1537, 7661, 64, 0, 0, 7661, 13024, 1219, 1241738462.3647294),
    ("oltp", "arc", "inline"): (1537, 7661, 64, 0, 0, 7661, 13024, 1219, 1081886835.22),
    ("oltp", "bplru", "reshape"): (763, 8435, 64, 99181, 99181, 107616, 150486, 17047, 23389431653.58243),
    ("oltp", "bplru", "inline"): (763, 8435, 64, 99213, 99213, 107648, 152156, 17160, 19994934969.14),
    ("oltp", "bplru-padded", "reshape"): (763, 8435, 64, 99181, 99181, 107616, 153312, 17236, 21939877774.938576),
    ("oltp", "bplru-padded", "inline"): (763, 8435, 64, 99213, 99213, 107648, 152156, 17160, 19994934969.14),
    ("oltp", "fab", "reshape"): (704, 8494, 64, 0, 0, 8494, 15638, 1449, 1375147077.8419342),
    ("oltp", "fab", "inline"): (704, 8494, 64, 0, 0, 8494, 15638, 1449, 1234324554.36),
    ("oltp", "epo", "reshape"): (693, 8505, 64, 0, 0, 8505, 15790, 1460, 1229070533.1888769),
    ("oltp", "epo", "inline"): (693, 8505, 64, 0, 0, 8505, 15790, 1460, 1189831443.04),
    ("oltp", "epo-all", "reshape"): (688, 8513, 61, 0, 0, 8513, 15708, 1455, 1224232496.1125643),
    ("oltp", "epo-all", "inline"): (688, 8513, 61, 0, 0, 8513, 15708, 1455, 721827293.26),
    ("oltp", "idle-cold", "reshape"): (772, 8426, 64, 0, 0, 8426, 15589, 1441, 1127979122.3537984),
    ("oltp", "idle-cold", "inline"): (697, 8505, 60, 0, 0, 8505, 15877, 1466, 329899504.04),
    ("web", "none", "reshape"): (0, 0, 0, 0, 0, 188, 0, 0, 156236752.9),
    ("web", "fifo", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157295742.31585693),
    ("web", "lru", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157295742.31585693),
    ("web", "clock", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157351637.63669136),
    ("web", "sieve", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157388617.28751102),
    ("web", "s3-fifo", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157295742.31585693),
    ("web", "arc", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157388617.28751102),
    ("web", "bplru", "reshape"): (1, 123, 64, 565, 565, 688, 0, 0, 227184691.4204698),
    ("web", "fab", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157393552.75464445),
    ("web", "epo", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157163016.02050626),
    ("web", "epo-all", "reshape"): (1, 124, 63, 0, 0, 124, 0, 0, 157200935.23428112),
    ("web", "idle-cold", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157149007.1296964),
    ("database", "none", "reshape"): (0, 0, 0, 0, 0, 16378, 23625, 2507, 1048015873419.7),
    ("database", "fifo", "reshape"): (416, 15898, 64, 0, 0, 15898, 21103, 2308, 1040401376434.5854),
    ("database", "lru", "reshape"): (418, 15896, 64, 0, 0, 15896, 21345, 2323, 1068291904953.6548),
    ("database", "clock", "reshape"): (415, 15899, 64, 0, 0, 15899, 20949, 2297, 1067985534639.7823),
    ("database", "sieve", "reshape"): (517, 15797, 64, 0, 0, 15797, 21668, 2338, 979888962141.9214),
    ("database", "s3-fifo", "reshape"): (531, 15783, 64, 0, 0, 15783, 21512, 2327, 962893217944.6317),
    ("database", "arc", "reshape"): (520, 15794, 64, 0, 0, 15794, 20981, 2292, 1061574717150.4121),
    ("database", "bplru", "reshape"): (430, 15885, 63, 80451, 80451, 96336, 154012, 16530, 36232164984906.34),
    ("database", "fab", "reshape"): (212, 16102, 64, 0, 0, 16102, 23135, 2456, 1030713703576.461),
    ("database", "epo", "reshape"): (416, 15898, 64, 0, 0, 15898, 22526, 2402, 1017448025928.4493),
    ("database", "epo-all", "reshape"): (406, 15908, 64, 0, 0, 15908, 23465, 2465, 1042492248522.5656),
    ("database", "idle-cold", "reshape"): (400, 15914, 64, 0, 0, 15914, 20458, 2265, 1021514686448.3407),
}
"""Hits; pages evicted, left, read and written for padding; pages written to flash and moved; cleanings; mean, ps."""


@pytest.mark.parametrize(("trace", "policy", "mode"), GOLDEN)
def test_counts_are_exact(trace: str, policy: str, mode: str) -> None:
    *counts, mean_ps = counted(trace, policy, mode)
    *golden, golden_ps = GOLDEN[trace, policy, mode]
    assert counts == golden
    assert mean_ps == pytest.approx(golden_ps, rel=1e-12)
