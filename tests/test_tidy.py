"""The architecture as a test: who may import whom, what must stay pure, what nobody writes.

`tests/corpus/tree/map.toml` is the map of docs/ARCHITECTURE.md as tables; a change that needs another map edits both.
Every message says what to do instead. Text and lists are read here, and an interpreter is started for each light
module, to see what it drags in. Each file of the package is parsed and walked once, for all rules.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ioassay import factors

from .corpora import cases
from .documents import ROOT, our_files

PACKAGE = ROOT / "python" / "ioassay"
MAP: dict[str, Any] = tomllib.loads((ROOT / "tests/corpus/tree/map.toml").read_text())
CODE, NAMES, CRATES, LISTS = MAP["python"], MAP["names"], MAP["crates"], MAP["lists"]


def expanded(names: Iterable[str], above: Iterable[str]) -> Iterator[str]:
    """The rooms of an entry of the map, whose names with @ or * stand for several."""
    for name in names:
        if name == "@rooms":
            yield from above
        elif name.endswith(".*"):
            yield from (f"packs.{path.name}" for path in PACKAGE.glob(f"{name.replace('.', '/')}/"))
        elif name.startswith("@"):
            yield from expanded(MAP["groups"][name[1:]], above)
        else:
            yield name


def rooms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for room, names in MAP["rooms"].items():
        allowed = set(expanded(names, (name for name in found if not name.startswith("packs"))))
        found |= dict.fromkeys(expanded([room], ()), allowed)
    return found


MAY_IMPORT = rooms()


def ours(*suffixes: str, below: Path = ROOT) -> list[Path]:
    return [path for path in our_files() if path.suffix in suffixes and path.is_relative_to(below)]


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def room_of(name: str) -> str:
    """The room of a dotted name without `ioassay.`: `host` of `host.disks`, but `host.doctor` of what is in it."""
    first, _, rest = name.partition(".")
    inner = f"{first}.{rest.split('.')[0]}"
    return inner if inner in MAY_IMPORT else first


def is_room(name: str) -> bool:
    return name == "_core" or (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()


@dataclass(frozen=True)
class Source:
    """A file of the package."""

    path: Path

    @cached_property
    def name(self) -> str:
        """Its dotted name without `ioassay.`: `packs.fio.driver.job`, `drivers`."""
        parts = self.path.relative_to(PACKAGE).with_suffix("").parts
        return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        return room_of(self.name)

    @property
    def folder(self) -> str:
        """That it lies in, as a dotted name: `packs.iozone.commands`."""
        return ".".join(self.path.relative_to(PACKAGE).parts[:-1])

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(), str(self.path))

    @cached_property
    def silent(self) -> set[int]:
        """Texts that may be sentences: docstrings, and in rooms without words reasons of errors and of Undefined."""
        found = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr)}
        if self.room in CODE["without_words"]:
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and dotted(node.func) == "Undefined"):
                    found |= {id(part) for part in ast.walk(node)}
        return found


SOURCES = [Source(path) for path in ours(".py", below=PACKAGE)]


def dotted(node: ast.AST) -> str:
    """`a.b.c` of names and attributes; of anything else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    before = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before and isinstance(node, ast.Attribute) else ""


def imported(node: ast.AST) -> list[str]:
    """The absolute dotted name of each thing imported, names of a `from` included: `ioassay.drivers.DRIVERS`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        source = node.module if node.level == 0 else f"<relative>.{node.module or ''}"
        return [f"{source}.{alias.name}" for alias in node.names]
    return []


def own_imports(node: ast.AST) -> Iterator[str]:
    """Dotted name, without `ioassay.`, of what is imported from this package (`__version__` is no room)."""
    for name in imported(node):
        inside = name.removeprefix("ioassay.")
        if name != inside and is_room(inside.split(".")[0]):
            yield inside


def none_of(problems: Iterable[str]) -> None:
    if found := sorted(set(problems)):
        pytest.fail("\n" + "\n".join(found[:50]), pytrace=False)


# Rules for each file of the package. A rule gets a file and a node of it, and yields what is wrong there.

Rule = Callable[[Source, Any], Iterator[str]]
RULES: dict[str, tuple[tuple[type[ast.AST], ...], Container[str], Rule]] = {}
"""Name -> the kinds of nodes and the rooms that it is for."""
IMPORTS = (ast.Import, ast.ImportFrom)
EVERYWHERE = frozenset(MAY_IMPORT)


def rule(*kinds: type[ast.AST], rooms: Container[str] = EVERYWHERE) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES[function.__name__] = kinds, rooms, function
        return function

    return add


KINDS: dict[str, tuple[type[ast.AST], ...]] = {
    "imports": IMPORTS, "names": (ast.Attribute, ast.Name), "texts": (ast.Constant,)
}  # fmt: skip


def is_excepted(source: Source, table: dict[str, Any]) -> bool:
    """The file, or the folder that it lies in, matches an entry of `but`."""
    return any(fnmatch(name, one) for one in table.get("but", ()) for name in (source.name, source.folder))


def rule_of_map(name: str, table: dict[str, Any]) -> Rule:
    """What is imported, named or written as a text (not in docstrings) may not match the patterns of a table."""

    def function(source: Source, node: ast.AST) -> Iterator[str]:
        text = node.value if isinstance(node, ast.Constant) and id(node) not in source.silent else None
        found = {"imports": imported(node), "names": [dotted(node)], "texts": [text] if isinstance(text, str) else []}
        for kind in KINDS.keys() & table.keys() if not is_excepted(source, table) else ():
            yield from (f"{said!r}: {table['instead']}" for said in found[kind] if re.search(table[kind], said))

    function.__name__ = name
    return function


for name, table in MAP["rules"].items():
    kinds = [kind for word in KINDS.keys() & table.keys() for kind in KINDS[word]]
    assert kinds, name
    rule(*kinds, rooms=set(table.get("rooms", EVERYWHERE)) - {*table.get("but", ())})(rule_of_map(name, table))


@rule(*IMPORTS)
def rooms_import_only_what_the_map_allows(source: Source, node: ast.AST) -> Iterator[str]:
    for wanted in map(room_of, own_imports(node)):
        if wanted not in MAY_IMPORT[source.room] | {source.room}:
            allowed = ", ".join(sorted(MAY_IMPORT[source.room])) or "nothing of ours"
            advice = f"it may import {allowed}; take what you need as an argument, or move it to a room below both"
            yield f"{source.room} imports {wanted}; {advice}"


@rule(*IMPORTS, rooms=LISTS)
def entries_of_a_list_do_not_import_each_other(source: Source, node: ast.AST) -> Iterator[str]:
    room, entries = source.room, modules_of(source.room)
    own = [*source.name.split("."), ""][1]
    for name in own_imports(node):
        other = [*name.split("."), ""][1] if name.startswith(f"{room}.") else ""
        if own != other and {own, other} <= entries:
            advice = f"move what both need to a file of ioassay.{room} that is in no list, or to a room below"
            yield f"{room}.{own} imports {room}.{other}; {advice}"


OF_FACTORS = re.compile(
    r"_*(same_levels?|levels?_(same|equal|keys?)|level_numbers?|level_text|level_label|level_phrase|factor_label)"
)


@rule(ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.Compare, rooms=EVERYWHERE - {"factors"})
def only_the_registry_of_factors_says_what_levels_are(_: Source, node: ast.AST) -> Iterator[str]:
    """When two are the same, what number one is, what it is called; and the name of the factor of cases."""
    if isinstance(node, ast.FunctionDef) and OF_FACTORS.fullmatch(node.name):
        yield f"defines {node.name}; call ioassay.factors, or add it there"
    values = [node.value] if isinstance(node, ast.Assign | ast.AnnAssign) else []
    values += [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    if any(isinstance(value, ast.Constant) and value.value == "case" for value in values):
        yield 'writes "case" out; use ioassay.factors.CASE'


@rule(ast.Constant, rooms=CODE["readers_of_records"])
def readers_of_records_name_no_driver(_: Source, node: ast.Constant) -> Iterator[str]:
    """They read what trials left, whichever driver made the load."""
    named = entries_of("drivers") - {"null", "command"}  # an engine of fio, and a field of records
    if isinstance(node.value, str) and node.value in named:
        yield f"'{node.value}' is a driver; ask for a fact: roles.DriverFacts, or formats.Conventions for claims"


UNTYPED = re.compile(r"\b(Mapping|dict)\[str, Any\]")


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


@rule(ast.Module, rooms=("analysis", "narrative", "report"))
def types_reach_the_readers_of_records(_: Source, node: ast.Module) -> Iterator[str]:
    """What one file of analysis, narrative or report hands to another has a type of its own."""
    for name, line, annotation in public_annotations(node.body):
        if name in CODE["may_be_untyped"] or name.startswith("_"):
            continue
        if UNTYPED.search(said := ast.unparse(annotation)):
            yield f"line {line}: {name} is {said}; give it a dataclass, or a TypedDict as in store.dataset"


LABELLED = {entry.name for entry in factors.FACTORS if entry.label and "." not in entry.name}


@rule(ast.Module, rooms=("analysis", "report"))
def words_about_factors_stand_in_the_registry_only(_: Source, module: ast.Module) -> Iterator[str]:
    """A table in analysis or report whose keys are factors is one more place to add a factor to."""
    for node in module.body:
        names = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if not names or not all(isinstance(name, ast.Name) for name in names):
            continue  # `A, B = "a", "b"` names constants
        for table in ast.walk(node):
            if isinstance(table, ast.Dict | ast.Tuple | ast.Set | ast.List):
                keys = table.keys if isinstance(table, ast.Dict) else table.elts
                named = {key.value for key in keys if isinstance(key, ast.Constant)} & LABELLED
                if len(named) > 1:
                    words = ", ".join(sorted(named))
                    yield f"line {table.lineno}: a table of factors ({words}); see ioassay.factors"


@rule(ast.Module)
def public_functions_are_named_by_nouns_or_verbs(_: Source, module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower() in NAMES["no_nouns"]:
            yield f"{node.name}; name the thing in the field's words, or the action"


@cache
def entries_of(room: str) -> set[str]:
    """The names of the room's list, those of packs as well."""
    return set(getattr(import_module(f"ioassay.{room}"), LISTS[room]))


def modules_of(room: str) -> set[str]:
    """The modules of the room that hold entries of its list."""
    entries: dict[str, str] = getattr(import_module(f"ioassay.{room}"), LISTS[room])
    return {[*entry.partition(":")[0].split("."), ""][2] for entry in entries.values()}


@pytest.fixture(scope="module")
def broken() -> dict[str, list[str]]:
    """Rule -> where the package breaks it."""
    found = defaultdict(list)
    for source in SOURCES:
        of_kind = defaultdict(list)
        for name, (kinds, rooms, function) in RULES.items():
            for kind in kinds if source.room in rooms else ():
                of_kind[kind].append((name, function))
        for node in ast.walk(source.tree):
            for name, function in of_kind[type(node)]:
                found[name] += [
                    f"{at(source.path, getattr(node, 'lineno', 1))}: {said}" for said in function(source, node)
                ]
    return found


@pytest.mark.parametrize("name", RULES)
def test_the_package_keeps_the_rule_that(name: str, broken: dict[str, list[str]]) -> None:
    none_of(broken[name])


@cases("tree", "broken_rules")
def test_a_rule_finds_code_that_breaks_it(case: dict[str, str]) -> None:
    source = Source(PACKAGE / case["file"])
    source.__dict__["tree"] = ast.parse(case["code"])
    kinds, rooms, function = RULES[case["id"]]
    nodes = [node for node in ast.walk(source.tree) if isinstance(node, kinds)]
    assert source.room in rooms and any([*function(source, node)] for node in nodes)


def test_tables_that_the_docstrings_of_tests_name_are_there() -> None:
    there = {path.name for path in ours(".toml")}
    named = {
        path: re.findall(r"[\w.-]+\.toml\b", ast.get_docstring(ast.parse(path.read_text())) or "")
        for path in ours(".py", below=ROOT / "tests")
        if path.name.startswith("test_")
    }
    none_of(f"{at(path, 1)}: no {name}" for path, names in named.items() for name in {*names} - there)


def test_every_room_and_every_crate_is_on_the_map() -> None:
    there = {source.room for source in SOURCES} - MAY_IMPORT.keys() | manifests().keys() - CRATES.keys()
    none_of(f"{name}: add it to the map: tests/corpus/tree/map.toml" for name in there)
    assert all(entries_of(room) for room in LISTS), "a room of `lists` has no such list"


def test_files_are_named_by_nouns_and_each_by_its_own() -> None:
    problems = []
    for path in ours(".py", ".rs", ".sh"):
        words = path.stem.split("_") if path.suffix == ".py" and path.is_relative_to(ROOT / "tests") else ()
        words = path.stem.split("_") if path.is_relative_to(PACKAGE) else words
        bad = {*words} & {*NAMES["no_nouns"]} | {*path.relative_to(ROOT).with_suffix("").parts} & {
            *NAMES["meaningless"]
        }
        problems += [f"{at(path, 1)}: '{word}' in its name; name it after what it is about" for word in bad]
    places = defaultdict(list)
    for source in SOURCES:
        if source.path.stem not in NAMES["shared"] and not re.search(r"^cli$|\.commands$", source.folder):
            places[source.path.stem].append(source.name)
    problems += [f"{' and '.join(names)} have one name" for names in places.values() if len(names) > 1]
    none_of(problems)


def test_no_dependency_is_one_of_the_tests() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    of_tests = MAP["rules"]["nothing_imports_a_library_that_users_do_not_have"]["imports"]
    assert [name for name in declared if re.match(of_tests, name)] == []


@pytest.mark.parametrize("module", CODE["light"])
def test_light_modules_start_without_heavy_libraries(module: str) -> None:
    assert is_room(module.replace(".", "/")), f"there is no ioassay.{module}: take it out of the map's `light`"
    code = f"import sys, ioassay.{module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heavy = {*CODE["heavy"], *(CODE["heavy_for_commands"] if module == "cli" else ())}
    dragged = heavy & set(done.stdout.split())
    advice = "import it inside the function that needs it; find the way with: python -X importtime -c"
    assert not dragged, (
        f"import ioassay.{module} imports {', '.join(sorted(dragged))}; {advice} 'import ioassay.{module}'"
    )


# Rust


def manifests() -> dict[str, dict[str, Any]]:
    found = ours(".toml", below=ROOT / "crates")
    return {path.parent.name: tomllib.loads(path.read_text()) for path in found if path.name == "Cargo.toml"}


def test_crates_use_only_what_the_map_allows() -> None:
    problems = []
    for crate, manifest in manifests().items():
        for name, value in manifest.get("dependencies", {}).items():
            used = Path(value["path"]).name if isinstance(value, dict) and "path" in value else None
            if used and used not in CRATES[crate]:
                allowed = ", ".join(CRATES[crate]) or "no crate of ours"
                problems.append(f"crates/{crate} uses {used}; it may use {allowed}: take a value or a trait instead")
            if name.startswith("pyo3") and crate != "py":
                problems.append(f"crates/{crate} uses {name}; only crates/py knows Python: convert there")
    none_of(problems)


def test_pure_crates_read_no_clock_no_disk_and_no_chance() -> None:
    problems = []
    for path in (
        path for crate in MAP["pure"]["crates"] for path in ours(".rs", below=ROOT / "crates" / crate / "src")
    ):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for entry in MAP["pure"]["without"]:
                if seen := re.search(entry["pattern"], line.split("//")[0]):
                    problems.append(f"{at(path, number)}: {seen[0]} in a pure crate; {entry['instead']}")
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


@cases("tree", "rust_cycles")
def test_a_cycle_of_rust_files_is_seen(tmp_path: Path, case: dict[str, Any]) -> None:
    for name, text in {"lib.rs": "mod a;", "d/mod.rs": "mod e;", **case["files"]}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert set(cycle_of_rust_files(tmp_path)) == set(case["cycle"])


# Sizes, words


RUST_FUNCTION = re.compile(r"^( *)(?:pub(?:\([a-z]+\))? )?(?:const |unsafe |async |extern \"C\" )*fn (\w+)", re.M)


def rust_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """As rustfmt sets them: a body ends at the first brace that is indented as far as the function's beginning."""
    for start in RUST_FUNCTION.finditer(text):
        opening = re.compile(r"[;{}]\n").search(text, start.end())
        if opening and opening[0] == "{\n":
            closing = re.compile(rf"^{start[1]}\}}", re.M).search(text, opening.end())
            assert closing, f"{start[2]} has no end; has cargo fmt seen this file?"
            lines = text.count("\n", start.start(), closing.start()) + 1
            yield start[2], text.count("\n", 0, start.start()) + 1, lines


PYTHON_FUNCTION = re.compile(r"^( *)(?:async )?def ", re.M)


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and number of lines; of a file in which none can be too long, nothing."""
    ends = [*PYTHON_FUNCTION.finditer(text)]
    for start in ends:
        after = re.compile(rf"^ {{0,{len(start[1])}}}(?:async )?(?:def|class) ", re.M).search(text, start.end())
        if text.count("\n", start.start(), after.start() if after else len(text)) > CODE["longest_function_lines"]:
            break
    else:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize(("suffix", "functions"), [(".py", python_functions), (".rs", rust_functions)])
def test_functions_are_short(suffix: str, functions: Callable[[str], Iterator[tuple[str, int, int]]]) -> None:
    most = CODE["longest_function_lines"]
    none_of(
        f"{at(path, line)}: {name} has {lines} lines; at most {most}: give its parts names"
        for path in ours(suffix)
        for name, line, lines in functions(path.read_text())
        if lines > most
    )


def test_a_long_function_is_seen() -> None:
    body = "    x = 1\n" * 100
    for more in ("", "\ndef g(): ...\n"):
        assert ("f", 2, 102) in python_functions(f"class A:\n  def f(\n  ):\n{body}{more}")


def test_no_text_names_a_machine_a_package_host_or_a_document_that_does_not_exist() -> None:
    known = {path.name for path in our_files()}
    named = re.compile(r"(?<![\w/:.-])[\w./-]*?([\w-]+\.md)\b")
    shell = re.compile(r"\bshell=(?!False\b)")
    problems = []
    for path in our_files():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        text = data.decode(errors="replace")
        seen = [
            (match.start(), f"'{match[0]}': {entry['instead']}")
            for entry in MAP["text"]["without"]
            if path.name not in entry.get("but", ())
            for match in re.finditer(entry["pattern"], text)
        ]
        if path.suffix in {".py", ".rs", ".sh", ".toml", ".md"} and ".md" in text:
            absent = (match for match in named.finditer(text) if match[1] not in known)
            seen += [
                (match.start(), f"names {match[0]}, which does not exist; write it or name another") for match in absent
            ]
        if path.suffix == ".py":
            seen += [(match.start(), "give a list of arguments, no shell") for match in shell.finditer(text)]
        problems += [f"{at(path, text.count(chr(10), 0, place) + 1)}: {said}" for place, said in seen]
    none_of(problems)
