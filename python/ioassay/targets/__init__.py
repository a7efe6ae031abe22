"""The targets: what is loaded. One file each, one literal list here; `safety` decides what may be written.

`TARGETS` names module and class; a target is imported when a study asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ioassay.errors import StudyError
from ioassay.pack import listed
from ioassay.registry import Contract, Registry
from ioassay.roles import Consent, Target

TARGETS: dict[str, str] = listed(
    "targets",
    {
        "null": "ioassay.targets.file_targets:NullTarget",
        "file": "ioassay.targets.file_targets:FileTarget",
        "folder": "ioassay.targets.file_targets:FolderTarget",
        "device": "ioassay.targets.block_device:DeviceTarget",
    },
)

REGISTRY = Registry(
    "targets",
    "target",
    TARGETS,
    Contract("kind", "inspect", "prepare", "footprints", "load", "close", "abandon", role=Target),
)

_PATHS = ("path", "module")
"""Keys whose values are paths."""


def target(
    spec: Mapping[str, Any], consent: Consent, *, study_folder: Path | None = None, root: Path = Path("/")
) -> Target:
    """The target that a study's `[target]` table describes; StudyError names the key that is wrong.

    Paths in it are relative to the working directory, or to `study_folder` where one is given.
    `root` is where /proc, /sys and /dev are looked for.
    """
    kind = str(spec.get("kind", "null"))
    if why := REGISTRY.refusal(kind):
        raise StudyError(why, key="target.kind")
    placed = dict(spec)
    for key in _PATHS:
        if study_folder is not None and isinstance(spec.get(key), str) and spec[key].strip():
            placed[key] = str(study_folder / Path(spec[key]).expanduser())
    return cast(Target, REGISTRY.load(kind)(placed, consent, root=root))
