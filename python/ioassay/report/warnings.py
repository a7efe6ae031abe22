"""Everything that a reader should doubt before believing a number, most serious first, each with its remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from ioassay.analysis.threats import Code
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding
from ioassay.narrative.say import sentence
from ioassay.records.record import FAILED, SKIPPED
from ioassay.report.figures import Drawn
from ioassay.report.run_facts import recorded, run_folder
from ioassay.store.dataset import Dataset

_SURROUNDINGS = ("no-governor",)
"""Warnings of trials that every one of a machine has."""
_MOST = 5
"""Texts of one kind that are listed."""
_KEY = re.compile(r"[a-z]+\.[a-z_]+ ")


@dataclass(frozen=True)
class Alert:
    """One suspicion. `scope` says how much it concerns; `others` are texts of the same kind, each with its scope."""

    code: str
    text: str
    remedy: str
    scope: str
    others: Sequence[str] = ()
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The text with a capital, unless it begins with the key of a setting (`run.scheduler = …`)."""
        return self.text if _KEY.match(self.text) else self.text[:1].upper() + self.text[1:]


def alerts(records: Dataset, drawn: Sequence[Drawn], findings: Sequence[Finding] = ()) -> list[Alert]:
    """Trials that did not go well, threats, warnings of trials (each once), figures that are missing.

    What can change most comes first: trials that are lost, then what disturbs or limits values, then the surroundings.
    """
    known = _threats(findings)
    said = {one.code for one in known}
    recorded_too = (one for one in _warnings(records) if one.code not in said)  # a threat sums up what trials recorded
    found = [*_lost_trials(records), *known, *recorded_too]
    return [*sorted(found, key=lambda one: _rank(one.code)), *_missing_figures(drawn)]


def in_brief(findings: Sequence[Finding], recorded_ones: Iterable[tuple[str, str, str]]) -> list[Alert]:
    """Each kind once, in the same order, for a command's end: a threat in its first sentence.

    `recorded_ones` are codes, texts and remedies of warnings.
    """
    found = {one.code: replace(one, text=one.detail.partition(". ")[0]) for one in _threats(findings)}
    for code, text, remedy in recorded_ones:
        found.setdefault(code, Alert(code, text, remedy, ""))
    return sorted(found.values(), key=lambda one: _rank(one.code))


def _threats(findings: Sequence[Finding]) -> list[Alert]:
    threats: dict[tuple[object, str], list[Finding]] = {}
    for one in filter(is_alert, findings):
        threats.setdefault((one.statistics["code"], one.title), []).append(one)
    found = []
    for first, *others in threats.values():
        remedy = " ".join(str(text).removeprefix("Next step: ") for text in first.caveats)
        shown = _few([f"{one.study}: {one.statement}" for one in others])
        scope = _studies(one.study for one in (first, *others))
        found.append(Alert(str(first.statistics["code"]), first.title, remedy, scope, shown, detail=first.statement))
    return found


def is_alert(finding: Finding) -> bool:
    """Whether it is a threat that warns: the page says it once, here."""
    lost = str(finding.statistics.get("code", "")).startswith("trials-")  # which the page counts for all studies
    return finding.question == "caveats" and finding.severity == "warning" and not lost


def _rank(code: str) -> int:
    """The place of a threat's code; what a runner or driver warns of stands with what limits a trial."""
    order = list(Code)
    if code.startswith("trials-"):
        return -1
    return order.index(Code.GOVERNOR if code in _SURROUNDINGS else Code(code) if code in order else Code.SHORT)


def _lost_trials(records: Dataset) -> list[Alert]:
    """Trials that failed, were skipped or have no record: each kind once, for all studies that it concerns."""
    every, known = recorded(records), {study.name for study in records.studies}
    every = every.filter(pl.col("study").is_in(known))
    found = []
    for status in (FAILED, SKIPPED):
        lost = every.filter(every["status"] == status)
        if lost.height:
            text = f"{lost.height} of {every.height} trials {'failed' if status == FAILED else 'were skipped'}"
            reasons = Counter(reason or sentence("figures.no_reason") for reason in lost["reason"].to_list())
            first, *others = [f"{reason} ({phrases.count(number, 'trial')})" for reason, number in reasons.items()]
            shown = first if others else next(iter(reasons))
            remedy = sentence("figures.see_raw_output") if status == FAILED else ""
            found.append(Alert(f"trials-{status}", f"{text}: {shown}", remedy, _studies(lost["study"]), _few(others)))
    absent = {name: records.planned.get(name, 0) - every.filter(every["study"] == name).height for name in known}
    missing = [study.name for study in records.studies if absent[study.name] > 0]
    if missing:
        number, planned = (sum(counts[name] for name in missing) for counts in (absent, records.planned))
        text = sentence("figures.trials_absent", number=number, planned=planned)
        go_on = f"ioassay run --resume {run_folder(records.root)}"
        found.append(Alert("trials-absent", text, go_on, _studies(missing)))
    return found


def _studies(names: Iterable[str]) -> str:
    each = list(dict.fromkeys(names))
    return f"{'study' if len(each) == 1 else 'studies'} {phrases.listed(each, 9)}"


def _few(texts: Sequence[str]) -> Sequence[str]:
    return texts if len(texts) <= _MOST else [*texts[:_MOST], f"… and {len(texts) - _MOST} more"]


def _warnings(records: Dataset) -> list[Alert]:
    """One for each kind, with its most frequent text; the others below it."""
    kinds: dict[tuple[str, str], dict[str, list[str]]] = {}
    announced = records.announced_skips()
    for row in records.warnings.iter_rows(named=True):
        if row["text"] in announced:
            continue
        texts = kinds.setdefault((row["code"], row["remedy"] or ""), {})
        texts.setdefault(row["text"], []).append(row["study"])
    found = []
    for (code, remedy), texts in kinds.items():
        every = [study for studies in texts.values() for study in studies]
        first, *others = sorted(texts, key=lambda text: -len(texts[text]))
        shown = _few([f"{text} ({_trials(texts[text])})" for text in others])
        found.append(Alert(code, first, remedy, _trials(every), shown))
    return found


def _trials(studies: Sequence[str]) -> str:
    """`3 trials of block-size`: a study for each trial."""
    return f"{phrases.count(len(studies), 'trial')} of {phrases.listed(list(dict.fromkeys(studies)))}"


def _missing_figures(drawn: Sequence[Drawn]) -> list[Alert]:
    missing: dict[tuple[str, str], list[str]] = {}
    for one in drawn:
        if one.problem:
            missing.setdefault((one.study, one.problem), []).append(one.name)
    found = []
    for (study, problem), names in missing.items():
        which = f"{len(names)} figures ({', '.join(names)}) have" if names[1:] else f"Figure '{names[0]}' has"
        scope = f"study {study}" if study else "all studies"
        found.append(Alert("figure-missing", f"{which} nothing to show: {problem}", "", scope))
    return found
