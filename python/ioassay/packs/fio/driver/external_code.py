"""What a job does that no check of paths can see: programs that it runs, code that it loads, storage of other machines.

Each needs the user's consent (`--allow-exec`). Engines are known by a list of those whose effects are files and
devices of this machine: an engine that is not on it counts as one that writes elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ioassay.packs.fio.driver.fio_options import words
from ioassay.packs.fio.driver.section import SPDK, Section
from ioassay.roles import External

_LOCAL = frozenset(
    words(
        "sync psync vsync pvsync pvsync2 libaio posixaio solarisaio io_uring io_uring_cmd mmap splice sg null cpuio "
        "falloc ftruncate filecreate filestat filedelete dircreate dirstat dirdelete fsync e4defrag mtd pmemblk "
        "libpmem dev-dax"
    )
)
_NETWORK = {
    "net": "sends to another host, or listens on every network interface",
    "netsplice": "sends to another host, or listens on every network interface",
    "rdma": "sends to another host, or listens there",
}
_COMMANDS = ("exec_prerun", "exec_postrun")


def externals(job: Section) -> Iterator[External]:
    """All of one job, each by the option that does it."""
    for name in _COMMANDS:
        if command := job.options.get(name):
            yield External(f"[{job.name}] {name}={command}", "runs a command through a shell")
    if "profile" in job.options:
        yield External(f"[{job.name}] profile={job.options['profile']}", "replaces the job by one of fio's own")
    for name, value in job.options.items():
        if "'" in value and any(word in value for word in ("$pagesize", "$mb_memory", "$ncpus")):
            yield External(f"[{job.name}] {name}={value}", "gives its text to a shell")
    if effect := _of_engine(job.options):
        yield External(f"[{job.name}] ioengine={job.options['ioengine']}", effect)


def _of_engine(options: Mapping[str, str]) -> str:
    """What the engine does elsewhere; '' for one that loads this machine's files and devices."""
    job = Section("", options)
    text = options.get("ioengine", "")
    if text.startswith("external:") or "/" in text:
        return "loads a program's code into fio"
    if job.engine in _NETWORK:
        return _NETWORK[job.engine]
    if job.engine == "exec":
        return f"runs the program {options.get('program', 'that it names')}"
    if job.engine in _LOCAL or job.engine in SPDK or not job.writes:
        return ""
    if job.engine == "nbd":
        return f"writes to the server {options['uri']}, which cannot be examined" if "uri" in options else ""
    return "writes to storage that cannot be examined"
