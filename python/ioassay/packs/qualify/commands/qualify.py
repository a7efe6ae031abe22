"""ioassay qualify: the tests of SNIA's Performance Test Specification on one drive."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from ioassay.api.execution import RunOptions
from ioassay.cli import console, options, session, syntax
from ioassay.errors import UsageError

_text = partial(syntax.row, str | None, None)
_KEYS = {
    "purge": syntax.row(
        *(str, "auto", "WAY"), "How it is purged: format, sanitize, discard or none; auto takes the best it has."
    ),
    "size": _text("SIZE", "Size of the file, or of the part of the device that is loaded; by default all of it."),
    "scale": syntax.row(str, "full", "NAME", "quick: rounds of a second, on 64 MiB of a file; not conforming."),
}


@syntax.takes({**_KEYS, "destroy_data": options.CONSENT["destroy_data"]})
def qualify(
    target: Annotated[str | None, syntax.argument("TARGET", "A block device, or a file that is made.")] = None,
    *,
    output: options.Output = None,
    live: options.Live = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Qualify a drive as SNIA's Performance Test Specification does: all data on it is lost.

    Purges and preconditions the drive before each test, and runs rounds until steady state: write saturation, IOPS,
    throughput, latency. The full scale takes days, --scale quick up to half an hour; what departs from the
    specification is listed. 'ioassay run --resume RUN' continues a stopped one.

    Examples: ioassay qualify test --scale quick; ioassay qualify /dev/nvme0n1 --destroy-data NAME
    """
    from ioassay.packs.qualify.qualification_study import Qualification

    chosen = RunOptions(**options.of_run(given))
    if target is None:
        raise UsageError("no target given; expected a block device such as /dev/nvme0n1, or a file to make")
    study = Qualification.of(target, **{name: given[name] for name in _KEYS})
    ended = session.measure(lambda announce: study.begin(output, announce, chosen), live=live)
    console.answer(ended.as_dict, lambda: session.say(ended))
    session.end(ended)
