"""Title, text and remedy of each threat to validity; `catalogue/threats.toml` has them by the threat's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ioassay.analysis.threats import Code, Threat
from ioassay.factors import factor_label
from ioassay.narrative import phrases, stability_text
from ioassay.narrative.finding import Finding
from ioassay.narrative.say import Say, say, templates
from ioassay.narrative.values import Level, Quantity, Response, Trend
from ioassay.stats.result import Interval, plain


def different_work(factors: Sequence[str]) -> Say:
    """What bogo operations of different work mean for a comparison."""
    return say("threats.different-work", factors=[factor_label(name) for name in factors])


def finding(threat: Threat) -> Finding:
    """The finding of a threat."""
    said = list(_statements(threat))
    if hosts := threat.evidence.get("hosts"):
        said[0] = say("threats.on_hosts", hosts=hosts, text=said[0])
    has_remedy = f"next_{threat.code}" in templates("threats")
    return Finding(
        study=threat.study,
        question="caveats",
        response=threat.response,
        title=str(_say(threat, "title_{}")),
        statements=said,
        premises=said if threat.evidence.get("everywhere") else [],  # the numbers are of something else than was asked
        statistics={"code": threat.code, **plain(threat.evidence)},
        caveats=[str(say("threats.next", step=_say(threat, "next_{}")))] if has_remedy else [],
        severity=threat.severity,
    )


def _say(threat: Threat, name: str = "{}", **values: Any) -> Say:
    """A sentence of the threat, filled from its evidence; `values` are typed, in place of it or in addition."""
    return say(
        f"threats.{name.format(threat.code)}", **{**threat.evidence, "response": Response(threat.response)} | values
    )


def _statements(threat: Threat) -> Iterator[Say]:
    """What the evidence says; of most threats the sentence of their code."""
    seen, others = threat.evidence, list[str]()  # other responses that the same is true of
    match threat.code:
        case Code.FAILED | Code.SKIPPED:
            reasons = seen["reasons"].items()
            codes = [(f"threats.reason{'' if reason else '_unknown'}", number, reason) for reason, number in reasons]
            yield _say(threat, reasons=[say(code, number=number, reason=reason) for code, number, reason in codes])
        case Code.FEW_REPETITIONS if seen["fewest"] < 2:
            yield _say(threat, "{}_one")
        case Code.IN_MEMORY if seen["trials"] < seen["of"]:
            yield _say(threat, "{}_part")
        case Code.SHORT if seen["target"]:
            yield _say(threat, "{}_target")
        case Code.UNSTABLE:
            worst = {name: max(over.items(), key=lambda pair: pair[1]) for name, over in seen["cv"].items()}
            most = max(worst, key=lambda name: worst[name][1])
            where, cv = worst[most]
            yield say("threats.unstable", name=Response(most), cv=cv, where=where)
            others = [name for name in worst if name != most]
        case Code.DRIFT:
            most = max(seen, key=lambda name: abs(seen[name]["change"]))
            change = Trend(seen[most]["change"], Interval(**seen[most]["interval"]))
            yield say("threats.drift", name=Response(most), change=change)
            others = [name for name in seen if name != most]
        case Code.UNSTEADY:
            most = max(seen, key=lambda name: len(seen[name]["conditions"]))
            one = seen[most]
            places = {
                "over_repetitions": (len(one["conditions"]), one["conditions_judged"]),
                "over_own_time": (one["trials"] - one["trials_attained"], one["trials"]),
            }
            where = [say(f"threats.{code}", unsteady=number, of=of) for code, (number, of) in places.items() if number]
            yield say("threats.unsteady", name=Response(most), where=where)
            others = [name for name in seen if name != most]
        case Code.SATURATION:
            level = Level(seen["factor"], seen["from"])
            values = {"response": Response(threat.response), "margin": seen["margin"], "level": level}
            yield Say("threats.saturation", values, seen["where"])
        case Code.DIFFERENT_WORK:
            yield different_work(seen["factors"])
        case Code.LATE_ANSWERS:
            mean, *late = [Quantity("drive.late.p50", seen[f"{name}_ns"]) for name in ("mean", "late_p50", "late_p99")]
            yield _say(threat, mean=mean, late=late[0], tail=late[1])
        case Code.VIRTUAL:
            yield _say(threat, kinds=[seen[name] for name in ("vm", "container") if seen.get(name)])
            if seen.get("emulated"):
                yield say("threats.emulated")
            yield say("threats.shared_target" if seen["target"] else "threats.shared_processors")
        case Code.SEQUENTIAL_STOPPING:
            yield _say(threat, metric=Response(seen["metric"]))
        case _:
            yield _say(threat)
    if others:
        names = [phrases.noun(name) for name in others]
        yield say(f"threats.{threat.code}_others", names=names, limit=seen.get("limit"))
    if threat.code == Code.UNSTEADY:
        yield stability_text.CRITERION
