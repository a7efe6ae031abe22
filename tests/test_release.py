"""`setup/release` in a clone of the repository, with a build that takes no time: what it refuses and leaves."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parent.parent
BUILD = """#!/bin/sh
set -eu
mkdir -p "$1"
grep '^version' "$2/Cargo.toml" | tee "$1/ioassay.whl" >"$1/ioassay.tar.gz"
"""


SIGNS_NOTHING = {"commit.gpgsign": "false", "tag.gpgsign": "false"}
REFUSED = {
    "7.8": "the version is '7.8', expected three numbers",
    "0.0.9": "version 0.0.9 is older than",
    "7.8.9 --tril": "no option called '--tril'",
    "7.8.9 --output": "--output is '--unchecked', expected a folder",
    "7.8.9 --output setup": "exists and is no release",
    "6.0.0": "the tag v6.0.0 is there already",
}


def git(folder: Path, *words: str) -> str:
    """What a command of git says, whoever owns the checkout and however its user signs commits."""
    settings = ("user.name=A maintainer", "user.email=maintainer@localhost", "commit.gpgsign=false", "safe.directory=*")
    chosen = [word for setting in settings for word in ("-c", setting)]
    return subprocess.run(
        ["git", *chosen, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of what is here now, for all tests."""
    return repository(tmp_path_factory.mktemp("release") / "source")


@pytest.fixture
def clone(tmp_path: Path, source: Path) -> Path:
    """A checkout of what is here now, set up by that of the tests, whose build copies one line."""
    folder = tmp_path / "a clone"
    git(ROOT, "clone", "--quiet", "--shared", str(source), str(folder))
    own = {"user.name": "A maintainer", "user.email": "maintainer@localhost"} | SIGNS_NOTHING
    for name, value in own.items():
        git(folder, "config", name, value)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / ".setup").mkdir()
    (folder / ".setup" / "cargo-bin").write_text((ROOT / ".setup" / "cargo-bin").read_text())
    (folder / ".git" / "info" / "exclude").write_text("/.venv\n")
    replace_build(folder, BUILD)
    return folder


def repository(folder: Path) -> Path:
    """One with a single commit of the files as they are here, committed or not."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    untracked = ["ls-files", "--cached", "--others", "--exclude-standard"]
    listed = git(
        ROOT, *untracked, "setup", "crates", "python/ioassay/__init__.py", "*.toml", "Cargo.lock", "*.md", ".gitignore"
    )
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def replace_build(clone: Path, script: str) -> None:
    (clone / "setup" / "wheel.sh").write_text(script)
    git(clone, "commit", "--quiet", "--all", "--message", "build: nothing")


def release(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(clone / "setup" / "release"), *words]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False, env=environment)


def state(clone: Path) -> tuple[str, str, str, str]:
    """All of the repository that a release may change."""
    return (
        git(clone, "rev-parse", "HEAD"),
        git(clone, "tag"),
        git(clone, "status", "--porcelain"),
        git(clone, "worktree", "list"),
    )


def test_a_release_is_a_commit_a_tag_and_files_with_their_checksums(clone: Path) -> None:
    before = git(clone, "rev-parse", "HEAD")
    lines = (clone / "CHANGELOG.md").read_text().partition("## Unreleased\n")[2].partition("\n## ")[0].strip()
    done = release(clone, "7.8.9", "--unchecked")
    assert done.returncode == 0, done.stderr
    assert git(clone, "rev-parse", "HEAD^") == before and git(clone, "cat-file", "-t", "v7.8.9") == "tag"
    assert git(clone, "rev-parse", "v7.8.9^{commit}") == git(clone, "rev-parse", "main")
    assert tomllib.loads((clone / "Cargo.toml").read_text())["workspace"]["package"]["version"] == "7.8.9"
    locked = tomllib.loads((clone / "Cargo.lock").read_text())["package"]
    assert {package["version"] for package in locked if package["name"].startswith("ioassay-")} == {"7.8.9"}
    changelog = (clone / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 7.8.9 (2" in changelog and changelog.count(lines) == 1

    folder = clone / "target" / "releases" / "7.8.9"
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {"ioassay.whl", "ioassay.tar.gz", "ioassay-7.8.9.cdx.json", "release-notes.txt"}
    assert sums == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in sums}
    assert (folder / "ioassay.whl").read_text() == 'version = "7.8.9"\n'
    assert (folder / "release-notes.txt").read_text().strip() == lines
    assert f"git push origin main v7.8.9\n    .venv/bin/uv publish {folder}/*.whl" in done.stdout
    assert state(clone)[2:] == ("", f"{clone}  {git(clone, 'rev-parse', '--short', 'HEAD')} [main]")


def test_a_trial_and_what_cannot_be_released_leave_the_repository_as_it_is(clone: Path, tmp_path: Path) -> None:
    git(clone, "tag", "v6.0.0")
    before = state(clone)
    for words, reason in REFUSED.items():
        done = release(clone, *words.split(), "--unchecked")
        assert (done.returncode, done.stdout) == (1, "") and reason in done.stderr, words
    done = release(clone, "7.8.9", "--unchecked", "--trial", "--output", str(tmp_path / "files"))
    assert done.returncode == 0 and (tmp_path / "files" / "SHA256SUMS").exists(), done.stderr
    assert state(clone) == before
    replace_build(clone, '#!/bin/sh\nmkdir -p "$1" && echo "$2" >"$1/ioassay.whl"\n')
    before = state(clone)
    assert "two builds of the same commit differ" in refused(clone)
    changelog, old_news = clone / "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- Old news.\n"
    changelog.write_text(old_news)
    assert "changes that are not committed" in refused(clone)
    git(clone, "checkout", "--quiet", "CHANGELOG.md")
    assert state(clone) == before and not (clone / "target" / "releases").exists()
    changelog.write_text(old_news)
    git(clone, "commit", "--quiet", "--all", "--message", "nothing new")
    assert 'no line under "Unreleased"' in refused(clone)


def refused(clone: Path) -> str:
    """Why a release is none."""
    done = release(clone, "7.8.9", "--unchecked")
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("scope", ["core", "release"])
def test_the_bill_of_materials_is_valid_and_has_no_path(scope: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    words = [sys.executable, ROOT / "setup" / "bill_of_materials.py", scope]
    texts = {
        subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
        for folder in (ROOT, "/")
    }
    (text,) = texts
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert str(ROOT) not in text and "file:" not in text
    bill = json.loads(text)
    components = {component["bom-ref"]: component for component in bill["components"]}
    packages = {reference.split("@")[0] for reference in components}
    assert {"pkg:cargo/aya", "pkg:cargo/ioassay-sim"} <= packages
    assert ("pkg:pypi/polars" in packages) == (scope == "release") and "pkg:pypi/pytest" not in packages
    assert not packages & {"pkg:cargo/proptest", "pkg:cargo/criterion", "pkg:cargo/cc", "pkg:cargo/syn"}
    assert all(component.get("licenses") for component in components.values())
    named = {used for entry in bill["dependencies"] for used in entry["dependsOn"]}
    assert named == set(components)
