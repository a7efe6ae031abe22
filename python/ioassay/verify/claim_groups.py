"""Which claims are judged together, and which files and sessions belong to them.

Claims of passes over one file (IOzone, filesuite) take the sessions of that file in the order of time, one each; all
others are summed by kind and by the files that they name. Where calls were not told apart by file, everything of one
kind is judged together, and what was not watched apart from it. The work grows with claims and sessions, not with
their product.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from ioassay.formats import conventions
from ioassay.records.observation import SYSCALLS, WRITE, Calls, File, Observation, Session
from ioassay.records.record import Claim

KEYS, MIXED, TRIM = "keys", "mixed", "trim"
MAPPED = "mmap"
"""The engine whose reads and writes are no calls."""
NULL = "null"
"""The engine that does nothing."""
LAYER_OF = {"libaio": "aio", "io_uring": "uring", "splice": SYSCALLS}
"""What has to be watched to see the I/O of these engines, which is in no totals of a process."""
_WITHOUT_CALLS = (MAPPED, NULL)

# Files that programs open on their own account. Folders and endings count for files that are only read.
_OWN_FOLDERS = ("/usr/", "/lib/", "/lib32/", "/lib64/", "/bin/", "/sbin/", "/etc/", "/opt/", "/run/", "/snap/")
_OWN_ENDINGS = (".so", ".py", ".pyc", ".mo", ".fio", ".ini", ".conf", ".cfg", ".sh", ".jar", ".pem")
_OWN_PARTS = (".so.", "/locale/", "/gconv/", "/terminfo/")
_NEVER = ("/proc/", "/sys/")
_STORAGE = frozenset({"regular", "block"})
_LONGEST_PATH = 255
"""Longer ones are cut where they are recorded (PATH_BYTES in crates/witness/bpf/shapes.h)."""


@dataclass(frozen=True)
class Group:
    """Claims that are judged together on the same evidence."""

    places: Sequence[int]
    """Where they stand among all claims."""
    claims: Sequence[Claim]
    told_apart: bool
    """Whether calls are known by file: then `sessions` are all of theirs."""
    sessions: Sequence[Session] = ()
    files: Sequence[File] = ()
    named: bool = False
    """They name their files, and these were used."""
    missing: Sequence[str] = ()
    """Files that they name and that nobody opened."""
    one_pass: bool = False
    """One claim with its own session."""
    layout: Sequence[Session] = ()
    """Sessions of its files in which the tool made them before it began; not among `sessions`."""
    others: Sequence[Session] = ()
    """Where nobody opened the files that they surely mean: those of files that no claim names."""
    outside: Sequence[Session] = ()
    """Sessions of its files before or after the life of the processes whose claims they are; not among `sessions`."""
    counted: Sequence[Session] = ()
    """Sessions of the files whose reads are what a claim of sparse writes counts."""
    overflowed: bool = False
    """More files or sessions were used than the witness keeps apart."""
    shared: bool = False
    """Another group names its files as well, and one of both sums up reads and writes: whose a call is, is unknown."""


def calls_of(session: Session, kind: str) -> Calls:
    """What was done through it of the claim's kind."""
    if kind == MIXED:
        return session.read.plus(session.write)
    return session.write if kind == "write" else session.read


def groups(claims: Sequence[Claim], observation: Observation) -> list[Group]:
    """Every claim in exactly one group, in the order of their first claims."""
    overflowed = any(observation.health.get(f"untracked_{name}") for name in ("files", "sessions"))
    if SYSCALLS not in observation.layers or overflowed:
        kinds: dict[tuple[str, str], list[int]] = {}
        unseen = {engine for engine, layer in LAYER_OF.items() if layer not in observation.layers}
        for place, claim in enumerate(claims):
            way = claim.engine if claim.engine in unseen else _way(claim)
            kinds.setdefault((claim.kind, way), []).append(place)
        files, listed = list(observation.files), kinds.values()
        return [Group(at, [claims[p] for p in at], False, files=files, overflowed=overflowed) for at in listed]
    index = _Index(observation, claims)
    in_passes = [at for at, claim in enumerate(claims) if conventions(claim.source).passes and len(claim.paths) < 2]
    rest = sorted(set(range(len(claims))) - set(in_passes))
    found = [*_passes(in_passes, claims, index), *_sums(rest, claims, index)]
    return sorted(found, key=lambda group: group.places[0])


class _Index:
    def __init__(self, observation: Observation, claims: Sequence[Claim]) -> None:
        self.sessions: dict[int, list[Session]] = {}
        for session in observation.sessions:
            self.sessions.setdefault(session.file, []).append(session)
        self.files = {file.id: file for file in observation.files}
        self._by_identity = {f"{file.dev}:{file.inode}": file for file in observation.files}
        self._by_last: dict[str, list[File]] = {}
        for file in observation.files:
            for path in _names(file):
                self._by_last.setdefault(posixpath.basename(path), []).append(file)
        self._unnamed = [
            file for file in observation.files if file.kind in _STORAGE and not 0 < len(file.path) < _LONGEST_PATH
        ]
        """Open before, or with a path that was cut."""
        self._named = {key: self._resolve(key) for key in dict.fromkeys(tuple(claim.paths) for claim in claims)}
        self._claimed = {file.id for files, _ in self._named.values() for file in files}
        inputs = [one for one in claims if one.kind == "read" and "sides-unknown" in one.doubts and one.ended_ns]
        self._of_inputs = [(claim.bytes, claim.operations) for claim in inputs if not claim.paths]

    def of(self, claim: Claim) -> tuple[list[File], bool, list[str]]:
        """Files of the claim, whether it names them, and which of its names nobody opened."""
        files, missing = self._named[tuple(claim.paths)]
        if not claim.paths and (streams := self._streams(claim)):
            return streams, True, []
        # A user means the files that are named, and no others; a tool uses those that it was given.
        if files or (missing and (claim.source == "user" or self._sure(claim))):
            return files, bool(files), missing
        return self.relevant(claim.kind), False, missing

    def _streams(self, claim: Claim) -> list[File]:
        """The file or pipe that its process had as its standard output; of inputs, which are not watched, those of
        which exactly as much was read in the life of the process, if there are as many as such claims."""
        if output := _stream(claim):
            return [self._by_identity[output]] if output in self._by_identity else []
        amounts, found = (claim.bytes, claim.operations), list[File]()
        if not (alike := self._of_inputs.count(amounts)):
            return []
        for number, sessions in self.sessions.items():
            calls = [one.read for one in sessions if one.read.calls and is_within(one.read, [claim])]
            made, volume = sum(part.calls - part.errors for part in calls), sum(part.bytes for part in calls)
            if calls and amounts in ((volume, made), (volume, made - 1)):  # one finds the end of the file
                found.append(self.files[number])
        return found if len(found) == alike else []

    def counted(self, claim: Claim) -> list[Session]:
        """Sessions of the files whose reads a claim counts, those in the life of its process."""
        files, missing = self._resolve(claim.counted_paths)
        sessions = [] if missing else self.in_time(files)
        return [session for session in sessions if is_within(session.read, [claim])]

    def _sure(self, claim: Claim) -> bool:
        """Not where a file of the same name lies elsewhere (another root may hide it), or an unnamed one was used."""
        same = any(posixpath.basename(path) in self._by_last for path in claim.paths)
        moved = sum(calls_of(session, claim.kind).bytes for session in self.in_time(self._unnamed))
        return claim.paths_stated and not same and moved <= (claim.bytes or 0) / 2

    def others(self, claim: Claim) -> list[Session]:
        """What was used of the claim's kind and is named by no claim, where the names of this one are sure."""
        if not self._sure(claim):
            return []
        files = [file for file in self.relevant(claim.kind) if file.id not in self._claimed]
        return self.in_time(files)

    def _resolve(self, paths: Sequence[str]) -> tuple[list[File], list[str]]:
        found: dict[int, File] = {}
        missing = []
        for path in paths:
            last = posixpath.basename(posixpath.normpath(path))
            here = [file for file in self._by_last.get(last, ()) if any(_is(path, name) for name in _names(file))]
            here = [file for file in here if file.kind != "directory"]  # synchronised, and its files are meant
            inside = [file for file in self.files.values() if any(_lies_in(path, name) for name in _names(file))]
            # The recorded path of a long one is its beginning; which file it is, is not known where several may be.
            cut = [file for file in self._unnamed if file.path and path.startswith(file.path.rstrip("\ufffd"))]
            here = here or inside or (cut if len(cut) == 1 else [])
            found.update({file.id: file for file in here})
            missing += [] if here else [path]
        return list(found.values()), missing

    def relevant(self, kind: str) -> list[File]:
        """Files that are no program's own; those that were open before only where there are no others."""
        used = []
        for file in self.files.values():
            sessions = self.sessions.get(file.id, ())
            own = is_of_system(file.path) and not any(session.write.calls for session in sessions)
            if file.kind not in _STORAGE or file.path.startswith(_NEVER) or own:
                continue
            if any(calls_of(session, kind).calls for session in sessions):
                used.append(file)
        return [file for file in used if file.path] or used

    def in_time(self, files: Iterable[File]) -> list[Session]:
        found = [session for file in files for session in self.sessions.get(file.id, ())]
        return sorted(
            found,
            key=lambda one: (
                one.opened_ns or min((part.first_ns for part in (one.read, one.write) if part.calls), default=0)
            ),
        )


def is_of_system(path: str) -> bool:
    """Whether programs open a file of this path on their own account, as far as a path can tell."""
    looks = path.startswith((*_OWN_FOLDERS, *_NEVER)) or path.endswith(_OWN_ENDINGS)
    return looks or any(part in path for part in _OWN_PARTS)


def _names(file: File) -> list[str]:
    return [file.path, *([file.other_path] if file.other_path else [])]


def _is(named: str, opened: str) -> bool:
    """Whether a file that was opened is the one that is named: one of both paths may be relative to a folder."""
    short, long = sorted((posixpath.normpath(named), posixpath.normpath(opened)), key=len)
    return bool(opened) and (short == long or (not short.startswith("/") and long.endswith(f"/{short}")))


def _lies_in(folder: str, opened: str) -> bool:
    folder = posixpath.normpath(folder)
    return opened.startswith(f"{folder}/") or (not folder.startswith("/") and f"/{folder}/" in opened)


def _passes(places: Sequence[int], claims: Sequence[Claim], index: _Index) -> list[Group]:
    queues: dict[tuple[str, ...], tuple[list[Session], list[int]]] = {}
    found = []
    for place in places:
        claim = claims[place]
        files, named, missing = index.of(claim)
        if tuple(claim.paths) not in queues:
            # Opens that only create, truncate or synchronise are no passes.
            used = files if claim.paths else [*index.relevant("read"), *index.relevant("write")]
            sessions = index.in_time({file.id: file for file in used}.values())
            moving = [session for session in sessions if session.read.calls or session.write.calls]
            queues[tuple(claim.paths)] = (moving, [0])
        queue, at = queues[tuple(claim.paths)]
        own: list[Session] = []
        if claim.engine != MAPPED:
            if "layout" in claim.unreported:  # the file was written beforehand, in a session of its own
                at[0] = _next(queue, at[0], "write") + 1
            at[0] = _next(queue, at[0], claim.kind)
            own = list(queue[at[0] : at[0] + 1])
            at[0] += 1 + claim.silent_passes
        files = [file for file in files if any(session.file == file.id for session in own)]
        others = [] if named else index.others(claim)
        found.append(Group([place], [claim], True, own, files, named, missing, one_pass=True, others=others))
    return found


def _next(queue: Sequence[Session], start: int, kind: str) -> int:
    while start < len(queue) and not calls_of(queue[start], kind).calls:
        start += 1
    return start


def _sums(places: Sequence[int], claims: Sequence[Claim], index: _Index) -> list[Group]:
    """By kind, and by files that are named: those that share one are one. What makes no calls stands apart."""
    members: dict[int, list[int]] = {}
    owner: dict[tuple[str, str, str], int] = {}
    for place in places:
        claim = claims[place]
        names = [(claim.kind, _way(claim), path) for path in claim.paths or (_stream(claim),)]
        roots = sorted({owner[name] for name in names if name in owner} | {place})
        first = roots[0]
        for root in roots[1:]:
            members.setdefault(first, []).extend(members.pop(root, []))
        members.setdefault(first, []).append(place)
        for name in names:
            owner[name] = first
        if len(roots) > 2:
            owner.update({name: first for name, root in owner.items() if root in roots})
    called = {path for _, way, path in owner if not way}
    of_both = {path for kind, _, path in owner if kind == MIXED} & {path for kind, _, path in owner if kind != MIXED}
    return [_sum(sorted(group), claims, index, called, of_both) for group in members.values()]


def _sum(places: Sequence[int], claims: Sequence[Claim], index: _Index, called: Set[str], of_both: Set[str]) -> Group:
    """`called` are files that claims of calls name: what was called for is theirs. Groups share those `of_both`."""
    here = [claims[place] for place in places]
    if here[0].engine == NULL:
        return Group(places, here, True)
    files: dict[int, File] = {}
    missing: list[str] = []
    named = True
    for claim in here:
        found, by_name, lost = index.of(claim)
        files.update({file.id: file for file in found})
        named &= by_name
        missing += [path for path in lost if path not in missing]
    shared = any(of_both & {*claim.paths} for claim in here)
    sessions = index.in_time(files.values())
    layout = _layout(here[0], sessions)
    kept = {id(session) for session in layout}
    sessions = [session for session in sessions if id(session) not in kept]
    if here[0].engine == MAPPED and any(path in called for one in here for path in one.paths or ("",)):
        sessions = [session for session in sessions if not calls_of(session, here[0].kind).calls]
    others = [] if files else index.others(here[0])
    outside = _outside(here, sessions)
    sessions = [session for session in sessions if session not in outside]
    counted = [session for claim in here for session in index.counted(claim)]
    return Group(places, here, True, sessions, list(files.values()), named and not shared, missing,
                 layout=layout, others=others, outside=outside, counted=counted, shared=shared)  # fmt: skip


def is_within(calls: Calls, claims: Sequence[Claim]) -> bool:
    """Whether some of these calls may be of a process that printed one of the claims."""
    return any(calls.first_ns <= (claim.ended_ns or math.inf) and calls.last_ns >= claim.began_ns for claim in claims)


def _outside(claims: Sequence[Claim], sessions: Sequence[Session]) -> list[Session]:
    """What other processes did before all processes of the claims began, between them or after they ended.

    Processes that a tool leaves behind may do its work as well: of most tools it is others' only if without it as much
    was done as is claimed.
    """
    if not all(claim.began_ns and claim.ended_ns for claim in claims):
        return []
    kind = claims[0].kind
    made = [(session, calls) for session in sessions if (calls := calls_of(session, kind)).calls]
    outside = [session for session, calls in made if not is_within(calls, claims)]
    if all(conventions(claim.source).one_process for claim in claims):
        return outside
    own = [calls for _, calls in made if is_within(calls, claims)]
    lacks_bytes = sum(calls.bytes for calls in own) < sum(claim.bytes or 0 for claim in claims)
    lacks_calls = sum(calls.calls for calls in own) < sum(claim.operations or 0 for claim in claims)
    return [] if not own or lacks_bytes or lacks_calls else outside


def _stream(claim: Claim) -> str:
    """The standard output of a claim that may be of what was written to it."""
    return claim.output if claim.kind == WRITE and "sides-unknown" in claim.doubts else ""


def _way(claim: Claim) -> str:
    return claim.engine if claim.engine in _WITHOUT_CALLS else ""


def _layout(claim: Claim, sessions: Sequence[Session]) -> list[Session]:
    """Sessions that only write, of a tool that opens its files for both to load them, or maps them."""
    written = [session for session in sessions if session.write.calls]
    if claim.engine == MAPPED:
        return [session for session in written if not session.read.calls]
    loading = [session for session in sessions if session.write.calls or (claim.kind == MIXED and session.read.calls)]
    if not conventions(claim.source).layout_apart or not any({"read", "write"} <= {*one.flags} for one in loading):
        return []
    return [session for session in written if "read" not in session.flags]
