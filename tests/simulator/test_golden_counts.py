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
    ("oltp", "none", "reshape"): (0, 0, 0, 0, 0, 9262, 18228, 1673, 1658662644.24),
    ("oltp", "none", "inline"): (0, 0, 0, 0, 0, 9262, 18228, 1673, 1658662644.24),
    ("oltp", "fifo", "reshape"): (632, 8566, 64, 0, 0, 8566, 15787, 1464, 1410479069.6860986),
    ("oltp", "fifo", "inline"): (632, 8566, 64, 0, 0, 8566, 15787, 1464, 1371950582.54),
    ("oltp", "lru", "reshape"): (753, 8445, 64, 0, 0, 8445, 15362, 1427, 1376261904.974084),
    ("oltp", "lru", "inline"): (753, 8445, 64, 0, 0, 8445, 15362, 1427, 1321216816.9),
    ("oltp", "clock", "reshape"): (826, 8372, 64, 0, 0, 8372, 15191, 1411, 1387358627.46789),
    ("oltp", "clock", "inline"): (826, 8372, 64, 0, 0, 8372, 15191, 1411, 1325447237.34),
    ("oltp", "bplru", "reshape"): (763, 8435, 64, 99181, 99181, 107616, 150949, 17078, 23418190033.822327),
    ("oltp", "bplru", "inline"): (763, 8435, 64, 99213, 99213, 107648, 152156, 17160, 19992556918.7),
    ("oltp", "fab", "reshape"): (704, 8494, 64, 0, 0, 8494, 15638, 1449, 1375146600.4150126),
    ("oltp", "fab", "inline"): (704, 8494, 64, 0, 0, 8494, 15638, 1449, 1234305924.38),
    ("oltp", "epo", "reshape"): (693, 8505, 64, 0, 0, 8505, 15790, 1460, 1229069698.501264),
    ("oltp", "epo", "inline"): (693, 8505, 64, 0, 0, 8505, 15790, 1460, 1189830972.34),
    ("oltp", "epo-all", "reshape"): (688, 8513, 61, 0, 0, 8513, 15708, 1455, 1223800085.4694688),
    ("oltp", "epo-all", "inline"): (688, 8513, 61, 0, 0, 8513, 15708, 1455, 721796501.6),
    ("oltp", "idle-cold", "reshape"): (772, 8426, 64, 0, 0, 8426, 15589, 1441, 1127941785.8626344),
    ("oltp", "idle-cold", "inline"): (706, 8496, 60, 0, 0, 8496, 15771, 1458, 341184774.2),
    ("web", "none", "reshape"): (0, 0, 0, 0, 0, 188, 0, 0, 156232740.2),
    ("web", "fifo", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157293781.90411344),
    ("web", "lru", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157293781.90411344),
    ("web", "clock", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157349677.06789505),
    ("web", "bplru", "reshape"): (1, 123, 64, 565, 565, 688, 0, 0, 227149067.89286125),
    ("web", "fab", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157391593.04932734),
    ("web", "epo", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157161055.68727973),
    ("web", "epo-all", "reshape"): (1, 124, 63, 0, 0, 124, 0, 0, 157198975.05806968),
    ("web", "idle-cold", "reshape"): (1, 123, 64, 0, 0, 123, 0, 0, 157147046.63942963),
    ("database", "none", "reshape"): (0, 0, 0, 0, 0, 16378, 23625, 2507, 1048015389929.3),
    ("database", "fifo", "reshape"): (416, 15898, 64, 0, 0, 15898, 21103, 2308, 1040380232653.065),
    ("database", "lru", "reshape"): (418, 15896, 64, 0, 0, 15896, 21345, 2323, 1068290282179.1193),
    ("database", "clock", "reshape"): (415, 15899, 64, 0, 0, 15899, 22178, 2379, 1153647269686.3818),
    ("database", "bplru", "reshape"): (430, 15885, 63, 80451, 80451, 96336, 146841, 16052, 35130483101600.836),
    ("database", "fab", "reshape"): (212, 16102, 64, 0, 0, 16102, 23135, 2456, 1030791905781.5259),
    ("database", "epo", "reshape"): (416, 15898, 64, 0, 0, 15898, 22526, 2402, 1017444176532.8589),
    ("database", "epo-all", "reshape"): (406, 15908, 64, 0, 0, 15908, 23465, 2465, 1042467276819.1154),
    ("database", "idle-cold", "reshape"): (402, 15912, 64, 0, 0, 15912, 20936, 2297, 1057791151847.3997),
}
"""Hits; pages evicted, left, read and written for padding; pages written to flash and moved; cleanings; mean, ps."""


@pytest.mark.parametrize(("trace", "policy", "mode"), GOLDEN)
def test_counts_are_exact(trace: str, policy: str, mode: str) -> None:
    *counts, mean_ps = counted(trace, policy, mode)
    *golden, golden_ps = GOLDEN[trace, policy, mode]
    assert counts == golden
    assert mean_ps == pytest.approx(golden_ps, rel=1e-12)
