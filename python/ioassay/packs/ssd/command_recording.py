"""The block requests of any command, recorded as a trace that `simulate` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from ioassay.errors import RunError, ToolError, UsageError
from ioassay.process import supervisor
from ioassay.records.kernel_times import KernelTimes
from ioassay.records.observation import READ, RECORD, WRITE, Calls, Requests, merged
from ioassay.runner import conditions
from ioassay.simulation import traces
from ioassay.verify.witness import Observed, Watch, watch, words

STANDARD_OUTPUT = "-"


@dataclass(frozen=True)
class Recording:
    """A trace that was recorded, and how its command ended."""

    trace: Path
    watched: Observed
    written: Mapping[str, Any]
    """What was written, as `traces.convert` says it."""
    recorded: Sequence[Requests] = ()
    """The requests that were recorded, counted by device and kind."""

    @property
    def times(self) -> dict[str, KernelTimes]:
        """How long the drive took for the recorded `read`s and `write`s, from dispatch to completion."""
        found = {}
        for kind in (READ, WRITE):
            rows = [each for each in self.recorded if each.kind == kind and each.calls.completed]
            if rows:
                calls = reduce(Calls.plus, (each.calls for each in rows))
                found[kind] = KernelTimes(kind, calls, merged(each.latency for each in rows))
        return found

    @property
    def requests(self) -> int:
        return int(self.written["changes"]["given"])

    @property
    def lost(self) -> int:
        """Requests that found no room and are missing in the trace."""
        seen = self.watched.seen
        return seen.health.get("dropped", 0) + seen.health.get("lost", 0) if seen is not None else 0

    @property
    def exit_code(self) -> int | None:
        """The command's own; None where a signal ended it."""
        return self.watched.outcome.exit_code


def record(
    command: Sequence[str | Path],
    output: str | Path,
    *,
    to: str | None = None,
    everybody: bool = False,
    device: str | None = None,
    lose: Sequence[str] = (),
    force: bool = False,
) -> Recording:
    """Run a command and record each request that reaches a block device, with the time of its issue.

    `output` is the trace to write, whose name says the format unless `to` does; .gz and .zst compress. The requests are
    those of the command, or of `everybody`, to every disk or to one `device`. `lose` names what may be lost where the
    format cannot hold it: alignment, devices, kinds. UsageError for a trace that cannot be written so, ToolError where
    requests cannot be watched: that requires root and BPF.
    """
    return run(words(command), Path(output), watch, everybody=everybody, device=device, to=to, lose=lose, force=force)


def run(
    command: Sequence[str], output: Path, watch: Watch, *, everybody: bool, device: str | None, **how: Any
) -> Recording:
    """As `record`, by any way to watch a command; `how` is as in `traces.convert`."""
    conditions.remove_leftovers()
    selected: dict[str, Any] = {"own": not everybody}
    if device is not None:
        try:
            selected["device"] = (Path("/sys/class/block") / Path(device).name / "dev").read_text().strip()
        except OSError:
            raise UsageError(f"--device {device}: no block device is called so; see: lsblk") from None
    traces.check_output(output, how["to"], force=how["force"])
    to_standard_output = str(output) == STANDARD_OUTPUT
    beside = None if to_standard_output else output.absolute().parent  # a recording may need more room than /tmp has
    with supervisor.temporary_folder(".ioassay-record-", beside) as folder:
        watched = watch(command, RECORD, folder, backend="bpf", reads_output=False)
        if watched.seen is None or watched.seen.backend != "bpf":
            raise ToolError(f"requests could not be recorded: {watched.seen.why if watched.seen else ''}")
        requests = folder / "requests.bin"
        if not requests.exists():
            raise RunError("the recording is gone; nothing was written")
        described = {"recording": {"path": str(requests), **selected}}
        of_all = [each for each in watched.seen.block if everybody or each.own]
        recorded = [each for each in of_all if device is None or each.dev == selected["device"]]
        return Recording(output, watched, _written(described, output, **how), recorded)


def _written(described: Mapping[str, Any], output: Path, **how: Any) -> dict[str, Any]:
    """Write the trace. Where its format cannot hold it, nothing is lost: the command may have run for hours."""
    try:
        return traces.convert(described, output, empty=True, **how)
    except UsageError as error:
        if str(output) == STANDARD_OUTPUT:
            raise
        number, whole = 1, output.with_name(f"{output.name}.csv")
        while whole.exists():  # t.csv, t.2.csv, …
            number += 1
            whole = output.with_name(f"{output.name}.{number}.csv")
        traces.convert(described, whole, to="csv", empty=True)
        kept = f"the whole recording is kept as {whole}; change it with: ioassay trace convert {whole} {output}"
        raise UsageError(f"{str(error).rpartition('.tmp: ')[2]}; {kept}") from None
