"""Title, text and remedy of each threat to validity: one table, filled from the evidence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from string import Formatter
from typing import Any, NamedTuple

from ioassay import units
from ioassay.analysis.threats.threat import Code, Threat
from ioassay.factors import factor_label, level_phrase
from ioassay.narrative import phrases, stability_text
from ioassay.narrative.finding import Finding
from ioassay.stats.result import plain


class Words(NamedTuple):
    """The words of a threat. `text` is a template or, where evidence is by response, a function."""

    title: str
    text: str | Callable[[Threat], str]
    remedy: str = ""
    is_premise: bool = False
    """Whether the numbers are of something else than was asked for: where all are, it is said before any of them."""


def findings(answers: Sequence[Threat]) -> list[Finding]:
    """One finding for each threat."""
    return [_finding(threat, TABLE[threat.code]) for threat in answers]


def _finding(threat: Threat, words: Words) -> Finding:
    remedy, text = _filled(words.remedy, threat), _text(threat)
    premises = [text] if words.is_premise and threat.evidence["everywhere"] else []
    return Finding(
        study=threat.study,
        question="caveats",
        response=threat.response,
        title=_filled(words.title, threat),
        statements=text,
        premises=premises,
        statistics={"code": threat.code, **plain(threat.evidence)},
        caveats=[f"Next step: {remedy}"] if remedy else [],
        severity=threat.severity,
    )


def _text(threat: Threat) -> str:
    template = TABLE[threat.code].text
    text = _filled(template, threat) if isinstance(template, str) else template(threat)
    hosts = threat.evidence.get("hosts")
    return f"On {phrases.hosts(hosts)}: {text}" if hosts else text


class _Evidence(Formatter):
    """Formats of evidence: `{share:percent}`, `{conditions:list}`, `{trials:number of trial}`, `{trials:number}`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "percent":
            return phrases.percent(value)
        if format_spec == "list":
            return phrases.listed([str(item) for item in value])
        if format_spec == "minutes":
            return f"{value / 60:.3g} minutes"
        if format_spec.startswith("number"):
            number, thing = value if isinstance(value, int) else len(value), format_spec.removeprefix("number of ")
            return str(number) if thing == "number" else phrases.count(number, thing)
        return str(super().format_field(value, format_spec))


def _filled(template: str, threat: Threat) -> str:
    fields = {**threat.evidence, "response": phrases.name(threat.response) if threat.response else ""}
    return _Evidence().vformat(template, (), fields)


def _excluded(threat: Threat) -> str:
    counts = [f"{number}× {reason or 'no reason recorded'}" for reason, number in threat.evidence["reasons"].items()]
    single = len(threat.evidence["trials"]) == 1
    were = "was " if single else "were "
    verb = f"{were if threat.code == Code.SKIPPED else ''}{threat.code.removeprefix('trials-')}"
    share = _filled("{trials:number} of {of:number of trial}", threat)
    return f"{share} {verb} and {'is' if single else 'are'} left out: {phrases.listed(counts, 3)}."


def _in_memory(threat: Threat) -> str:
    some = "" if threat.evidence["trials"] == threat.evidence["of"] else "In {trials} of {of:number of trial}: "
    return _filled(f"{some}{{text}}.", threat)


def _few(threat: Threat) -> str:
    if threat.evidence["fewest"] < 2:
        return "Some conditions have one repetition, which gives no uncertainty estimate."
    return _filled("Some conditions have only {fewest} repetitions, which makes intervals wide and tests weak.", threat)


def _unstable(threat: Threat) -> str:
    most = {response: max(over.items(), key=lambda pair: pair[1]) for response, over in threat.evidence["cv"].items()}
    response = max(most, key=lambda name: most[name][1])
    where, cv = most[response]
    limit = f" by more than {phrases.percent(threat.evidence['limit'])}"
    return f"{phrases.name(response)} varies by {phrases.percent(cv)} ({where}).{_others(most, 'vary', limit)}"


def _others(responses: Collection[str], verb: str, rest: str = "") -> str:
    """What holds for the other responses: ` 3 other responses vary as well.`"""
    number = len(responses) - 1
    said = {"vary": ("varies", "vary"), "drift": ("drifts", "drift"), "unsteady": ("is not either", "are not either")}
    return f" {phrases.count(number, 'other response')} {said[verb][number > 1]}{rest}." if number else ""


def _drift(threat: Threat) -> str:
    seen = {response: one for response, one in threat.evidence.items() if isinstance(one, Mapping)}
    most = max(seen, key=lambda response: abs(seen[response]["change"]))
    change, bounds = seen[most]["change"], seen[most]["interval"]
    size = phrases.change(change, bounds["low"], bounds["high"], bounds["confidence"])
    return f"From the first trial to the last, {phrases.noun(most)} {size}.{_others(seen, 'drift')}"


def _unsteady(threat: Threat) -> str:
    known = {response: seen for response, seen in threat.evidence.items() if isinstance(seen, Mapping)}
    most = max(known, key=lambda name: len(known[name]["conditions"]))
    seen = known[most]
    over, late = len(seen["conditions"]), seen["trials"] - seen["trials_attained"]
    where = [f"{over} of {phrases.count(seen['conditions_judged'], 'condition')} over repetitions"] if over else []
    where += [f"{late} of {phrases.count(seen['trials'], 'trial')} over their own time"] if late else []
    others = _others(known, "unsteady")
    text = f"{phrases.name(most)} is not in steady state in {phrases.listed(where)}.{others}"
    return f"{text} {stability_text.CRITERION}"


def _short(threat: Threat) -> str:
    starts = "write caches" if threat.evidence["target"] else "start-up"
    text = f"A trial typically lasts {{median_s:.2g}} s. Effects of {starts} and power states may dominate."
    return _filled(text, threat)


def _saturation(threat: Threat) -> str:
    level = level_phrase(threat.evidence["factor"], threat.evidence["from"])
    text = (
        f"{{response}} changes by at most {{margin:percent}} beyond {level}: a limit is measured there, not the load."
    )
    return phrases.placed(threat.evidence["where"], _filled(text, threat))


def _late_answers(threat: Threat) -> str:
    mean, median, tail = (units.format_ns(threat.evidence[name]) for name in ("mean_ns", "late_p50_ns", "late_p99_ns"))
    text = (
        "In {trials} of {of:number of trial} ({conditions:list}), answers left later than the model says. "
        f"Usually the server waited for a processor. In the worst trial they were {median} late in the median and "
        f"{tail} at the 99th percentile, with a mean latency of {mean}."
    )
    return _filled(text, threat)


def _virtual(threat: Threat) -> str:
    kinds = phrases.listed([str(threat.evidence[key]) for key in ("vm", "container") if threat.evidence.get(key)])
    what = "disk may be shared, cached" if threat.evidence["target"] else "processors may be shared"
    emulated = " The processor is emulated, so no figure is one of hardware." if threat.evidence.get("emulated") else ""
    return f"Measured inside {kinds}.{emulated} The {what} or limited by the host."


def different_work_text(factors: Sequence[str]) -> str:
    """What bogo operations of different work mean for a comparison."""
    return (
        f"A bogo operation is different work for each {phrases.listed([factor_label(name) for name in factors])}. "
        "A higher rate does not mean faster."
    )


_DEVICE = (
    "In {{share_of_claim:number}} of {{of:number of trial}}, the device moved less than {{limit:percent}} of the bytes "
    "that the load claims to have {past} (least: {{least:percent}}; {{conditions:list}}). A cache served the rest."
)
_CACHED = "use direct I/O, a file larger than memory, or name the right disk for the monitor"
_RERUN = "read the raw output of these trials, fix the cause, and run the study again"
TABLE = {
    Code.FAILED: Words("{trials:number of trial} failed", _excluded, _RERUN),
    Code.SKIPPED: Words("{trials:number of trial} skipped", _excluded, _RERUN),
    Code.INCOMPLETE: Words(
        "The run is not complete",
        "{recorded} of {planned} planned trials have a record. Conditions may differ in their number of repetitions.",
        "ioassay run --resume {run}",
    ),
    Code.FEW_REPETITIONS: Words(
        "Only {fewest:number of repetition}",
        _few,
        "repeat each condition at least {enough} times (--repetitions), ten times for a study",
    ),
    Code.IN_MEMORY: Words(
        "Memory in place of a disk", _in_memory, "give a path on the disk that you want to measure", is_premise=True
    ),
    Code.BUFFERED: Words(
        "Buffered I/O",
        "{conditions:number} of {of:number of condition} use the page cache ({conditions:list}). The results may be "
        "those of memory, not of the device.",
        "{remedy}",
    ),
    Code.CACHED_READS: Words("Not all reads reached the device", _DEVICE.format(past="read"), _CACHED),
    Code.CACHED_WRITES: Words("Not all writes reached the device", _DEVICE.format(past="written"), _CACHED),
    Code.UNSTABLE: Words(
        "Repetitions vary",
        _unstable,
        "lengthen the trials, stop other load on the machine (ioassay doctor), or add repetitions",
    ),
    Code.DRIFT: Words(
        "Drift over the run",
        _drift,
        "let the drive settle first (run.cooldown, a longer fill), then measure again",
    ),
    Code.UNSTEADY: Words(
        "Steady state not attained",
        _unsteady,
        "lengthen the trials or add a ramp (ramp_time), and write the target's whole size first",
    ),
    Code.SHORT: Words(
        "Short trials",
        _short,
        "lengthen the trials (params.{key}) to at least {enough_s:g} s, for a study to at least 30 s",
    ),
    Code.SATURATION: Words("{response} saturates", _saturation),
    Code.FEWER_PROCESSORS: Words(
        "One processor fewer under real-time policies",
        "{conditions:list} left one processor to ioassay, and {others:list} did not. With as many workers as "
        "processors, their conditions differ.",
        "set run.affinity to the same processors for all, one less than there are",
    ),
    Code.DIFFERENT_WORK: Words(
        "An operation is not the same work everywhere",
        lambda threat: different_work_text(threat.evidence["factors"]),
        "compare the other factors, at one level of these at a time",
    ),
    Code.DEBUG_BUILD: Words(
        "{tool} is a debug build",
        "In {trials} of {of:number of trial}, {tool} itself reports assertions or missing optimization. It checks its "
        "own state in each operation. Its rates are lower and its processor time is higher than those of a release "
        "build, by a share that differs between loads. Conditions can be compared, and bytes are not affected.",
        "measure with a release build; setup/rocksdb.sh of ioassay's source builds one of db_bench",
    ),
    Code.CALIBRATION: Words(
        "The virtual drive was calibrated on a busy machine",
        "In {trials} of {of:number of trial} ({conditions:list}), the time that a transport takes by itself could not "
        "be measured reliably. It is subtracted from the model's time, so latencies may be too low or too high.",
        "run the study again when the machine is idle (run --wait-quiet)",
    ),
    Code.LATE_ANSWERS: Words(
        "The virtual drive answered late",
        _late_answers,
        "run the study again when the machine is idle (run --wait-quiet), or with target.realtime",
    ),
    Code.FAULTS: Words(
        "The virtual drive misbehaved on purpose",
        "In {trials} of {of:number of trial} ({conditions:list}), injected faults struck {fired:number of time}. These "
        "results are those of a faulty drive.",
    ),
    Code.DEVICE_BUSY: Words(
        "The device was never idle",
        "{devices:list} had a request in flight at least {limit_percent:g} % of the time in {trials:number of trial} "
        "({conditions:list}). This saturates a disk that serves one request at a time. A drive that works in "
        "parallel may still take more.",
        "compare with a deeper queue: if throughput grows, the device was not saturated",
    ),
    Code.VIRTUAL: Words("Virtualised host", _virtual),
    Code.GOVERNOR: Words(
        "CPU frequency was not fixed",
        "The frequency governor {governors:list} was kept: submission costs may vary with the CPU clock.",
        "leave run.governor at 'performance'",
    ),
    Code.CLOCK: Words(
        "Slow clock",
        "The kernel's clock source is {source}: each reading costs microseconds, which every latency includes.",
        "boot with clocksource=tsc where the processor's counter is stable",
    ),
    Code.INTERRUPTED: Words(
        "The run was interrupted",
        "The run paused {pauses:number of time} for more than {limit_s:minutes} (longest: {longest_s:minutes}). The "
        "machine may have changed in between.",
        "check the drift over the run, and measure again without a pause where it matters",
    ),
    Code.SEQUENTIAL_STOPPING: Words(
        "Repetition was adaptive",
        "Each condition was repeated until the interval of {metric} was narrow enough ({trials} trials). Stopping at a "
        "narrow interval makes its coverage slightly lower than stated.",
        "use a fixed number of repetitions where exact coverage matters",
    ),
}
