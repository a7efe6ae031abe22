"""Simulated drives with hidden parameters, the workloads that a twin of them is held to, and drives of other families.

The ranges cover SATA and NVMe drives of TLC flash (ISSCC's published read, program and erase times; NVMeVirt's, MQSim's
and FEMU's parameters), at a capacity that can be overwritten in seconds. A seed gives one drive, always the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ioassay import simulator
from ioassay.errors import UsageError
from ioassay.packs.ssd.twin.loads import Load, Reading, Target

KIB, MIB = 2**10, 2**20
PAGE_BYTES = 4 * KIB
NOISE = 0.02
"""Of every statistic that a fit sees: its relative standard deviation."""


def hidden_drive(seed: int) -> dict[str, Any]:
    """The options of a drive of the controller family."""
    draws = np.random.default_rng(seed)
    while True:
        options = _drawn(draws)
        try:
            simulator.check(options)
        except UsageError:
            continue
        return options


def _drawn(draws: np.random.Generator) -> dict[str, Any]:
    def between(low: float, high: float) -> float:
        return round(float(np.exp(draws.uniform(np.log(low), np.log(high)))), 3)

    def one(choices: Sequence[Any]) -> Any:
        return choices[int(draws.integers(len(choices)))]

    def happens(share: float) -> bool:
        return bool(draws.random() < share)

    elements, planes = one((4, 6, 8, 12, 16, 24, 32, 48, 64)), one((1, 2, 4))
    flash_page, unit = one((4, 8, 16)) * KIB, one((16, 32, 48, 64, 96, 128, 256)) * KIB
    capacity = one((128, 256, 512, 1024)) * MIB
    reserve = round(float(draws.uniform(0.07, 0.30)), 3)
    blocks = one((96, 160, 256))
    superblock_pages = capacity / (1 - reserve) / PAGE_BYTES / blocks
    pages_per_block = max(1, round(superblock_pages / elements / planes / (unit // PAGE_BYTES))) * (unit // PAGE_BYTES)
    read_us, program_us = between(20, 120), between(150, 2500)
    slower = draws.uniform(1.1, 1.8, 2)
    types = [1.0, *slower[: one((0, 0, 1, 2))]]
    drive: dict[str, Any] = {
        "elements": elements,
        "planes": planes,
        "dies": 1,
        "page": PAGE_BYTES,
        "flash_page": flash_page,
        "program_unit": unit,
        "blocks": blocks,
        "pages_per_block": pages_per_block,
        "reserve": reserve,
        "min_free": 0.02,
        "read_us": read_us,
        "program_us": program_us,
        "erase_us": between(1000, 8000),
        "page_type_read_us": [round(read_us * each, 3) for each in types],
        "command_read_us": between(1, 20),
        "command_write_us": between(1, 20),
        "command_read_us_per_4k": one((0.0, between(0.1, 2))),
        "command_write_us_per_4k": one((0.0, between(0.1, 2))),
        "command_rate": one((0.0, between(1e5, 1e6))),
        "flash_channels": one([0, *(each for each in (1, 2, 4, 8, 16) if elements % each == 0)]),
        "flash_channel_mb_s": between(200, 1600),
        "link_mb_s": between(800, 7000),
        "link_duplex": happens(0.5),
        "channel_us_per_sector": 0.0,
        "spare_bytes": 0,
        "copy_back": False,
        "endurance": 0,
        "write_cache": 0 if happens(0.3) else one((1, 2, 4, 8, 16, 32)) * MIB,
        "hot_cold": happens(0.3),
        "background_free": one((0.0, 0.04, 0.05)),
        "read_priority": happens(0.5),
    }
    if drive["read_priority"] and happens(0.5):
        drive |= {"program_suspensions": one((1, 3, 8)), "suspend_us": between(10, 80)}
    if happens(0.25):
        ratios = (0.6, 1.0, 1.4)
        drive["page_type_program_us"] = [round(program_us * ratio, 3) for ratio in ratios]
    if happens(0.3):
        drive |= {
            "slc_region": int(capacity * draws.uniform(0.02, 0.05)) // MIB * MIB,
            "bits_per_cell": 3,
            "slc_program_us": round(program_us / draws.uniform(3, 8), 3),
            "slc_read_us": round(read_us * draws.uniform(0.4, 0.9), 3),
            "slc_folding": one(("idle", "full", "both")),
            "slc_idle_us": 100_000.0,
        }
    return drive


@dataclass(frozen=True)
class Workload:
    """Requests that both drives get, the hidden one and its twin."""

    name: str
    arrays: Mapping[str, np.ndarray]
    feed: Mapping[str, Any]
    is_steady: bool
    """Whether the drive was overwritten at random before it."""


def _zipf(draws: np.random.Generator, blocks: int, count: int, theta: float = 0.99) -> np.ndarray:
    """Blocks by Zipf's law, the popular ones spread over the range."""
    weights = np.arange(1, blocks + 1, dtype=float) ** -theta
    ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), draws.random(count))
    spread = np.random.default_rng(1).permutation(blocks)
    places: np.ndarray = spread[np.minimum(ranks, blocks - 1)]
    return places


def workloads(capacity_bytes: int, seed: int, *, rate_per_s: float, requests: int = 8000) -> list[Workload]:
    """Loads that no battery has: five of reads, and six in steady state. Open loops arrive at `rate_per_s`."""
    draws = np.random.default_rng(seed)

    def made(
        name: str, size: int, reads: float, feed: str, *, steady: bool, zipf: bool = False, order: bool = False
    ) -> Workload:
        blocks, count = capacity_bytes // size, min(requests, max(1500, 96 * MIB // size))
        if order:
            places = (int(draws.integers(blocks)) + np.arange(count)) % blocks
        else:
            places = _zipf(draws, blocks, count) if zipf else draws.integers(blocks, size=count)
        kinds = (draws.random(count) >= reads).astype(np.uint8)
        arrays: dict[str, np.ndarray] = {
            "kind": kinds,
            "offset_bytes": (places * size).astype(np.uint64),
            "bytes": np.full(count, size, np.uint32),
        }
        if feed == "open":
            arrays["at_us"] = np.cumsum(draws.exponential(1e6 / rate_per_s, count))
        return Workload(name, arrays, {"feed": feed, "window": None, "driver": "fcfs"}, steady)

    mixed = made("mixed sizes, hot and cold", 4 * KIB, 0.5, "closed:8", steady=True, zipf=True)
    sizes = draws.choice(np.array([4, 8, 16, 64], np.int64) * KIB, len(mixed.arrays["kind"]))
    offsets = np.minimum(mixed.arrays["offset_bytes"].astype(np.int64) // sizes * sizes, capacity_bytes - sizes)
    mixed = replace(mixed, arrays={**mixed.arrays, "bytes": sizes, "offset_bytes": offsets})
    return [
        made("4 KiB reads, Zipf, depth 32", 4 * KIB, 1, "closed:32", steady=False, zipf=True),
        made("64 KiB reads, depth 8", 64 * KIB, 1, "closed:8", steady=False),
        made("16 KiB reads, Zipf, depth 3", 16 * KIB, 1, "closed:3", steady=False, zipf=True),
        made("128 KiB reads in sequence, depth 2", 128 * KIB, 1, "closed:2", steady=False, order=True),
        made("8 KiB reads, open loop", 8 * KIB, 1, "open", steady=False),
        made("8 KiB, 70 % reads, Zipf, depth 8", 8 * KIB, 0.7, "closed:8", steady=True, zipf=True),
        made("4 KiB writes, depth 64", 4 * KIB, 0, "closed:64", steady=True),
        made("128 KiB writes in sequence, depth 4", 128 * KIB, 0, "closed:4", steady=True, order=True),
        mixed,
        made("16 KiB writes, Zipf, depth 16", 16 * KIB, 0, "closed:16", steady=True, zipf=True),
        made("4 KiB, half reads, open loop", 4 * KIB, 0.5, "open", steady=True),
    ]


class Noisy:
    """A target whose readings have noise."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target, self._draws = target, np.random.default_rng(seed)

    @property
    def capacity_bytes(self) -> int:
        return self._target.capacity_bytes

    def run(self, loads: Sequence[Load]) -> list[Reading]:
        return [self._noisy(reading) for reading in self._target.run(loads)]

    def _noisy(self, reading: Reading) -> Reading:
        def scaled(values: np.ndarray | None, factor: float) -> np.ndarray | None:
            return None if values is None else values * factor

        statistics = {name: value * np.exp(self._draws.normal(0, NOISE)) for name, value in reading.statistics.items()}
        factor = float(np.exp(self._draws.normal(0, NOISE)))
        return replace(
            reading,
            statistics=statistics,
            noise=dict.fromkeys(statistics, NOISE),
            latencies_us=scaled(reading.latencies_us, factor),
            bins_us=scaled(reading.bins_us, factor),
        )


class OtherFamily:
    """A drive that is none of the model's: its service times depend on the address by rules that the model lacks.

    `kind` is `regions` (reads of every third megabyte take three times as long), `disk` (one head: seeks and rotation)
    or `hashed` (servers chosen by a hash of the address, a quarter of them slow).
    """

    capacity_bytes = 256 * MIB
    KINDS = ("regions", "disk", "hashed")

    def __init__(self, kind: str, seed: int = 1) -> None:
        self.kind, self._draws = kind, np.random.default_rng(seed)

    def run(self, loads: Sequence[Load]) -> list[Reading]:
        return [self._reading(load) for load in loads]

    def _reading(self, load: Load) -> Reading:
        size, align = load.size_bytes, load.align_bytes or load.size_bytes
        span = load.span_bytes or self.capacity_bytes
        count = load.requests or 2000
        places = np.arange(count) * size % span
        if load.pattern == "random":
            places = self._draws.integers(max(1, (span - size) // align + 1), size=count) * align
        latencies, seconds = self._closed_loop(places + load.begin_bytes, size, load.depth)
        statistics = {
            "mean_us": float(latencies.mean()),
            "p50_us": float(np.median(latencies)),
            "p99_us": float(np.quantile(latencies, 0.99)),
            "iops": count / seconds,
        }
        if load.operation == "mixed":
            statistics |= {f"write_{name}": value for name, value in statistics.items()}
        bins, counts = np.unique(np.round(latencies, 1), return_counts=True)
        in_order = latencies if load.in_order else None
        return Reading(load, count, seconds, statistics, latencies_us=in_order, bins_us=bins, counts=counts)

    def _closed_loop(self, places: np.ndarray, size: int, depth: int) -> tuple[np.ndarray, float]:
        servers = 1 if self.kind == "disk" else 8
        free = np.zeros(servers)
        slots = [0.0] * depth
        latencies, head = np.empty(len(places)), 0
        for index, place in enumerate(places):
            issued = heapq.heappop(slots)
            server = 0
            if self.kind == "disk":
                took = (
                    500
                    + 4 * np.sqrt(abs(int(place) - head) / 4096) * 8
                    + self._draws.uniform(0, 8333) * (int(place) != head)
                )
                head = int(place) + size
            elif self.kind == "regions":
                server = int(place // PAGE_BYTES) % servers
                took = 60.0 if place // MIB % 3 else 180.0
            else:
                server = int(place // PAGE_BYTES * 2654435761 % 2**32) >> 29
                took = 150.0 if server < servers // 4 else 60.0
            end = max(issued, free[server]) + took + size / 1000
            free[server] = end
            latencies[index] = end - issued
            heapq.heappush(slots, end)
        return latencies, float(free.max()) / 1e6
