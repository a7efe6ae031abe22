"""The exit status of `ioassay witness`: the command's own, the verdict's, and how a gate asks for more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ioassay.cli import sql
from ioassay.errors import IoassayError
from ioassay.host import cpus
from ioassay.process import supervisor
from ioassay.process.supervisor import Captured

IOASSAY = [sys.executable, "-I", "-m", "ioassay"]
LIE = ("--claim", "bytes=4KiB,seconds=100000")
TRUTH = ("--claim", "bytes=16MiB,kind=read,path=data")
UNSEEN = ("--claim", "bytes=64MiB,kind=read")
READS = ("dd", "if=data", "of=/dev/null", "bs=1M", "status=none")
CONTRADICTED, CACHED, UNSUBSTANTIATED, UNSUPPORTED, INCOMPLETE = (
    "CONTRADICTED",
    "CONFIRMED-CACHED",
    "UNSUBSTANTIATED",
    "UNSUPPORTED",
    "INCOMPLETE",
)


def ended(folder: Path, *argv: str, backend: str = "counters") -> tuple[int, str, str]:
    """Its exit status, and what it said on stdout and stderr."""
    done = subprocess.run(
        [*IOASSAY, "witness", "--backend", backend, *argv], cwd=folder, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with 16 MiB that are in memory."""
    (tmp_path / "data").write_bytes(os.urandom(16 << 20))
    return tmp_path


BACKENDS = pytest.mark.parametrize("backend", ["counters", pytest.param("strace", marks=pytest.mark.strace)])


@BACKENDS
@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("exit 255", 255)]
    + [(f"ulimit -c 0; kill -{number} $$", 128 + number) for number in (1, 2, 6, 9, 11, 13, 15)],
)
def test_a_command_ends_with_its_own_status(backend: str, script: str, status: int, tmp_path: Path) -> None:
    code, out, err = ended(tmp_path, "--", "sh", "-c", script, backend=backend)
    assert code == status
    assert "Watched by" in out, err


@BACKENDS
def test_what_cannot_be_started_ends_as_in_a_shell(backend: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    (tmp_path / "lost").write_text("#!/no/such/interpreter\n")
    (tmp_path / "lost").chmod(0o755)
    (tmp_path / "folder").mkdir()
    for program, status in (("no-such-program", 127), ("./no-such", 127), ("./text", 126), ("./folder", 126)):
        code, out, err = ended(tmp_path, "--", program, backend=backend)
        assert (code, out) == (status, ""), err
        assert err.startswith(f"ioassay: cannot start '{program}': ")
    if backend == "counters":  # strace says this one itself
        assert ended(tmp_path, "--", "./lost")[0] == 127


@pytest.mark.parametrize(
    ("script", "options", "status"),
    [
        ("exit 0", (), 4),
        ("exit 1", (), 1),
        ("exit 4", (), 4),
        ("kill -9 $$", (), 137),
        ("exit 0", ("--exit-verdict", "success"), 4),
        ("exit 1", ("--exit-verdict", "always"), 4),
        ("kill -9 $$", ("--exit-verdict", "always"), 4),
        ("exit 0", ("--exit-verdict", "never"), 0),
        ("exit 42", ("--exit-verdict", "never"), 42),
        ("exit 0", ("--require", "true"), 4),
        ("exit 1", ("--require", "confirmed"), 1),
        ("exit 1", ("--require", "true", "--exit-verdict", "always"), 4),
    ],
)
def test_a_contradicted_claim_decides_the_status_of_a_command_that_succeeded(
    script: str, options: Sequence[str], status: int, tmp_path: Path
) -> None:
    code, out, _ = ended(tmp_path, *LIE, *options, "--", "sh", "-c", script)
    assert code == status
    assert f"{CONTRADICTED} (LONGER-THAN-IT-RAN)" in out
    last = out.splitlines()[-1]
    if "never" in options:
        assert "xit status" not in last
    elif status == 4 and script != "exit 4":
        assert last.startswith("Exit status 4: ")
    else:
        assert last.startswith(f"Exit status {status} is the command's own; --exit-verdict always")


@pytest.mark.parametrize(
    ("verdict", "claim", "command"),
    [
        (CACHED, TRUTH, READS),
        (UNSUPPORTED, (), ("true",)),
        (INCOMPLETE, ("--claim", "bytes=4KiB,kind=read"), READS),
        (UNSUBSTANTIATED, UNSEEN, ("true",)),
        (CONTRADICTED, LIE, ("true",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_gate_lets_only_the_verdicts_pass_that_it_names(
    verdict: str, claim: Sequence[str], command: Sequence[str], folder: Path
) -> None:
    passes = {"true": verdict == CACHED, "confirmed": False, "": verdict != CONTRADICTED}
    for level, passing in passes.items():
        code, out, _ = ended(folder, *claim, *(("--require", level) if level else ()), "--", *command)
        assert f"{verdict} (" in out or f"{verdict}:" in out, out
        assert code == (0 if passing else 4), (level, out)
        if level and not passing:
            assert out.splitlines()[-1] == f"Exit status 4: --require {level}, and the verdict is {verdict}."


@pytest.mark.root
@pytest.mark.bpf
def test_a_strict_gate_passes_what_the_device_has_done(folder: Path) -> None:
    command = ("dd", "if=data", "of=/dev/null", "bs=1M", "iflag=direct")
    os.sync()
    assert ended(folder, "--require", "confirmed", "--", *command, backend="bpf")[0] == 0
    command = ("dd", "if=/dev/zero", "of=new", "bs=1M", "count=16")
    for level, status in (("confirmed", 4), ("true", 0)):
        code, out, _ = ended(folder, "--require", level, "--", *command, backend="bpf")
        assert (code, "CONFIRMED-DEFERRED" in out) == (status, True), out


def test_a_claim_without_any_support_is_said_in_one_line(tmp_path: Path) -> None:
    code, out, _ = ended(tmp_path, *UNSEEN, "--", "true")
    assert code == 0
    assert out.splitlines()[-1].startswith("Nothing that the kernel saw supports the claim; --require true")


def test_of_several_runs_the_first_that_failed_gives_the_status(tmp_path: Path) -> None:
    script = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; [ $n -lt 3 ] || exit 7"
    assert ended(tmp_path, "--twins", "2", "--", "sh", "-c", script)[0] == 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--require", "maybe"), "--require maybe: unknown; wanted true, confirmed"),
        (("--exit-verdict", "maybe"), "--exit-verdict maybe: unknown; wanted never, success, always"),
        (("--require", "true", "--exit-verdict", "never"), "leave one of them out"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_runs(
    options: Sequence[str], said: str, tmp_path: Path
) -> None:
    code, _, err = ended(tmp_path, *options, "--", "touch", "ran")
    assert code == 2 and said in err
    assert not (tmp_path / "ran").exists()


@pytest.mark.fio
def test_a_benchmark_that_fails_keeps_its_status(tmp_path: Path) -> None:
    """dd's own 1 was hidden by the verdict on what it could not write."""
    assert ended(tmp_path, "--", "dd", "if=/dev/zero", "of=/dev/full", "bs=1M", "count=2")[0] == 1
    assert ended(tmp_path, "--", "fio", "--no-such-option")[0] == 1


@pytest.mark.parametrize(
    ("other_build", "said"),
    [
        (False, "installed build of polars needs; install the build for older ones"),
        (True, "every build of polars needs"),
    ],
)
def test_a_processor_on_which_polars_would_crash_is_said_in_one_line(
    other_build: bool, said: str, tmp_path: Path
) -> None:
    """With a stand-in that warns as polars does, where a real one would end by SIGILL."""
    warning = (
        "Missing required CPU features.\n\nThe following required CPU features were not detected:\n    avx2, fma\nHint"
    )
    code = f"import warnings\nwarnings.warn({warning!r}, RuntimeWarning)\nraise SystemExit('it went on')\n"
    (tmp_path / "polars.py").write_text(code)
    if other_build:
        (tmp_path / "_polars_runtime_compat.py").touch()
    words = [
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ioassay.__main__ as m; sys.exit(m.main())",
    ]
    (tmp_path / "data.csv").touch()
    done = subprocess.run(
        [sys.executable, *words, "sql", ".", "SELECT 1"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert f"this processor lacks avx2, fma, which {'the ' if not other_build else ''}{said}" in done.stderr


@pytest.mark.parametrize("code", [0, -4])
def test_sql_is_refused_where_duckdb_would_crash(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "lacks_avx2", lambda: True)
    monkeypatch.setattr(supervisor, "capture", lambda *_, **__: Captured(code, "", "", False))
    with pytest.raises(IoassayError, match="duckdb needs" if code else "has no plan"):
        sql.sql([str(tmp_path), "SELECT 1"])
