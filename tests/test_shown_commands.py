"""The commands that documents show: they run as they stand, in order, and print what stands below them, by shape.

Covered are the pages of docs/tutorials/. In them

- a block ```` ```console ```` is a terminal: its lines after `$ ` are commands, the others what they print;
- a block ```` ```toml title="study.toml" ```` (or of another language) is a file that the reader writes;
- a line `…` within a terminal stands for lines that are left out.

All commands of a page run in one bash, in an empty folder. Numbers with their units, times in names, the user's
folders and the width of columns may differ, and so may lines that only the state of the machine decides
(`OF_THE_MACHINE`). The rest may not.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.M | re.S)
MARK = "--- command"
LEFT_OUT = "…"

PATTERNS = (
    (re.compile(r"\b\d{8}-\d{6}\b"), "TIME"),
    (re.compile(r"(?<![\w.])/(?:[\w.-]+/)+"), "/"),
    (
        re.compile(r"[-+±]?(?:\b|(?<=[-+±]))\d[\d,.]*(?:\s?(?:[kMGT]|[µmn]?s|[KMGT]iB|[kMGT]?B|%)(?:/s)?)?(?![\w.])"),
        "N",
    ),
    (re.compile(r"\s+"), " "),
)
OF_THE_MACHINE = re.compile(
    r"Conditions:|more is in the report|warning: | *remedy: |N (more )?warnings?\b|Other programs |\[\w+-\w+\]$"
    r"|(Read|The 99th percentile) .*\bqueue depth\b"
)
"""Is in lines of which a quiet machine of another kind has more or fewer: its conditions, and the answers of a disk."""
NO_CONCLUSION = "No conclusion is drawn"
WITHOUT_CONCLUSION = re.compile(r"Claims: |N trials|kept |run |report |page ")
"""Begins the lines that a machine prints as well that was not quiet enough for the others."""


@dataclass(frozen=True)
class Shown:
    """A command, and the lines that the page shows below it."""

    command: str
    lines: tuple[str, ...]


def shape(line: str) -> str:
    """A line without what differs from machine to machine."""
    for pattern, instead in PATTERNS:
        line = pattern.sub(instead, line)
    return line.strip()


def files(page: str) -> dict[str, str]:
    """The files that the page has its reader write."""
    return {block["title"]: block["text"] for block in BLOCK.finditer(page) if block["title"]}


def shown(page: str) -> list[Shown]:
    """The commands of the page in order; a line that ends with a backslash continues on the next."""
    found = []
    for block in BLOCK.finditer(page):
        for part in re.split(r"^\$ ", block["text"], flags=re.M)[1:] if block["language"] == "console" else ():
            command = re.match(r"(?:.*\\\n)*.*\n", part)[0]
            lines = part.removeprefix(command).splitlines()
            found.append(Shown(command.rstrip("\n"), tuple(line for line in lines if line.strip())))
    return found


def difference(wanted: tuple[str, ...], said: list[str]) -> str:
    """The first line of the page that was not printed at its place, or that was printed and is not on the page."""
    if not wanted:
        return ""
    steady = [line for line in map(shape, said) if line and not OF_THE_MACHINE.search(line)]
    expected = [line for line in map(shape, wanted) if line == LEFT_OUT or not OF_THE_MACHINE.search(line)]
    if any(line.startswith(NO_CONCLUSION) for line in (*steady, *expected)):
        steady = [line for line in steady if WITHOUT_CONCLUSION.match(line)]
        expected = [line for line in expected if line == LEFT_OUT or WITHOUT_CONCLUSION.match(line)]
    skipping = False
    for line in expected:
        if line == LEFT_OUT:
            skipping = True
            continue
        while skipping and steady and steady[0] != line:
            steady.pop(0)
        if not steady or steady[0] != line:
            return f"the page has:    {line}\nprinted was:     {steady[0] if steady else 'nothing more'}"
        steady.pop(0)
        skipping = False
    return "" if skipping or not steady else f"not on the page: {steady[0]}"


def session(page: str, folder: Path) -> list[list[str]]:
    """Run the commands of a page in `folder`; the lines that each printed."""
    for name, text in files(page).items():
        (folder / name).write_text(text)
    script = "".join(f"{one.command}\nprintf '\\n%s\\n' '{MARK}'\n" for one in shown(page))
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    environment |= {"HOME": str(folder), "LANG": "C.UTF-8", "COLUMNS": "120"}
    command = ["bash", "-c", f"exec 2>&1; {{ {script}\n}} </dev/null"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=560)
    return [part.strip("\n").split("\n") for part in f"\n{done.stdout}".split(f"\n{MARK}\n")]


@pytest.mark.slow
@pytest.mark.fio
@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_commands_of_a_page_print_what_it_shows(path: Path, tmp_path: Path) -> None:
    page = path.read_text()
    printed = session(page, tmp_path)
    assert len(printed) == len(shown(page)) + 1
    for one, said in zip(shown(page), printed, strict=False):
        problem = difference(one.lines, said)
        assert not problem, "\n".join([f"{path.name}: $ {one.command}", problem, "", "all that it printed:", *said])


# The comparison itself


TABLE = ("workload  IOPS  bandwidth", "random read 4 KiB, depth 1  11.5 k  47 MB/s", "run  runs/20261127-173812-quick")


@pytest.mark.parametrize(
    "said",
    [
        ["workload IOPS bandwidth", "random read 4 KiB, depth 1 893 1.1 GB/s", "run runs/20250101-000000-quick"],
        [TABLE[0], "warning: the host sleeps [sleepy-host]", "    remedy: wake it", *TABLE[1:]],
    ],
)
def test_numbers_times_widths_and_warnings_may_differ(said: list[str]) -> None:
    assert difference(TABLE, said) == ""


@pytest.mark.parametrize(
    "said",
    [
        [],
        [*TABLE[:2]],
        [*TABLE, "one line more"],
        [TABLE[0], "random write 4 KiB, depth 1  11.5 k  47 MB/s", TABLE[2]],
        ["workload  IOPS  p50", *TABLE[1:]],
        ["bash: ioassay: command not found"],
    ],
)
def test_words_columns_and_lines_may_not_differ(said: list[str]) -> None:
    assert difference(TABLE, said) != ""


def test_lines_that_are_left_out_may_be_any() -> None:
    assert difference(("first", "…", "last"), ["first", "more", "and more", "last"]) == ""
    assert difference(("first", "…"), ["first"]) == ""
    assert difference(("first", "…", "last"), ["first", "more"]) != ""


def test_a_machine_that_was_not_quiet_prints_the_lines_without_conclusion() -> None:
    page = ("Claims: the kernel confirms 9 of 9.", "IOPS grow with the depth.", "9 trials: 9 ok")
    said = ["Claims: the kernel confirms 9 of 9.", "No conclusion is drawn from these trials.", "9 trials: 9 ok"]
    assert difference(page, said) == ""
    assert difference(page, [*said[:2], "9 trials: 8 ok, 1 failed"]) != ""
    assert difference(("…", page[2]), said) == ""


def test_a_terminal_of_a_page_is_read_with_its_files_and_continued_commands() -> None:
    page = '```toml title="a.toml"\nx = 1\n```\n\n```console\n$ cat a.toml\nx = 1\n$ echo \\\n    b\nb\n```\n'
    assert files(page) == {"a.toml": "x = 1\n"}
    assert shown(page) == [Shown("cat a.toml", ("x = 1",)), Shown("echo \\\n    b", ("b",))]


def test_a_session_keeps_its_folder_and_its_exit_status(tmp_path: Path) -> None:
    page = "```console\n$ mkdir a && cd a\n$ false\n$ echo $?\n1\n$ basename $PWD\na\n```\n"
    assert session(page, tmp_path)[3] == ["a"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_page_shows_commands(path: Path) -> None:
    assert any(one.lines for one in shown(path.read_text()))
