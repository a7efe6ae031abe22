"""The architecture as a test: who may import whom, what must stay pure, what nobody writes.

The tables at the top are the map of docs/ARCHITECTURE.md; a change that needs another map edits both. Every message
says what to do instead. Only text is read here (and one interpreter is started, to see what a light module drags in).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from ioassay import factors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "ioassay"

CONTRACTS = {
    "errors",
    "hints",
    "debug_log",
    "units",
    "metrics",
    "factors",
    "records",
    "validation",
    "atomic_file",
    "plugins",
    "registry",
}
ROLES = CONTRACTS | {"roles", "_core"}

# A room is a module or a package directly below python/ioassay, or one that is named here with a dot; on the right
# stands what it may import, its own insides apart.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "units": set(),
    "metrics": {"units"},
    "factors": {"units", "records"},
    "atomic_file": set(),
    "debug_log": {"errors", "hints"},
    "plugins": {"errors", "debug_log"},
    "registry": {"errors", "hints", "plugins"},
    "hints": set(),
    "validation": {"errors", "hints"},
    "records": {"errors", "units", "metrics", "_core"},
    "roles": CONTRACTS,
    "formats": CONTRACTS | {"_core"},
    "stats": {"errors"},
    "process": ROLES,
    "study": ROLES | {"drivers"},
    "traces": CONTRACTS | {"_core"},
    "simulator": CONTRACTS | {"_core", "traces"},
    "virtual_drive": CONTRACTS | {"_core", "simulator"},
    "drivers": ROLES | {"study", "formats", "simulator", "traces"},  # simulate computes with the last two
    "monitors": ROLES | {"study", "host"},  # host.perf_events, host.cgroup: what monitors of processes read
    "host.settings": ROLES | {"process"},
    "host.privacy": ROLES | {"host.settings"},  # restore_file: the user's state folder
    "host.doctor": ROLES | {"host", "host.settings"},
    "host": ROLES | {"host.settings", "process", "study"},  # study.run_conditions: what a control group limits
    "targets": ROLES | {"study", "host", "process", "simulator", "virtual_drive"},
    "verify.witness": ROLES | {"process", "host", "traces"},
    "verify": CONTRACTS | {"_core", "stats", "formats"},
    "store": ROLES
    | {"study", "formats", "drivers", "host.privacy", "store.dataset", "store.packed_page", "store.schema"},
    "store.schema": CONTRACTS,
    "store.packed_page": set(),
    "store.dataset": CONTRACTS | {"roles", "study", "store.schema"},
    "analysis": CONTRACTS | {"_core", "stats", "formats", "verify", "study", "store.dataset", "store.schema"},
    "narrative": CONTRACTS | {"stats", "verify", "study", "store.dataset", "store.schema", "analysis"},
    "runner": ROLES
    | {
        "analysis",
        "drivers",
        "host",
        "host.settings",
        "monitors",
        "process",
        "store",
        "study",
        "targets",
        "verify.witness",
    },
    "tuning": ROLES | {"study", "store", "store.schema", "runner", "analysis", "narrative", "stats"},
    "report": CONTRACTS
    | {
        "_core",
        "analysis",
        "narrative",
        "stats",
        "verify",
        "study",
        "store.dataset",
        "store.packed_page",
        "store.schema",
    }
    | {"host.privacy"},
}
MAY_IMPORT["cluster"] = ROLES | {"process", "runner"}
MAY_IMPORT["live"] = ROLES | {"analysis", "narrative", "report", "study"}
MAY_IMPORT["api"] = MAY_IMPORT.keys() | {"_core"}
MAY_IMPORT["testing"] = ROLES | {
    "analysis",
    "drivers",
    "formats",
    "monitors",
    "narrative",
    "report",
    "store",
    "store.dataset",
}
MAY_IMPORT["testing"] |= {"study", "targets"}
MAY_IMPORT["cli"] = MAY_IMPORT.keys() | {"_core"}
MAY_IMPORT["__main__"] = {"cli", "process"}
MAY_IMPORT["__init__"] = {"_core", "api", "errors", "narrative", "simulator"}

# A room and its literal list, whose entries never import each other.
LISTS = {"drivers": "DRIVERS", "targets": "TARGETS", "monitors": "MONITORS"}
STARTS_PROCESSES = {"process"}
PRINTS_AND_EXITS = {"cli", "__main__"}

# A crate and the crates of ours that it may use.
CRATES: dict[str, set[str]] = {
    "stats": set(),
    "block": {"stats"},
    "sim": {"block", "stats"},
    "fiolog": {"stats"},
    "filesuite": {"stats"},
    "device": {"sim", "block", "stats"},
    "witness": {"block", "stats"},
    "py": {"stats", "block", "sim", "fiolog", "filesuite", "device", "witness"},
}
PURE_CRATES = {"stats", "block", "sim", "fiolog"}
IMPURE = {
    r"\bstd::(fs|net|process|env)\b": "take a reader, bytes or a value as argument; crates/py opens files",
    r"\bstd::thread\b|\brayon\b": "leave threads to the caller",
    r"\b(Instant|SystemTime)\b": "take the time as an argument",
    r"\bthread_rng\b|\brand::rng\b|\bgetrandom\b|\bOsRng\b|\bfrom_entropy\b": "take a seed as an argument",
    r"\bHash(Map|Set)\b": "use BTreeMap, BTreeSet or a Vec: their order is the same in every run",
    r"\be?print(ln)?!|\bdbg!": "return the value; python/ioassay/cli alone prints",
}

LIGHT = (
    *(
        "cli",
        "errors",
        "units",
        "metrics",
        "factors",
        "registry",
        "roles",
        "study.model",
        "study.plan",
        "records.record",
    ),
    *("store.run_folder", "runner.run", "runner.worker", "process.supervisor"),
)
HEAVY = {
    *("polars", "duckdb", "numpy", "scipy", "altair", "vl_convert", "jinja2", "playwright"),
    *("distributed", "dask", "dask_jobqueue"),
}
# The tests hold our numbers against these; nothing that a user runs needs them.
OF_TESTS = {"scipy", "psutil", "pandas", "statsmodels", "pyarrow", "optuna", "typer", "click", "rich"}
MEANINGLESS_NAMES = {"util", "utils", "common", "helper", "helpers", "misc"}
MAX_FUNCTION_LINES = 100
# Participles, pronouns and adverbs say nothing of what a file or a function is about. Names of the field do.
NO_NOUNS = {
    *(
        "adjust",
        "again",
        "asked",
        "beside",
        "checked",
        "doubts",
        "everything",
        "filled",
        "found",
        "lead",
        "left",
        "living",
    ),
    *("look", "lost", "once", "partner", "reach", "remembered", "said", "seen", "texts", "told", "watched", "whole"),
}
# Names of the command line's files are those of its commands; each role has its null implementation.
SHARED_NAMES = {"null", "__init__", "__main__"}

# Written in pieces, so that this file does not contain what it looks for.
FORBIDDEN_TEXT = {
    "/wor" + r"k/(main|shared)\b|/tmp/ba" + "sh_": "a path of one machine: write it relative to the repository",
    r"\.\./sha" + "red": "users have only this repository: say it here",
    r"\bfacts/[a-z-]+" + r"\.md": "users have only this repository: cite the measurement or the source itself",
    r"\b(py" + r"pi\.org|pythonho" + r"sted\.org|crat" + r"es\.io|npm" + r"js\.(org|com)|deb\.deb"
    r"ian\.org|rubyg" + r"ems\.org|proxy\.gol" + r"ang\.org)\b": "leave the package index to the user's configuration",
}
MAY_CONTAIN = {"Cargo.lock": "crat" + "es.io"}  # cargo writes it


# What is there


@cache
def our_files() -> list[Path]:
    """Every file that is tracked or could be: of a checkout what git does not ignore."""
    listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *listing]  # whoever owns the checkout
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in sorted(filter(None, listed)) if (path := ROOT / name).is_file()]


def ours(*suffixes: str, below: Path = ROOT) -> list[Path]:
    return [path for path in our_files() if path.suffix in suffixes and path.is_relative_to(below)]


def name_of(path: Path) -> str:
    """A path below python/ioassay as a dotted name without `ioassay.`: `drivers.fio.job`, `drivers`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def imported_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of each thing imported, names of a `from` included: `ioassay.drivers.DRIVERS`."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module if node.level == 0 else f"<relative>.{node.module or ''}"
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def room_of(name: str) -> str:
    """The room of a dotted name without `ioassay.`: `host` of `host.disks`, but `host.doctor` of what is in it."""
    first, _, rest = name.partition(".")
    inner = f"{first}.{rest.split('.')[0]}"
    return inner if inner in MAY_IMPORT else first


def is_room(name: str) -> bool:
    return name == "_core" or (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()


def own_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name, without `ioassay.`, of what is imported from this package (`__version__` is no room)."""
    for line, name in imported_names(path):
        inside = name.removeprefix("ioassay.")
        if name != inside and is_room(inside.split(".")[0]):
            yield line, inside


def none_of(problems: list[str]) -> None:
    if problems:
        pytest.fail("\n" + "\n".join(sorted(set(problems))), pytrace=False)


PYTHON_FILES = ours(".py", below=PACKAGE)


# Python


def test_every_room_is_on_the_map() -> None:
    rooms = {room_of(name_of(path)) for path in PYTHON_FILES}
    unknown = rooms - MAY_IMPORT.keys()
    none_of([f"ioassay.{room}: add it to the map: MAY_IMPORT in tests/test_tidy.py" for room in unknown])


def test_rooms_import_only_what_the_map_allows() -> None:
    problems = []
    for path in PYTHON_FILES:
        room = room_of(name_of(path))
        for line, name in own_imports(path):
            wanted = room_of(name)
            if wanted not in MAY_IMPORT.get(room, set()) | {room}:
                allowed = ", ".join(sorted(MAY_IMPORT.get(room, set()))) or "nothing of ours"
                advice = f"it may import {allowed}; take what you need as an argument, or move it to a room below both"
                problems.append(f"{at(path, line)}: {room} imports {wanted}; {advice}")
    none_of(problems)


def test_files_and_public_functions_are_named_by_nouns_or_verbs() -> None:
    advice = "name the thing in the field's words, or the action"
    problems = [
        f"{at(path, 1)}: '{word}' in the file's name; {advice}"
        for path in [*PYTHON_FILES, *ours(".py", below=ROOT / "tests")]
        for word in path.stem.split("_")
        if word in NO_NOUNS
    ]
    for path in PYTHON_FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower() in NO_NOUNS:
                problems.append(f"{at(path, node.lineno)}: {node.name}; {advice}")
    none_of(problems)


def test_no_two_files_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in PYTHON_FILES:
        if path.stem not in SHARED_NAMES and room_of(name_of(path)) != "cli":
            places.setdefault(path.stem, []).append(name_of(path))
    advice = "name each by its subject"
    none_of([f"{' and '.join(names)} have one name; {advice}" for names in places.values() if len(names) > 1])


OF_FACTORS = re.compile(
    r"_*(same_levels?|levels?_(same|equal|keys?)|level_numbers?|level_text|level_label|level_phrase|factor_label)"
)


def test_only_the_registry_of_factors_says_what_levels_are() -> None:
    """When two are the same, what number one is, what it is called; and the name of the factor of cases."""
    problems = []
    for path in PYTHON_FILES:
        if name_of(path) == "factors":
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef) and OF_FACTORS.fullmatch(node.name):
                problems.append(f"{at(path, node.lineno)}: defines {node.name}; call ioassay.factors, or add it there")
            values = [node.value] if isinstance(node, ast.Assign | ast.AnnAssign) else []
            values += [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if any(isinstance(value, ast.Constant) and value.value == "case" for value in values):
                problems.append(f'{at(path, node.lineno)}: writes "case" out; use ioassay.factors.CASE')
    none_of(problems)


READERS = ("analysis", "narrative", "report", "verify")
"""Rooms that read what trials left, whichever driver made the load."""


def test_readers_of_records_name_no_driver() -> None:
    named = entries_of("drivers") - {"null", "command"}  # an engine of fio, and a field of records
    advice = "ask for a fact: roles.DriverFacts, or formats.Conventions for claims"
    problems = [
        f"{at(path, node.lineno)}: '{node.value}' is a driver; {advice}"
        for path in PYTHON_FILES
        if room_of(name_of(path)) in READERS
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and node.value in named
    ]
    none_of(problems)


UNTYPED = re.compile(r"\b(Mapping|dict)\[str, Any\]")
MAY_BE_UNTYPED = {"VegaLite", "as_dict", "evidence", "facts", "statistics"}
"""The grammar of Vega-Lite, and JSON for whoever reads a finding's numbers."""


def public_annotations(body: list[ast.stmt]) -> Iterator[tuple[str, int, ast.expr]]:
    """Name, line and each annotation of functions, fields and aliases; those of methods as well, of public classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            annotations = [node.returns, *(argument.annotation for argument in arguments)]
            yield from ((node.name, node.lineno, annotation) for annotation in annotations if annotation)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_annotations(node.body)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.lineno, node.annotation
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.lineno, node.value


def test_types_reach_the_readers_of_records() -> None:
    """What one file of analysis, narrative or report hands to another has a type of its own."""
    advice = "give it a dataclass, or a TypedDict as in store.schema"
    problems = [
        f"{at(path, line)}: {name} is {ast.unparse(annotation)}; {advice}"
        for path in PYTHON_FILES
        if room_of(name_of(path)) in ("analysis", "narrative", "report")
        for name, line, annotation in public_annotations(parsed(path).body)
        if name not in MAY_BE_UNTYPED and not name.startswith("_") and UNTYPED.search(ast.unparse(annotation))
    ]
    none_of(problems)


LABELLED = {entry.name for entry in factors.FACTORS if entry.label and "." not in entry.name}


def is_table(node: ast.stmt) -> bool:
    """Whether it gives one name a value; `A, B = "a", "b"` names constants."""
    if isinstance(node, ast.AnnAssign):
        return node.value is not None
    return isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)


def test_words_about_factors_stand_in_the_registry_only() -> None:
    """A table in analysis or report whose keys are factors is one more place to add a factor to."""
    problems = []
    for path in PYTHON_FILES:
        if room_of(name_of(path)) not in ("analysis", "report"):
            continue
        for node in parsed(path).body:
            tables = [part for part in ast.walk(node) if isinstance(part, ast.Dict | ast.Tuple | ast.Set | ast.List)]
            for table in tables if is_table(node) else []:
                keys = table.keys if isinstance(table, ast.Dict) else table.elts
                named = {key.value for key in keys if isinstance(key, ast.Constant)} & LABELLED
                if len(named) > 1:
                    words = ", ".join(sorted(named))
                    problems.append(f"{at(path, table.lineno)}: a table of factors ({words}); see ioassay.factors")
    none_of(problems)


WORDLESS = ("analysis", "verify")
TABLES_OF_REASONS = {"verify.tolerances"}


def test_logic_holds_no_sentences() -> None:
    """They return numbers and outcomes. Exceptions have messages, and what cannot be computed (Undefined) a reason."""
    problems = []
    for path in (path for path in PYTHON_FILES if room_of(name_of(path)) in WORDLESS):
        if name_of(path) in TABLES_OF_REASONS:
            continue
        reasons = [
            node
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and ast.unparse(node.func) == "Undefined")
        ]
        raised = {id(part) for node in reasons for part in ast.walk(node)}
        bare = {id(node.value) for node in ast.walk(parsed(path)) if isinstance(node, ast.Expr)}
        for node in ast.walk(parsed(path)):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in raised | bare else None
            if isinstance(text, str) and (len(text.split()) > 5 or re.search(r"\w \w.*[.:;]( |$)", text)):
                problems.append(f"{at(path, node.lineno)}: {text!r}: words belong to ioassay.narrative")
    none_of(problems)


def test_reports_hold_no_sentences() -> None:
    """What stands at a mark is a label, and what arranges a page has headings: sentences are the narrative's."""
    problems = []
    for path in (path for path in PYTHON_FILES if room_of(name_of(path)) == "report"):
        bare = {id(node.value) for node in ast.walk(parsed(path)) if isinstance(node, ast.Expr)}
        for node in ast.walk(parsed(path)):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in bare else None
            if isinstance(text, str) and re.search(r"(\w+\W+){3}\w*[a-z)]\.( |$)", text):
                problems.append(f"{at(path, node.lineno)}: {text!r}: sentences belong to ioassay.narrative")
    none_of(problems)


def test_imports_are_absolute() -> None:
    none_of(
        [
            f"{at(path, line)}: relative import; write the full name, ioassay.…"
            for path in PYTHON_FILES
            for line, name in imported_names(path)
            if name.startswith("<relative>")
        ]
    )


def entries_of(room: str) -> set[str]:
    """The keys of the room's literal list."""
    listing = PACKAGE / room / "__init__.py"
    for node in parsed(listing).body if listing.exists() else ():
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys))
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys))
            ) if name == LISTS[room]:
                return {ast.literal_eval(key) for key in keys if key}
    return set()


@pytest.mark.parametrize("room", LISTS)
def test_entries_of_a_list_do_not_import_each_other(room: str) -> None:
    entries = entries_of(room)
    assert entries, f"ioassay.{room} has no literal {LISTS[room]}: dict[str, str] = {{…}}"
    problems = []
    for path in ours(".py", below=PACKAGE / room):
        own = [*name_of(path).split("."), ""][1]
        for line, name in own_imports(path):
            other = [*name.split("."), ""][1] if name.startswith(f"{room}.") else ""
            if own != other and {own, other} <= entries:
                advice = f"move what both need to a file of ioassay.{room} that is in no list, or to a room below"
                problems.append(f"{at(path, line)}: {room}.{own} imports {room}.{other}; {advice}")
    none_of(problems)


STARTERS = re.compile(r"(fork|forkpty|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?|system|popen|kill|killpg)$")


def test_only_process_starts_and_signals_processes() -> None:
    advice = "describe the command (roles.Command), or call ioassay.process.supervisor"
    problems = []
    for path in PYTHON_FILES:
        if room_of(name_of(path)) in STARTS_PROCESSES:
            continue
        for line, name in imported_names(path):
            if re.match(r"(subprocess|pty|multiprocessing)\b", name) or re.match(r"os\." + STARTERS.pattern, name):
                problems.append(f"{at(path, line)}: imports {name}; {advice}")
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os" and STARTERS.match(node.attr):
                problems.append(f"{at(path, node.lineno)}: os.{node.attr}; {advice}")
    none_of(problems)


def test_nothing_goes_through_a_shell() -> None:
    none_of(
        [
            f"{at(path, node.lineno)}: shell=True; give a list of arguments"
            for path in ours(".py")
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.keyword) and node.arg == "shell" and ast.unparse(node.value) != "False"
        ]
    )


EXITS = {"print", "exit", "quit", "sys.exit", "os._exit", "input", "SystemExit", "console.Exit"}
STREAMS = {"sys.stdout", "sys.stderr", "sys.stdin"}


def test_only_the_command_line_prints_and_exits() -> None:
    problems = []
    for path in PYTHON_FILES:
        room = room_of(name_of(path))
        if room in PRINTS_AND_EXITS:
            continue
        for line, name in imported_names(path):
            if name.split(".")[0] in {"argparse", "getpass", "readline"}:
                problems.append(f"{at(path, line)}: imports {name}; return values, ioassay.cli shows them")
        for node in ast.walk(parsed(path)):
            said = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            # A forked child that cannot start its program has no other way out than os._exit; nor has one that is
            # ended by a signal before it is that program.
            if said in (EXITS | STREAMS) - ({"os._exit"} if room in STARTS_PROCESSES | {"signals"} else set()):
                advice = "return a value or raise an error of ioassay.errors; ioassay.cli prints and exits"
                problems.append(f"{at(path, node.lineno)}: {said}; {advice}")
    none_of(problems)


def test_nothing_imports_a_library_that_users_do_not_have() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not OF_TESTS & {re.split(r"[<>=]", name)[0] for name in declared}
    none_of(
        [
            f"{at(path, line)}: imports {name}; {name.split('.')[0]} is no dependency of the package"
            for path in PYTHON_FILES
            for line, name in imported_names(path)
            if name.split(".")[0] in OF_TESTS
        ]
    )


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_start_without_heavy_libraries(module: str) -> None:
    assert is_room(module.replace(".", "/")), f"there is no ioassay.{module}: take it out of LIGHT"
    code = f"import sys, ioassay.{module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heavy = HEAVY | ({"pydantic", "inspect", "dataclasses"} if module == "cli" else set())
    dragged = heavy & set(done.stdout.split())
    advice = "import it inside the function that needs it; find the way with: python -X importtime -c"
    assert not dragged, (
        f"import ioassay.{module} imports {', '.join(sorted(dragged))}; {advice} 'import ioassay.{module}'"
    )


# Rust


def manifests() -> dict[str, dict]:
    found = ours(".toml", below=ROOT / "crates")
    return {path.parent.name: tomllib.loads(path.read_text()) for path in found if path.name == "Cargo.toml"}


def test_every_crate_is_on_the_map() -> None:
    unknown = manifests().keys() - CRATES.keys()
    none_of([f"crates/{crate}: add it to the map: CRATES in tests/test_tidy.py" for crate in unknown])


def test_crates_use_only_what_the_map_allows() -> None:
    problems = []
    for crate, manifest in manifests().items():
        for name, value in manifest.get("dependencies", {}).items():
            used = Path(value["path"]).name if isinstance(value, dict) and "path" in value else None
            if used and used not in CRATES.get(crate, set()):
                allowed = ", ".join(sorted(CRATES.get(crate, set()))) or "no crate of ours"
                problems.append(f"crates/{crate} uses {used}; it may use {allowed}: take a value or a trait instead")
            if name.startswith("pyo3") and crate != "py":
                problems.append(f"crates/{crate} uses {name}; only crates/py knows Python: convert there")
    none_of(problems)


def test_pure_crates_read_no_clock_no_disk_and_no_chance() -> None:
    problems = []
    for crate in sorted(PURE_CRATES):
        for path in ours(".rs", below=ROOT / "crates" / crate / "src"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("//")[0]
                for pattern, advice in IMPURE.items():
                    if seen := re.search(pattern, code):
                        problems.append(f"{at(path, number)}: {seen[0]} in a pure crate; {advice}")
    none_of(problems)


RUST_USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
RUST_PATH = re.compile(r"(?<![\w:])(?:crate|self|super)(?:::\w+)+")
RUST_UNIT_TESTS = "#[cfg(test)]\nmod tests"


def rust_modules(source: Path) -> dict[tuple[str, ...], Path]:
    """The files below a crate's `src` by the path of their module: `lib.rs` is `()`, `drive/mod.rs` is `("drive",)`."""
    parts = {path: path.relative_to(source).with_suffix("").parts for path in source.rglob("*.rs")}
    return {name[:-1] if name[-1] in {"lib", "mod"} else name: path for path, name in parts.items()}


def paths_of_use(tree: str) -> Iterator[str]:
    """`a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`."""
    prefix, brace, inner = tree.partition("{")
    if not brace:
        yield tree
        return
    depth, item = 0, ""
    for letter in inner.rstrip()[:-1] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from (prefix + path for path in paths_of_use(item.strip()) if item.strip())
            item = ""
        else:
            item += letter


def rust_imports(module: tuple[str, ...], path: Path, modules: Container[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The modules of the same crate that a file names. Its unit tests do not count, nor do the modules that it lies in
    or that lie in it: those are one topic, in a folder.
    """
    code = re.sub(r"//.*", "", path.read_text().partition(RUST_UNIT_TESTS)[0])
    named = [name for use in RUST_USE.findall(code) for name in paths_of_use(use)] + RUST_PATH.findall(code)
    imports = set()
    for name in named:
        steps = re.sub(r"\s", "", name).split("::")
        at = () if steps[0] == "crate" else module
        while steps and steps[0] in {"crate", "self", "super"}:
            at = at[:-1] if steps[0] == "super" else at
            steps = steps[1:]
        while steps and (*at, steps[0]) in modules:
            at, steps = (*at, steps[0]), steps[1:]
        if at in modules and at != module[: len(at)] and module != at[: len(module)]:
            imports.add(at)
    return imports


def cycle_of_rust_files(source: Path) -> list[str]:
    """Files below a crate's `src` each of which imports the next, the last the first; empty if there are none."""
    modules = rust_modules(source)
    imports = {module: sorted(rust_imports(module, path, modules)) for module, path in modules.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [modules[module].relative_to(source).as_posix() for module in reversed(error.args[1])]
    return []


@pytest.mark.parametrize("crate", CRATES)
def test_files_of_a_crate_import_in_one_direction(crate: str) -> None:
    if cycle := cycle_of_rust_files(ROOT / "crates" / crate / "src"):
        advice = "move the constant or type that the lower one needs into it, or into a file below both"
        pytest.fail(f"crates/{crate}/src: {' imports '.join(cycle)}; {advice}", pytrace=False)


@pytest.mark.parametrize(
    ("files", "cycle"),
    [
        ({"a.rs": "use crate::b::B;", "b.rs": "use super::a::{self, A};"}, {"a.rs", "b.rs"}),
        ({"a.rs": "use crate::{\n    c::C,\n    b::{B, D},\n};", "b.rs": "fn f() -> crate::a::A {}"}, {"a.rs", "b.rs"}),
        (
            {"a.rs": "use crate::d::e;", "d/e.rs": "use super::f::F;", "d/f.rs": "use crate::a;"},
            {"a.rs", "d/e.rs", "d/f.rs"},
        ),
        (
            {"a.rs": "use crate::b::B;", "b.rs": "// use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }"},
            set(),
        ),
        ({"d/mod.rs": "mod e;\nuse self::e::E;", "d/e.rs": "use super::D;"}, set()),
        ({"a.rs": "use crate::b::B;", "b.rs": "use other::a::A;\nuse std::a;"}, set()),
    ],
)
def test_a_cycle_of_rust_files_is_seen(tmp_path: Path, files: dict[str, str], cycle: set[str]) -> None:
    for name, text in {"lib.rs": "mod a;", "d/mod.rs": "mod e;", **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert set(cycle_of_rust_files(tmp_path)) == cycle


# Names, sizes, words


def test_no_module_has_a_meaningless_name() -> None:
    none_of(
        [
            f"{path.relative_to(ROOT)}: name it after what it is about, not '{word}'"
            for path in ours(".py", ".rs", ".sh")
            for word in MEANINGLESS_NAMES & {*path.relative_to(ROOT).with_suffix("").parts}
        ]
    )


def python_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


RUST_FUNCTION = re.compile(r"^( *)(?:pub(?:\([a-z]+\))? )?(?:const |unsafe |async |extern \"C\" )*fn (\w+)", re.M)


def rust_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """As rustfmt sets them: a body ends at the first brace that is indented as far as the function's beginning."""
    text = path.read_text()
    for start in RUST_FUNCTION.finditer(text):
        opening = re.compile(r"[;{}]\n").search(text, start.end())
        if opening and opening[0] == "{\n":
            closing = re.compile(rf"^{start[1]}\}}", re.M).search(text, opening.end())
            assert closing, f"{path}: {start[2]} has no end; has cargo fmt seen this file?"
            lines = text.count("\n", start.start(), closing.start()) + 1
            yield start[2], text.count("\n", 0, start.start()) + 1, lines


def test_functions_are_short() -> None:
    problems = []
    sized = [(ours(".py"), python_functions), (ours(".rs"), rust_functions)]
    for paths, functions in sized:
        for path in paths:
            for name, line, lines in functions(path):
                if lines > MAX_FUNCTION_LINES:
                    advice = f"at most {MAX_FUNCTION_LINES}: give its parts names"
                    problems.append(f"{at(path, line)}: {name} has {lines} lines; {advice}")
    none_of(problems)


def texts() -> Iterator[tuple[Path, str]]:
    for path in our_files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield path, data.decode(errors="replace")


@pytest.mark.parametrize("pattern", FORBIDDEN_TEXT)
def test_no_text_names_a_machine_or_a_package_host(pattern: str) -> None:
    problems = []
    for path, text in texts():
        for seen in re.finditer(pattern, text):
            if seen[0] != MAY_CONTAIN.get(path.name):
                line = text.count("\n", 0, seen.start()) + 1
                problems.append(f"{at(path, line)}: '{seen[0]}': {FORBIDDEN_TEXT[pattern]}")
    none_of(problems[:50])


def test_every_document_that_is_named_exists() -> None:
    known = {path.name for path in our_files()}
    problems = []
    for path, text in texts():
        if path.suffix not in {".py", ".rs", ".sh", ".toml", ".md"}:
            continue
        for seen in re.finditer(r"(?<![\w/:.-])[\w./-]*?([\w-]+\.md)\b", text):
            if seen[1] not in known:
                line = text.count("\n", 0, seen.start()) + 1
                problems.append(f"{at(path, line)}: names {seen[0]}, which does not exist; write it or name another")
    none_of(problems)
