"""A few damaged files through the real command line: exit status 2, the file's name, and no traceback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "fio" / "3.33"


def ask(*argv: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "ioassay", *map(str, argv)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def refused(name: str, *argv: object, cwd: Path) -> None:
    done = ask(*argv, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and name in done.stderr


def changed(text: str, change: Callable[[dict], object]) -> str:
    table = json.loads(text)
    change(table)
    return json.dumps(table)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table["jobs"][0]["read"]["clat_ns"]["bins"].update({"9" * 400: 1}),  # was CoreError in merge.py
        lambda table: table.update(disk_util=5.0),  # was TypeError in merge.py
        lambda table: table.update(disk_util=[[1]]),  # was AttributeError in merge.py
        lambda table: table["jobs"][0]["read"]["lat_ns"].update(N=10**30),
        lambda table: table["jobs"][0].update({"job options": {"bs": "\ud800"}}),
    ],
)
def test_import(tmp_path: Path, change: Callable[[dict], object]) -> None:
    (tmp_path / "bad.json").write_text(changed((GOLDEN / "read" / "fio.json").read_text(), change))
    refused("bad.json", "import", "bad.json", cwd=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_terse_and_logs(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text((GOLDEN / "terse-4.txt").read_text().replace(";489;", f";{'9' * 400};"))
    refused("t.txt: line 1: read IOPS", "import", "t.txt", cwd=tmp_path)
    (tmp_path / "x_lat.1.log").write_text("1, 2, 0, 4096\n1, many, 0, 4096\n")
    refused("x_lat.1.log", "import", "x_lat.1.log", cwd=tmp_path)


def test_studies_and_traces(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f'title = "t"\ndriver = "null"\nseed = {"9" * 5000}\n')
    refused("s.toml: is not TOML: line 3", "plan", "s.toml", cwd=tmp_path)
    (tmp_path / "long.toml").write_text(f'title = "t"\nsuite = ["{"l" * 5000}"]\n')
    refused("long.toml", "plan", "long.toml", cwd=tmp_path)
    (tmp_path / "t.msr").write_text("128166372003061629,h,0,Read,x,4096,1\n")
    refused("t.msr: line 1", "trace", "info", "t.msr", "--format", "msr", cwd=tmp_path)


def test_runs(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "read" / "fio.json", tmp_path / "good.json")
    assert ask("import", "good.json", "--output", "run", cwd=tmp_path).returncode == 0
    (record,) = (tmp_path / "run" / "trials").glob("*/record.json")
    whole = record.read_text()
    record.write_text(changed(whole, lambda table: table["trial"]["point"].update(x=10**30)))
    for argv in (("report", "run"), ("compare", "run", "run"), ("sql", "run", "SELECT 1")):
        refused("record.json: trial", *argv, cwd=tmp_path)
    record.write_text(whole)
    parquet = record.with_name("hist.parquet")
    parquet.write_bytes(parquet.read_bytes()[:-40] + b"\xff" * 40)
    refused("hist.parquet", "report", "run", cwd=tmp_path)
