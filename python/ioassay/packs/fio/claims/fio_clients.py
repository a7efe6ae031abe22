"""`fio --client`: the servers that make its load, whose options are whose, who has no results, and fio's own sum.

fio connects to servers (`fio --server`) and calls each connection a client. What its versions do is in handle_ts,
handle_job_opt and fio_client_add of its client.c, and in sum_thread_stats of stat.c. `fio_json` reads the entries.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.formats import command_line
from ioassay.metrics import percentile_name
from ioassay.packs.fio.claims import fio_command
from ioassay.packs.fio.claims.fio_results import (
    DIRECTIONS,
    KINDS,
    Direction,
    Job,
    Latency,
    Results,
    by_client,
    elapsed_s,
    in_direction,
    merged_latency,
)

TOTAL = "All clients"
"""fio's name for its entry of all of them together."""
_DEFAULT_PORT = 8765
_KIND = re.compile(r"^(?:ip[46]?|sock):")
_OPTIONS = re.compile(r'"global options"\s*:\s*(?=\{)')
_UNREACHED = re.compile(r"^fio: failed to connect to (.+):(\d+)$", re.M)
_GONE = re.compile(r"^(?:client: host=(.+) disconnected|fio: client (.+?)(?: timed out|, timeout on cmd .*))$", re.M)
_SAME = 1e-6
"""Relative: fio prints rates and latencies with six decimals."""
_SAME_RATE_BYTES_PER_S = 1.0
"""fio rounds a rate down to a whole number."""


@dataclass(frozen=True)
class Difference:
    """A number of fio's own sum that is not that of its clients' results together."""

    metric: str
    """As in `ioassay.metrics`: 'read.bw', 'read.lat.p99'."""
    stated: float
    """By fio."""
    merged: float
    """Of the entries of all clients."""


def client_name(host: str, port: int) -> str:
    """`HOST` at fio's own port, else `HOST:PORT`; the path of a socket, for which fio states a port as well."""
    if not host or host.startswith("/") or port in (0, _DEFAULT_PORT):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def named_servers(argv: Sequence[str]) -> tuple[str, ...]:
    """What a command line gives to `--client`: servers, and files that list some."""
    found = fio_command.values(command_line.words_of(argv, fio_command.is_fio), "client")
    return tuple(dict.fromkeys(_server(text) for text in found if text))


def _server(text: str) -> str:
    host, _, port = _KIND.sub("", text).partition(",")
    return client_name(host or "localhost", int(port) if re.fullmatch(r"\d{1,5}", port) else 0)


def repeated_options(text: str) -> Sequence[tuple[str, str]]:
    """The pairs of a document's global options, which fio repeats for each client in one table before version 3.39."""
    place = _OPTIONS.search(text)
    if place is None:
        return ()
    pairs, _ = json.JSONDecoder(object_pairs_hook=list).raw_decode(text, place.end())
    return [(key, value) for key, value in pairs if isinstance(value, str)]


def shared_options(pairs: Sequence[tuple[str, str]], clients: int) -> tuple[dict[str, str], list[str]]:
    """The options that all clients were given, and those of which the repeated table does not say whose they are."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    shared = {key: own[0] for key, own in values.items() if len(own) >= clients and len(set(own)) == 1}
    return shared, [key for key in values if key not in shared]


def absent(messages: str, present: Sequence[str]) -> dict[str, str]:
    """Clients without results, of which fio's messages tell, and why. fio goes on without them."""
    found = {
        client_name(match[1], int(match[2][:5])): "fio could not connect to it"
        for match in _UNREACHED.finditer(messages)
    }
    for match in _GONE.finditer(messages):
        host = match[1] or match[2]  # fio does not print the port
        name = f"{host}:?" if host in present else host
        found.setdefault(name, "the connection was lost before it sent results")
    return {name: why for name, why in found.items() if name not in present}


def differences(results: Results) -> list[Difference]:
    """The numbers of fio's own sum that its clients' entries do not add up to."""
    total = results.clients.total if results.clients is not None else None
    if total is None:
        return []
    found: list[Difference] = []
    for name in DIRECTIONS:
        parts = in_direction(results.jobs, name)
        if name in total.directions and any(part.ios for part in parts):
            found += _different(name, total.directions[name], parts, results.jobs)
    return found


def _different(name: str, stated: Direction, parts: Sequence[Direction], jobs: Sequence[Job]) -> Iterator[Difference]:
    label = "total" if name == "mixed" else name
    took_s = elapsed_s(jobs, (name,))
    ios, volume = sum(part.ios for part in parts), sum(part.bytes for part in parts)
    yield from _unless_same(f"{label}.ios", stated.ios, ios, 0)
    yield from _unless_same(f"{label}.bytes", stated.bytes, volume, 0)
    if took_s and stated.rate_bytes_per_s is not None:
        yield from _unless_same(f"{label}.bw", stated.rate_bytes_per_s, volume / took_s, _SAME_RATE_BYTES_PER_S)
    for kind in KINDS:
        merged, own = merged_latency(jobs, name, kind), stated.latencies.get(kind)
        if merged is not None and own is not None:
            for statistic, pair in _statistics(own, merged).items():
                yield from _unless_same(f"{label}.{kind}.{statistic}", *pair, 1.0)


def _statistics(stated: Latency, merged: Latency) -> dict[str, tuple[float, float]]:
    found = {
        "mean": (stated.mean_ns, merged.mean_ns),
        "stddev": (stated.stddev_ns, merged.stddev_ns),
        "min": (stated.min_ns, merged.min_ns),
        "max": (stated.max_ns, merged.max_ns),
    }
    if merged.bins:
        own = _percentiles_ns(merged.bins, sorted(stated.percentiles_ns))
        found |= {percentile_name(share): (stated.percentiles_ns[share], own[share]) for share in own}
    return found


def _percentiles_ns(bins: Mapping[int, int], shares: Sequence[float]) -> dict[float, float]:
    """As fio defines them (calc_clat_percentiles): the first bin up to which a share of all requests lies."""
    found: dict[float, float] = {}
    total, reached = sum(bins.values()), 0
    ascending = iter(sorted(bins))
    value_ns = 0
    for share in shares:
        while reached < share / 100 * total and (following := next(ascending, None)) is not None:
            value_ns, reached = following, reached + bins[following]
        found[share] = value_ns
    return found


def _unless_same(metric: str, stated: float, merged: float, step: float) -> Iterator[Difference]:
    if not math.isclose(stated, merged, rel_tol=_SAME if step else 0.0, abs_tol=step):
        yield Difference(metric, stated, merged)


def options_of(listed: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The global options of each client, which fio lists apart from version 3.39 on."""
    found: dict[str, dict[str, str]] = {}
    for table in listed:
        host, port = table.get("hostname"), table.get("port")
        if isinstance(host, str) and isinstance(port, int):
            name = client_name(host, port)
            found[name] = {key: value for key, value in table.items() if isinstance(value, str) and key != "hostname"}
    return found


def servers(results: Results) -> tuple[str, ...]:
    """Those that made the load; none where fio made it itself."""
    return tuple(name for name in by_client(results.jobs) if name)
