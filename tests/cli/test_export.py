"""`ioassay export` of real runs: what is written, what its reader can do with it, what is not in it."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import tarfile
from pathlib import Path

import polars as pl
import pytest

from ioassay.store import packed_page

from .conftest import NULL, Ask, ask_alone

FIGURE = """
[[figures]]
kind = "trend"
name = "x"
x = "x"
y = "value"
"""


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as content:
        content.extractall(folder)
    (run,) = folder.iterdir()
    return run


def texts(folder: Path) -> dict[str, str]:
    """Every file as text: tables by their columns, the page without the libraries' code."""
    found = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".parquet":
            found[str(path)] = str(pl.read_parquet(path).to_dicts())
        elif path.suffix != ".png":
            text = packed_page.unpacked(path.read_text(errors="surrogateescape"))
            found[str(path)] = re.sub(r"<script(?![^>]*(?:json|gzip))[^>]*>.*?</script>", "", text, flags=re.DOTALL)
    return found


def identities(work: Path) -> list[str]:
    """What a reader of the bundle must not learn of this machine."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    names = [os.uname().nodename, user, os.environ.get("USER", "")]
    machine_id = Path("/etc/machine-id")
    names += [machine_id.read_text().strip()] if machine_id.exists() else []
    # `vm` and `root` are words as well: then only the fields that hold them say something.
    return [str(work), str(Path.cwd()), *(name for name in names if len(name) > 4)]


def fields(text: str) -> list[str]:
    return re.findall(r"(?i)(?:hostname|nodename|username)\"?\s*[:=]\s*\"?([\w.-]+)", text)


def require_nothing_left(run: Path, work: Path) -> None:
    for name, text in texts(run).items():
        assert [value for value in identities(work) if value.lower() in text.lower()] == [], name
        assert all(value.startswith("redacted-") for value in fields(text)), name


# Figures are drawn here, where elsewhere their files have names only


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of which the figure is drawn, with what --json said of it."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "null.toml").write_text(NULL + FIGURE)
    answer = ask_alone("run", "null.toml", "--output", "run", "--json", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    (folder / "said.json").write_text(answer.out)
    return folder / "run"


def is_drawn(folder: Path, *names: str) -> bool:
    """Whether these figures, and no others, are pictures of both kinds."""
    kinds = {".png": b"\x89PNG", ".svg": b"<svg"}
    found = {path.name: kinds[path.suffix] in path.read_bytes()[:500] for path in folder.iterdir()}
    return found == {f"{name}{kind}": True for name in names for kind in kinds}


def test_a_run_says_what_it_came_to_and_has_its_figures(drawn: Path) -> None:
    said = json.loads((drawn.parent / "said.json").read_text())
    assert {"run", "report", "trials", "findings", "figures", "warnings"} <= said.keys()
    assert said["trials"] == {"planned": 4, "ok": 4, "failed": 0, "skipped": 0, "unneeded": 0}
    assert [figure["name"] for figure in said["figures"]] == ["x"]
    assert any(finding["question"] == "conclude" for finding in said["findings"])
    assert (drawn.parent / said["report"]).is_file() and is_drawn(drawn / "report" / "figures", "x")


def test_a_comparison_has_its_figures_as_files(drawn: Path, tmp_path: Path) -> None:
    assert ask_alone("compare", drawn, drawn, "--output", "page", cwd=tmp_path).code == 0
    assert is_drawn(tmp_path / "page" / "figures", "null-value", "ratios")


def test_a_redacted_bundle_is_a_run_that_tells_nobody_and_the_same_each_time(
    drawn: Path, tmp_path: Path, ioassay: Ask
) -> None:
    for name in ("a.tar.gz", "b.tgz"):
        said = ask_alone("export", drawn, "--redact", "-o", name, "--json", cwd=tmp_path)
        assert (said.code, said.json["redacted"]) == (0, True)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tgz").read_bytes()
    run = unpacked(tmp_path / "a.tar.gz", tmp_path / "reader")
    require_nothing_left(run, drawn.parent)
    assert ioassay("report", run).code == ioassay("compare", drawn, run).code == 0
    answer = ioassay("sql", run, "SELECT count(*) AS n FROM trials", "--json")
    assert answer.json["rows"] == [{"n": 4}]
    refused = ioassay("run", "--resume", run)
    assert refused.code == 2 and "placeholders" in refused.err


@pytest.mark.fio
def test_the_tools_own_output_tells_nobody_either(tmp_path: Path, ioassay: Ask) -> None:
    (tmp_path / "my bench").mkdir()
    (tmp_path / "s.toml").write_text(
        'title = "T"\ndriver = "fio"\nrepetitions = 2\n[target]\nkind = "file"\n'
        f'path = "{tmp_path}/my bench/test file"\nsize = "1MiB"\n'
        '[params]\nrw = "read"\nbs = "4k"\nsize = "1MiB"\nioengine = "psync"\n'
    )
    assert ioassay("run", "s.toml", "--output", "r").code == 0
    assert ioassay("export", "r", "--redact", "-o", "b.tar.gz").code == 0
    run = unpacked(tmp_path / "b.tar.gz", tmp_path / "reader")
    require_nothing_left(run, tmp_path)
    assert all("my bench" not in text for text in texts(run).values())
    assert any('/test file"' in text for name, text in texts(run).items() if name.endswith("plan.jsonl"))
    shutil.rmtree(run / "report")
    assert ioassay("report", run).code == 0


def test_the_page_and_host_json_of_any_run_tell_nobody(finished_run: Path) -> None:
    host = (finished_run / "host.json").read_text()
    page = texts(finished_run / "report")[str(finished_run / "report" / "index.html")]
    for text in (host, page):
        assert fields(text) == []
        assert '"serial"' not in text
    hidden = {word.partition("=")[0] for word in Path("/proc/cmdline").read_text().split()} & {"root", "BOOT_IMAGE"}
    assert "root" not in hidden or "root=#" in json.loads(host)["kernel"]["cmdline"]
