"""What `ioassay doctor` prints: at most 15 lines, the worst first, and everything with --all."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.api.diagnosis import Diagnosis, InstalledPlugin
from ioassay.cli import doctor as command
from ioassay.cli import session
from ioassay.records.record import Warning_

NOTHING = "nothing found that would spoil a measurement"


def diagnosis(warnings: int = 0, unable: int = 0, plugins: int = 0, broken: int = 0) -> Diagnosis:
    problems = [""] * plugins + ["importing it raised ValueError"] * broken
    return Diagnosis(
        Path(),
        {},
        [Warning_(f"code-{n}", f"warning {n}", f"remedy {n}") for n in range(warnings)],
        [Warning_("tool", f"tool {n} is missing", f"install {n}") for n in range(unable)],
        [InstalledPlugin(f"p{n}", "1.0", "drivers", "driver", "d", why) for n, why in enumerate(problems)],
        0.95,
    )


def said(found: Diagnosis, capsys: pytest.CaptureFixture[str], *, everything: bool = False) -> list[str]:
    command._say(found, everything=everything)
    return capsys.readouterr().out.splitlines()


def test_a_fit_host_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(diagnosis(), capsys) == [NOTHING]


@pytest.mark.parametrize("warnings", [1, 6, 7, 8, 40])
@pytest.mark.parametrize("unable", [0, 3, 4, 20])
@pytest.mark.parametrize("plugins", [0, 2, 9])
def test_no_answer_has_more_than_15_lines(
    warnings: int, unable: int, plugins: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(diagnosis(warnings, unable, plugins, broken=1), capsys)
    assert len(lines) <= session.MOST_LINES
    assert lines[:3] == [
        f"{warnings} warning{'s' if warnings > 1 else ''}, the worst first:",
        "warning 0 [code-0]",
        "    remedy: remedy 0",
    ]


def test_what_does_not_fit_is_named_by_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(diagnosis(warnings=9), capsys)
    assert len(lines) == 14
    assert lines[-1] == "3 more warnings, with remedies by --all: code-6, code-7, code-8"
    assert said(diagnosis(warnings=7), capsys)[-1] == "    remedy: remedy 6"


def test_what_cannot_be_done_follows_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(diagnosis(unable=3), capsys)[1:] == [
        f"unavailable: tool {n} is missing (install {n})" for n in range(3)
    ]
    lines = said(diagnosis(unable=9), capsys)
    assert len(lines) == 4 and lines[-1] == "7 more things unavailable: --all has the reasons"


def test_plugins_that_cannot_be_used_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(diagnosis(plugins=3, broken=1), capsys)[1:] == [
        "plugin p3 1.0: driver 'd' is not used: importing it raised ValueError",
        "plugins: 3 more names: --all lists them",
    ]
    assert said(diagnosis(broken=3), capsys)[-1] == "plugins: 2 more names, of which 2 cannot be used: --all lists them"


def test_all_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(said(diagnosis(40, 20, 9, broken=4), capsys, everything=True))
    wanted = [f"warning {n} [code-{n}]\n    remedy: remedy {n}\n" for n in range(40)]
    wanted += [f"tool {n} is missing (install {n})" for n in range(20)] + [f"plugin p{n} 1.0" for n in range(13)]
    assert [one for one in wanted if one not in text] == []
    assert "the kernel keeps 5% of a processor" in text and "more" not in text
