"""What every format's output is read as: the rows of `tests/corpus/formats`, whose README has their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from ioassay import formats
from ioassay.errors import UsageError
from ioassay.formats import user_claims
from ioassay.packs.fio.claims.fio_job_options import job_facts
from ioassay.packs.fio.claims.fio_logs import grouped
from ioassay.packs.fio.claims.fio_results import Job
from ioassay.packs.foreign import importer
from ioassay.records.observation import Program
from ioassay.records.record import Claim
from ioassay.store import frames

from ..corpora import CORPUS, cases, text

TABLES = sorted(path.stem for path in (CORPUS / "formats").glob("*.toml") if path.stem != "imports")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def argument(given: Any) -> Any:
    is_text = isinstance(given, dict) or (isinstance(given, list) and any(isinstance(one, dict) for one in given))
    return text(given) if is_text else given


def written(folder: Path, files: Mapping[str, Any]) -> list[Path]:
    for name, made in files.items():
        (folder / name).write_text(text(made))
    return [folder / name for name in files]


def answer(case: Mapping[str, Any], folder: Path) -> Any:
    """What the row's function returns for what it is given; `formats.read` where it names none."""
    if "by" in case:
        room = "ioassay" if case["by"].startswith("packs.") else "ioassay.formats"
        return resolve_name(f"{room}.{case['by']}")(*map(argument, case["given"]))
    if "jobs" in case:
        tables = [dict((*option.split("=", 1), "")[:2] for option in job.split()) for job in case["jobs"]]
        return job_facts([Job(table.pop("name", "job"), 0, 0, {}, options=table) for table in tables])
    if "pattern" in case:
        return user_claims.pattern_claims(user_claims.claim_pattern(case["pattern"]), text(case.get("output", "")))
    if "logs" in case:
        (logs,) = grouped(written(folder, case["logs"]))
        return logs.read()
    command = case.get("command", "./bench.sh")
    files = {name: text(made) for name, made in case.get("files", {}).items()}
    argv = command.split() if isinstance(command, str) else command
    programs = [Program(process, **ran) for process, ran in enumerate(case.get("ran", ()))]
    return formats.read(argv, text(case.get("output", "")), text(case.get("errors", "")), files, programs)


def differences(found: Any, wanted: Any, place: str = "") -> Iterator[str]:
    """What is not as wanted: of objects the attributes that are named, of tables and lists every part."""
    if isinstance(wanted, dict):
        parts = {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else None
        if parts is not None and not wanted.get("others") and (more := parts.keys() - wanted.keys()):
            yield f"{place}: has {sorted(more)} as well"
        for key in wanted.keys() - {"others"}:
            value = getattr(found, key) if parts is None else parts.get(key, "no such key")
            yield from differences(value, wanted[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        parts_ = sorted(found) if isinstance(found, Set) else list(found)
        if len(parts_) != len(wanted):
            yield f"{place}: has {len(parts_)} parts, not {len(wanted)}: {parts_}"
        for number, pair in enumerate(zip(parts_, wanted, strict=False)):
            yield from differences(*pair, f"{place}[{number}]")
    else:
        value = meant(wanted) if isinstance(wanted, str) and not isinstance(found, str) else wanted
        if found != (pytest.approx(value) if isinstance(value, float) else value):
            yield f"{place}: {found!r}, not {wanted!r}"


def meant(word: str) -> Any:
    """`unknown` is None, and `1.5 MiB` a number; a number that is not whole is compared as a float."""
    if word == "unknown":
        return None
    number, _, unit = word.partition(" ")
    value = float(number) * UNITS[unit]
    return int(value) if value.is_integer() else value


@pytest.mark.filterwarnings("error")
@cases("formats", *TABLES)
def test_outputs_are_read_as_their_rows_say(tmp_path: Path, case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(UsageError, match=case["refused"]):
            answer(case, tmp_path)
        return
    found = answer(case, tmp_path)
    assert case.keys() & {"claims", "is", "each"}, "the row wants nothing"
    assert found or "each" not in case, "there is none that could be as each is wanted"
    wrong = [*differences(found, case.get("claims", case.get("is", found)))]
    for number, one in enumerate(found if "each" in case else ()):
        wrong += differences(one, case["each"], f"each[{number}]")
    for claim in found if isinstance(found, list) else ():
        assert not isinstance(claim, Claim) or is_consistent(claim), claim
        assert "change" in str(case) or "file" not in str(case) or not getattr(claim, "misfits", ()), claim
    assert not wrong, "\n".join(wrong)


def is_consistent(claim: Claim) -> bool:
    """Whether bytes and seconds give the rate, but for the steps of the rate and of the clock."""
    if not (claim.bytes and claim.seconds and claim.rate_bytes_per_s):
        return True
    slack_s = min(claim.clock_step_s / 2, claim.seconds * 0.999)
    slowest, fastest = claim.bytes / (claim.seconds + slack_s), claim.bytes / (claim.seconds - slack_s)
    step = claim.rate_unit_bytes * 1.001
    return bool(slowest - step <= claim.rate_bytes_per_s <= fastest + step)


@cases("formats", "imports")
def test_results_become_the_trials_of_a_run(tmp_path: Path, case: dict[str, Any]) -> None:
    found = frames.load(importer.take_in(written(tmp_path, case["files"]), tmp_path / "run"))
    wrong = list(differences(found.studies[0], case["study"]))
    if "trials" in case:
        where, columns = case["trials"].get("where", {}), case["trials"]["columns"]
        trials = found.trials.filter(**where).sort(*columns, maintain_order=True).select(*columns)
        wrong += differences(trials.to_dict(as_series=False), columns)
    if "unread" in case:
        said = found.warnings.filter(code="fields-unread")["text"].to_list()
        wrong += differences([text.partition(" is read: ")[2] for text in said], case["unread"])
    if "series" in case:
        wrong += differences(set(found.series["metric"]), case["series"])
    assert not wrong, "\n".join(wrong)
