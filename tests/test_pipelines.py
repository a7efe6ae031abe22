"""The GitHub Action and the GitLab template: their form, and their steps on real studies as a runner runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from ioassay.packs.history import history_store

from . import shell_command
from .cli.command_server import CommandServer
from .corpora import cases

ROOT = Path(__file__).parent.parent
STUDIES = Path(__file__).parent / "corpus" / "pipelines"
NULL = (STUDIES / "null.toml").read_text()
SCRIPTS = ROOT / "pipelines"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]


@dataclass(frozen=True)
class Job:
    """A job of GitHub in the checkout `folder`, which is the work of `inputs` in a made-up environment."""

    folder: Path
    commands: Path
    """In front of PATH."""
    server: CommandServer
    """What answers `ioassay` there."""

    def run(self, *, event: str = "push", pull_request: str = "", **inputs: str) -> Ended:
        """All steps of the action, as far as they succeed; `a_b` is the input a-b."""
        given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        given |= {"base-ref": "", "repetitions": "4"} | {name.replace("_", "-"): text for name, text in inputs.items()}
        context = {f"inputs.{name}": text for name, text in given.items()}
        context |= {"runner.temp": str(self.folder), "github.token": "token"}
        context |= {"github.event.pull_request.number": pull_request}
        files = {name: self.folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
        environment = {
            "PATH": f"{self.commands}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_REPOSITORY": "owner/name",
            **{name: str(path) for name, path in files.items()},
        }
        code, said = 0, ""
        for step in STEPS:
            if "run" not in step or (
                step["name"] == "Comment" and (given["comment"], event) != ("true", "pull_request")
            ):
                continue
            own = {name: substituted(text, context) for name, text in step.get("env", {}).items()}
            done = subprocess.run(
                ["sh", "-e", "-c", step["run"]],
                cwd=self.folder,
                env=environment | own,
                pass_fds=[self.server.fileno()],
                capture_output=True,
                text=True,
                timeout=600,
            )
            code, said = done.returncode, said + done.stdout + done.stderr
            if code:
                break
        return Ended(code, said, self.folder / "ioassay-ci", files["GITHUB_STEP_SUMMARY"], files["GITHUB_OUTPUT"])


@dataclass(frozen=True)
class Ended:
    """How a job ended, what it said, and what it left."""

    code: int
    said: str
    results: Path
    summary_file: Path
    output_file: Path

    @property
    def outcome(self) -> str:
        return dict(line.split("=", 1) for line in self.output_file.read_text().splitlines())["outcome"]

    @property
    def summary(self) -> str:
        return self.summary_file.read_text()

    @property
    def comparison(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.results / "comparison.json").read_text())
        return found

    def junit(self, element: str) -> int:
        root = ElementTree.fromstring((self.results / "junit.xml").read_text())
        return len(list(root.iter(element)))


def substituted(text: object, context: Mapping[str, str]) -> str:
    """The text with its expressions of GitHub replaced; each names one thing of the context."""
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda seen: context[seen[1]], str(text))


def git(folder: Path, *words: str) -> None:
    settings = ("user.name=a", "user.email=a", "init.defaultBranch=main", "commit.gpgsign=false")
    identity = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    started = CommandServer()
    yield started
    started.close()


@pytest.fixture
def job(tmp_path: Path, server: CommandServer) -> Job:
    """A job in a checkout whose `main` has a study and a program, and whose branch `change` has a slower program."""
    folder, commands = tmp_path / "a check'out", tmp_path / "bin"
    folder.mkdir()
    commands.mkdir()
    shell_command.write(commands, server.fileno())
    if not shutil.which("fio"):
        write_command(commands / "fio", "exit 1")  # the installation is not what is tested
    write_command(folder / "bench", "echo speed 1000; echo wrote 1000000000 bytes in 0.5 s")
    for name in ("null", "program", "liar", "fio"):
        shutil.copy(STUDIES / f"{name}.toml", folder)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "base")
    git(folder, "checkout", "--quiet", "-b", "change")
    write_command(folder / "bench", "echo speed 500; echo wrote 1000000000 bytes in 0.5 s")
    git(folder, "commit", "--quiet", "-a", "-m", "slower")
    return Job(folder, commands, server)


def write_command(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory, server: CommandServer) -> Path:
    """A run of the study `null` at twice its speed."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "null.toml").write_text(NULL.replace("1e8", "2e8"))
    words = ("run", "null.toml", "--repetitions=4", "--set=seed=3", "--output=run")
    assert server.run(words, folder, os.environ, 600)[0] == 0
    return folder / "run"


def disturbed(run: Path, to: Path) -> Path:
    """A copy of a run whose machine was busy with other programs."""
    shutil.copytree(run, to)
    shares = {"own_share": 0.1, "others_share": 0.6, "kernel_share": 0.0, "steal_share": 0.0}
    for path in to.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "environment": {"seconds": 1.0, "processors": 2, **shares}}))
    return to


def verdict(job: Job, fail_on: str) -> int:
    """The exit status of the last step alone, of a job that has ended."""
    environment = {**os.environ, "IOASSAY_CI_FAIL_ON": fail_on}
    command = ["sh", SCRIPTS / "verdict.sh"]
    return subprocess.run(command, cwd=job.folder, env=environment, capture_output=True).returncode


def test_a_change_that_changes_nothing_passes_and_is_measured_in_turns(job: Job) -> None:
    ended = job.run(study="null.toml", base_ref="main", settings="noise=0.0001\n\nseed=7\n", repetitions="2")
    assert ended.code == 0, ended.said
    assert ended.outcome == "same" and ended.summary.startswith("### ioassay: the same\n\n`Null`\n")
    assert (ended.junit("testcase"), ended.junit("failure"), ended.junit("skipped")) == (2, 0, 0)
    began = {
        json.loads(path.read_text())["started_unix_s"]: path.relative_to(ended.results).parts[0]
        for path in ended.results.glob("*/trials/*/record.json")
    }
    turns = [began[moment] for moment in sorted(began)][::2]
    assert turns == ["base", "new", "new", "base"]
    assert "noise = 0.0001" in (ended.results / "base" / "study.toml").read_text()
    worktrees = subprocess.run(["git", "worktree", "list"], cwd=job.folder, check=True, capture_output=True, text=True)
    assert not job.folder.with_name("ioassay-ci-base").exists() and "ioassay-ci-base" not in worktrees.stdout
    assert (ended.results / "page" / "index.html").is_file()


@pytest.mark.parametrize(("fail_on", "code"), [("slower, contradicted, failed", 0), ("any", 1)])
def test_an_earlier_run_is_a_baseline_whose_scatter_is_unknown(
    job: Job, earlier: Path, fail_on: str, code: int
) -> None:
    ended = job.run(study="null.toml", baseline=str(earlier), fail_on=fail_on)
    assert ended.code == code, ended.said
    assert ended.outcome == "differs" and ended.junit("failure") == 2 * code
    assert "**The two runs differ in 2 of 2 comparisons; run-to-run scatter unknown.**" in ended.summary


def test_a_slower_change_fails_the_job_that_asks_for_it(job: Job) -> None:
    results = job.folder / "ioassay-ci"
    results.mkdir()
    (results / "outcome").write_text("slower\n")
    (results / "regression").touch()
    assert [verdict(job, words) for words in ("slower", "any", "failed contradicted", "never")] == [1, 1, 0, 0]


def test_a_history_gets_the_runs_that_are_merged_and_the_summary_their_trend(job: Job, tmp_path: Path) -> None:
    history = tmp_path / "results over time"
    names = {"history": str(history), "history_host": "runners"}
    for seed, pull_request in enumerate(["", "", "7"]):
        shutil.rmtree(job.folder / "ioassay-ci", ignore_errors=True)
        ended = job.run(study="null.toml", settings=f"seed={seed}", pull_request=pull_request, **names)
        assert ended.code == 0, ended.said
    runs = history_store.open(history).runs()
    assert runs.select("study", "host").rows() == [("null", "runners")] * 2
    assert len(runs["commit"][0]) >= 7
    trend = (ended.results / "trend.markdown").read_text()
    assert "Null" in trend or "null" in trend
    assert ended.summary.endswith(trend)
    assert (ended.results / "history-null" / "index.html").is_file()


def test_a_machine_that_was_not_fit_never_fails_a_job(job: Job, earlier: Path, tmp_path: Path) -> None:
    ended = job.run(study="null.toml", baseline=str(disturbed(earlier, tmp_path / "busy")))
    assert ended.code == 0, ended.said
    assert ended.outcome == "not-comparable" and ended.comparison["counts"] == {"withheld": 2}
    assert (ended.junit("failure"), ended.junit("skipped")) == (0, 2)
    assert "Conditions: unfit in 8 of 8 trials." in ended.summary


def test_each_checkout_is_built_and_its_own_program_is_measured(job: Job) -> None:
    build = 'sed -i "s/speed /speed 9/" bench'
    ended = job.run(study="program.toml", base_ref="main", build=build, allow_exec="true", repetitions="2")
    (row,) = ended.comparison["rows"]
    assert (row["mean_a"], row["mean_b"]) == (91000, 9500)


def test_a_claim_that_the_kernel_contradicts_is_an_outcome_of_its_own(job: Job) -> None:
    ended = job.run(study="liar.toml", allow_exec="true", repetitions="1")
    assert ended.code == 4, ended.said
    assert ended.outcome == "contradicted" and "The kernel contradicts claims in: new." in ended.summary
    assert verdict(job, "slower failed") == 0


def test_trials_that_failed_are_an_outcome_of_their_own(job: Job) -> None:
    write_command(job.folder / "bench", "exit 3")
    ended = job.run(study="program.toml", base_ref="main", allow_exec="true", repetitions="2")
    assert ended.code == 1, ended.said
    assert ended.outcome == "failed" and "Trials failed in: new." in ended.summary
    assert [verdict(job, words) for words in ("slower, contradicted", "failed")] == [0, 1]


def test_without_a_baseline_the_run_is_kept_as_the_next_one(job: Job) -> None:
    ended = job.run(study="null.toml")
    assert (ended.code, ended.outcome) == (0, "measured")
    assert "There is no baseline" in ended.summary and (ended.results / "new" / "report" / "index.html").is_file()


@pytest.mark.fio
@pytest.mark.slow
def test_fio_is_measured_in_turns_with_the_base(job: Job) -> None:
    ended = job.run(study="fio.toml", base_ref="main", repetitions="2", fail_on="never")
    assert ended.code == 0, ended.said
    assert {row["response"] for row in ended.comparison["rows"]} >= {"write.bw", "write.iops"}
    assert ended.outcome == ended.comparison["outcome"]
    assert [len(list((ended.results / run).glob("trials/*/record.json"))) for run in ("base", "new")] == [2, 2]


@cases("pipelines", "wrong_inputs")
def test_a_wrong_input_is_named_and_no_input_is_a_part_of_a_script(job: Job, case: dict[str, Any]) -> None:
    ended = job.run(**case["inputs"])
    assert ended.code == 2 and case["says"] in ended.said, ended.said
    assert not list(job.folder.rglob("pwned"))


def test_a_comment_is_posted_once_and_then_updated_or_missed_with_a_warning(job: Job) -> None:
    calls = job.folder / "calls"
    write_command(job.commands / "gh", f'echo "$*" >>"{calls}"; [ ! -e earlier-comment ] || echo 77')
    asked_for = {"study": "null.toml", "comment": "true", "event": "pull_request", "pull_request": "12"}
    once = job.run(**asked_for, artifact="a")
    assert once.code == 0, once.said
    (job.folder / "earlier-comment").touch()
    job.run(**asked_for, artifact="b -->")
    asked = calls.read_text().splitlines()
    assert "POST repos/owner/name/issues/12/comments -F body=@a-ci/comment.markdown" in asked[1]
    assert "PATCH repos/owner/name/issues/comments/77 -F body=@b -->-ci/comment.markdown" in asked[3]
    text = (job.folder / "b -->-ci" / "comment.markdown").read_text()
    assert text.startswith("<!-- ioassay b---- -->\n### ioassay: measured")
    write_command(job.commands / "gh", "echo 'HTTP 403' >&2; exit 1")
    refused = job.run(**asked_for)
    assert refused.code == 0 and "::warning::ioassay could not comment" in refused.said


# Form


def scripts_named(text: str) -> Iterator[str]:
    return (seen[1] for seen in re.finditer(r"pipelines/([\w.-]+)", text))


def test_no_step_has_an_expression_in_its_script_and_each_script_is_a_file() -> None:
    for step in STEPS:
        assert ("run" in step) != ("uses" in step), step["name"]
        assert "${{" not in step.get("run", ""), f"{step['name']}: pass it by the environment"
        assert all((SCRIPTS / name).is_file() for name in scripts_named(step.get("run", "")))
        assert step.get("uses", "actions/").startswith("actions/"), f"{step['name']}: use GitHub's own actions only"


def test_every_input_is_used_and_every_variable_of_a_step_is_read_by_its_script() -> None:
    assert set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"]))) == set(ACTION["inputs"])
    for step in STEPS:
        for name in step.get("env", {}):
            (script,) = scripts_named(step["run"])
            assert name in (SCRIPTS / script).read_text(), f"{script} does not read {name}"


def test_the_gitlab_template_runs_scripts_that_there_are_and_keeps_what_they_write() -> None:
    template = yaml.safe_load((SCRIPTS / "gitlab.yml").read_text())[".ioassay"]
    named = list(scripts_named("\n".join([*template["before_script"], *template["script"]])))
    assert named == ["install.sh", "measure.sh", "compare.sh", "trend.sh", "verdict.sh"]
    assert all((SCRIPTS / name).is_file() for name in named)
    read = "".join(path.read_text() for path in SCRIPTS.glob("*.sh"))
    own = {name for name in template["variables"] if name.startswith("IOASSAY_CI_")} - {"IOASSAY_CI_OUTPUT"}
    assert all(name in read or name.startswith("IOASSAY_CI_SOURCE") for name in own)
    assert template["artifacts"]["reports"]["junit"] == f"{template['variables']['IOASSAY_CI_OUTPUT']}/junit.xml"


def test_the_document_names_every_input_and_its_examples_have_no_other() -> None:
    document = (ROOT / "docs" / "continuous-integration.md").read_text()
    inputs = ACTION["inputs"]
    assert set(re.findall(r"^\| `([\w-]+)` \|.*", document.partition("## GitLab")[0], re.M)) >= set(inputs)
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", document, re.S)]
    for step in (step for block in blocks for work in block.get("jobs", {}).values() for step in work["steps"]):
        if step.get("uses", "").endswith("/ioassay@v0.1.0"):
            assert set(step["with"]) <= set(inputs)
