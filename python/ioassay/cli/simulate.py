"""ioassay simulate: a trace over a simulated SSD, with one write buffer or several beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioassay.cli import console, simulate_options, syntax
from ioassay.errors import UsageError


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("simulate")(simulate)


def simulate(**given: Any) -> None:
    """Run a trace on a simulated SSD and report response times and the drive's activity.

    Several policies, with commas, are simulated one after the other and compared.
    """
    from ioassay import simulator
    from ioassay.cli import simulate_text
    from ioassay.cli.trace import cache_note

    json = console.use_json(given["json"])
    if given["list_policies"]:
        known = simulator.policies()
        console.emit({"policies": known}) if json else simulate_text.policies(known)
        return
    trace, described = _trace(given)
    runs = _runs({name: given[name] for name in simulator.NAMES if given[name] is not None})
    if len(runs) > 1 and str(trace) == "-":
        hint = "write it to a file first: ioassay trace make FILE"
        raise UsageError(f"standard input can be simulated once and {len(runs)} policies were asked for; {hint}")
    folders = _folders(given, list(runs))
    drives = {policy: simulator.check(options) for policy, options in runs.items()}
    found = []
    for policy, options in runs.items():
        done = simulator.simulate(described, **options)
        summary = {"trace": str(trace), "format": done.raw["format"], "policy": policy, **done.summary}
        summary["warnings"] = [vars(warning) for warning in done.warnings]
        found.append(summary)
        cache_note(done.raw)
        if policy in folders:
            simulator.save(done, folders[policy], {**summary, "options": options}, csv=given["csv"], force=True)
        if len(runs) == 1 and not json:
            simulate_text.describe(done, drives[policy], options, str(trace))
    _warn(found)
    if json:
        console.emit(found[0] if len(found) == 1 else {"simulations": found})
    elif len(found) > 1:
        simulate_text.compare(found)


simulate.__signature__ = simulate_options.signature()  # type: ignore[attr-defined]


def _trace(given: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The trace and its description, read and prepared as the options say."""
    from ioassay import simulator, traces
    from ioassay.cli.trace import preparing, reading

    if given["trace"] is None:
        raise UsageError("no trace is given (see: ioassay simulate --help)")
    prepare = preparing({**given, "page": given["page"] or simulator.NAMES["page"].default})
    trace = given["trace"]
    read, cache = reading(given), not given["no_cache"]
    return trace, traces.source(trace, format=given["format"], read=read, prepare=prepare, cache=cache)


def _runs(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of each policy. One that only some of them know is for those alone."""
    from ioassay import simulator

    known = {each["name"]: set(each["options"]) for each in simulator.policies()}
    wanted = [name.strip() for name in options.get("policy", "none").split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"policy is '{name}', wanted {', '.join(known)}")
    special = set().union(*known.values())
    for name in special & options.keys() - set().union(*(known[policy] for policy in wanted)):
        able = ", ".join(policy for policy in known if name in known[policy])
        raise UsageError(f"--{name.replace('_', '-')} is an option of {able}, and the policy is {', '.join(wanted)}")
    return {
        policy: {
            **{name: value for name, value in options.items() if name not in special or name in known[policy]},
            "policy": policy,
        }
        for policy in wanted
    }


def _warn(found: list[dict[str, Any]]) -> None:
    """Each warning once, with the policies that it is about where there are several."""
    about: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for summary in found:
        for warning in summary["warnings"]:
            about.setdefault(tuple(warning.items()), []).append(summary["policy"])
    for fields, policies in about.items():
        warning = dict(fields)
        text = warning["text"] if len(found) == 1 else f"{', '.join(policies)}: {warning['text']}"
        console.warnings([{**warning, "text": text}])


def _folders(given: Mapping[str, Any], policies: list[str]) -> dict[str, Path]:
    """Where what is simulated goes, after a look that it may."""
    from ioassay.simulator import result_files

    if given["output"] is None:
        if given["csv"] or given["force"]:
            raise UsageError(f"--{'csv' if given['csv'] else 'force'} goes with --output DIR")
        return {}
    output: Path = given["output"]
    folders = {policies[0]: output} if len(policies) == 1 else {policy: output / policy for policy in policies}
    for folder in folders.values():
        result_files.check(folder, csv=given["csv"], force=given["force"])
    return folders
