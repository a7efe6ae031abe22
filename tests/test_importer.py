"""Results made elsewhere become a run: JSON, terse output, logs; what is none of them is told so."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.errors import InputError
from ioassay.records.record import FAILED, OK
from ioassay.store import frames, importer

from .corpora import cases

GOLDEN = Path(__file__).parent / "golden" / "fio" / "3.33"


CLIENTS = GOLDEN / "clients"


def golden(name: str) -> Path:
    found = sorted(GOLDEN.glob(name))
    assert found, f"no golden {name}"
    return found[0]


def log(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


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


@pytest.mark.parametrize(
    ("sizes", "levels", "repetitions"),
    [
        (["4k", "4k", "4k", "64k", "64k", "64k"], ["4k", "64k"], [0, 1, 2]),
        (["4096", "8192"], ["4096", "8192"], [0]),
        (["4k", "4096", "64k"], ["4k", "64k"], [0, 1]),  # two spellings of one level
    ],
)
def test_options_that_differ_are_factors_and_equal_ones_are_repetitions(
    tmp_path: Path, sizes: list[str], levels: list[str], repetitions: list[int]
) -> None:
    files = [json_of(tmp_path, f"{number}.json", bs, 100 + number) for number, bs in enumerate(sizes)]
    store = importer.take_in(files, tmp_path / "run")
    found = frames.load(store)
    assert list(map(str, found.studies[0].factors["bs"])) == levels
    assert found.trials["bs"].dtype.is_integer() == levels[0].isdigit()
    first = found.trials.filter(bs=found.trials["bs"][0])
    assert sorted(first["repetition"].to_list()) == repetitions
    assert sorted(found.trials["read.iops"].to_list()) == [100 + number for number in range(len(sizes))]
    assert found.planned == {"import": len(sizes)}
    kept = {path.name: path.read_bytes() for path in store.root.glob("trials/*/raw/*.json")}
    assert kept == {path.name: path.read_bytes() for path in files}


def test_captured_json_terse_and_failures_are_taken_in(tmp_path: Path) -> None:
    files = [path for pattern in ("*.json", "*terse*") for path in sorted(GOLDEN.rglob(pattern))]
    assert files
    taken = 0
    for number, path in enumerate(files):
        try:
            entries = importer.read([path])
        except InputError as error:
            assert str(path) in str(error)
            continue
        store = importer.take_in([path], tmp_path / str(number))
        assert len(list(store.records())) == len(entries) > 0
        taken += any(entry.metrics for entry in entries)
    assert taken >= 3


def test_a_result_without_requests_is_a_failed_trial(tmp_path: Path) -> None:
    path = json_of(tmp_path, "a.json", "4k", 0)
    record = next(importer.take_in([path], tmp_path / "run").records())
    assert (record.status, record.reason) == (FAILED, "no request was done")


def test_a_log_with_a_line_for_each_request_gives_distribution_and_rates(tmp_path: Path) -> None:
    lines = [f"{number}, {1000 * (number + 1)}, 0, 4096, 0, 0" for number in range(100)]
    paths = [log(tmp_path, "x_lat.1.log", *lines), log(tmp_path, "x_bw.1.log", *lines)]
    record = next(importer.take_in(paths, tmp_path / "run").records())
    assert record.status == OK
    assert record.metrics["read.lat.mean"] == pytest.approx(50_500)
    assert record.metrics["read.lat.max"] == pytest.approx(100_000)
    assert record.metrics["read.lat.p50"] == pytest.approx(50_500, rel=0.01)
    assert record.metrics["read.bytes"] == 100 * 4096
    assert record.metrics["read.bw"] == pytest.approx(100 * 4096 / 0.099)
    found = frames.load(importer.take_in(paths, tmp_path / "again"))
    assert found.hist["count"].sum() == 100
    assert set(found.series["metric"]) == {"read.lat.mean"}


def test_an_averaged_log_gives_a_series_and_no_percentiles(tmp_path: Path) -> None:
    path = log(tmp_path, "x_clat.1.log", *(f"{100 * number}, 2000, 1, 0, 0, 0" for number in range(1, 9)))
    record = next(importer.take_in([path], tmp_path / "run").records())
    assert record.metrics == {"write.clat.mean": 2000}
    assert [warning.code for warning in record.warnings] == ["log-averaged"]


def test_the_logs_of_several_jobs_are_one_load(tmp_path: Path) -> None:
    for job in (1, 2):
        log(tmp_path, f"x_bw.{job}.log", *(f"{100 * number}, 1000, 0, 0, 0, 0" for number in range(1, 9)))
    (entry,) = importer.read(sorted(tmp_path.glob("*.log")))
    assert entry.metrics["read.bw"] == pytest.approx(2 * 1000 * 1024)
    assert [series.job for series in entry.series] == [-1, 0, 1]


def test_logs_of_several_prefixes_are_told_apart(tmp_path: Path) -> None:
    files = [log(tmp_path, f"{name}_bw.1.log", "100, 1000, 0, 0, 0, 0") for name in ("a", "b")]
    found = frames.load(importer.take_in(files, tmp_path / "run"))
    assert found.trials["job"].to_list() == ["a", "b"]


@cases("imports", "refused")
def test_a_file_that_is_no_result_is_named(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case["name"]
    if "text" in case:
        path.write_bytes(case["text"].encode("latin-1"))
    with pytest.raises(InputError, match=case["message"]):
        importer.read([path])


@pytest.mark.fio
def test_what_fio_itself_leaves_is_taken_in(tmp_path: Path) -> None:
    from ioassay.process import supervisor

    assert shutil.which("fio")
    command = ["fio", "--name=x", "--ioengine=null", "--size=64m", "--rw=randrw", "--number_ios=2000"]
    logs = [f"--write_{kind}_log={tmp_path}/x" for kind in ("lat", "bw", "hist")]
    supervisor.capture([*command, *logs, "--log_hist_msec=10", "--output-format=json+", f"--output={tmp_path}/x.json"])
    files = sorted([*tmp_path.glob("*.log"), tmp_path / "x.json"])
    assert len(files) >= 5
    (joined,) = importer.read(files)
    (alone,) = importer.read(files[:-1])
    assert joined.metrics["read.ios"] == alone.metrics["read.ios"]
    assert {item.kind for item in joined.buckets} >= {"lat", "clat"}
    assert joined.series


@pytest.mark.parametrize("version", ["3.33", "3.42"])
def test_each_client_and_all_of_them_stand_in_one_table(tmp_path: Path, version: str) -> None:
    """The distribution of all is that of each, added up."""
    path = GOLDEN.parent / version / "clients" / "same-job.json"
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


def test_the_sum_of_clients_is_compared_with_nothing(tmp_path: Path) -> None:
    """It is no level that could be better than its own parts."""
    found = frames.load(importer.take_in([CLIENTS / "same-job.json"], tmp_path / "run"))
    assert not {"effect", "peak", "choice", "conclude"} & set(found.studies[0].analysis.questions)


def test_clients_with_other_jobs_have_their_own_conditions(tmp_path: Path) -> None:
    path = GOLDEN.parent / "3.42" / "clients" / "different-jobs.json"
    found = frames.load(importer.take_in([path], tmp_path / "run"))
    rows = {row["client"]: row["bs"] for row in found.trials.iter_rows(named=True)}
    assert rows == {"127.0.0.2": "16k", "127.0.0.3": "64k", "all clients": "several"}


def test_options_without_an_owner_and_rates_of_stages_are_warnings() -> None:
    entries = importer.read([CLIENTS / "different-jobs.json"])
    assert {warning.code for entry in entries for warning in entry.warnings} == {"options-unattributed"}
    entries = importer.read([CLIENTS / "stages.json"])
    whole = [entry for entry in entries if entry.options["client"] == "all clients"]
    assert [warning.code for entry in whole for warning in entry.warnings] == ["all-clients-differ"] * 2
    assert "read.bw is " in whole[0].warnings[0].text
    assert {entry.label for entry in whole} == {"first", "second"}


@pytest.mark.parametrize(("name", "why"), [("lost", "connection was lost"), ("unreached", "could not connect")])
def test_a_client_without_results_is_a_failed_trial(tmp_path: Path, name: str, why: str) -> None:
    found = frames.load(importer.take_in([CLIENTS / f"{name}.json"], tmp_path / "run"))
    rows = {row["client"]: (row["status"], row["reason"]) for row in found.trials.iter_rows(named=True)}
    assert rows["127.0.0.2"] == (OK, "")
    assert rows["127.0.0.3"][0] == FAILED and why in rows["127.0.0.3"][1]
    assert "all clients" not in rows


def test_percentiles_of_all_clients_are_fios_where_there_are_no_bins() -> None:
    path = GOLDEN.parent / "3.42" / "clients" / "without-bins.json"
    (whole,) = [entry for entry in importer.read([path]) if entry.options["client"] == "all clients"]
    text = path.read_text()
    total = json.loads(text[text.index("{\n") :])["client_stats"][-1]
    assert whole.metrics["read.clat.p99"] == total["read"]["clat_ns"]["percentile"]["99.000000"]
    (old,) = [e for e in importer.read([CLIENTS / "without-bins.json"]) if e.options["client"] == "all clients"]
    assert "read.clat.p99" not in old.metrics


def test_the_sum_lacks_a_client_that_has_no_results(tmp_path: Path) -> None:
    text = (CLIENTS / "same-job.json").read_text()
    path = tmp_path / "three.json"
    path.write_text(f"fio: failed to connect to 127.0.0.4:8765\n{text}")
    entries = {entry.options["client"]: entry for entry in importer.read([path])}
    assert entries["127.0.0.4"].problem == "fio could not connect to it"
    assert [warning.code for warning in entries["all clients"].warnings] == ["clients-absent"]
    assert "127.0.0.4" in entries["all clients"].warnings[0].text
