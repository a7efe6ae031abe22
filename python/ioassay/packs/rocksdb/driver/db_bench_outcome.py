"""Was this a measurement? And what db_bench itself, and the kind of its load, say against its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ioassay import units
from ioassay.packs.rocksdb.claims import Output
from ioassay.packs.rocksdb.driver.parameters import Settings, plain
from ioassay.records.record import FAILED, OK, Warning_
from ioassay.roles import Outcome

_LONGEST_QUOTE = 300
_CHANCE = 0.02
"""How far a share of found keys may be from what is expected of random draws, where there are many."""
_STANDARD_ERRORS = 4.0
"""The same where there are few: one of 16,000 trials is further away by chance (binomial distribution)."""
_CHATTER = ("RocksDB:", "Date:", "CPU:", "CPUCache:", "...", "DB path:", "Set seed", "Initializing", "Integrated")
_DEBUG_BUILD = ("Assertions are enabled", "Optimization is disabled")
_REMEDIES = {
    "Assertions are enabled": "setup/rocksdb.sh of ioassay's source builds a db_bench without them, and "
    "IOASSAY_DB_BENCH names another one",
    "Optimization is disabled": "a build with CMAKE_BUILD_TYPE=Release is optimised",
    "compression is not enabled": "a RocksDB that is linked with that library compresses; or compression_type = 'none'",
}


def judge(wanted: Settings, measured: Mapping[str, float], outcome: Outcome, said: str) -> tuple[str, str]:
    """The status of a trial and the reason, '' where it is ok; `said` is its standard error."""
    if outcome.timed_out:
        took = units.format_duration(outcome.duration_s)
        return FAILED, f"db_bench did not end within {took} and was ended; raise run.timeout, or lower params.num"
    if outcome.signal is not None:
        return FAILED, f"db_bench was ended by signal {outcome.signal}{_quoted(said)}"
    if outcome.exit_code:
        return FAILED, f"db_bench failed (exit status {outcome.exit_code}){_quoted(said)}"
    missing = [name for name in wanted.measured if f"{name}.ops_rate" not in measured]
    if missing:
        return FAILED, f"db_bench printed no results of {', '.join(missing)}{_quoted(said)}"
    return OK, ""


def suspicions(wanted: Settings, measured: Mapping[str, float], output: Output) -> list[Warning_]:
    """db_bench's own warnings, and counts of found keys that are easily misread."""
    found = [Warning_(_code(text), text[:_LONGEST_QUOTE], _remedy(text)) for text in output.warnings]
    return [*found, *_not_compressed(wanted, output), *_found_counts(wanted, measured)]


def _not_compressed(wanted: Settings, output: Output) -> list[Warning_]:
    """What it says in its head that it does, where that is not what was asked for."""
    asked = wanted.flags.get("compression_type", "none")
    if asked.lower() == "none" or output.compression != "NoCompression":
        return []
    text = f"compression_type is '{asked}', and db_bench says that it did not compress (Compression: NoCompression)"
    return [Warning_("not-compressed", text, _REMEDIES["compression is not enabled"])]


def _code(text: str) -> str:
    return "debug-build" if any(words in text for words in _DEBUG_BUILD) else "db_bench-note"


def _remedy(text: str) -> str:
    return next((remedy for words, remedy in _REMEDIES.items() if words in text), "")


def _found_counts(wanted: Settings, measured: Mapping[str, float]) -> list[Warning_]:
    """Why reads did not find all keys: random writes draw with replacement."""
    threads = wanted.number("threads")
    order = [plain(name) for name in (*wanted.prepare, *wanted.benchmarks)]
    told = []
    for name in wanted.measured:
        share = measured.get(f"{name}.found")
        if share is None or share >= 0.9999 or name == "readmissing":
            continue
        filled = [one for one in order[: order.index(name)] if one.startswith(("fill", "overwrite"))]
        text = f"{name} found {share:.2%} of the keys that it asked for"
        if not filled:
            remedy = "name a benchmark that fills the database in prepare, such as 'fillseq'"
            told.append(Warning_("keys-not-found", f"{text}: nothing filled the database before", remedy))
        elif filled[-1] == "fillrandom" and abs(share - _drawn(threads)) < _chance(
            _drawn(threads), measured.get(f"{name}.ops", 0)
        ):
            text = (
                f"{name} found about {_drawn(threads):.0%} of the keys that it asked for"  # the same of each repetition
            )
            why = f"fillrandom draws {_times(threads)}as many keys as there are, and some of them again, "
            remedy = "fillseq and filluniquerandom write every key"
            told.append(Warning_("keys-not-found", f"{text}: {why}which gives {_drawn(threads):.2%} of them", remedy))
        else:
            told.append(Warning_("keys-not-found", f"{text} after {filled[-1]}", ""))
    return told


def _drawn(threads: int) -> float:
    """Share of n keys that are drawn at least once in n draws of each thread, for large n."""
    return 1 - math.exp(-threads)


def _chance(share: float, draws: float) -> float:
    return max(_CHANCE, _STANDARD_ERRORS * math.sqrt(share * (1 - share) / draws)) if draws > 0 else _CHANCE


def _times(threads: int) -> str:
    return "" if threads == 1 else f"{threads} times "


def _quoted(said: str) -> str:
    lines: Sequence[str] = [line.strip() for line in said.splitlines()]
    kept = [line for line in lines if line and not line.startswith(_CHATTER)]
    return f": {'; '.join(kept[:2])[:_LONGEST_QUOTE]}" if kept else ""
