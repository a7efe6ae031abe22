"""`ioassay export` of real runs: what is written, what its reader can do with it, what is not in it."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import tarfile
from pathlib import Path

import polars as pl
import pytest

from ioassay.store import packed_page

from .conftest import Ask, ask_alone


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as content:
        content.extractall(folder)
    (run,) = folder.iterdir()
    return run


def texts(folder: Path) -> dict[str, str]:
    """Every file as text: tables by their columns, the page without the libraries' code."""
    found = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            found[str(path)] = str(pl.read_parquet(path).to_dicts())
        elif path.suffix != ".png":
            text = packed_page.unpacked(path.read_text(errors="surrogateescape"))
            found[str(path)] = re.sub(r"<script(?![^>]*(?:json|gzip))[^>]*>.*?</script>", "", text, flags=re.DOTALL)
    return found


def identities(work: Path) -> list[str]:
    """What a reader of the bundle must not learn of this machine."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    names = [os.uname().nodename, user, os.environ.get("USER", "")]
    machine_id = Path("/etc/machine-id")
    names += [machine_id.read_text().strip()] if machine_id.exists() else []
    # `vm` and `root` are words as well: then only the fields that hold them say something.
    return [str(work), str(Path.cwd()), *(name for name in names if len(name) > 4)]


def fields(text: str) -> list[str]:
    return re.findall(r"(?i)(?:hostname|nodename|username)\"?\s*[:=]\s*\"?([\w.-]+)", text)


def require_nothing_left(run: Path, work: Path) -> None:
    for name, text in texts(run).items():
        assert [value for value in identities(work) if value.lower() in text.lower()] == [], name
        assert all(value.startswith("redacted-") for value in fields(text)), name


def test_a_redacted_bundle_is_a_run_that_tells_nobody(finished_run: Path, tmp_path: Path, ioassay: Ask) -> None:
    said = ask_alone("export", finished_run, "--redact", "-o", "b.tar.gz", "--json", cwd=tmp_path)
    assert said.code == 0, said.err
    assert said.json["redacted"] is True
    run = unpacked(tmp_path / "b.tar.gz", tmp_path / "reader")
    require_nothing_left(run, finished_run.parent)
    assert ioassay("report", run).code == 0
    assert ioassay("compare", finished_run, run).code == 0
    answer = ioassay("sql", run, "SELECT count(*) AS n FROM trials", "--json")
    assert answer.json["rows"] == [{"n": 4}]
    refused = ioassay("run", "--resume", run)
    assert refused.code == 2
    assert "placeholders" in refused.err


@pytest.mark.fio
def test_the_tools_own_output_tells_nobody_either(tmp_path: Path, ioassay: Ask) -> None:
    (tmp_path / "my bench").mkdir()
    (tmp_path / "s.toml").write_text(
        'title = "T"\ndriver = "fio"\nrepetitions = 2\n[target]\nkind = "file"\n'
        f'path = "{tmp_path}/my bench/test file"\nsize = "1MiB"\n'
        '[params]\nrw = "read"\nbs = "4k"\nsize = "1MiB"\nioengine = "psync"\n'
    )
    assert ioassay("run", "s.toml", "--output", "r").code == 0
    assert ask_alone("export", "r", "--redact", "-o", "b.tar.gz", cwd=tmp_path).code == 0
    run = unpacked(tmp_path / "b.tar.gz", tmp_path / "reader")
    require_nothing_left(run, tmp_path)
    assert all("my bench" not in text for text in texts(run).values())
    assert any('/test file"' in text for name, text in texts(run).items() if name.endswith("plan.jsonl"))
    shutil.rmtree(run / "report")
    assert ioassay("report", run).code == 0


def test_two_bundles_of_a_run_have_the_same_bytes(finished_run: Path, tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tgz"):
        assert ask_alone("export", finished_run, "--redact", "-o", name, cwd=tmp_path).code == 0
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tgz").read_bytes()


@pytest.mark.parametrize("redact", [["--redact"], []])
def test_an_archive_without_report_has_the_records_and_reads_as_a_run(
    finished_run: Path, tmp_path: Path, ioassay: Ask, redact: list[str]
) -> None:
    assert ioassay("export", finished_run, *redact, "--no-report", "-o", "b.tar.xz").code == 0
    run = unpacked(tmp_path / "b.tar.xz", tmp_path / "reader")
    assert not (run / "report").exists()
    assert len(list(run.glob("trials/*/record.json"))) == 4
    assert json.loads((run / "MANIFEST.json").read_text())["files"] == sum(path.is_file() for path in run.rglob("*"))
    assert ioassay("report", run).code == 0
    assert (run / "report" / "index.html").is_file()


def test_an_archive_by_xz_is_the_same_each_time_and_smaller(finished_run: Path, tmp_path: Path, ioassay: Ask) -> None:
    for name in ("a.tar.xz", "b.tar.xz", "c.tar.gz"):
        assert ioassay("export", finished_run, "--no-report", "-o", name).code == 0
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()
    assert (tmp_path / "a.tar.xz").stat().st_size < (tmp_path / "c.tar.gz").stat().st_size


def test_without_redact_all_is_there_and_it_says_so(finished_run: Path, tmp_path: Path, ioassay: Ask) -> None:
    said = ioassay("export", finished_run)
    assert said.code == 0
    assert "not redacted" in said.err
    run = unpacked(tmp_path / "run.tar.gz", tmp_path / "reader")
    assert (run / "plan.jsonl").read_bytes() == (finished_run / "plan.jsonl").read_bytes()
    assert (run / "report" / "index.html").read_bytes() == (finished_run / "report" / "index.html").read_bytes()


def test_the_page_and_host_json_of_any_run_tell_nobody(finished_run: Path) -> None:
    host = (finished_run / "host.json").read_text()
    page = texts(finished_run / "report")[str(finished_run / "report" / "index.html")]
    for text in (host, page):
        assert fields(text) == []
        assert '"serial"' not in text
    hidden = {word.partition("=")[0] for word in Path("/proc/cmdline").read_text().split()} & {"root", "BOOT_IMAGE"}
    assert "root" not in hidden or "root=#" in json.loads(host)["kernel"]["cmdline"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere"], "no such folder"),
        (["a_run", "-o", "x.zip"], ".tar.gz, .tgz, .tar.xz"),
        (["a_run", "--no-report", "--format", "csv"], "--no-report: is for --format archive"),
        (["a_run", "-o", "a_run/x.tar.gz"], "own folder"),
        (["a_run", "-o", "there.tar.gz"], "exists already"),
    ],
)
def test_what_cannot_be_exported_is_a_mistake(
    a_run: Path, tmp_path: Path, ioassay: Ask, argv: list[str], message: str
) -> None:
    (tmp_path / "there.tar.gz").write_text("precious")
    refused = ioassay("export", *argv)
    assert refused.code == 2
    assert message in refused.err
    assert (tmp_path / "there.tar.gz").read_text() == "precious"


def test_tables_and_a_summary_are_written_or_printed(a_run: Path, tmp_path: Path, ioassay: Ask) -> None:
    tables = ioassay("export", a_run, "--format", "parquet", "-o", "tables", "--json")
    assert (tables.code, tables.json["rows"]["trials"]) == (0, 4)
    assert pl.read_parquet(tmp_path / "tables" / "trials.parquet").height == 4
    trials = ioassay("export", a_run, "--format", "csv", "-o", "trials.csv")
    assert (trials.out, trials.code) == ("trials.csv: rows of trials 4\n", 0)
    assert "--redact replaces them" in trials.err
    summary = ioassay("export", a_run, "--format", "markdown")
    assert summary.out.startswith("## Null\n")
    assert "| x | Value | n |" in summary.out
    assert ioassay("export", a_run, "--format", "markdown", "-o", "s.txt").out == "s.txt\n"
    assert (tmp_path / "s.txt").read_text() == summary.out
    assert ioassay("export", a_run, "--format", "markdown", "--json").json["markdown"] == summary.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--format", "xml"], "--format is 'xml', wanted archive, parquet, csv, markdown"),
        (["--format", "csv", "-o", "a_run/tables"], "own folder"),
        (["--format", "markdown", "-o", "there.txt"], "exists already"),
        (["--format", "parquet", "-o", "nowhere/tables"], "folder does not exist"),
    ],
)
def test_other_formats_and_names_that_are_taken_are_mistakes(
    a_run: Path, tmp_path: Path, ioassay: Ask, argv: list[str], message: str
) -> None:
    (tmp_path / "there.txt").write_text("precious")
    refused = ioassay("export", a_run, *argv)
    assert refused.code == 2
    assert message in refused.err
    assert (tmp_path / "there.txt").read_text() == "precious"
