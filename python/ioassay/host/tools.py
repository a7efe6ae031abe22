"""Which versions of what took part: outside tools, ioassay itself and, in a checkout, its commit."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ioassay
from ioassay.host.machine import Machine, known

TOOLS = ("fio",)
_PACKAGE = Path(__file__).parent.parent


def versions(machine: Machine, tools: Sequence[str] = TOOLS) -> dict[str, str]:
    """Section `tools`: the first line of `<tool> --version`, for those that are there."""
    said = {tool: machine.output(tool, "--version") for tool in tools}
    return {tool: text.splitlines()[0] for tool, text in said.items() if text}


def ioassay_facts(machine: Machine, package: Path = _PACKAGE) -> dict[str, Any]:
    """Section `ioassay`; `commit` ends with -dirty when files were changed."""
    checkout = package.parent.parent
    # Only our own checkout: an installed package may lie inside somebody else's.
    is_checkout = (checkout / ".git").exists() and package.parent.name == "python"
    argv = ("git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--match=")
    return known(
        version=ioassay.__version__,
        commit=machine.output(*argv) if is_checkout else None,
        python=platform.python_version(),
    )
