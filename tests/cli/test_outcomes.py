"""How commands end on a terminal, by fio that lies, for others and on an old processor, which no row can say."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ioassay.cli import results
from ioassay.errors import IoassayError
from ioassay.host import system
from ioassay.process import supervisor
from ioassay.process.supervisor import Captured
from ioassay.store import packed_page

from ..patience import PATIENCE_S
from .command_server import CommandServer
from .conftest import NULL, Ask, ask, start


def test_on_a_terminal_progress_shows_the_time_left_and_the_point(tmp_path: Path) -> None:
    (tmp_path / "null.toml").write_text(NULL.replace("[params]\n", '[params]\nsleep = "200ms"\n'))
    terminal, stderr = pty.openpty()
    shown = b""
    with start("run", "null.toml", "--output", "run", cwd=tmp_path, streams=(None, None, stderr), COLUMNS="120") as run:
        os.close(stderr)
        with suppress(OSError):  # the other end is closed: the command has ended
            while piece := os.read(terminal, 1 << 16):
                shown += piece
        os.close(terminal)
        assert run.wait() == 0
    assert all(part in shown for part in (b"left", b"null x=", b"4/4"))


@pytest.mark.fio
@pytest.mark.slow
def test_two_quick_runs_keep_their_promises_and_compare_without_a_warning(tmp_path: Path, ioassay: Ask) -> None:
    for name in ("A", "B"):
        done = ioassay("quick", ".", "--budget", "59s", "--output", name, "--json")
        assert done.code == 0, done.err
        said = done.json
        assert {"run", "report", "target", "warnings", "rows"} <= said.keys()
        wanted = {"workload", "metric", "unit", "mean", "median", "ci95", "repetitions"}
        assert all(wanted <= row.keys() and row["repetitions"] >= 3 for row in said["rows"])
        assert len({row["workload"] for row in said["rows"]}) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A", "B"]
    answer = ioassay("compare", "A", "B", "--json")
    assert answer.code in (0, 1) and answer.err == ""
    assert answer.json["warnings"] == answer.json["only_a"] == answer.json["only_b"] == []
    assert len(answer.json["rows"]) == 24


POLARS = """
import warnings
features = "The following required CPU features were not detected:\\n    avx2, fma\\nHint"
warnings.warn("Missing required CPU features.\\n\\n" + features, RuntimeWarning)
raise SystemExit("it went on")
"""
"""Warns as polars does, where a real one would end by SIGILL."""
MAIN = "import sys; sys.path.insert(0, {folder!r}); import ioassay.__main__ as m; sys.exit(m.main())"


@pytest.mark.parametrize("other_build", [False, True])
def test_a_processor_on_which_polars_would_crash_is_named_in_one_line(other_build: bool, tmp_path: Path) -> None:
    (tmp_path / "polars.py").write_text(POLARS)
    if other_build:
        (tmp_path / "_polars_runtime_compat.py").touch()
    words = [sys.executable, "-c", MAIN.format(folder=str(tmp_path)), "sql", ".", "SELECT 1"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    one = "the installed build of polars needs; install the build for older ones"
    assert f"lacks avx2, fma, which {'every build of polars needs' if other_build else one}" in done.stderr


@pytest.mark.parametrize("code", [0, -4])
def test_sql_is_refused_where_duckdb_would_crash(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "lacks_avx2", lambda: True)
    monkeypatch.setattr(supervisor, "capture", lambda *_, **__: Captured(code, "", "", False))
    with pytest.raises(IoassayError, match="duckdb needs" if code else "has no plan"):
        results.sql([str(tmp_path), "SELECT 1"])


@pytest.mark.root
def test_a_run_of_somebody_else_is_told_so(as_nobody: CommandServer, finished_run: Path) -> None:
    code, _, err = as_nobody.run(["report", str(finished_run)], Path("/"), os.environ, PATIENCE_S)
    assert code in (1, 2) and "Permission denied" in err and "Traceback" not in err


LYING_FIO = """
import json, subprocess, sys
code = subprocess.call(["{fio}", *sys.argv[1:]])
for result in (word.partition("=")[2] for word in sys.argv if word.startswith("--output=")):
    text = open(result).read()
    table = json.loads(text[text.index("{{"):])
    for job in table["jobs"]:
        for key in ("io_bytes", "io_kbytes", "bw", "bw_bytes", "iops", "total_ios"):
            job["read"][key] *= 2
    open(result, "w").write(json.dumps(table))
sys.exit(code)
"""
STUDY = """
title = "A study"
driver = "fio"
[target]
kind = "file"
path = "t.dat"
size = "4MiB"
[params]
rw = "randread"
bs = "4k"
direct = 1
[watch]
witness = "{level}"
"""


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
@pytest.mark.parametrize("level", ["block", "syscalls"])
def test_a_study_whose_tool_lies_ends_with_4_and_says_so_in_its_report(level: str, tmp_path: Path) -> None:
    lying = tmp_path / "bin" / "fio"
    lying.parent.mkdir()
    (source := tmp_path / "lying.py").write_text(LYING_FIO.format(fio=shutil.which("fio")))
    # A path with spaces cannot stand behind `#!`, and this Python's may have some.
    lying.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n')
    lying.chmod(0o755)
    (tmp_path / "s.toml").write_text(STUDY.format(level=level))
    assert ask("run", "s.toml", "--output", "honest", cwd=tmp_path).code == 0
    path = f"{lying.parent}:{os.environ['PATH']}"
    answer = ask("run", "--json", "s.toml", "--output", "lying", cwd=tmp_path, env={"PATH": path})
    found = answer.json
    assert answer.code == 4, found["findings"]
    assert found["trials"]["ok"] == 1
    [verdict] = [finding for finding in found["findings"] if finding["question"] == "verdict"]
    assert verdict["statistics"]["contradicted"] == 1
    assert "CONTRADICTED" in verdict["statement"]
    page = (tmp_path / found["report"]).read_text()
    assert "1 is contradicted." in page  # without opening anything
    assert "CONTRADICTED" in packed_page.unpacked(page)
