"""What shells are offered: the words for a command line, and each shell with our script."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.cli import COMMANDS, COMPLETE, completion

from .conftest import NULL, Answer, Ask
from .terminal import Terminal

HEAVY = {"pydantic", "polars", "numpy", "importlib.metadata", "dask", "altair"}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a study, and the folders of two runs."""
    (tmp_path / "null.toml").write_text(NULL + "[scale.small]\nrepetitions = 1\n")
    for name in ("20260101-null", "20260102-null"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "plan.jsonl").touch()
    (tmp_path / "runs" / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tool(work: Path) -> Path:
    """A folder with a program `ioassay` that completes as ours, and otherwise says what it was given."""
    folder = work / "bin"
    folder.mkdir()
    ours = f"exec {shlex.quote(sys.executable)} -I -m ioassay"
    (folder / "ioassay").write_text(
        f'#!/bin/sh\nif [ "$1" = --complete ] || [ "$1" = --candidates ]; then {ours} "$@"; fi\necho "given: $*."\n'
    )
    (folder / "ioassay").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["de"], {"device"}),
        (["device", "s"], {"serve", "stats", "stop"}),
        (["device", "serve", "--read"], {"--read-only"}),
        (["run", "--re"], {"--resume", "--repetitions"}),
        (["run", "nothing"], set()),
        (["nothing", ""], set()),
        (["nothing", "more", ""], set()),
        (["--sh"], {"--show-completion"}),
        (["simulate", "--drive", "samsung-98"], {"samsung-980-pro"}),
        (["simulate", "t.disksim", "--drive=samsung-98"], {"--drive=samsung-980-pro"}),  # as zsh and fish have it
        (["simulate", "--drive", "=", "samsung-98"], {"samsung-980-pro"}),  # as bash splits it
        (["simulate", "--drive", "sam", "--pol"], {"--policy"}),
        (["simulate", "--cleaning", ""], {"greedy", "cost-benefit"}),
        (["export", "run", "--format", "m"], {"markdown"}),
        (["simulate", "--set", "background"], {"background_free="}),
        (["simulate", "--set", "cleaning", "=", "g"], {"greedy"}),
        (["simulate", "--json", "sam"], set()),
        (["device", "serve", "--drive", "wd"], {"wd-zn540"}),
        (["drive", "show", "mqsim"], {"mqsim-default"}),
        (["run", "write-buffer", "--set", "drive=samsung-98"], {"drive=samsung-980-pro"}),
        (["run", "write-buffer", "--set", "drive", "=", "samsung-98"], {"samsung-980-pro"}),
        (
            ["run", "write-buffer", "--factor", "drive=samsung-970-pro,samsung-98"],
            {"drive=samsung-970-pro,samsung-980-pro"},
        ),
        (["-"], {"-V", "--version", "--install-completion", "--log-level", "--show-completion", "-h", "--help"}),
        (["--show-completion", ""], {"bash", "zsh", "fish"}),
        (["run", "--log-level", ""], {"off", "info", "debug"}),
        (["--log-level", "debug", "dev"], {"device"}),
        (["help", "dev"], {"device"}),
        (["help", "trace", "con"], {"convert"}),
        (["run", "block-"], {"block-io", "block-size"}),
        (["run", "nul"], {"null.toml"}),
        (["run", "null.toml", "--scale", ""], {"full", "small"}),
        (["run", "block-io", "--scale", "q"], {"quick"}),  # of a suite
        (["run", "--scale", ""], {"full"}),
        (["run", "absent.toml", "--scale", ""], {"full"}),
        (["run", "null.toml", "--set", "n"], {"noise="}),
        (["run", "null.toml", "--set", "target.kind=d"], {"target.kind=device"}),
        (["run", "write-buffer-size", "--set", "policy=epo"], {"policy=epo", "policy=epo-all"}),
        (["run", "null.toml", "--factor", "x"], {"x="}),
        (["run", "null.toml", "--factor", "x="], {"x=1", "x=2"}),
        (["run", "null.toml", "--factor", "x", "=", "1,"], {"1,2"}),
        (["run", "--executor", "dask:l"], {"dask:local", "dask:local,workers="}),
        (["run", "--executor", "dask", ":", "l"], {"local", "local,workers="}),  # as bash splits it
        (["run", "--executor", "slurm:jobs=2,p"], {"slurm:jobs=2,partition="}),
        (["run", "--executor", "slurm", ":", "jobs", "=", "2,p"], {"2,partition="}),
        (["report", ""], {"runs/20260101-null", "runs/20260102-null"}),
        (["report", "runs/20260102"], {"runs/20260102-null"}),
        (["report", "./runs/20260102"], {"./runs/20260102-null"}),
        (["report", "nowhere/"], set()),
        (["compare", "runs/20260101-null", "runs/20260102"], {"runs/20260102-null"}),
        (["compare", "runs/20260101-null", "runs/20260102-null", ""], set()),
        (["sql", "runs/20260101-null", "runs/20260102"], {"runs/20260102-null"}),
        (["run", "--resume", "runs/20260102"], {"runs/20260102-null"}),
        (["tune", "null.toml", "--range", ""], {"x="}),
        (["tune", "jobs", "--maximize", "read.lat.p99"], {"read.lat.p99", "read.lat.p99.9", "read.lat.p99.99"}),
        (["simulate", "--policy", "lru,epo"], {"lru,epo", "lru,epo-all"}),
        (["simulate", "--format", "m"], {"msr", "mqsim"}),
        (["trace", "convert", "a", "b", "--to", "tence"], {"tencent"}),
        (["trace", "convert", "a", "b", "--keep", "reads,w"], {"reads,writes"}),
        (["export", "runs/20260101-null", "--format", "p"], {"parquet"}),
        (["filesuite", "--cache", "drop"], {"drop", "drop-all"}),
        (["device", "serve", "--model", ""], {"thesis", "none"}),
        (["device", "serve", "--transport", "nbd"], {"nbd:unix:", "nbd:tcp:"}),
        (["witness", "--level", "sys"], {"syscalls"}),
        (["witness", "--", "fio", "--re"], set()),  # an option of fio
        (["witness", "fio", "--re"], set()),
        (["report", "--no-such", ""], {"runs/20260101-null", "runs/20260102-null"}),
    ],
)
def test_shells_are_offered_commands_options_and_values(words: list[str], offered: set[str], work: Path) -> None:
    assert set(completion.candidates(words)) == offered


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (["dev"], COMMANDS["device"]),
        (["device", "stop"], "End a served drive as SIGTERM does, and wait until it has ended."),
        (["run", "--scale"], "A smaller or larger variant that the study defines, such as quick."),
        (["run", "--help"], "Show this message and exit."),
        (["run", "block-size"], "Bandwidth against block size"),
        (["run", "titled"], "Is it fast?"),
        (["run", "untitled"], ""),
        (["report", "runs/20260102"], "2026-01-02 03:04, Is it fast?"),
        (["report", "runs/20260101"], "2026-01-02 03:04"),
        (["tune", "jobs", "--maximize", "read.bw"], "Read bandwidth (bytes/s)"),
        (["simulate", "--policy", "lru,epo-a"], "the oldest page of every element leaves at once"),
        (["simulate", "--set", "cleaning"], "Victim selection of garbage collection."),
        (
            ["run", "write-buffer", "--set", "policy=bplr"],
            "the block written longest ago leaves, whole if it is padded",
        ),
        (["simulate", "--drive", "mqsim"], "The default drive of MQSim: MLC, 8 channels of 4 chips"),
        (["trace", "convert", "a", "b", "--to", "sp"], "SPC traces such as Financial1 and WebSearch1"),
    ],
)
def test_what_is_offered_says_what_it_means(words: list[str], meaning: str, work: Path) -> None:
    (work / "titled.toml").write_text('title = "Is it fast?"\n')
    (work / "untitled.toml").write_text("title = 5\n")
    (work / "runs" / "20260102-null" / "study.toml").write_text('name = "a"\ntitle = "Is it fast?"\n')
    began = time.mktime((2026, 1, 2, 3, 4, 0, 0, 0, -1))
    for plan in work.glob("runs/*/plan.jsonl"):
        os.utime(plan, (began, began))
    assert next(iter(completion.candidates(words).values())) == meaning


def test_meanings_stand_behind_a_tab_for_shells_that_show_them(work: Path, ioassay: Ask) -> None:
    assert ioassay("--candidates", "run", "--resu").out == "--resume\tResume a stopped run.\n"
    assert ioassay("--complete", "run", "--resu").out == "--resume\n"


@pytest.mark.parametrize("content", ["suite = 1", "factors = []", "[[", "study = [1]\nsuite = ['null.toml', 2]", "\0"])
def test_a_study_that_is_wrong_offers_nothing_of_its_own(content: str, work: Path) -> None:
    (work / "wrong.toml").write_text(content)
    for option, offered in (("--scale", {"full", "small"}), ("--factor", {"noise=", "x="})):
        assert set(completion.candidates(["run", "wrong.toml", option, ""])) <= offered


@pytest.mark.parametrize("words", [("report", "a" * 300 + "/"), ("run", "a" * 300 + ".toml", "--set", "x")])
def test_a_path_that_the_system_will_not_take_offers_nothing(words: tuple[str, ...], ioassay: Ask) -> None:
    assert ioassay("--complete", *words) == Answer(0, "", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_completion_imports_nothing_that_takes_time(command: str) -> None:
    code = f"import sys; from ioassay.cli import completion; completion.candidates([{command!r}, '--x']); "
    said = subprocess.run(
        [sys.executable, "-I", "-c", code + "print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout
    assert not HEAVY & set(said.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_once(shell: str, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("alias x=y")
    first = completion.install(shell, tmp_path)
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert completion.install(shell, tmp_path) == first
    assert before == {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(f" {option} " in first.read_text() for option in COMPLETE)
    assert (tmp_path / ".bashrc").read_text().startswith("alias x=y")


TYPED = [
    ("ioassay device sta", "device stats"),
    ("ioassay run block-io --scale q", "run block-io --scale quick"),
    ("ioassay run write-buffer-size --set policy=sie", "run write-buffer-size --set policy=sieve"),
    ("ioassay run --executor slurm:jobs=2,acc", "run --executor slurm:jobs=2,account="),
    ("ioassay report runs/20260102", "report runs/20260102-null"),
    ("ioassay import nul", "import null.toml"),  # a file name, by the shell itself
]


def bash(work: Path) -> list[str]:
    (work / "rc").write_text(f"PS1='ready> '; source {completion.install('bash', work)}\n")
    return ["bash", "--noprofile", "--rcfile", "rc", "-i"]


def zsh(work: Path) -> list[str]:
    script = completion.install("zsh", work)
    (work / ".zshrc").write_text(f"autoload -Uz compinit && compinit -u -D\nsource {script}\nPROMPT='ready> '\n")
    return ["zsh", "-i"]


@pytest.mark.parametrize("shell", [bash, zsh])
def test_a_shell_completes_what_is_typed(shell: Callable[[Path], list[str]], work: Path, tool: Path) -> None:
    _need(shell.__name__)
    env = {"PATH": f"{tool}:{os.environ['PATH']}", "HOME": str(work), "ZDOTDIR": str(work), "INPUTRC": "/dev/null"}
    with Terminal(shell(work), work, env, size=(40, 200)) as terminal:
        for typed, given in TYPED:
            terminal.until("ready> ")
            terminal.type(f"{typed}\t\n")
            terminal.until(f"given: {given} ?\\.")


def test_zsh_lists_what_candidates_mean(work: Path, tool: Path) -> None:
    _need("zsh")
    env = {"PATH": f"{tool}:{os.environ['PATH']}", "HOME": str(work), "ZDOTDIR": str(work)}
    with Terminal(zsh(work), work, env, size=(40, 60)) as terminal:
        terminal.until("ready> ")
        terminal.type("ioassay run access-paths-\t")
        terminal.until("access-paths-depth  -- Access paths: the depth of the queue")
        terminal.until("access-paths-jobs   -- Access paths: six jobs")
        terminal.type("\x15ioassay --\t")
        terminal.until("--log-level +-- Log what is decided and w")  # cut at the width


def test_fish_completes_what_is_typed(work: Path, tool: Path) -> None:
    _need("fish")
    script = completion.install("fish", work)
    env = {**os.environ, "PATH": f"{tool}:{os.environ['PATH']}", "HOME": str(work)}
    for typed, given in TYPED:
        code = f"source {script}; complete --do-complete {shlex.quote(typed)}"
        said = subprocess.run(
            ["fish", "--no-config", "-c", code], cwd=work, env=env, capture_output=True, text=True, check=True
        )
        assert [line.partition("\t")[0] for line in said.stdout.splitlines()] == [given.split()[-1]], typed
        assert said.stderr == ""
        if typed.endswith("device sta"):
            assert said.stdout == "stats\tSay what a served drive has counted.\n"


def _need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} on PATH: apt-get install {shell}")
