"""Results made elsewhere become a run: JSON, terse output, logs; what is none of them is told so."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.errors import InputError
from ioassay.formats.result_entry import Entry
from ioassay.packs.foreign import importer
from ioassay.records.record import FAILED, OK
from ioassay.store import frames

from ...corpora import cases, has

FIO = Path(__file__).parents[2] / "golden" / "fio"
GOLDEN = FIO / "3.33"
CLIENTS = GOLDEN / "clients"


def read(*paths: Path) -> list[Entry]:
    return importer.read([(str(path), path) for path in paths], [*map(str, paths)])


def json_of(folder: Path, name: str, bs: str, iops: int) -> Path:
    text = (
        '{"fio version": "fio-3.33", "timestamp": 1, "global options": {"direct": "1"}, "jobs": [{"jobname": "j",'
        f' "groupid": 0, "error": 0, "job options": {{"bs": "{bs}", "rw": "read", "randseed": "{name}"}},'
        f' "read": {{"io_bytes": {iops * 4096}, "total_ios": {iops}, "runtime": 1000, "iops": {iops},'
        ' "lat_ns": {"min": 1, "max": 3, "mean": 2, "stddev": 1, "N": 9}}}]}'
    )
    path = folder / name
    path.write_text(text)
    return path


@cases("imports", "taken_in")
def test_results_become_trials_with_their_conditions(case: dict[str, Any], tmp_path: Path) -> None:
    results = enumerate(case.get("results", ()))
    paths = [FIO / name for name in case.get("golden", ())]
    paths += [json_of(tmp_path, f"{number}.json", bs, iops) for number, (bs, iops) in results]
    for name, lines in case.get("logs", {}).items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        paths.append(tmp_path / name)
    store = importer.take_in(paths, tmp_path / "run")
    found = frames.load(store)
    trials = found.trials.sort(case.get("by", "order"))
    assert {name: trials[name].to_list() for name in case.get("columns", ())} == case.get("columns", {})
    assert {name: list(found.studies[0].factors[name]) for name in case.get("levels", ())} == case.get("levels", {})
    assert found.planned == {"import": trials.height}
    reasons = case.get("reasons", [""] * trials.height)
    assert trials["status"].to_list() == [FAILED if reason else OK for reason in reasons]
    assert [reason in (said or "") for reason, said in zip(reasons, trials["reason"], strict=True)] == [True] * len(
        reasons
    )
    assert "warnings" not in case or set(found.warnings["code"]) == set(case["warnings"])
    metrics = next(iter(store.records())).metrics
    assert has(
        {name: pytest.approx(number, rel=0.01 if ".p" in name else 1e-6) for name, number in metrics.items()},
        case.get("metrics", {}),
    )
    assert "only" not in case or metrics.keys() == case["metrics"].keys()
    assert "jobs" not in case or sorted(set(found.series["job"])) == case["jobs"]
    assert "counted" not in case or found.hist["count"].sum() == case["counted"]
    kept = {path.name: path.read_bytes() for path in store.root.glob("trials/*/raw/*.json")}
    assert "results" not in case or kept == {path.name: path.read_bytes() for path in paths}


def test_captured_json_terse_and_failures_are_taken_in(tmp_path: Path) -> None:
    files = [path for pattern in ("*.json", "*terse*") for path in sorted(GOLDEN.rglob(pattern))]
    assert files
    taken = 0
    for number, path in enumerate(files):
        try:
            entries = read(path)
        except InputError as error:
            assert str(path) in str(error)
            continue
        store = importer.take_in([path], tmp_path / str(number))
        assert len(list(store.records())) == len(entries) > 0
        taken += any(entry.metrics for entry in entries)
    assert taken >= 3


@cases("imports", "refused")
def test_a_file_that_is_no_result_is_named(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case["name"]
    if "text" in case:
        path.write_bytes(case["text"].encode("latin-1"))
    with pytest.raises(InputError, match=case["message"]):
        read(path)


@pytest.mark.fio
def test_what_fio_itself_leaves_is_taken_in(tmp_path: Path) -> None:
    from ioassay.process import supervisor

    assert shutil.which("fio")
    command = ["fio", "--name=x", "--ioengine=null", "--size=64m", "--rw=randrw", "--number_ios=2000"]
    logs = [f"--write_{kind}_log={tmp_path}/x" for kind in ("lat", "bw", "hist")]
    supervisor.capture([*command, *logs, "--log_hist_msec=10", "--output-format=json+", f"--output={tmp_path}/x.json"])
    files = sorted([*tmp_path.glob("*.log"), tmp_path / "x.json"])
    assert len(files) >= 5
    (joined,) = read(*files)
    (alone,) = read(*files[:-1])
    assert joined.metrics["read.ios"] == alone.metrics["read.ios"]
    assert {item.kind for item in joined.buckets} >= {"lat", "clat"}
    assert joined.series


@pytest.mark.parametrize("version", ["3.33", "3.42"])
def test_each_client_and_all_of_them_stand_in_one_table(tmp_path: Path, version: str) -> None:
    """The distribution of all is that of each, added up."""
    path = FIO / version / "clients" / "same-job.json"
    found = frames.load(importer.take_in([path], tmp_path / "run"))
    assert set(found.studies[0].factors) == {"client"}
    rows = {row["client"]: row for row in found.trials.iter_rows(named=True)}
    assert set(rows) == {"127.0.0.2", "127.0.0.3", "all clients"}
    parts = [rows[name] for name in ("127.0.0.2", "127.0.0.3")]
    whole = rows["all clients"]
    assert whole["read.ios"] == sum(row["read.ios"] for row in parts)
    assert whole["read.runtime"] == max(row["read.runtime"] for row in parts)
    assert whole["read.bw"] == whole["read.bytes"] / whole["read.runtime"]
    counts = found.hist.filter(direction="read", kind="clat", job=-1).group_by("trial").agg(pl.col("count").sum())
    requests = dict(counts.iter_rows())
    assert {row["trial"]: row["read.ios"] for row in rows.values()} == requests
    assert whole["read.clat.p99"] != pytest.approx(sum(row["read.clat.p99"] for row in parts) / 2, rel=1e-9)
    assert not found.warnings.height
    # The sum is no level that could be better than its own parts.
    assert not {"effect", "peak", "choice", "conclude"} & set(found.studies[0].analysis.questions)


def test_rates_of_stages_say_in_what_they_differ() -> None:
    whole = [e for e in read(CLIENTS / "stages.json") if e.options["client"] == "all clients"]
    assert "read.bw is " in whole[0].warnings[0].text
    assert {entry.label for entry in whole} == {"first", "second"}


def test_percentiles_of_all_clients_are_fios_where_there_are_no_bins() -> None:
    path = FIO / "3.42" / "clients" / "without-bins.json"
    (whole,) = [entry for entry in read(path) if entry.options["client"] == "all clients"]
    text = path.read_text()
    total = json.loads(text[text.index("{\n") :])["client_stats"][-1]
    assert whole.metrics["read.clat.p99"] == total["read"]["clat_ns"]["percentile"]["99.000000"]
    (old,) = [e for e in read(CLIENTS / "without-bins.json") if e.options["client"] == "all clients"]
    assert "read.clat.p99" not in old.metrics


def test_the_sum_lacks_a_client_that_has_no_results(tmp_path: Path) -> None:
    text = (CLIENTS / "same-job.json").read_text()
    path = tmp_path / "three.json"
    path.write_text(f"fio: failed to connect to 127.0.0.4:8765\n{text}")
    entries = {entry.options["client"]: entry for entry in read(path)}
    assert entries["127.0.0.4"].problem == "fio could not connect to it"
    assert [warning.code for warning in entries["all clients"].warnings] == ["clients-absent"]
    assert "127.0.0.4" in entries["all clients"].warnings[0].text


def test_a_file_of_several_loads_takes_its_room_once(tmp_path: Path) -> None:
    both = tmp_path / "both.json"
    later = json_of(tmp_path, "b", "8k", 9).read_text().replace('"timestamp": 1,', '"timestamp": 100,')
    both.write_text(f"{json_of(tmp_path, 'a', '4k', 9).read_text()}\n{later}")
    store = importer.take_in([both], tmp_path / "run")
    kept = [path.stat() for path in store.root.glob("trials/*/raw/both.json")]
    assert [file.st_nlink for file in kept] == [2, 2]
    assert len({file.st_ino for file in kept}) == 1


@pytest.mark.parametrize("said, instead", [(", iodepth=1", ""), ("MiB/s (", "xB/s (")])
def test_a_report_with_a_damaged_line_is_taken_in(tmp_path: Path, said: str, instead: str) -> None:
    """The depth of its settings, or a unit of its sums, is no number that an import needs."""
    text = (GOLDEN / "normal.txt").read_text()
    before, frame, sums = text.partition("Run status" if instead else "ioengine")
    (tmp_path / "normal.txt").write_text(f"{before}{frame}{sums.replace(said, instead, 1)}")
    assert said in sums
    store = importer.take_in([tmp_path / "normal.txt"], tmp_path / "run")
    assert frames.load(store).trials["status"].to_list() == [OK]
