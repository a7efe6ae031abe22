"""Plugins: packages that add to the lists, what is said of broken ones, and who is blamed for their errors.

examples/plugin is installed without a network: its own tests pass, and its study reaches the page.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay import drivers, formats, monitors, registry
from ioassay.errors import BrokenPlugin, InputError, StudyError, UsageError
from ioassay.narrative import pipeline
from ioassay.packs.foreign import importer
from ioassay.roles import Consent
from ioassay.runner import executors, preflight, run, worker
from ioassay.runner.progress import Progress
from ioassay.store import frames, packed_page
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.study.plan import make_trial

from .cli import command_server
from .cli.conftest import ask
from .corpora import cases

Install = Callable[..., Path]

DRIVER = """
from ioassay.drivers.null import NullPure
from ioassay.records.record import OK
from ioassay.roles import Parsed

IOASSAY_API = 1


class Sieve(NullPure):
    name = "sieve"

    def validate(self, params, target):
        return ()

    def parse(self, trial, outcome, raw):
        return Parsed(OK, metrics={"sieve.speed": 400.0 / trial.params["mesh"]})


for member in ("tool", "configure", "access", "touches", "estimate", "shortened", "command"):
    setattr(Sieve, member, getattr(NullPure, member))
"""
SIEVED = """
title = "How fast does sand fall?"
driver = "sieve"
repetitions = 2
[factors]
mesh = [1, 2]
"""


@pytest.fixture(scope="module", autouse=True)
def commands() -> Iterator[None]:
    """The server that forks commands ends with this file."""
    yield
    command_server.end()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with one plugin on the path, as pip leaves it; the module has the name of the package."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def put(package: str, group: str, name: str, code: str, attribute: str = "") -> Path:
        module = package.replace("-", "_")
        (site / f"{module}.py").write_text(code)
        metadata = site / f"{module}-1.2.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        value = f"{module}:{attribute}" if attribute else module
        (metadata / "entry_points.txt").write_text(f"[ioassay.{group}]\n{name} = {value}\n")
        registry.installed.cache_clear()
        return site

    yield put
    registry.installed.cache_clear()
    for module in [name for name in registry._imported if name in sys.modules]:
        del sys.modules[module]
    registry._imported.clear()


def broken(refused: Callable[[], object]) -> str:
    """The one warning that a look-up gives, which a second look-up does not repeat."""
    with pytest.warns(BrokenPlugin) as said:
        refused()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused()
    (warning,) = said
    return str(warning.message)


def test_a_plugin_is_an_entry_like_those_of_the_list(install: Install) -> None:
    install("sand-a", "drivers", "sieve", DRIVER, "Sieve")
    assert drivers.driver("sieve").name == "sieve"
    assert list(drivers.REGISTRY)[-1] == "sieve"
    with pytest.raises(StudyError, match="did you mean 'sieve'"):
        drivers.driver("sieves")


PACK = """
IOASSAY_API = 1
from ioassay.pack import Pack
PACK = Pack("Sand", drivers={"sieve": "sand_bag:Sieve"})
"""


def test_a_pack_is_all_of_its_entries(install: Install) -> None:
    install("sand-bag", "packs", "sand", PACK + DRIVER, "PACK")
    assert drivers.driver("sieve").name == "sieve"


def test_what_is_no_pack_is_a_warning_that_names_its_package(install: Install) -> None:
    install("sand-box", "packs", "sand", DRIVER, "Sieve")
    with pytest.warns(BrokenPlugin, match=r"^sand-box 1\.2: its pack 'sand' is not used: sand_box:Sieve is no ioassay"):
        assert "sieve" not in drivers.REGISTRY


def test_names_of_the_list_are_looked_up_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "installed", lambda: pytest.fail("the packages were searched"))
    assert drivers.driver("null").name == "null"
    assert drivers.REGISTRY.refusal("fio") == ""
    assert monitors.fields("cpu")


@cases("plugins", "broken")
def test_a_broken_plugin_is_a_warning_that_names_its_package(install: Install, case: dict[str, Any]) -> None:
    package = f"sand-{abs(hash(case['id']))}"  # what was checked of a package is kept for the life of the process
    code = case.get("code", DRIVER)
    for old, new in case.get("replace", ()):
        code = code.replace(old, new)
    install(package, "drivers", "sieve", code.partition(case.get("until", "\0"))[0], "Sieve")
    said = broken(lambda: "sieve" in drivers.REGISTRY)
    reason = case["reason"].format(module=package.replace("-", "_"))
    assert said.startswith(f"{package} 1.2: its driver 'sieve' is not used: ") and reason in said
    with pytest.raises(StudyError, match=rf"the driver 'sieve' of {package} 1\.2 cannot be used: ") as refused:
        drivers.driver("sieve")
    assert reason in str(refused.value)
    assert "sieve" not in list(drivers.REGISTRY)


@pytest.mark.parametrize(("name", "reason"), [("null", "ioassay has a driver of that name"), ("Sand-1", "lower case")])
def test_a_plugin_gets_no_name_that_is_taken_or_that_no_entry_may_have(
    install: Install, name: str, reason: str
) -> None:
    install(f"taken-{name.lower()}", "drivers", name, DRIVER, "Sieve")
    assert reason in broken(lambda: list(drivers.REGISTRY))
    assert type(drivers.driver("null")).__module__ == "ioassay.drivers.null"


def test_of_two_plugins_of_one_name_neither_is_used(install: Install) -> None:
    install("sand-b", "drivers", "twin", DRIVER, "Sieve")
    install("sand-c", "drivers", "twin", DRIVER, "Sieve")
    with pytest.warns(BrokenPlugin) as said:
        assert "twin" not in drivers.REGISTRY
    assert [str(warning.message).partition(": its")[0] for warning in said] == ["sand-b 1.2", "sand-c 1.2"]
    assert "sand-c 1.2 has a driver of that name as well; uninstall one of them" in str(said[0].message)


def test_metadata_that_cannot_be_read_hides_no_other_plugin(install: Install) -> None:
    site = install("sand-d", "drivers", "sieve", DRIVER, "Sieve")
    for name, text in {"odd": "[ioassay.drivers\n= ?\n", "bare": "[ioassay.drivers]\nbare = no_such_module\n"}.items():
        (site / f"{name}-1.dist-info").mkdir()
        (site / f"{name}-1.dist-info" / "entry_points.txt").write_text(text)
    registry.installed.cache_clear()
    with pytest.warns(BrokenPlugin, match=r"^a package without a name 0: its driver 'bare' is not used: importing no_"):
        assert "sieve" in drivers.REGISTRY


def test_an_error_in_a_trial_fails_it_by_the_name_of_the_plugin(install: Install, tmp_path: Path) -> None:
    install("sand-e", "drivers", "sieve", DRIVER.replace('trial.params["mesh"]', "0"), "Sieve")
    study = make_study({"name": "s", "title": "t", "driver": "sieve", "factors": {"mesh": [1]}}, "s")
    computed = worker.compute("sieve", make_trial(study, {"mesh": 1}, 0, 0), tmp_path)
    assert computed.parsed.status == "failed"
    assert computed.parsed.reason.startswith("the plugin sand-e 1.2 raised ZeroDivisionError: ")
    assert "(sand_e, line" in computed.parsed.reason
    with pytest.raises(ValueError, match="ours") as of_ours:
        raise ValueError("ours")
    assert registry.fault(of_ours.value) == ""


PARSER = """
from ioassay.records.record import Claim

IOASSAY_API = 1
NAME, STREAM = "pour", "stdout"


def matches(program):
    return program == "pour"


def looks_like(text):
    return False


def read(text, argv=()):
    return [Claim(source=NAME, kind="write", bytes=int(text))]
"""


def test_a_plugin_reads_the_claims_of_its_tool(install: Install) -> None:
    install("pour-a", "claims", "pour", PARSER)
    (claim,) = formats.read(["pour", "-n", "3"], "4096")
    assert (claim.source, claim.bytes) == ("pour", 4096)
    with pytest.raises(InputError, match=r"the claims of pour cannot be read: the plugin pour-a 1\.2 raised ValueErr"):
        formats.read(["pour"], "much")


def test_what_a_plugin_claims_is_imported(install: Install, tmp_path: Path) -> None:
    install("pour-c", "claims", "pour", PARSER.replace("return False", "return text.isdigit()"))
    results = tmp_path / "results.txt"
    results.write_text("4096")
    store = importer.take_in([results], tmp_path / "run")
    (record,) = store.records()
    assert (store.suite().studies[0].driver, record.metrics) == ("pour", {"write.bytes": 4096.0})


IMPORTED = """
from ioassay.formats.result_entry import Entry

IOASSAY_API = 1


def looks_like(text):
    return text.startswith("pour v1")


def read(text, source):
    for line in text.splitlines()[1:]:
        size, rate = line.split()
        yield Entry(size, options={"size": size}, metrics={"write.bw": float(rate)})
"""


def test_a_plugin_imports_results_of_its_format(install: Install, tmp_path: Path) -> None:
    install("pour-b", "formats", "pour", IMPORTED)
    results = tmp_path / "results.txt"
    results.write_text("pour v1\n4096 100\n8192 180\n")
    store = importer.take_in([results], tmp_path / "run")
    (study,) = store.suite().studies
    assert (study.driver, study.title) == ("pour", "pour results from 1 file")
    speeds = {record.trial["point"]["size"]: record.metrics["write.bw"] for record in store.records()}
    assert speeds == {4096: 100.0, 8192: 180.0}


@pytest.mark.parametrize(
    ("package", "working", "broken"),
    [("pour-d", "float(rate)", "float(rat)"), ("pour-e", 'text.startswith("pour v1")', "txt")],
)
def test_an_error_of_a_format_names_the_file_and_the_plugin(
    install: Install, tmp_path: Path, package: str, working: str, broken: str
) -> None:
    install(package, "formats", "pour", IMPORTED.replace(working, broken))
    (results := tmp_path / "results.txt").write_text("pour v1\n4096 100\n")
    with pytest.raises(InputError, match=rf"/results\.txt cannot be read: the plugin {package} 1\.2 raised NameErr"):
        importer.take_in([results], tmp_path / "run")


ANALYSIS = """
from ioassay.narrative.finding import Finding

IOASSAY_API = 1


def analyse(records, study):
    count = records.trials_of(study).height
    return [Finding("", "", "value", "Trials", f"There are {count} trials.", statistics={"trials": count})]
"""


def test_a_plugin_asks_a_question_of_its_own(install: Install, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('title = "t"\ndriver = "null_pure"\n[factors]\nbs = [1, 2]\n')
    ask("run", "s.toml", "--output", "run", "--workers", "1", cwd=tmp_path)

    def asked(package: str, code: str) -> list[dict[str, object]]:
        install(package, "analyses", package.replace("-", "_"), code)
        found = pipeline.analyse_all(frames.load(RunStore.open(tmp_path / "run")))
        return [finding.as_dict() for finding in found if finding.question == package.replace("-", "_")]

    (finding,) = asked("count-a", ANALYSIS)
    assert (finding["study"], finding["statistics"]) == ("s", {"trials": 2})
    (failed,) = asked("count-b", ANALYSIS.replace("height", "hight"))
    assert failed["severity"] == "warning"
    assert str(failed["statement"]).startswith("The analysis 'count_b' of count-b 1.2 failed: the plugin count-b 1.2 ")
    (unfit,) = asked("count-c", ANALYSIS.replace('{"trials": count}', '{"trials": {count}}'))
    assert "returned no findings that can be stored" in str(unfit["statement"])


EXECUTOR = """
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

IOASSAY_API = 1


def threads(address):
    number = int(address.partition(":")[2])
    return ThreadPoolExecutor(number) if number else nullcontext("nothing")
"""


def test_a_run_computes_in_the_executor_of_a_plugin(install: Install, tmp_path: Path) -> None:
    install("pool-a", "executors", "threads", EXECUTOR, "threads")
    (tmp_path / "pure.toml").write_text('title = "Pure"\ndriver = "null_pure"\nrepetitions = 3\n')
    words = ("run", "pure.toml", "--json", "--executor")
    out, err = ioassay(tmp_path, *words, "threads:2")
    assert (json.loads(out)["trials"]["ok"], err) == (3, "")
    for address, reason in {
        "threads:0": "opens a str, expected a concurrent.futures.Executor",
        "thread:2": "no executor is called 'thread'; did you mean 'threads'",
    }.items():
        assert reason in ioassay(tmp_path, *words, address, status=2)[1]
    with pytest.raises(UsageError, match="expected local, .* or threads:…"), executors.opened("threads"):
        pass


def ioassay(folder: Path, *words: str, status: int = 0) -> tuple[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "HOME": str(folder)}
    code, out, err = command_server.shared().run(words, folder, environment, 300)
    assert code == status, out + err
    return out, err


def test_a_plugin_computes_in_worker_processes(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(install("sand-i", "drivers", "sieve", DRIVER, "Sieve")))
    suite = Suite(name="s", title="s", studies=[make_study({"name": "s", **tomllib.loads(SIEVED)}, "s.toml")])
    benches = preflight.assemble(suite, Consent())
    tally = run.execute(RunStore.create(tmp_path / "run", suite, {}), benches, Progress(), 2)
    assert (tally.planned, tally.ok) == (4, 4)


def test_a_command_says_once_that_a_plugin_is_broken_and_goes_on(install: Install, tmp_path: Path) -> None:
    install("sand-g", "drivers", "sieve", DRIVER, "Sieve")
    install("rubble", "drivers", "rubble", "raise ValueError('stones')")
    (tmp_path / "sand.toml").write_text(SIEVED)
    said, noted = ioassay(tmp_path, "run", "sand.toml", "--workers", "1", "--output", "run", "--json")
    assert json.loads(said)["trials"]["ok"] == 4
    (warning,) = (one for one in json.loads(said)["warnings"] if one["code"] == "broken-plugin")
    assert warning["text"] in noted and warning["remedy"].startswith("update or uninstall") and not warning["trials"]
    planned = json.loads(ioassay(tmp_path, "plan", "sand.toml", "--json")[0])
    assert [one["text"] for one in planned["warnings"] if one["code"] == "broken-plugin"] == [warning["text"]]
    assert noted.count("rubble 1.2: its driver 'rubble' is not used: importing rubble raised ValueError: stones") == 1
    listed = json.loads(ioassay(tmp_path, "doctor", "--json")[0])["plugins"]
    found = [(row["package"], row["name"], bool(row["problem"])) for row in listed]
    assert found == [("rubble", "rubble", True), ("sand-g", "sieve", False)]
    (tmp_path / "sand.toml").write_text(SIEVED.replace('"sieve"', '"rubble"'))
    _, refused = ioassay(tmp_path, "plan", "sand.toml", status=2)
    assert "driver: the driver 'rubble' of rubble 1.2 cannot be used" in refused


WATCHED = """
title = "t"
driver = "command"
repetitions = 1
[target]
kind = "TARGET"
[params]
argv = ["sleep", "0.3"]
[watch]
monitors = ["MONITOR"]
interval = 0.05
witness = "off"
"""
MONITOR = """
from ioassay.monitors import Field

IOASSAY_API = 1
FIELDS = {"beats": Field("counter", "beats", "a pulse")}


class Pulse:
    name, remedy, count = "pulse", "", 0

    def read(self):
        self.count += 1
        if self.count == 2:
            raise RuntimeError("no pulse")
        return {"beats": float(self.count)}


def make(root, devices):
    return Pulse()
"""
TARGET = """
from contextlib import contextmanager

from ioassay.targets.file_targets import NullTarget

IOASSAY_API = 1


class Tape(NullTarget):
    kind = "tape"

    @contextmanager
    def load(self, trial):
        raise RuntimeError("the tape is torn")
        yield


for member in ("inspect", "prepare", "footprints", "close", "abandon"):
    setattr(Tape, member, getattr(NullTarget, member))
"""


def test_a_monitor_or_a_target_that_breaks_fails_the_trial(install: Install, tmp_path: Path) -> None:
    install("pulse-a", "monitors", "pulse", MONITOR)
    install("tape-a", "targets", "tape", TARGET, "Tape")
    for target, monitor, reason in [
        ("null", "pulse", "pulse-a 1.2 raised RuntimeError: no pulse (pulse_a, line"),
        ("tape", "null", "tape-a 1.2 raised RuntimeError: the tape is torn (tape_a, line"),
    ]:
        (tmp_path / "s.toml").write_text(WATCHED.replace("TARGET", target).replace("MONITOR", monitor))
        said, _ = ioassay(tmp_path, "run", "s.toml", "--allow-exec", "--output", target, "--json", status=1)
        (failure,) = json.loads(said)["failures"]
        assert failure["reason"].startswith(f"the plugin {reason}")


TOUCH = """
from ioassay.drivers.null import Null
from ioassay.records.record import FAILED, OK
from ioassay.roles import Command, External, Parsed, READ, Touch

IOASSAY_API = 1


class Toucher(Null):
    name = "toucher"
    measures = True

    def validate(self, params, target):
        return ()

    def externals(self, params):
        return [External("params.where", "touches it")] if params.get("ask") else []

    def command(self, trial, load, raw):
        return Command(["touch", trial.params["where"]], 600.0)

    def parse(self, trial, outcome, raw):
        said = outcome.stderr.read_text()
        return Parsed(FAILED, said) if said else Parsed(OK, metrics={"value": 1.0})


for member in ("tool", "configure", "access", "touches", "estimate", "shortened"):
    setattr(Toucher, member, getattr(Null, member))
"""


@pytest.mark.landlock
def test_the_command_of_a_plugin_is_confined_and_what_it_states_is_asked(install: Install, tmp_path: Path) -> None:
    install("touch-a", "drivers", "toucher", TOUCH, "Toucher")
    study = f'title = "t"\ndriver = "toucher"\nrepetitions = 1\nparams = {{ where = "{tmp_path}/closed" }}\n'
    (tmp_path / "s.toml").write_text(study + '[watch]\nmonitors = []\nwitness = "off"\n')
    said, _ = ioassay(tmp_path, "run", "s.toml", "--output", "run", "--json", status=1)
    assert "Permission denied" in json.loads(said)["failures"][0]["reason"]
    assert not (tmp_path / "closed").exists()
    _, refused = ioassay(tmp_path, "run", "s.toml", "--set", "params.ask=1", "--output", "run2", status=3)
    assert "params.where touches it" in refused


def test_an_error_outside_of_a_trial_names_the_plugin(install: Install, tmp_path: Path) -> None:
    install("sand-h", "drivers", "sieve", DRIVER.replace("return ()", "return 1 / 0"), "Sieve")
    (tmp_path / "sand.toml").write_text(SIEVED)
    _, said = ioassay(tmp_path, "plan", "sand.toml", status=1)
    assert "ioassay: the plugin sand-h 1.2 raised ZeroDivisionError: division by zero (sand_h, line" in said
    assert "bug in ioassay" not in said


PLUGIN = Path(__file__).parent.parent / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the plugin is installed to; pip builds it in a copy, and the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "dist"))
    return installed(folder)


def installed(folder: Path) -> Path:
    """Where the package in `folder/source` is installed to, without a network."""
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder / "site"), folder / "source"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return folder / "site"


@pytest.fixture(scope="module")
def new_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `site`, of what `new-pack` writes."""
    folder = tmp_path_factory.mktemp("new")
    ask("new-pack", "sand_sieve", "--output", "source", cwd=folder)
    return installed(folder)


@pytest.mark.parametrize("of", ["site", "new_pack"])
def test_its_own_tests_pass(of: str, request: pytest.FixtureRequest) -> None:
    site: Path = request.getfixturevalue(of)
    environment = {**os.environ, "PYTHONPATH": str(site), "HOME": str(site.parent)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    source = site.parent / "source"
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "failed" not in done.stdout and "skipped" not in done.stdout


def test_its_study_runs_to_the_page(site: Path, tmp_path: Path) -> None:
    shutil.copy(PLUGIN / "copy.toml", tmp_path)
    words = ("run", "copy.toml", "--repetitions", "2", "--output", "run", "--json")
    ran = ask(*words, cwd=tmp_path, env={"PYTHONPATH": str(site), "HOME": str(tmp_path)}).json
    assert ran["trials"]["ok"] == 8
    (finding,) = [finding for finding in ran["findings"] if finding["question"] == "block_cost"]
    assert finding["withheld"] or finding["statistics"]["ns_per_byte"] != 0
    assert [(figure["name"], figure["problem"]) for figure in ran["figures"]] == [("block_time", "")]
    assert json.loads((tmp_path / "run" / "host.json").read_text())["tools"]["dd"].startswith("dd (coreutils)")
    page = packed_page.unpacked((tmp_path / "run" / "report" / "index.html").read_text())
    assert "The fixed cost of a block" in page and "Time of a block" in page
    claims = [json.loads(path.read_text())["claims"] for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert [claim["bytes"] for (claim,) in claims] == [1 << 24] * 8


def test_a_new_pack_measures_before_it_is_changed(new_pack: Path, tmp_path: Path) -> None:
    words = ("run", str(new_pack.parent / "source" / "study.toml"), "--repetitions", "1", "--output", "run", "--json")
    ran = ask(*words, cwd=tmp_path, env={"PYTHONPATH": str(new_pack), "HOME": str(tmp_path)}).json
    assert ran["trials"]["ok"] == 3
    records = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert [claim["bytes"] for record in records for claim in record["claims"]] == [64 << 20] * 3


@pytest.mark.parametrize("words", [("Sieve",), ("fio",), ("sieve", "--output", ".")])
def test_a_new_pack_takes_no_name_or_folder_of_others(words: tuple[str, ...], tmp_path: Path) -> None:
    assert ask("new-pack", *words, cwd=tmp_path).code == 2
    assert not list(tmp_path.iterdir())


def test_its_readme_shows_the_files_that_it_has() -> None:
    text = (PLUGIN / "README.md").read_text()
    for path in [*PLUGIN.glob("src/*/*.py"), *PLUGIN.glob("tests/*.py"), PLUGIN / "copy.toml"]:
        assert path.name in text, f"README.md does not say what {path.name} is"
