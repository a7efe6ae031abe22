"""What benchmarks print, damaged: claims are refused in a sentence, and a driver's reading is a failed trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay import formats
from ioassay.drivers import driver
from ioassay.drivers.stress_ng import stressors
from ioassay.formats import PARSERS, claim_pattern, parser
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import Outcome, Parsed, Trial

from .mutation import withstands

GOLDEN = Path(__file__).parent.parent / "golden"
CLAIMED: dict[str, Sequence[str]] = {
    "fio": ("fio/3.33/*/fio.json",),
    "iozone": ("iozone/3.471/*.txt",),
    "filesuite": ("filesuite/0.1.0/*.json",),
    "dd": ("dd/9.1/*.txt", "busybox/1.35.0/*.txt"),
    "db_bench": ("db_bench/7.8.3/*.txt",),
    "sysbench": ("sysbench/1.0.20/*.txt",),
    "ioping": ("ioping/1.3/*.txt",),
    "bonnie": ("bonnie/2.00a/*",),
    "hdparm": ("hdparm/9.65/*.txt",),
    "pgbench": ("pgbench/15.18/*.txt",),
    "redis_benchmark": ("redis_benchmark/7.0.15/*.txt",),
    "elbencho": ("elbencho/documented/*.txt",),
    "vdbench": ("vdbench/documented/*.txt",),
}
COMMANDS = {
    "iozone": ["iozone", "-a", "-E"],
    "dd": ["dd", "if=/a", "of=/b", "bs=1M"],
    "ioping": ["ioping", "-c", "5", "-s", "8k", "-D", "data"],
    "bonnie": ["bonnie++", "-d", "/a", "-s", "16:4k", "-D"],
    "hdparm": ["hdparm", "-tT", "/dev/loop0"],
    "redis_benchmark": ["redis-benchmark"],
    "elbencho": ["elbencho", "-w", "-b", "64k", "--direct", "/data/f"],
}


def goldens(*patterns: str) -> list[bytes]:
    return [path.read_bytes() for pattern in patterns for path in sorted(GOLDEN.glob(pattern))]


def text(copy: bytes) -> str:
    """As `ioassay witness` reads an output."""
    return copy.decode("utf-8", "replace")


def test_every_parser_of_claims_has_its_goldens() -> None:
    assert CLAIMED.keys() == PARSERS.keys()


@pytest.mark.parametrize("name", CLAIMED)
def test_claims(name: str) -> None:
    found = parser(name)
    argv = COMMANDS.get(name, [name])

    def read(copy: bytes) -> None:
        for claim in found.read(text(copy), argv):
            json.dumps(claim.__dict__, allow_nan=False)

    own = Path(__file__).parent.parent / "formats" / "golden"
    more = [path.read_bytes() for path in sorted(own.glob(f"{name}-*"))]
    withstands(
        read, goldens(*CLAIMED[name]) + more, f"claims {name}", tree="json" if name in ("fio", "filesuite") else ""
    )


@pytest.mark.parametrize("name", ["terse-3", "terse-4", "terse-5", "normal"])
def test_claims_of_other_formats_of_fio(name: str) -> None:
    found = parser("fio")
    withstands(lambda copy: found.read(text(copy)), goldens(f"fio/3.33/{name}.txt"), f"claims {name}")


def test_claims_by_a_pattern() -> None:
    """Units and numbers are whatever the text has at their places."""
    pattern = claim_pattern.parse(
        r"(?P<rate>\S{1,40}) (?P<unit>\S{1,9}/s)"
        r"|in (?P<seconds>\S{1,40}) (?P<seconds_unit>\w{1,9}), (?P<bytes>.{1,40}) r"
    )
    withstands(lambda copy: claim_pattern.read(pattern, text(copy)), goldens("ioping/1.3/*.txt"), "claims by a pattern")


def test_an_unknown_program() -> None:
    """Its tool is recognised by what it prints, by every parser."""
    patterns = [pattern for patterns in CLAIMED.values() for pattern in patterns]
    withstands(lambda copy: formats.read(["./mine"], text(copy), text(copy[::2])), goldens(*patterns), "recognise")


Ended = Callable[[Path, dict[str, Any]], Outcome]


def ended(folder: Path, how: dict[str, Any]) -> Outcome:
    plain = {"exit_code": 0, "signal": None, "timed_out": False, "started_unix_s": 0.0, "duration_s": 1.0}
    return Outcome(**{**plain, **how}, stdout=folder / "stdout", stderr=folder / "stderr")


def sound(parsed: Parsed) -> None:
    """What a reading must be whatever the tool printed."""
    assert parsed.status in (OK, FAILED, SKIPPED)
    assert parsed.status == OK or parsed.reason
    assert len(parsed.reason) < 2500, parsed.reason
    for value in parsed.metrics.values():
        assert isinstance(value, int | float)
    json.dumps([parsed.metrics, *parsed.parts, *(vars(claim) for claim in parsed.claims)])


def reading(name: str, params: dict[str, Any], file: str, folder: Path, how: dict[str, Any]) -> Callable[[bytes], None]:
    tool = driver(name)
    probes = {}
    if name == "stress_ng":
        probes = json.loads((GOLDEN / "stress_ng/0.15.06/probes.json").read_text())
        assert stressors.read(probes).stressors
    outcome = ended(folder, how)
    for stream in (outcome.stdout, outcome.stderr):
        stream.write_text("")
    trial = Trial("id", "study", name, {}, params, {"kind": "folder", "path": str(folder)}, {}, 0, 1, 0)

    def read(copy: bytes) -> None:
        (folder / file).write_bytes(copy)
        sound(tool.parse(trial, outcome, folder))

    return read


def cases(folder: Path, file: str) -> list[tuple[dict[str, Any], bytes]]:
    return [
        (json.loads((case.parent / "case.json").read_text()), case.read_bytes())
        for case in sorted(folder.glob(f"*/{file}"))
    ]


def test_readings_of_fio(tmp_path: Path) -> None:
    found = cases(GOLDEN / "fio/3.33", "fio.json")
    case = json.loads((GOLDEN / "fio/3.33/two-sections/case.json").read_text())
    read = reading("fio", case["params"], "fio.json", tmp_path, case["outcome"])
    withstands(read, [text for _, text in found], "driver fio", tree="json", refuses=False)


@pytest.mark.parametrize("file", ["stress-ng.yaml", "stderr"])
def test_readings_of_stress_ng(tmp_path: Path, file: str) -> None:
    found = cases(GOLDEN / "stress_ng/0.15.06", file)
    params = json.loads((GOLDEN / "stress_ng/0.15.06/cpu/case.json").read_text())["params"]
    read = reading("stress_ng", params, file, tmp_path, {})
    if file == "stderr":
        (tmp_path / "stress-ng.yaml").write_bytes((GOLDEN / "stress_ng/0.15.06/cpu/stress-ng.yaml").read_bytes())
    withstands(read, [text for _, text in found], f"driver stress_ng {file}", refuses=False)


def test_readings_of_db_bench(tmp_path: Path) -> None:
    params = {"benchmarks": ["fillseq", "readrandom", "readwhilewriting"], "num": 1000}
    read = reading("db_bench", params, "stdout", tmp_path, {})
    withstands(read, goldens("db_bench/7.8.3/*.txt"), "driver db_bench", refuses=False)


def test_readings_of_iozone(tmp_path: Path) -> None:
    read = reading("iozone", {"tests": ["write", "read"], "size": "1MiB"}, "stdout", tmp_path, {})
    withstands(read, goldens("iozone/3.471/*.txt"), "driver iozone", refuses=False)


def test_readings_of_filesuite(tmp_path: Path) -> None:
    read = reading("filesuite", {"tests": ["write", "read"], "size": "1MiB"}, "stdout", tmp_path, {})
    withstands(read, goldens("filesuite/0.1.0/*.json"), "driver filesuite", tree="json", refuses=False)
