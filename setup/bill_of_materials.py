"""Prints the bill of materials of this checkout, CycloneDX 1.6 in JSON: `bill_of_materials.py core|release`.

`core` lists the crates that are compiled into the wheel, for the wheel itself (PEP 770). `release` adds the Python
packages that an installation brings along, in the versions of the environment that runs this, by constraints.txt.
Crates that only a build uses (build scripts, macros) and optional Python packages are left out. The same sources give
the same bytes: the time is SOURCE_DATE_EPOCH, and the serial number a hash of the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from importlib.metadata import PackageMetadata, metadata, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
CORE = "ioassay-py"
LONGEST_NAME = 80
"""Of a license: some packages have its whole text in that field."""

Component = dict[str, Any]
Graph = dict[str, set[str]]
"""A component's reference -> those of what it uses."""


def crates(graph: Graph) -> list[Component]:
    """The crates that are linked into the core, from `cargo tree`, with the checksums of Cargo.lock."""
    words = ["tree", "--locked", "--package", CORE, "--edges", "normal,no-proc-macro", "--prefix", "depth"]
    command = ["cargo", *words, "--format", "|{p}|{l}"]
    tree = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in locked}
    components, above = {}, []
    for line in tree.stdout.splitlines():
        depth, package, license_ = line.split("|")
        name, version = package.split()[0], package.split()[1].removeprefix("v")
        reference = f"pkg:cargo/{name}@{version}"
        above[int(depth) :] = [reference]
        graph.setdefault(reference, set())
        if len(above) > 1:
            graph[above[-2]].add(reference)
        expression = license_.removesuffix(" (*)").replace("/", " OR ")
        component = library(reference, name, version, [{"expression": expression}] if expression else [])
        if checksum := checksums[name, version]:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components[reference] = component
    return list(components.values())


def python_packages(graph: Graph, user: str, wanted: list[str]) -> list[Component]:
    """The packages `wanted` by `user`, and by each other, as they are installed here."""
    components: dict[str, Component] = {}
    waiting = [(user, line) for line in wanted]
    while waiting:
        by, line = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        about = metadata(requirement.name)
        name, version = about["Name"].lower().replace("_", "-"), about["Version"]
        reference = f"pkg:pypi/{name}@{version}"
        graph.setdefault(by, set()).add(reference)
        if reference in components:
            continue
        graph.setdefault(reference, set())
        components[reference] = library(reference, name, version, python_license(about))
        waiting += [(reference, inner) for inner in requires(requirement.name) or []]
    return list(components.values())


def python_license(about: PackageMetadata) -> list[dict[str, Any]]:
    """What a package says of its license: an expression, or a name in its own words."""
    if expression := about.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    names = classifiers or [(about.get("License") or "").partition("\n")[0][:LONGEST_NAME]]
    return [{"license": {"name": name}} for name in names if name]


def library(reference: str, name: str, version: str, licenses: list[dict[str, Any]]) -> Component:
    component = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    return {**component, "licenses": licenses} if licenses else component


def bill_of_materials(scope: str) -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    reference = f"pkg:pypi/ioassay@{version}"
    graph: Graph = {reference: {f"pkg:cargo/{CORE}@{version}"}}
    components = crates(graph)
    if scope == "release":
        components += python_packages(graph, reference, project["dependencies"])
    program = library(reference, "ioassay", version, [{"expression": project["license"]}])
    content = {
        "components": sorted(components, key=lambda component: component["bom-ref"]),
        "dependencies": [{"ref": ref, "dependsOn": sorted(used)} for ref, used in sorted(graph.items())],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([program, content], sort_keys=True))
    time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"timestamp": time.isoformat(), "component": {**program, "type": "application"}},
        **content,
    }


if __name__ == "__main__":
    if sys.argv[1:] not in (["core"], ["release"]):
        sys.exit("usage: bill_of_materials.py core|release")
    print(json.dumps(bill_of_materials(sys.argv[1]), indent=1))
