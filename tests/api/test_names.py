"""What `import ioassay` offers: one table, the same for type checkers, and nothing that a submodule replaces.

Type checkers see all of it: `./check types` reads a program that uses the whole API, where no value may be Any, and one
in which each use is an error.
"""

import ast
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import ioassay
from ioassay import errors

SOURCE = Path(ioassay.__file__)
SHADOWS = """
import importlib, pkgutil, sys
import ioassay
before = {name: getattr(ioassay, name) for name in ioassay.__all__}
for name in before:
    del vars(ioassay)[name]
for module in pkgutil.walk_packages(ioassay.__path__, "ioassay."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
wrong = [name for name, value in before.items() if getattr(ioassay, name) is not value]
sys.exit(f"replaced by a submodule: {wrong}" if wrong else 0)
"""


def imported_for_checkers() -> dict[str, str]:
    """Name -> module, of the imports under TYPE_CHECKING."""
    body = ast.parse(SOURCE.read_text()).body
    (guarded,) = (node for node in body if isinstance(node, ast.If))
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_type_checkers_see_the_names_that_there_are() -> None:
    assert imported_for_checkers() == ioassay._modules()


def test_each_name_is_that_of_its_module_is_listed_and_has_a_docstring() -> None:
    for name, module in ioassay._modules().items():
        assert getattr(ioassay, name) is getattr(import_module(module), name)
        assert name in dir(ioassay) and name in ioassay.__all__
        assert getattr(ioassay, name).__doc__, name


def test_every_error_of_the_tree_is_exported() -> None:
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree <= set(ioassay.__all__)


def test_no_submodule_takes_the_place_of_a_name() -> None:
    done = subprocess.run([sys.executable, "-c", SHADOWS], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert not set(ioassay._MODULES) & {module.name for module in pkgutil.iter_modules(ioassay.__path__)}


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = "import sys, ioassay; print([name for name in sys.modules if name.startswith('ioassay.')])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout == "[]\n"


PROGRAM = Path(__file__).parent / "typed_program.py"
NOT_CALLED = {
    *(
        "BrokenPlugin",
        "IoassayWarning",
        "UnreadableFile",
        "Contradicted",
        "ConditionError",
        "Interrupted",
        "RunError",
        "SafetyRefusal",
        "StartError",
    ),
    "ToolError",
}
"""Classes of errors like those that it catches."""


def test_the_program_uses_every_name() -> None:
    used = set(re.findall(r"\bia\.(\w+)", PROGRAM.read_text()))
    assert set(ioassay._MODULES) - NOT_CALLED <= used
