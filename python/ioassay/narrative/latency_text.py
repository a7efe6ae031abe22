"""The sentence on where the time of operations went, and the names of its parts."""

from __future__ import annotations

from ioassay.narrative.say import Say, say, templates
from ioassay.verify.latency_parts import LatencyParts

_LEAST_SHARE = 0.02
_MOST_PARTS = 4


def part_name(name: str, engine: str) -> str:
    """The words for a part; requests of libaio and io_uring wait for something else than calls do."""
    words = templates("latency")
    return words.get(f"{name}_{engine}", words[name])


def sentence(one: LatencyParts) -> Say:
    """The largest parts and their shares."""
    large = [part for part in one.parts if part.share >= _LEAST_SHARE][:_MOST_PARTS] or one.parts[:1]
    parts = [say("latency.part", name=part_name(part.name, one.engine), share=part.share) for part in large]
    depth = round(one.depth)
    code = "latency.mean_at_depth" if depth > 1 else "latency.mean"
    return say(code, mean_ns=one.mean_ns, kind=one.kind, depth=depth, parts=parts)
