"""What a safety check found, and the refusal made of it: each finding by name, and how to go on.

Consent (`--destroy-data`) covers data. What is in use now, by a mount, swap, a holder or a program, it never covers:
that has to be ended first, by hand, which is the moment to notice a mistake.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay.errors import SafetyRefusal
from ioassay.roles import Consent
from ioassay.targets import device_identity

_SHOWN = 12


@dataclass(frozen=True)
class Finding:
    """One reason not to write. `text` is a sentence that names what and where."""

    text: str
    in_use: bool
    """True: consent does not cover it."""
    remedies: tuple[str, ...] = ()
    """The commands that end the use, in their order."""
    beside: bool = False
    """True: not the target itself is in use, but something beside it on the same disk."""


def refuse_unless_consented(subject: str, findings: Sequence[Finding], names: Sequence[str], consent: Consent) -> None:
    """SafetyRefusal when something is in use, or when there is data and `consent` has none of `names`."""
    consented = any(device_identity.consents(list(names), given) for given in consent.names)
    if any(finding.in_use for finding in findings) or (findings and not consented):
        raise SafetyRefusal("\n".join(_lines(subject, findings, names, consent, consented)))


def _lines(
    subject: str, findings: Sequence[Finding], names: Sequence[str], consent: Consent, consented: bool
) -> list[str]:
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: not finding.in_use)
    lines = [f"{subject}: refused, and nothing was written to it:"]
    lines += [f"  - {finding.text}" for finding in ordered[:_SHOWN]]
    if len(ordered) > _SHOWN:
        lines.append(f"  - and {len(ordered) - _SHOWN} more findings")
    return lines + _ways_on(ordered, names, consent, consented)


def _ways_on(findings: Sequence[Finding], names: Sequence[str], consent: Consent, consented: bool) -> list[str]:
    lines = []
    steps = (step for finding in findings for step in finding.remedies)
    remedies = list(dict.fromkeys(steps))
    in_use = any(finding.in_use for finding in findings)
    if in_use:
        ends = f"; first: {'; '.join(remedies)}" if remedies else ""
        lines.append(f"What is in use is not written to, whatever was consented to{ends}")
    if not consented and names:
        option = f"--destroy-data={shlex.quote(names[0])}"
        lines.append(f"{'Then, if' if in_use else 'If'} all data on it may be lost, go on with {option}")
    if consent.names and not consented:
        given = ", ".join(consent.names)
        lines.append(f"(--destroy-data={given} does not name it; it answers to {', '.join(names)})")
    return lines
