"""Replays: what a trial makes of a replay's output, and real ones on files and served drives.

Refusals are rows of tests/corpus/commands/replay.toml, settings of tests/corpus/drivers/settings_replay.toml.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay import metrics
from ioassay.drivers import driver
from ioassay.packs.replay import claims, replay_worker
from ioassay.packs.replay.driver import SETUP
from ioassay.packs.replay.questions import lateness
from ioassay.records.record import OK
from ioassay.roles import Load, Parsed
from ioassay.store import frames
from ioassay.store.run_folder import RunStore

from ...cli.conftest import ask
from ...computed_runs import execute, suite
from ...conftest import loop_on
from ...corpora import cases
from ...drivers.trials import ended, trial

GOLDEN = Path(__file__).parents[2] / "golden/replay/0.1.0/mixed.txt"
MADE = ("--requests", "400", "--arrivals", "poisson:2000", "--reads", "0.5", "--range", "8MiB")


def changed(document: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with other values at places such as `read.errors`."""
    for place, value in changes.items():
        *tables, key = place.split(".")
        within = document
        for name in tables:
            within = within[name]
        within[key] = value
    return document


def golden() -> dict[str, Any]:
    """The last line of a captured output."""
    found: dict[str, Any] = json.loads(GOLDEN.read_text().splitlines()[-1])
    return found


def parsed(folder: Path, output: str, **how: Any) -> Parsed:
    return driver("replay").parse(trial("replay", {"trace": "oltp"}), ended(folder, output, **how), folder)


# What is made of an output


def test_the_total_latency_is_the_response_time_and_the_completion_latency_the_service_time(tmp_path: Path) -> None:
    document, found = golden(), parsed(tmp_path, GOLDEN.read_text())
    assert found.status == OK, found.reason
    for name in ("read", "write"):
        own = document[name]
        assert found.metrics[f"{name}.ios"] == own["ios"] > 0
        assert found.metrics[f"{name}.lat.mean"] == own["response"]["mean_ns"]
        assert found.metrics[f"{name}.clat.max"] == own["lat"]["max_ns"]
        assert found.metrics[f"{name}.lat.mean"] >= found.metrics[f"{name}.clat.mean"]
    ios, span_s = document["read"]["ios"] + document["write"]["ios"], (document["end_ns"] - document["begin_ns"]) / 1e9
    assert found.metrics["total.iops"] == pytest.approx(ios / span_s)
    assert found.metrics["replay.late"] == document["late"] / ios
    assert found.metrics["replay.stretch"] == pytest.approx(span_s * 1e9 / document["span_ns"])
    assert [name for name in found.metrics if not metrics.known(name)] == []


def test_distributions_hold_every_request_once(tmp_path: Path) -> None:
    document, found = golden(), parsed(tmp_path, GOLDEN.read_text())
    counted = {(one.direction, one.kind): sum(one.counts) for one in found.buckets}
    ios = {name: document[name]["ios"] for name in ("read", "write")}
    for kind in ("lat", "clat"):
        assert {name: counted[name, kind] for name in ios} == ios
        assert counted["total", kind] == sum(ios.values())


def test_claims_are_of_service_times_and_the_whole_replay() -> None:
    document = claims.read(GOLDEN.read_text())
    read, write = claims.claims(document)
    assert (read.kind, write.kind) == ("read", "write")
    for one, own in ((read, document.read), (write, document.write)):
        assert (one.operations, one.bytes, one.engine, one.paths) == (own.ios, own.bytes, "io_uring", (document.path,))
        assert one.seconds == document.seconds and one.latency_ns["mean"] == own.lat.mean_ns
    assert (read.syncs, write.syncs) == (None, document.sync.ios)


@cases("drivers", "replay_outcomes")
def test_a_replay_is_measured_or_says_why_not(case: dict[str, Any], tmp_path: Path) -> None:
    """`change` sets values of the captured document, `text` stands in place of it."""
    output = case.get("text", json.dumps(changed(golden(), case.get("change", {}))))
    found = parsed(tmp_path, output, **case.get("how", {}))
    assert found.status == case["status"], found.reason
    assert case.get("says", "") in found.reason
    assert [warning.code for warning in found.warnings] == case.get("warns", [])
    assert all(text in found.warnings[0].text for text in case.get("warning", ()))
    assert not found.metrics.keys() & set(case.get("lacks", ()))


def test_the_speed_scales_the_times_of_the_trace_and_its_addresses_are_mapped(tmp_path: Path) -> None:
    params = {"trace": "oltp", "speed": 4, "prepare": {"shrink": "target"}}
    load = Load("file", tmp_path / "data", 2**20, read_only=False)
    made = driver("replay").command(trial("replay", params, seed=7), load, tmp_path)
    assert made is not None
    setup = json.loads(made.files[SETUP])
    assert setup["source"]["prepare"] == {"time_scale": 0.25, "shrink_to_bytes": 2**20, "page_bytes": 4096}
    assert setup["setup"] == {
        "path": str(tmp_path / "data"),
        "size_bytes": 2**20,
        "pace": "timed",
        "depth": 1024,
        "direct": True,
        "exclusive": False,
        "seed": 7,
    }


def test_current_rates_are_those_between_two_lines() -> None:
    lines = [{"completed": n, "bytes": 4096 * n, "elapsed_s": n / 1000} for n in (1000, 3000)]
    output = "\n".join(['ts": 5}', *map(json.dumps, lines), '{"requ'])
    found = driver("replay").rates(output)
    assert found is not None and (found.iops, found.bytes_per_s) == (1000.0, 4096e3)
    assert driver("replay").rates(json.dumps(lines[0])) is None


# Real replays


def replayed(folder: Path, *words: str) -> dict[str, Any]:
    """What `ioassay replay --json` of a made trace says, with the records of its trials."""
    assert ask("trace", "make", "t.csv", *MADE, cwd=folder).code == 0
    answer = ask("replay", "t.csv", *words, "--repetitions", "2", "--output", "run", "--json", cwd=folder)
    assert answer.code == 0, answer
    store = RunStore.open(folder / "run")
    return {**answer.json, "records": [store.record(each.id) for each in store.trials()]}


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.parametrize("how", [(), ("--fast",), ("--buffered",)])
def test_a_replay_on_a_file_does_what_the_trace_says_and_the_kernel_confirms_it(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    found = replayed(tmp_path, "--target", "data", "--make", *how)
    info = ask("trace", "info", "t.csv", "--json", cwd=tmp_path).json["traces"][0]
    for record in found["records"]:
        assert record.status == OK, record.reason
        for name in ("read", "write"):
            kind = info["kinds"][name]
            assert (record.metrics[f"{name}.ios"], record.metrics[f"{name}.bytes"]) == (kind["requests"], kind["bytes"])
        assert ("replay.late" in record.metrics) == ("--fast" not in how)
        if "--fast" not in how:  # never earlier than the trace says
            assert record.duration_s >= info["time"]["span_s"]
    assert found["trust"]["contradicted"] == 0
    if how != ("--buffered",):
        assert categories(found) == {"CONFIRMED"}


@pytest.mark.root
@pytest.mark.bpf
def test_reads_writes_trims_and_flushes_on_a_device_are_confirmed(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(16 << 20))
    kinds = [("write", 4096), ("flush", 0), ("read", 4096), ("trim", 8192)] * 40
    rows = [f"{n * 10**6},{kind},{0 if kind == 'flush' else n * 65536},{size}" for n, (kind, size) in enumerate(kinds)]
    (tmp_path / "t.csv").write_text("\n".join(["time_ns,kind,offset_bytes,length_bytes", *rows]))
    with loop_on(tmp_path / "image", "--direct-io=on") as device:
        answer = ask("replay", "t.csv", "--target", device, "--repetitions", "2", "--json", cwd=tmp_path)
    assert answer.code == 0, answer
    assert answer.json["trust"]["contradicted"] == 0 and "CONFIRMED" in categories(answer.json)


def categories(found: Mapping[str, Any]) -> set[str]:
    """Of the verdicts that a run has."""
    (verdict,) = (one for one in found["findings"] if one["question"] == "verdict")
    return {name for name, number in verdict["statistics"]["categories"].items() if number}


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.parametrize(
    ("edit", "wanted"),
    [
        ("", {"CONFIRMED"}),
        ('s/"write": {"ios": /&1/', {"CONFIRMED", "CONTRADICTED"}),
        ('s/"mean_ns": [0-9][0-9.]*/"mean_ns": 9/g', {"CONTRADICTED"}),
    ],
)
def test_an_output_that_somebody_edited_is_contradicted(tmp_path: Path, edit: str, wanted: set[str]) -> None:
    assert ask("trace", "make", "t.csv", *MADE, cwd=tmp_path).code == 0
    with (tmp_path / "data").open("wb") as data:
        data.write(os.urandom(8 << 20))
        os.fsync(data)  # what is dirty would be written with the replay's requests
    setup = {"path": str(tmp_path / "data"), "size_bytes": 8 << 20, "pace": "timed", "depth": 64, "direct": True}
    description = {"source": {"path": str(tmp_path / "t.csv")}, "setup": setup}
    (tmp_path / SETUP).write_text(json.dumps(description))
    replaying = shlex.join(replay_worker.command(tmp_path / SETUP))
    judged = ia.witness(["sh", "-c", f"{replaying} | sed '{edit}'"], level="syscalls")
    assert judged.exit_code == 0, judged.stderr
    assert {verdict.category for verdict in judged.verdicts} == wanted


@pytest.mark.root
def test_two_described_drives_serve_the_same_requests(tmp_path: Path) -> None:
    found = replayed(tmp_path, "--drive", "samsung-980-pro", "--drive", "qlc-client", "--speed", "0.5")
    by_drive = {record.trial["point"]["case"]: record for record in found["records"]}
    assert set(by_drive) == {"samsung-980-pro", "qlc-client"}
    for record in by_drive.values():
        assert record.status == OK, record.reason
        assert record.metrics["read.ios"] + record.metrics["write.ios"] == 400
        assert record.metrics["drive.read.ios"] == record.metrics["read.ios"]
        assert record.metrics["drive.write.bytes"] == record.metrics["write.bytes"]


# Whether it kept the trace's times


@pytest.mark.parametrize(
    ("late_ns", "said"),
    [
        (1e5, "Requests were issued on time: the 99th percentile of lateness is 100 µs, 5 % of that of total latency."),
        (1e6, "Requests were issued late: the 99th percentile of lateness is 1 ms, 50 % of that of total latency."),
    ],
)
def test_requests_are_late_where_a_tenth_of_the_response_times_is_lateness(
    tmp_path: Path, late_ns: float, said: str
) -> None:
    late = {"replay.lateness.p99": late_ns, "replay.lateness.max": 2e6, "replay.late": 0.5, "total.lat.p99": 2e6}
    execute(tmp_path / "run", suite(repetitions=2, params={"metrics": late, "noise": 0}, factors={}))
    records = frames.load(RunStore.open(tmp_path / "run"))
    (finding,) = lateness.analyse(records, records.studies[0])
    assert finding.statement == said
    assert str(finding.premises[0]).startswith("Latency begins when the trace says that a request is due.")
    assert finding.tables[0].rows[0][1:] == [late_ns, 2e6, 0.5, 2e6]


def test_a_study_of_something_else_has_no_lateness(tmp_path: Path) -> None:
    execute(tmp_path / "run", suite(repetitions=2, params={"metrics": {"total.lat.p99": 2e6}}))
    records = frames.load(RunStore.open(tmp_path / "run"))
    assert lateness.analyse(records, records.studies[0]) == []
