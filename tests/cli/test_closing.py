"""How a measuring command ends: the trust line first, at most 15 lines, whatever there is to say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.analysis.machine_conditions import Grade
from ioassay.cli import console, session
from ioassay.narrative.conditions_text import Trust
from ioassay.narrative.finding import Finding
from ioassay.narrative.say import say
from ioassay.records.record import Warning_
from ioassay.report import ReportPaths
from ioassay.runner.run import Tally

SENTENCE = "Read bandwidth rises with block size, from 5 MB/s at 1 KiB to 520 MB/s at 1024 KiB."
FIT = Trust(Grade.FIT, "Conditions: fit.", "Claims: the kernel confirms 30 of 30.")


def concluded(study: str, sentences: int, withheld: str = "") -> Finding:
    return Finding(study, "conclude", "", f"Title of {study}", [SENTENCE] * sentences, withheld=withheld)


@pytest.fixture
def ended(capsys: pytest.CaptureFixture[str]) -> Any:
    """What `session.say` prints of findings, warnings and failures: lines of stdout, lines of stderr."""

    def say(
        findings: list[Finding], codes: int = 0, failures: int = 0, kept: int = 0, trust: Trust | None = FIT
    ) -> tuple[list[str], list[str]]:
        reason = {"study": "s", "point": {"bs": "4k"}, "trials": 2, "raw": "run/trials/x/raw"}
        failed = [{**reason, "reason": f"reason {number}"} for number in range(failures)]
        warned = [{"code": f"code-{n}", "text": "odd", "remedy": "mend it", "trials": 1} for n in range(codes)]
        files = [{"path": f"data-{n}", "bytes": 1 << 20, "remove": f"rm -- data-{n}"} for n in range(kept)]
        report = ReportPaths(Path("run/report/index.html"), Path("run/report/findings.json"), ())
        studies = dict.fromkeys(finding.study for finding in findings if finding.study)
        run: Any = SimpleNamespace(
            root=Path("run"),
            resume_command="ioassay run --resume run",
            records=SimpleNamespace(studies=[SimpleNamespace(name=name, title=f"Title of {name}") for name in studies]),
            findings=findings,
            paths=report,
            trust=trust,
            tally=Tally(planned=40, ok=30, failed=6),
            kept_files=lambda: files,
            failures=lambda: failed,
            skips=lambda: failed,
            all_warnings=lambda: warned,
            computing=None,
        )
        session.say(run)
        out, err = capsys.readouterr()
        return out.splitlines(), err.splitlines()

    return say


@pytest.mark.parametrize("studies", [0, 1, 2, 4, 9, 40])
@pytest.mark.parametrize("sentences", [1, 3, 30])
@pytest.mark.parametrize("trouble", [0, 1, 5])
def test_there_are_at_most_15_lines(ended: Any, studies: int, sentences: int, trouble: int) -> None:
    findings = [concluded(f"s{number}", sentences) for number in range(studies)]
    out, err = ended(findings, codes=trouble, kept=trouble)
    assert len(out) + len(err) <= session.MOST_LINES, "\n".join(out + err)
    assert out[0] == FIT.conditions and out[-1].endswith("report/index.html")
    assert any("Title of s0" in line or SENTENCE in line for line in out) == bool(studies)
    if 0 < studies <= 4 and sentences == 1 and not trouble:
        assert sum(SENTENCE in line for line in out) == studies


def test_of_many_studies_those_that_are_left_out_are_counted(ended: Any) -> None:
    out, _ = ended([concluded(f"s{number}", 1) for number in range(40)])
    shown = sum(SENTENCE in line for line in out)
    assert f"  … and {40 - shown} more studies: see the report" in out
    assert len(out) == session.MOST_LINES


def test_one_study_is_told_sentence_by_sentence(ended: Any) -> None:
    out, _ = ended([concluded("s", 3)])
    assert out[2:5] == [SENTENCE] * 3


def test_what_failed_is_named_with_where_to_look(ended: Any) -> None:
    out, err = ended([concluded("s", 1)], failures=3)
    assert "failed: s at bs=4k and 1 other: reason 0" in err and "    what it left: run/trials/x/raw" in err
    assert "failed: 1 more reason in the report" in err
    assert "to run what is left: ioassay run --resume run" in out


def test_warnings_are_one_with_its_remedy_and_the_codes_of_the_others(ended: Any) -> None:
    _, err = ended([concluded("s", 1)], codes=3)
    assert err == [
        "warning: odd [code-0]",
        "    remedy: mend it",
        "2 more warnings, with remedies in the report: code-1, code-2",
    ]


def test_where_everything_is_withheld_that_is_said_once(ended: Any) -> None:
    unfit = Trust(Grade.UNFIT, "Conditions: unfit in 6 of 6 trials.", "")
    out, _ = ended([concluded(name, 1, withheld="Unfit.") for name in "abc"], trust=unfit)
    assert out[:2] == [unfit.conditions, str(say("conclude.nothing"))]


def test_an_overview_answers_for_all_studies(ended: Any) -> None:
    overview = Finding("", "peaks", "", "Best levels", "All of them peak at 4.")
    out, _ = ended([overview, concluded("a", 2), concluded("b", 2)])
    assert "All of them peak at 4." in out and not any(SENTENCE in line for line in out)


@pytest.mark.parametrize(
    ("tally", "code"),
    [
        (Tally(planned=2, ok=2), None),
        (Tally(planned=2, ok=1, skipped=1), None),
        (Tally(planned=3, skipped=2, unneeded=1), None),
        (Tally(planned=2, ok=1, failed=1), 1),
        (Tally(planned=2, skipped=2), 1),
    ],
)
def test_a_run_in_which_nothing_was_measured_has_not_succeeded(tally: Tally, code: int | None) -> None:
    run: Any = SimpleNamespace(contradicted=0, tally=tally, failed=tally.failed)
    if code is None:
        session.end(run)
        return
    with pytest.raises(console.Exit) as ended:
        session.end(run)
    assert ended.value.code == code


# Warnings: each with its remedy, and not dozens of one kind


def test_a_warning_has_its_remedy_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    console.warnings([Warning_("odd", "something is odd", "mend it")])
    assert capsys.readouterr().err == "warning: something is odd [odd]\n    remedy: mend it\n"


def test_of_many_of_a_kind_the_first_are_shown_and_the_rest_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = [Warning_("odd", f"number {number} is odd") for number in range(1, 41, 2)]
    console.warnings([*many, {"code": "even", "text": "number 2 is even", "remedy": ""}])
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "warning: number 1 is odd [odd]",
        "warning: number 3 is odd [odd]",
        "warning: number 5 is odd [odd]",
        "warning: 17 more of this kind; the report and --json have them all [odd]",
        "warning: number 2 is even [even]",
    ]
