"""The commands that documents show: they run as they stand, in order, and print what stands below them, by shape.

Covered is every document with a terminal (`documents.py` has the notation). All commands of a page run in one bash, in
an empty folder that is also HOME, in which the files of the page are written first. In a terminal

- a line `…` stands for lines that are left out;
- a command ends with exit status 0, unless the next command is `echo $?` or the last line is its error (`ioassay: …`);
- a command that ends with `&` goes on in the background; what stands below it is what it prints until it is ready.

Numbers with their units, times in names, the user's folders and the width of columns may differ, and so may lines that
only the state of the machine decides (`OF_THE_MACHINE`). The rest may not.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import shell_command
from .cli.command_server import CommandServer
from .corpora import CORPUS, THOROUGH, cases
from .documents import DOCUMENTS, Shown, files, name_of, shown

PAGES = {name_of(path): path.read_text() for path in DOCUMENTS if shown(path.read_text())}
PREMISES: dict[str, dict[str, Any]] = tomllib.loads((CORPUS / "documents" / "pages.toml").read_text())
LOADS = {
    "num = 100000\n": "num = 40000\n",
    'runtime = "1s"': 'runtime = "500ms"',
    "ioassay quick --output": "ioassay quick --budget 15s --output",
    "--budget 5m --output mine": "--budget 40s --output mine",
}
"""Text in a page's files and commands -> the smaller load that a test gives in its place: numbers may differ anyway."""
MARK = "--- command"
LEFT_OUT = "…"

PATTERNS = (
    (re.compile(r"\b\d{8}-\d{6}\b"), "TIME"),
    (re.compile(r"(?<=:)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"(?<![\w.])/(?:[\w.-]+/)+"), "/"),
    (
        re.compile(r"[-+±]?(?:\b|(?<=[-+±]))\d[\d,.]*(?:\s?(?:[kMGT]|[µmn]?s|[KMGT]iB|[kMGT]?B|%)(?:/s)?)?(?![\w.])"),
        "N",
    ),
    (re.compile(r",? (?:calibration uncertain|through (?:io_uring|/fuse)|takes N by itself)"), ""),
    (re.compile(r"\s+"), " "),
    (re.compile(r" N (?:is|are) neither confirmed nor contradicted\."), ""),
    (re.compile(r"± N|N to N"), "N"),
)
OF_THE_MACHINE = re.compile(
    r"Conditions:|more is in the report|warning: | *remedy: |N (more )?warnings?\b|Other programs |\[\w+-\w+\]$"
    r"|(Read|[Tt]he 99th percentile) .*\bqueue depth\b|: Of N a (read|write)\b"
)
"""Is in lines of which a quiet machine of another kind has more or fewer: its conditions, and the answers of a disk."""
NO_CONCLUSION = "No conclusion is drawn"
WITHOUT_CONCLUSION = re.compile(r"Claims: |N trials|kept |run |report |page ")
"""Begins the lines that a machine prints as well that was not quiet enough for the others."""


def shape(line: str) -> str:
    """A line without what differs from machine to machine."""
    for pattern, instead in PATTERNS:
        line = pattern.sub(instead, line)
    return line.strip()


def difference(wanted: tuple[str, ...], said: list[str]) -> str:
    """The first line of the page that was not printed at its place, or that was printed and is not on the page."""
    if not wanted:
        return ""
    steady = [line for line in map(shape, said) if line and not OF_THE_MACHINE.search(line)]
    expected = [line for line in map(shape, wanted) if line == LEFT_OUT or not OF_THE_MACHINE.search(line)]
    if any(line.startswith(NO_CONCLUSION) for line in (*steady, *expected)):
        steady = [line for line in steady if WITHOUT_CONCLUSION.match(line)]
        expected = [line for line in expected if line == LEFT_OUT or WITHOUT_CONCLUSION.match(line)]
    first, *others = parts(expected)
    for line, said_there in zip(first, [*steady, *[""] * len(first)], strict=False):
        if line != said_there:
            return f"the page has:    {line}\nprinted was:     {said_there or 'nothing more'}"
    at = len(first)
    for number, part in enumerate(others, 1):
        places = [
            place for place in range(at, len(steady) - len(part) + 1) if steady[place : place + len(part)] == part
        ]
        if not places:
            return f"the page has:    {part[0]}\nprinted was:     nothing that goes on like this"
        at = places[-1 if number == len(others) else 0] + len(part)
    return f"not on the page: {steady[at]}" if at < len(steady) else ""


def parts(lines: list[str]) -> list[list[str]]:
    """The lines before, between and after those that are left out."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line == LEFT_OUT:
            found.append([])
        else:
            found[-1].append(line)
    return found


@dataclass(frozen=True)
class Ended:
    """How a command of a session ended: its exit status, and what it printed."""

    status: int
    lines: list[str]


def smaller(text: str) -> str:
    """A page's text with smaller loads; with its own where all is tested."""
    for large, small in LOADS.items():
        text = text if THOROUGH else text.replace(large, small)
    return text


READY = """
printed_within() {  # FILE LINES: what a command in the background printed, as soon as it is that much
    for _ in $(seq 1800); do
        [ "$(grep -vc -e '^$' -e '^warning: ' "$1")" -ge "$2" ] || ! kill -0 $! 2>/dev/null && break
        sleep 0.1
    done
    grep -v -e '^$' -e '^warning: ' "$1" | head -n "$2"
}
ended() {  # what the page mounted goes before the drives that it serves
    cut -d" " -f2 /proc/mounts | grep "^$HOME/" | xargs -r -n1 umount 2>/dev/null
    kill $(jobs -p) 2>/dev/null
    wait
}
trap ended EXIT
"""


def script(commands: list[Shown], logs: Path, after: str = "") -> str:
    """The shell script of a session; each command is followed by a line with its exit status, and by `after`."""
    parts = [READY]
    for number, one in enumerate(commands):
        if one.command.endswith("&"):
            log, count = logs / str(number), sum(line.strip() != LEFT_OUT for line in one.lines)
            parts.append(f": >{log}\n>{log} 2>&1 {smaller(one.command)}\nprinted_within {log} {count}; true\n")
        else:
            parts.append(f"{smaller(one.command)}\n")
        parts.append(f"status=$?; printf '\\n%s %s\\n' '{MARK}' $status\n{after}\n(exit $status)\n")
    return "".join(parts)


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    """What answers `ioassay` on all pages. It draws no figures."""
    started = CommandServer()
    yield started
    started.close()


def session(page: str, folder: Path, server: CommandServer, preparation: str = "", after: str = "") -> list[Ended]:
    """Run the commands of a page in a new folder below `folder`, `after` following each; how those ended that did."""
    home, logs, commands = folder / "home", folder / "logs", folder / "commands"
    for each in (home, logs, commands):
        each.mkdir()
    shell_command.write(commands, server.fileno())
    for name, text in files(page).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(smaller(text))
    environment = {"PATH": f"{commands}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    environment |= {"HOME": str(home), "LANG": "C.UTF-8", "COLUMNS": "120"}
    inherited = [server.fileno()]
    if preparation:
        words = ["bash", "-ec", preparation]
        subprocess.run(words, cwd=home, env=environment, pass_fds=inherited, check=True, timeout=600)
    printed = folder / "printed"
    text = f"exec 2>&1; {{ {script(shown(page), logs, after)}\n}} </dev/null"
    with printed.open("w") as output:
        words = ["bash", "-c", text]
        shell = subprocess.Popen(
            words, cwd=home, env=environment, stdout=output, pass_fds=inherited, start_new_session=True
        )
        try:
            shell.wait(timeout=840)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGTERM)
                shell.wait(timeout=240)
    *parts, _ = re.split(rf"\n{MARK} (\d+)\n", f"\n{printed.read_text(errors='replace')}")
    return [
        Ended(int(status), said.strip("\n").split("\n")) for said, status in zip(parts[::2], parts[1::2], strict=True)
    ]


def failure(commands: list[Shown], place: int, status: int) -> str:
    """Why an exit status is not the one that the page has the reader expect."""
    asked = place + 1 < len(commands) and commands[place + 1].command == "echo $?"
    lines = commands[place].lines
    refused = bool(lines) and lines[-1].startswith(f"{commands[place].command.split()[0]}: ")
    if asked or bool(status) == refused:
        return ""
    return f"exit status {status}, and the page {'shows an error' if refused else 'says nothing of a failure'}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[getattr(pytest.mark, need) for need in PREMISES.get(name, {}).get("needs", ())])
        for name in PAGES
    ],
)
def test_the_commands_of_a_page_print_what_it_shows(name: str, tmp_path: Path, server: CommandServer) -> None:
    premises = PREMISES.get(name, {})
    if missing := [program for program in premises.get("programs", ()) if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)} on PATH")
    commands = shown(PAGES[name])
    ended = session(PAGES[name], tmp_path, server, premises.get("before", ""), premises.get("after", ""))
    for place, (one, done) in enumerate(zip(commands, ended, strict=False)):
        problem = failure(commands, place, done.status) or difference(one.lines, done.lines)
        assert not problem, "\n".join([f"{name}.md: $ {one.command}", problem, "", "all that it printed:", *done.lines])
    assert len(ended) == len(commands), f"{name}.md: $ {commands[len(ended)].command}\nwas not reached, or did not end"


def test_what_a_page_needs_is_said_of_pages_that_there_are() -> None:
    assert PREMISES.keys() <= PAGES.keys()


# The comparison itself


@cases("documents", "shapes")
def test_numbers_times_widths_and_warnings_may_differ_and_words_may_not(case: dict[str, Any]) -> None:
    assert (difference(tuple(case["page"]), case["printed"]) == "") == case["same"]


def test_a_terminal_of_a_page_is_read_with_its_files_and_continued_commands() -> None:
    page = '```toml title="a.toml"\nx = 1\n```\n\n```console\n$ cat a.toml\nx = 1\n$ echo \\\n    b\nb\n```\n'
    assert files(page) == {"a.toml": "x = 1\n"}
    assert shown(page) == [Shown("cat a.toml", ("x = 1",)), Shown("echo \\\n    b", ("b",))]


def test_a_session_keeps_its_folder_and_its_exit_status(tmp_path: Path, server: CommandServer) -> None:
    page = "```console\n$ mkdir a && cd a\n$ false\n$ echo $?\n1\n$ basename $PWD\na\n```\n"
    ended = session(page, tmp_path, server)
    assert [one.status for one in ended] == [0, 1, 0, 0]
    assert [one.lines for one in ended[2:]] == [["1"], ["a"]]


def test_a_server_is_waited_for_and_ended_with_the_session(tmp_path: Path, server: CommandServer) -> None:
    page = (
        "```console\n$ sh -c 'sleep 0.3; echo ready; exec sleep 600' &\nready\n$ echo $! >pid\n$ cat here\nhere\n```\n"
    )
    ended = session(page, tmp_path, server, "echo here >here")
    assert [one.lines for one in ended] == [["ready"], [""], ["here"]]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "home" / "pid").read_text()), 0)


@pytest.mark.parametrize(
    ("page", "status", "shown_by_page"),
    [
        ("$ false\n", 1, False),
        ("$ false\n$ true\n", 1, False),
        ("$ ioassay runn\nioassay: No such command 'runn'\n", 0, False),
        ("$ false\n$ echo $?\n1\n", 1, True),
        ("$ ioassay runn\nioassay: No such command 'runn'\n", 1, True),
    ],
)
def test_a_failure_is_one_unless_the_page_shows_it(page: str, status: int, shown_by_page: bool) -> None:
    assert (failure(shown(f"```console\n{page}```\n"), 0, status) == "") == shown_by_page


def test_every_tutorial_shows_what_its_commands_print() -> None:
    tutorials = {name_of(path) for path in DOCUMENTS if path.parent.name == "tutorials"}
    assert tutorials and all(any(one.lines for one in shown(PAGES[name])) for name in tutorials)
