"""What the witness says of honest tools, of outputs with one number changed, and of liars.

    .venv/bin/python benches/verdict_battery.py [--only honest edited liars] [--filesystem plain btrfs …] [--fio 1000]
        [--edits 200] [--seed 1] [--jobs 2] [--seconds 3600] [--output FOLDER] [--folder FOLDER]

honest   Random jobs of fio that fio ends with 0 (jobs), and the scripts of battery/commands.toml (scripts), each beside
         a process that reads another file. No verdict may accuse: CONTRADICTED, or UNSUBSTANTIATED but for the null
         engine. What fio 3.33 prints wrongly (battery/fio_jobs.py has the proofs) may be contradicted, and is counted.
edited   Real outputs of fio, ioping, sysbench and dd, of which one number was multiplied by 0.5 to 2 in a pipe (and not
         by 0.9 to 1.1). None may be taken as true. One in ten is passed on as it is, and must not be accused. Of those
         that are taken as true, the table counts how many are among what the verdict says to match (`matched` of
         --json), and not among what it says was not judged.
liars    battery/liar.py, by the rows `liar` of the commands. None may be taken as true.

Each runs as `ioassay witness --json -- COMMAND` in a new folder. Prints tables of the verdicts by engine, by file
system and by number, and writes to --output: results.jsonl (each case), wrong.txt (each wrong one with its command
line, the seed that makes it again, what was claimed and the witness's words), classes.txt (these by their words) and
tables.txt. Needs root; what cannot be made here, or is not installed, is said and left out. Mounts, loop devices and
zram that it made are ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from battery import fio_jobs
from battery.storage import MIB, STORAGE, Place, neighbour, place

HERE = Path(__file__).parent / "battery"
COMMANDS = tomllib.loads((HERE / "commands.toml").read_text())
TRUE = ("CONFIRMED", "CONFIRMED-CACHED", "CONFIRMED-DEFERRED", "AMPLIFIED")
CATEGORIES = (*TRUE, "UNSUPPORTED", "INCOMPLETE", "PERTURBED", "UNSUBSTANTIATED", "CONTRADICTED")
OPEN = ("UNSUPPORTED", "INCOMPLETE", "PERTURBED")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Case:
    """A command and what its verdict may not be."""

    part: str
    group: str
    """Of tables: the engine, the tool and its number, or the mode."""
    argv: Sequence[str]
    refused: Sequence[str]
    texts: Mapping[str, str] = field(default_factory=dict)
    """Programs and other texts to be made in the folder, by name."""
    prepare: str = ""
    options: Sequence[str] = ()
    """Of the witness."""
    note: str = ""
    edited: bool = False
    number: str = ""
    """What was changed of the output, as a verdict names it."""
    faults: Sequence[str] = ()
    """Reasons that faults of the tool deserve."""
    silent: bool = False
    """It claims nothing: UNSUPPORTED is right."""


@dataclass(frozen=True)
class Result:
    case: Case
    storage: str
    category: str
    reason: str = ""
    headline: str = ""
    changed: str = ""
    said: Mapping[str, Any] = field(default_factory=dict)
    output: str = ""

    @property
    def wrong(self) -> bool:
        return self.category in self.case.refused and self.reason not in self.case.faults

    @property
    def said_to_match(self) -> bool:
        """Whether the number that was changed is among those that the verdict says match."""
        return self.wrong and self.case.number in self.said.get("matched", ())

    @property
    def open(self) -> bool:
        """Nothing was decided of an honest claim that its tool printed rightly."""
        undecided = self.category in (*OPEN, "NO-RESULT") and self.reason not in self.case.faults
        return self.case.part == "honest" and not self.case.silent and undecided

    @property
    def verdict(self) -> str:
        return f"{self.category} {self.reason}".strip()


# --- cases ---


def honest_jobs(seed: int, number: int, at: Place) -> Iterator[Case]:
    for index in range(number):
        rng = random.Random(f"{seed} {at.storage} {index}")
        drawn = fio_jobs.draw(rng, at.file, at.raw)
        engine = drawn.engines[0] if len(drawn.engines) == 1 else "several"
        accused = ("CONTRADICTED",) if "null" in drawn.engines else ("CONTRADICTED", "UNSUBSTANTIATED")
        lines = f"{drawn.files}" if drawn.files else ""
        yield Case(
            "honest", engine, drawn.argv, accused, drawn.files, faults=drawn.faults,
            note=f"seed {seed}, job {index} {lines}".strip(),
        )  # fmt: skip


def scripts(at: Place) -> Iterator[Case]:
    for row in COMMANDS.get("script", ()):
        if shutil.which(row["tool"]) and not (at.raw and row.get("files", False)):
            refused = ("CONTRADICTED", "UNSUBSTANTIATED", *(TRUE if row.get("silent") else ()))
            for line in row["lines"]:
                yield Case(
                    "honest", f"script: {row['tool']}", argv_of(line), refused, prepare=row.get("prepare", ""),
                    options=row.get("options", ()), silent=row.get("silent", False),
                )  # fmt: skip


def argv_of(line: str) -> list[str]:
    return ["sh", "-c", line] if set(line) & set(";|&<>$*\n'\"") else shlex.split(line)


def edits(seed: int, number: int) -> Iterator[Case]:
    """Numbers by turns, so that each stands in about as many outputs; one in ten of factor 1 must not be accused."""
    rows = [
        (row, name) for row in COMMANDS["edited"] for name in row["numbers"] if shutil.which(row["tool"].split()[0])
    ]
    rng = random.Random(seed)
    for index in range(number):
        if index % len(rows) == 0:
            rng.shuffle(rows)
        row, name = rows[index % len(rows)]
        factor = rng.choice((rng.uniform(0.5, 0.9), rng.uniform(1.1, 2.0)))
        if index % 10 == 9:
            factor = 1.0
        line = rng.choice(row["commands"])
        tool = line.split()[0]
        yield Case(
            "edited" if factor != 1 else "honest", f"{row['tool']}: {name}" if factor != 1 else "wrapped",
            [f"edits/{tool}", *line.split()[1:]], TRUE if factor != 1 else ("CONTRADICTED", "UNSUBSTANTIATED"),
            {f"edits/{tool}": wrapper(tool, row["numbers"][name], factor)}, row.get("prepare", ""),
            note=f"{row['tool']}: {name} × {factor:.2f}", edited=True, number=COMMANDS["names"].get(name, "interval"),
        )  # fmt: skip


def wrapper(tool: str, path: str, factor: float) -> str:
    """A program that runs the real one and passes on what that prints, but for one number."""
    real, change = shutil.which(tool), shlex.join(["awk", "-f", str(HERE / "edit.awk"), "-v", f"path={path}"])
    both = "2>&1 " if tool == "dd" else ""
    return f'#!/bin/sh\n{real} "$@" {both}| {change} -v factor={factor:.3f}\n'


def liars() -> Iterator[Case]:
    python = shlex.join([os.path.realpath(sys.executable), "-I", "-S", str(HERE / "liar.py")])
    for row in COMMANDS["liar"]:
        for mode in row["modes"]:
            refused = tuple(category for category in TRUE if category not in row.get("may", ()))
            if mode.startswith("honest"):
                refused = ("CONTRADICTED", "UNSUBSTANTIATED")
            tool = {"liars/fio": f'#!/bin/sh\nexec {python} ${{LIE:-{mode}}} "$@"\n'}
            command = [each.replace("MODE", mode) for each in row.get("command", ["liars/fio"])]
            yield Case("liars", f"{row.get('name', '')} {mode}".strip(), command, refused, tool,
                       row.get("prepare", ""), row.get("options", ()))  # fmt: skip


# --- one run ---


def run(case: Case, at: Place, master: Path, env: Mapping[str, str]) -> Result:
    """In a new folder, with files of its own; what is left in it goes."""
    folder = Path(tempfile.mkdtemp(prefix="case-", dir=at.folder))
    try:
        for name in ("data", "data2"):
            if at.raw:
                (folder / name).symlink_to(at.device)
            else:
                cold_copy(master, folder / name)
        for name, text in case.texts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        if case.prepare:
            subprocess.run(["sh", "-c", case.prepare], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
        return witness(case, at.storage, folder, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cold_copy(source: Path, target: Path) -> None:
    """On the device, and not in the page cache."""
    shutil.copyfile(source, target)
    handle = os.open(target, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def witness(case: Case, storage: str, folder: Path, env: Mapping[str, str]) -> Result:
    pipe = Path(tempfile.mkdtemp(prefix="battery-pipe-")) / "edited"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    command = [sys.executable, "-m", "ioassay", "witness", "--json", *case.options, "--", *case.argv]
    process = subprocess.Popen(
        command, cwd=folder, env={**env, "EDITED": str(pipe)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=PATIENCE_S)
        try:
            changed = os.read(handle, 1000).decode().split("\n")[0]
        except BlockingIOError:
            changed = ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
        return Result(case, storage, "TIMEOUT")
    finally:
        os.close(handle)
        shutil.rmtree(pipe.parent)
    try:
        said = json.loads(out)
    except ValueError:
        return Result(case, storage, "NO-RESULT", headline=errors[-600:])
    if said["exit_code"] != 0:
        return Result(case, storage, "REFUSED", headline=errors[-300:])
    if case.edited and not is_changed(changed, case.part):
        return Result(case, storage, "UNCHANGED", headline=changed)
    return Result(case, storage, said["verdict"], said["reason"], said["explanation"], changed, said, errors)


def is_changed(said: str, part: str) -> bool:
    """Whether another number was printed: not within a tenth by rounding, nor next to it in its last digit."""
    match said.split():
        case [old, new]:
            step = 10.0 ** -len(old.partition(".")[2])
            ratio = float(new) / (float(old) or 1)
            return part == "honest" or (not 0.9 <= ratio <= 1.1 and abs(float(new) - float(old)) > 1.5 * step)
    return False


# --- what was found ---


COLUMNS = {"CONFIRMED": "conf", "CONFIRMED-CACHED": "cached", "CONFIRMED-DEFERRED": "defer", "AMPLIFIED": "ampl",
           "UNSUPPORTED": "unsupp", "INCOMPLETE": "incompl", "PERTURBED": "pert", "UNSUBSTANTIATED": "unsubst",
           "CONTRADICTED": "CONTRA"}  # fmt: skip


def table(title: str, rows: Iterable[tuple[str, Result]]) -> str:
    found = [(name, result) for name, result in rows if result.category in CATEGORIES]
    if not found:
        return ""
    lines = [f"{title:34s}{'n':>5s}{'wrong':>7s}" + "".join(f"{each:>8s}" for each in COLUMNS.values())]
    for name in [*sorted({name for name, _ in found}), "all"]:
        of = [result for row, result in found if name in (row, "all")]
        counts = Counter(result.category for result in of)
        wrong = sum(result.wrong for result in of)
        lines.append(f"{name[:33]:34s}{len(of):5d}{wrong:7d}" + "".join(f"{counts[each] or '':>8}" for each in COLUMNS))
    return "\n".join(lines) + "\n"


def tables(results: Sequence[Result]) -> str:
    honest = [each for each in results if each.case.part == "honest"]
    edited = [each for each in results if each.case.part == "edited"]
    lies = [each for each in results if each.case.part == "liars"]
    claiming = [each for each in honest if not each.case.silent and each.category in CATEGORIES]
    undecided = sum(each.open for each in claiming)
    mapped = sum(each.open and each.reason == "MAPPED" for each in claiming)
    faults = sum(each.category in ("CONTRADICTED", *OPEN) and each.reason in each.case.faults for each in honest)
    share = undecided / max(len(claiming), 1)
    accused = sum(each.wrong for each in honest)
    lines = [
        table("honest, by engine", ((each.case.group, each) for each in honest)),
        table("honest, by file system", ((each.storage, each) for each in honest)),
        table("edited, by number", ((each.case.group, each) for each in edited)),
        table("liars", ((each.case.group, each) for each in lies)),
    ]
    if claiming:
        lines.append(f"honest: {accused} of {len(honest)} accused, {faults} more for faults of the tool, "
                     f"{undecided} of {len(claiming)} that claim something undecided ({share:.1%}; "
                     f"{mapped} by mapped files, whose accesses are no calls)\n")  # fmt: skip
    for name, of in (("edited", edited), ("liars", lies)):
        judged = [each for each in of if each.category in CATEGORIES]
        if judged:
            taken = sum(each.wrong for each in judged)
            lines.append(f"{name}: {taken} of {len(judged)} taken as true ({taken / len(judged):.1%})")
            said = sum(each.said_to_match for each in judged)
            lines[-1] += f", {said} of them said to match\n" if name == "edited" else "\n"
    left = Counter(each.category for each in results if each.category not in CATEGORIES)
    lines.append(f"not judged: {dict(left)} (REFUSED: the command failed; UNCHANGED: the number did not change)\n")
    return "\n".join(filter(None, lines))


def text(result: Result) -> str:
    case = result.case
    claims = [f"    claims {shortened(claim)}" for claim in result.said.get("claims", ())[:6]]
    verdicts = [
        f"    {each['category']} {each['reason']}: {each['explanation']}"
        for each in result.said.get("verdicts", ())[:6]
    ]
    changed = f" printed {result.changed.replace(' ', ' → ')}" if result.changed else ""
    listed = [f"{case.part} | {case.group} | {result.storage} | {result.verdict} | {case.note}{changed}",
              f"    $ ioassay witness {shlex.join([*case.options, '--', *case.argv])}",
              f"    {result.headline}", *claims, *verdicts]  # fmt: skip
    return "\n".join(listed) + "\n"


def shortened(claim: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in claim.items() if value not in (None, "", [], {}, 0)})[:700]


def classes(results: Sequence[Result]) -> str:
    """Those that are wrong or open, by the words of the verdict without numbers: how many, and the shortest command."""
    found = defaultdict(list)
    for each in results:
        if each.wrong or each.open:
            words = re.sub(r"[\d.,]+(?: ?[KMG]i?B| ?B| ms| µs| s\b| ns)?", "#", each.headline)[:110]
            found[each.case.part, each.verdict, words if each.case.part == "honest" else each.case.group].append(each)
    lines = []
    for (part, verdict, _), of in sorted(found.items(), key=lambda row: (row[0][0], -len(row[1]))):
        example = min(of, key=lambda each: len(shlex.join(each.case.argv)))
        places = ", ".join(sorted({each.storage for each in of}))
        case = example.case
        lines.append(f"{len(of)} {part} {verdict}, on {places}: {case.group} {case.note} {example.changed}\n"
                     f"    $ {shlex.join(case.argv)}\n"
                     f"    {example.headline}\n")  # fmt: skip
    return "".join(lines)


def store(result: Result, output: Path) -> None:
    with (output / "results.jsonl").open("a") as file:
        kept = {"part": result.case.part, "group": result.case.group, "storage": result.storage, "wrong": result.wrong,
                "verdict": result.verdict, "note": result.case.note, "changed": result.changed,
                "command": shlex.join(result.case.argv), "headline": result.headline,
                "said_to_match": result.said_to_match}  # fmt: skip
        file.write(json.dumps(kept) + "\n")
    if result.wrong or result.open:
        with (output / "wrong.txt").open("a") as file:
            file.write(text(result))


# --- all of them ---


def cases(options: argparse.Namespace, at: Place, share: int) -> list[Case]:
    listed: list[Case] = []
    if {"honest", "jobs"} & {*options.only}:
        listed += honest_jobs(options.seed, options.fio // share, at)
    if {"honest", "scripts"} & {*options.only}:
        listed += scripts(at)
    if "edited" in options.only and at.storage == options.filesystem[0]:
        listed += edits(options.seed, options.edits)
    if "liars" in options.only and at.storage in (options.filesystem[0], *options.liars_on):
        listed += liars()
    random.Random(options.seed).shuffle(listed)
    return listed


def all_on(name: str, options: argparse.Namespace, master: Path, output: Path, until: float) -> list[Result]:
    env = {**os.environ, "LC_ALL": "C"}
    with ExitStack() as stack:
        try:
            at = stack.enter_context(place(name, options.folder))
        except (subprocess.CalledProcessError, OSError) as error:
            print(f"{name}: left out: {getattr(error, 'stderr', '') or error}")
            return []
        stack.enter_context(neighbour(at.folder))
        pool = stack.enter_context(ThreadPoolExecutor(options.jobs))
        stack.callback(pool.shutdown, cancel_futures=True)  # where it is interrupted, those that wait do not run
        results = []

        def one(case: Case) -> Result | None:
            return run(case, at, master, env) if time.monotonic() < until else None

        for done in as_completed([pool.submit(one, case) for case in cases(options, at, len(options.filesystem))]):
            if (result := done.result()) is not None:
                store(result, output)
                results.append(result)
    print(f"{name}: {len(results)} cases, {sum(each.wrong for each in results)} wrong", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=("honest", "jobs", "scripts", "edited", "liars"),
        default=["honest", "edited", "liars"],
    )
    parser.add_argument("--filesystem", nargs="+", choices=[*STORAGE], default=[*STORAGE])
    parser.add_argument("--liars-on", nargs="*", choices=[*STORAGE], default=["overlay", "btrfs"])
    parser.add_argument("--fio", type=int, default=1000, help="random jobs of fio, on all file systems together")
    parser.add_argument("--edits", type=int, default=220)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing after so long")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="on a disk with room for 2 GiB")
    parser.add_argument("--output", type=Path, default=Path("verdict-battery"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in ("results.jsonl", "wrong.txt"):
        (options.output / name).write_text("")
    until, results = time.monotonic() + options.seconds, []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.NamedTemporaryFile(dir=options.folder) as master:
        master.write(os.urandom(16 * MIB))
        master.flush()
        for name in options.filesystem:
            results += all_on(name, options, Path(master.name), options.output, until)
    listed = tables(results)
    (options.output / "tables.txt").write_text(listed)
    (options.output / "classes.txt").write_text(classes(results))
    print(listed)


if __name__ == "__main__":
    main()
