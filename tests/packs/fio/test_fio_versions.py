"""Outputs of fio 1.59 to 3.42, read here a second time by plain patterns and positions of fields.

The job files of the captures are in `golden/fio/3.42/jobs`. Nothing of the package computes what is expected.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import InputError
from ioassay.formats import number_parsing
from ioassay.packs.fio.claims import fio_entries, fio_json, fio_terse, fio_text
from ioassay.packs.fio.claims.fio_results import Results, error_number, error_words, rate_misfits
from ioassay.packs.fio.driver import fio_outcome
from ioassay.packs.foreign import importer

GOLDEN = Path(__file__).parents[2] / "golden" / "fio"
NS = {"nsec": 1, "usec": 1e3, "msec": 1e6}
BYTES = {"mixed": 4096, "after": 65536, "every": 4096}
"""Block sizes of the jobs."""
SEVERAL = pytest.mark.parametrize("version", ["2.21", "2.99", "3.42"])


def text_of(name: str) -> str:
    return (GOLDEN / name).read_text()


def metrics_of(results: Results) -> dict[str, dict[str, float]]:
    return {job.name: fio_outcome.metrics([job]) for job in results.jobs}


def number(text: str) -> float:
    return float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)


def plainly(report: str, block_bytes: dict[str, int]) -> dict[str, dict[str, float]]:
    """What a report for people says of each job, line by line."""
    found: dict[str, dict[str, float]] = {}
    job, way = "", ""
    for line in report.splitlines():
        if head := re.match(r"(\w+): \(groupid=", line):
            job = head[1]
            found[job] = {}
        elif rate := re.match(r" +(read|write|mixed) ?: (?:io=|IOPS=).*?(\d+)msec", line):
            way = {"mixed": "total"}.get(rate[1], rate[1])
            found[job][f"{way}.runtime"] = int(rate[2]) / 1000
        elif way and (
            stats := re.match(
                r" +(slat|clat|lat) \((.sec)\): min= *([\d.kM]+) ?, max= *([\d.kM]+) ?, avg= *([\d.]+)", line
            )
        ):
            values = dict(zip(("min", "max", "mean"), stats.groups()[2:], strict=True))
            found[job] |= {f"{way}.{stats[1]}.{key}": number(value) * NS[stats[2]] for key, value in values.items()}
        elif cpu := re.match(r"  cpu +: usr=([\d.]+)%, sys=([\d.]+)%, ctx=(\d+)", line):
            found[job] |= {"usr": float(cpu[1]), "sys": float(cpu[2]), "context_switches": int(cpu[3])}
        elif issued := re.match(r" +issued.*?: total=(?:r=)?(\d+)[,/](?:w=)?(\d+)", line):
            for name, count in zip(("read", "write"), issued.groups(), strict=True):
                if int(count):
                    found[job] |= {f"{name}.ios": int(count), f"{name}.bytes": int(count) * block_bytes[job]}
    return found


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        *(
            (f"{name}.txt", BYTES)
            for name in ("1.59/normal", "2.0.7/normal", "2.1.3/normal", "2.1.3/bits", "2.21/bits", "2.99/bits")
        ),
        *((f"{version}/several.txt", BYTES) for version in ("2.21", "2.99", "3.42")),
        ("3.42/both.txt", BYTES),
        ("2.1.3/kb-1000.txt", {"every": 4000}),
        ("2.99/kb-1000.txt", {"every": 4000}),
    ],
)
def test_reports_for_people_of_all_versions_are_read(name: str, blocks: dict[str, int]) -> None:
    report = text_of(name)
    expected = plainly(report, blocks)
    results, _ = fio_text.parse(report, name)
    found = metrics_of(results)
    assert found.keys() == expected.keys() and expected
    for job, values in expected.items():
        assert any(key.endswith("lat.mean") for key in values) and any(key.endswith(".ios") for key in values)
        for key, value in values.items():
            if key not in ("usr", "sys"):
                assert found[job][key] == pytest.approx(value), (job, key)
        for way in ("read", "write"):
            if f"{way}.ios" in values:
                assert found[job][f"{way}.bw"] == pytest.approx(values[f"{way}.bytes"] / values[f"{way}.runtime"])
    for one in results.jobs:
        assert (one.cpu.usr_percent, one.cpu.sys_percent) == (expected[one.name]["usr"], expected[one.name]["sys"])
        assert [misfit for way in one.directions for misfit in one.all_misfits(way, syncs=False)] == []


def test_percentiles_of_reports_have_the_values_that_stand_there() -> None:
    assert "99.00th=378, 99.50th=1624" in text_of("1.59/normal.txt")
    found = metrics_of(fio_text.parse(text_of("1.59/normal.txt"), "it")[0])["mixed"]
    assert (found["read.clat.p1"], found["read.clat.p60"], found["read.clat.p99"]) == (0, 38e3, 378e3)
    report = text_of("2.1.3/normal.txt")
    (p99,) = (re.search(r"99.00th=\[ *(\d+)\]", part) for part in [report[report.index("  read :") :]])
    found = metrics_of(fio_text.parse(report, "it")[0])["mixed"]
    assert p99 is not None and found["read.clat.p99"] == float(p99[1]) * 1e3


def test_percentiles_of_one_priority_are_not_those_of_all_requests() -> None:
    report = text_of("3.33/prio.txt")
    own = report[
        report.index("    clat percentiles") : report.index("    clat prio 0/0 (", report.index("    clat percentiles"))
    ]
    p99 = re.search(r"99.00th=\[ *(\d+)\]", own)
    unit = re.search(r"percentiles \((.sec)\)", own)
    with number_parsing.marks() as noted:
        (results, _) = fio_text.parse(report, "it")
    assert p99 and unit and metrics_of(results)["prio"]["read.clat.p99"] == float(p99[1]) * NS[unit[1]]
    assert False in noted.values()


# Positions of terse fields, from 1 as in fio's HOWTO ("Terse output"): (version, name of the job), where reads and
# writes begin and where the processor's shares are.
TERSE = [
    ("2.0.7/terse-2.txt", 5, 46, 87),
    ("2.0.7/terse-3.txt", 6, 47, 88),
    ("2.1.3/terse-2.txt", 5, 46, 128),
    ("3.42/terse-2.txt", 5, 46, 128),
    ("3.33/terse-3.txt", 6, 47, 88),
    ("2.1.3/terse-4.txt", 6, 47, 129),
    ("3.33/terse-4.txt", 6, 47, 129),
    ("2.99/terse-5.txt", 6, 53, 147),
    ("3.33/terse-5.txt", 6, 53, 147),
    ("3.42/both-3.txt", 6, 47, 129),
]


@pytest.mark.parametrize(("name", "read_at", "write_at", "cpu_at"), TERSE)
def test_terse_fields_are_where_fio_writes_them(name: str, read_at: int, write_at: int, cpu_at: int) -> None:
    lines = [line.split(";") for line in text_of(name).splitlines() if re.match(r"[2-5];", line)]
    jobs = fio_terse.parse(text_of(name), name).jobs
    assert len(jobs) == len(lines)
    for job, line in zip(jobs, lines, strict=True):
        field = ["", *line]
        assert job.name == field[read_at - 3]
        found = fio_outcome.metrics([job])
        for way, at in (("read", read_at), ("write", write_at)):
            if int(field[at]):
                assert found[f"{way}.bytes"] == int(field[at]) * 1024
                assert found[f"{way}.runtime"] == int(field[at + 3]) / 1000
                assert found[f"{way}.clat.mean"] == pytest.approx(float(field[at + 10]) * 1e3)
                assert found[f"{way}.lat.max"] == float(field[at + 33]) * 1e3
                assert field[at + 18].startswith("50.0")
                assert found[f"{way}.clat.p50"] == float(field[at + 18].partition("=")[2]) * 1e3
        assert f"{job.cpu.usr_percent:f}%" == field[cpu_at] and job.cpu.context_switches == int(field[cpu_at + 2])
    if "both" in name:
        assert jobs[0].directions["mixed"].bytes == sum(jobs[0].directions[way].bytes for way in ("read", "write"))


@pytest.mark.parametrize("name", ["2.0.7/terse-2.txt", "2.0.7/terse-3.txt"])
def test_terse_rates_of_fio_2_0_are_in_units_of_1000(name: str) -> None:
    """`bw = io_bytes / runtime` with a time in milliseconds; fio's HOWTO says KiB. 2.1.3 has it right."""
    entries = fio_entries.read(text_of(name), "it")
    said = [warning.text for entry in entries for warning in entry.warnings]
    assert len(said) == 2 and all("bandwidth (right if KB is of 1000s, not of 1024s)" in one for one in said)
    assert not any(entry.warnings for entry in fio_entries.read(text_of("2.1.3/terse-2.txt"), "it"))


def test_terse_output_of_fio_1_is_refused_with_what_helps() -> None:
    with pytest.raises(InputError, match=r"states no number of requests.*without --minimal"):
        fio_entries.read(text_of("1.59/terse-2.txt"), "it")


# One run in JSON+, terse 4 and for people


@SEVERAL
def test_of_several_formats_in_one_output_the_most_exact_counts_once(version: str) -> None:
    output = text_of(f"{version}/several.txt")
    document: Any = json.loads(output[output.index("{\n") : output.rindex("\n}") + 2])
    entries = fio_entries.read(output, "it")
    assert [entry.label for entry in entries] == [job["jobname"] for job in document["jobs"]] == ["mixed", "after"]
    for entry, job in zip(entries, document["jobs"], strict=True):
        unit = 1 if "io_kbytes" in job["write"] else 1024
        assert entry.metrics["write.bytes"] == job["write"]["io_bytes"] * unit
        assert entry.metrics["write.ios"] == job["write"]["total_ios"]
        stated = job["write"].get("lat_ns") or {
            key: value * 1000 for key, value in job["write"]["lat"].items() if key == "mean"
        }
        assert entry.metrics["write.lat.mean"] == pytest.approx(stated["mean"])
        assert not entry.problem and entry.buckets


@SEVERAL
@pytest.mark.parametrize("reader", ["terse", "text"])
def test_formats_of_one_run_agree_within_their_digits(version: str, reader: str) -> None:
    output = text_of(f"{version}/several.txt")
    exact = metrics_of(fio_json.parse(output, "it"))
    found = metrics_of(fio_terse.parse(output, "it") if reader == "terse" else fio_text.parse(output, "it")[0])
    for job, values in found.items():
        for key in ("write.bytes", "write.runtime", "write.ios"):
            assert values[key] == pytest.approx(exact[job][key], rel=1e-6 if reader == "text" else 0.01), key
        for key in ("write.lat.mean", "write.clat.max", "write.clat.p50", "cpu.usr"):
            assert values[key] == pytest.approx(exact[job][key], rel=0.01, abs=1001), key


# What is not lost


def test_latencies_of_each_priority_are_metrics() -> None:
    output = text_of("3.33/prio.json")
    document = json.loads(output)
    (entry,) = fio_entries.read(output, "it")
    for way in ("read", "write"):
        for one, name in zip(document["jobs"][0][way]["prios"], ("default-0", "realtime-3"), strict=True):
            assert entry.metrics[f"{name}/{way}.clat.mean"] == one["clat_ns"]["mean"]
            assert entry.metrics[f"{name}/{way}.clat.p99"] == one["clat_ns"]["percentile"]["99.000000"]
            assert f"{name}/{way}.clat.p99" in (entry.responses or [])


def document(**job: Any) -> str:
    read = {"io_bytes": 4096000, "io_kbytes": 4000, "total_ios": 1000, "runtime": 1000, "bw": 4000, "bw_bytes": 4096000}
    given = {"jobname": "a", "usr_cpu": 1.0, "read": {**read, **job.pop("read", {})}, **job}
    return json.dumps({"fio version": "fio-3.33", "jobs": [given]}, indent=1)


LOW = {"min": 10, "max": 30, "mean": 20.0, "stddev": 5.0, "N": 600}
HINTED = {"prioclass": 2, "prio": 7, "priohint": 1, "lat_ns": LOW}
STEADY = {"ss": "iops:1%", "attained": 1, "data": {"bw_mean": 4096, "iops_mean": 1}}


@pytest.mark.parametrize(
    ("job", "metrics"),
    [
        ({"read": {"clat_low_prio": LOW}}, {"low-priority/read.clat.mean": 20.0}),
        ({"read": {"prios": [HINTED]}}, {"best-effort-7-hint1/read.lat.max": 30}),
        ({"latency_target": 500, "latency_depth": 7}, {"latency_target.depth": 7}),
        ({"read": {"cachehit": 25.0}}, {"read.cache_hit_ratio": 0.25}),
        ({"steadystate": STEADY}, {"steady.bw": 4096, "steady.iops": 1}),
    ],
)
def test_what_fio_found_of_a_job_is_a_metric(job: dict[str, Any], metrics: dict[str, float]) -> None:
    (entry,) = fio_entries.read(document(**job), "it")
    assert {name: entry.metrics[name] for name in metrics} == metrics and entry.warnings == []


@pytest.mark.parametrize(
    ("job", "code", "says"),
    [
        ({"steadystate": {"ss": "iops:1%", "attained": 0}}, "steady-state-not-attained", "iops:1%"),
        ({"read": {"bw": 4096}}, "numbers-disagree", "bw (right if KB is of 1000s, not of 1024s)"),
        ({"read": {"bw_bytes": 3000000, "io_kbytes": 4000}}, "numbers-disagree", "bw_bytes is 3e+06"),
    ],
)
def test_what_is_odd_about_results_is_said_once(job: dict[str, Any], code: str, says: str) -> None:
    (entry,) = fio_entries.read(document(**job), "it")
    (warning,) = entry.warnings
    assert warning.code == code and says in warning.text


def test_keys_that_are_not_read_are_named_by_the_import(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text(document(zone_resets=3, read={"new": 1, "short_ios": 0}))
    (entry,) = importer.read([("it.json", tmp_path / "it.json")])
    (warning,) = entry.warnings
    assert warning.code == "fields-unread"
    assert warning.text == "it.json states more than is read: jobs.read.new, jobs.zone_resets"


@pytest.mark.parametrize("rest", [text_of("3.33/terse-3.txt"), text_of("3.33/normal.txt"), document()])
def test_broken_json_with_whole_results_is_named(rest: str) -> None:
    entries = fio_entries.read(document().replace("}", "},", 1) + "\n" + rest, "it")
    broken = [one.text for entry in entries for one in entry.warnings if one.code == "results-broken"]
    assert len(broken) == len(entries) and "results are not read" in broken[0]


@pytest.mark.parametrize(
    ("name", "printed", "changed", "says"),
    [
        ("normal", r"    clat \(nsec\): min=757", "", "read.clat is without ioassay-randrw-2-jobs"),
        (
            "fdatasync",
            r"(?s)(\na: \(groupid.*?)(?=\n\nRun)",
            r"\1\1",
            "sync.lat is left out, since the numbers of synchronisations are not known",
        ),
    ],
)
def test_latencies_that_are_not_of_all_jobs_are_named(name: str, printed: str, changed: str, says: str) -> None:
    (entry,) = fio_entries.read(re.sub(printed, changed, text_of(f"3.33/{name}.txt")), "it")
    said = [one.text for one in entry.warnings if one.code == "latencies-incomplete"]
    assert said == [f"fio states no latency of all requests: {says}"]


def test_a_job_that_did_nothing_beside_others_is_named() -> None:
    both = json.loads(document())
    both["jobs"].append({"jobname": "b", "job options": {}, "read": {}})
    both["jobs"][0]["job options"] = {"bs": "4k"}
    both["jobs"][1]["job options"] = {"bs": "4k"}
    (entry,) = fio_entries.read(json.dumps(both), "it")
    assert [(one.code, one.text) for one in entry.warnings] == [("jobs-idle", "b: did no request")]


def test_a_job_whose_directions_are_in_no_known_form_is_refused() -> None:
    report = re.sub(r"  (read |write): io=.*", "", text_of("2.1.3/normal.txt"), count=2)
    with pytest.raises(InputError, match="mixed did 256 requests, but has no line of a direction"):
        fio_entries.read(report, "it")


@pytest.mark.parametrize("unit", ["bw=19502KB/s", "bw=19970KB/s"])
def test_a_rate_is_that_of_bytes_over_time_or_its_unit_is_named(unit: str) -> None:
    seconds, volume, per_s = 0.217, 4232 * 1024, float(unit[3:8]) * 1024
    (*odd,) = rate_misfits("bandwidth", volume, seconds, per_s, 0, 0, 1024)
    assert [one.name for one in odd] == (
        ["bandwidth (right if KB is of 1000s, not of 1024s)"] if "19970" in unit else []
    )


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (28, "No space left on device (ENOSPC)"),
        ("4294967268", "No space left on device (ENOSPC)"),
        (-5, "Input/output error (EIO)"),
        ("4294967295", "Operation not permitted (EPERM)"),
        (121, "Remote I/O error (EREMOTEIO)"),
        (84, "Data that were read do not verify (EILSEQ)"),
        (9999, "Error 9999"),
    ],
)
def test_errors_are_the_kernels_words(printed: int | str, words: str) -> None:
    assert error_words(error_number(printed, "error")) == words


def test_errors_of_each_format_are_read_signed() -> None:
    line = re.sub(r"^(3;fio-3.33;[^;]*;0);0;", r"\1;4294967268;", text_of("3.33/terse-3.txt").splitlines()[0])
    report = text_of("2.1.3/normal.txt").replace("err= 0:", "err=-28 (file:a.c:1, func=x, error=y):", 1)
    for output in (line, report, document(error=4294967268)):
        assert fio_entries.read(output, "it")[0].problem.endswith(": No space left on device (ENOSPC)")


def test_logs_of_hosts_in_an_archive_lie_beside_their_results(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for host, requests in (("node1", 1000), ("node2.lan", 2000)):
        own = json.loads(document(read={"total_ios": requests, "iops": requests}))
        (tmp_path / "run" / f"json_output.0.{host}").write_text(json.dumps(own, indent=1))
        (tmp_path / "run" / f"output.0_iops.1.log.{host}").write_text(f"500, {requests}, 0, 0, 0\n")
    (tmp_path / "run" / "notes_bw.log.old").write_text("nothing of the kind")
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "run", "run")
    entries = importer.read(importer.unpacked([tmp_path / "all.tar.gz"], tmp_path))
    assert [(one.options["host"], one.metrics["read.ios"]) for one in entries] == [("node1", 1000), ("node2.lan", 2000)]
    for one in entries:
        (series,) = one.series
        assert series.metric == "read.iops" and list(series.value) == [one.metrics["read.ios"]]
    assert entries[0].warnings[-1].code == "files-unused" != entries[1].warnings[-1].code
