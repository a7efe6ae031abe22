"""Files and outputs of others, damaged: each is taken in, or refused in a sentence that names the file.

`tests/corpus/readers/files.toml` has the readers with their golden files, and `tools.toml` the tools whose claims are
read. Traces are made here, in every format.
"""

from __future__ import annotations

import gzip
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ioassay import formats, metrics
from ioassay.drivers import driver
from ioassay.errors import InputError, UsageError
from ioassay.formats import PARSERS, claim_entries, parser, result_entry, user_claims
from ioassay.packs.foreign import importer
from ioassay.packs.strace import observer as strace
from ioassay.records.observation import Observation
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.roles import Outcome, Trial
from ioassay.simulation import traces
from ioassay.study import catalog, plan

from ..corpora import cases, golden, rows
from ..trace_samples import LAWS, READ_WITH, write
from .mutation import COPIES, withstands
from .test_containers import WAYS

ROOT = Path(__file__).parents[2]
Read = Callable[[bytes], object]


def text(copy: bytes) -> str:
    """As `ioassay witness` reads an output."""
    return copy.decode("utf-8", "replace")


def of_file(load: Callable[[Path], object]) -> Callable[[Path, Mapping[str, Any]], Read]:
    """A reader of files: each copy is written to the path first."""

    def reader(path: Path, case: Mapping[str, Any]) -> Read:
        return lambda copy: (path.write_bytes(copy), load(path))

    return reader


def load_study(path: Path) -> None:
    """With what is done before its target is looked at: its points are made, and their parameters checked."""
    suite = catalog.load(str(path))
    try:
        for study in suite.studies:
            tool = driver(study.driver)
            for trial in islice(plan.trials(type(suite)(name=suite.name, title="", studies=[study])), 2):
                tool.validate(trial.params, trial.target)
                tool.access(trial.params)
                tool.touches(trial.params)
                tool.estimate(trial.params, trial.target)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None  # preflight says of which study


def table_of_a_study(path: Path, case: Mapping[str, Any]) -> Read:
    def read(copy: bytes) -> None:
        try:
            written = tomli_w.dumps(json.loads(copy))
        except (ValueError, TypeError, AttributeError, RecursionError):
            written = text(copy)
        path.write_bytes(written.encode("utf-8", "surrogatepass"))
        load_study(path)

    return read


def sound_observation(seen: Observation) -> None:
    """It can be stored and read again, and its numbers can be computed with."""
    json.dumps(seen.as_stored(), allow_nan=False).encode()
    for session in seen.sessions:
        assert math.isfinite(session.read.bytes + session.write.bytes + session.opened_ns)


def claims(path: Path, case: Mapping[str, Any]) -> Read:
    found, argv = parser(case.get("tool", case["id"])), case.get("command", case["id"]).split()

    def read(copy: bytes) -> None:
        for claim in found.read(text(copy), argv):
            json.dumps(claim.__dict__, allow_nan=False, default=vars)
            numbers = (claim.operations, claim.bytes, claim.seconds, claim.rate_bytes_per_s)
            assert all(number is None or number >= 0 for number in numbers)

    return read


def claims_by_a_pattern(path: Path, case: Mapping[str, Any]) -> Read:
    pattern = user_claims.claim_pattern(case["pattern"])
    return lambda copy: user_claims.pattern_claims(pattern, text(copy))


def reading_of_a_driver(path: Path, case: Mapping[str, Any]) -> Read:
    folder = path.parent
    for name in ("stdout", "stderr"):
        (folder / name).write_text("")
    if "beside" in case:
        (folder / Path(case["beside"]).name).write_bytes((ROOT / case["beside"]).read_bytes())
    known = json.loads((ROOT / case["case"]).read_text()) if "case" in case else {"params": case["params"]}
    plain = {"exit_code": 0, "signal": None, "timed_out": False, "started_unix_s": 0.0, "duration_s": 1.0}
    streams = {name: folder / name for name in ("stdout", "stderr")}
    outcome = Outcome(**{**plain, **known.get("outcome", {})}, **streams)
    tool, target = case["driver"], {"kind": "folder", "path": str(folder)}
    trial = Trial("id", "study", tool, {}, known["params"], target, {}, 0, 1, 0)

    def read(copy: bytes) -> None:
        path.write_bytes(copy)
        parsed = driver(tool).parse(trial, outcome, folder)
        assert parsed.status == OK or (parsed.status in (FAILED, SKIPPED) and parsed.reason)
        assert len(parsed.reason) < 2500, parsed.reason
        assert all(isinstance(value, int | float) for value in parsed.metrics.values())
        json.dumps([parsed.metrics, *parsed.parts, *map(vars, parsed.claims)], allow_nan=False, default=vars)

    return read


READERS: dict[str, Callable[[Path, Mapping[str, Any]], Read]] = {
    "import": of_file(lambda path: importer.read([(str(path), path)])),
    "study": of_file(load_study),
    "table of a study": table_of_a_study,
    "strace": of_file(lambda path: sound_observation(strace.read(path))),
    "strace summary": of_file(lambda path: sound_observation(strace.read_summary(path))),
    "claims": claims,
    "pattern": claims_by_a_pattern,
    "unknown program": lambda path, case: lambda copy: formats.read(["./mine"], text(copy), text(copy[::2])),
    "driver": reading_of_a_driver,
}


def goldens(case: Mapping[str, Any]) -> list[bytes]:
    found = [path.read_bytes() for pattern in case["goldens"] for path in sorted(ROOT.glob(pattern))]
    if "from" in case:
        found = [golden[golden.index(case["from"].encode()) :] for golden in found]
    return [json.dumps(tomllib.loads(text(golden))).encode() for golden in found] if case.get("as_json") else found


@cases("readers", "files", "tools")
def test_damaged_copies_are_read_or_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    path = tmp_path / case.get("name", "copy")
    read = READERS[case.get("by", "claims")](path, case)
    named, tree, refuses = str(path) if "name" in case else "", case.get("tree", ""), case.get("refuses", True)
    withstands(read, goldens(case), case["id"], names=named, tree=tree, refuses=refuses)


@cases("readers", "tools")
def test_damaged_outputs_are_imported_or_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    path = tmp_path / "results.txt"
    read = READERS["import"](path, case)
    withstands(read, goldens(case), f"import {case['id']}", names=str(path), tree=case.get("tree", ""))


def test_every_format_has_golden_files() -> None:
    tools = {row["id"] for row in rows("readers", "tools")}
    assert tools == PARSERS.keys()
    results = {row["id"].removeprefix("results of ") for row in rows("readers", "files")}
    assert set(claim_entries.IMPORTED) == tools | (results & result_entry.FORMATS.keys())


@cases("readers", "tools")
def test_what_is_claimed_of_an_output_is_imported(tmp_path: Path, case: dict[str, Any]) -> None:
    path = tmp_path / "results.txt"
    path.write_text(golden(case["output"]))
    found = importer.read([(str(path), path)])
    assert {entry.format for entry in found} == {case["id"]}
    assert all(metrics.known(name) for entry in found for name in entry.metrics)
    assert any(entry.metrics for entry in found)


def test_an_empty_file_is_no_tools_in_particular(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("\n")
    with pytest.raises(InputError, match="is empty: its tool ended before it wrote results"):
        importer.take_in([tmp_path / "results"], tmp_path / "run", None)


# Traces


@pytest.mark.parametrize("name", [known["name"] for known in traces.formats()])
def test_traces_of_every_format(tmp_path: Path, name: str) -> None:
    """Half of the copies are read as what they are, half as what they look like."""
    golden, path = tmp_path / "golden", tmp_path / "copy.trace"
    write(name, golden)
    for known in (name, None) if name != "regex" else (name,):
        read = of_file(lambda path, known=known: traces.info(path, format=known, read=READ_WITH.get(name)))(path, {})
        withstands(read, [golden.read_bytes()], f"trace {name} {known}", names=str(path), count=COPIES // 2)


@pytest.mark.parametrize("way", WAYS)
def test_packed_traces(tmp_path: Path, way: str) -> None:
    golden, path = tmp_path / "golden.csv", tmp_path / "copy"
    traces.make(golden, **LAWS)
    packed = WAYS[way](golden.read_bytes())
    withstands(of_file(traces.info)(path, {}), [packed], f"packed: {way}", names=str(path), count=COPIES // 2)


def test_a_trace_that_is_refused_leaves_no_conversion(tmp_path: Path) -> None:
    path, output, golden = tmp_path / "copy.spc", tmp_path / "out.csv.gz", tmp_path / "golden.spc"
    traces.make(golden, **LAWS)

    def convert(path: Path) -> None:
        output.unlink(missing_ok=True)
        try:
            traces.convert(path, output, prepare=traces.preparation(limit="64MiB", beyond="wrap", sizes="split"))
        finally:
            assert {*tmp_path.iterdir()} <= {path, golden, output}
        gzip.decompress(output.read_bytes())

    withstands(of_file(convert)(path, {}), [golden.read_bytes()], "conversion", names=str(path))
