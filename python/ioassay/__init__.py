"""ioassay: how fast is this storage, or this kernel subsystem, really, and why?

    import ioassay as ia

    run = ia.Study.read("quick").run()
    run.findings, run.trials, run.report()

docs/python.md is the first page about it. The package root stays light: a name is imported when it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ioassay._core import __version__ as __version__
    from ioassay.api.diagnosis import Diagnosis as Diagnosis
    from ioassay.api.diagnosis import doctor as doctor
    from ioassay.api.diagnosis import restore_settings as restore_settings
    from ioassay.api.publication import Bundle as Bundle
    from ioassay.api.run_results import Run as Run
    from ioassay.api.run_results import open as open
    from ioassay.api.study import Plan as Plan
    from ioassay.api.study import Study as Study
    from ioassay.errors import BrokenPlugin as BrokenPlugin
    from ioassay.errors import ConditionError as ConditionError
    from ioassay.errors import Contradicted as Contradicted
    from ioassay.errors import InputError as InputError
    from ioassay.errors import Interrupted as Interrupted
    from ioassay.errors import IoassayError as IoassayError
    from ioassay.errors import IoassayWarning as IoassayWarning
    from ioassay.errors import RunError as RunError
    from ioassay.errors import SafetyRefusal as SafetyRefusal
    from ioassay.errors import StartError as StartError
    from ioassay.errors import StudyError as StudyError
    from ioassay.errors import ToolError as ToolError
    from ioassay.errors import UnreadableFile as UnreadableFile
    from ioassay.errors import UsageError as UsageError
    from ioassay.narrative.finding import Finding as Finding
    from ioassay.packs.comparison.comparison_results import Comparison as Comparison
    from ioassay.packs.comparison.comparison_results import compare as compare
    from ioassay.packs.comparison.turns import turns as turns
    from ioassay.packs.fio.quick_study import quick as quick
    from ioassay.packs.foreign.importer import import_results as import_results
    from ioassay.packs.history.history_store import Store as Store
    from ioassay.packs.history.history_store import history as history
    from ioassay.packs.live.live_page import LivePage as LivePage
    from ioassay.packs.qualify.qualification_study import Qualification as Qualification
    from ioassay.packs.qualify.qualification_study import qualify as qualify
    from ioassay.packs.ssd import simulator as simulator
    from ioassay.packs.ssd.command_recording import Recording as Recording
    from ioassay.packs.ssd.command_recording import record as record
    from ioassay.packs.ssd.simulator import simulate as simulate
    from ioassay.packs.ssd.simulator import sweep as sweep
    from ioassay.packs.ssd.simulator.results import Simulation as Simulation
    from ioassay.packs.ssd.twin.drift import Drift as Drift
    from ioassay.packs.ssd.twin.drift import drift as drift
    from ioassay.packs.ssd.twin.learning import Twin as Twin
    from ioassay.packs.ssd.twin.learning import learn as learn
    from ioassay.packs.tuning.parameter_search import Search as Search
    from ioassay.packs.tuning.parameter_search import tune as tune
    from ioassay.packs.virtual_drive.served_drive import ServedDrive as ServedDrive
    from ioassay.packs.virtual_drive.served_drive import serve as serve
    from ioassay.packs.virtual_drive.served_drive import serve_group as serve_group
    from ioassay.packs.witness.witness_judgement import Judgement as Judgement
    from ioassay.packs.witness.witness_judgement import witness as witness
    from ioassay.runner.progress import Progress as Progress
    from ioassay.simulation import traces as traces

GC_THRESHOLD = 100_000
"""Objects made before Python looks for cycles among them: its 700 cost a command a tenth of its time."""

_MODULES = {
    name: f"ioassay.{module}"
    for module, names in {
        "_core": "__version__",
        "api.diagnosis": "Diagnosis doctor restore_settings",
        "api.publication": "Bundle",
        "api.run_results": "Run open",
        "api.study": "Plan Study",
        "errors": "BrokenPlugin ConditionError Contradicted InputError Interrupted IoassayError IoassayWarning "
        "RunError SafetyRefusal StartError StudyError ToolError UnreadableFile UsageError",
        "narrative.finding": "Finding",
        "runner.progress": "Progress",
        "simulation": "traces",
    }.items()
    for name in names.split()
}
"""Name -> the module that has it; packs have others. The imports above tell type checkers the same."""


def _modules() -> dict[str, str]:
    from ioassay.pack import listed

    return listed("api", _MODULES)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*_modules()]
    if name not in _MODULES and name not in _modules():
        raise AttributeError(f"module 'ioassay' has no attribute '{name}'")
    from importlib import import_module

    module = _MODULES.get(name) or _modules()[name]
    home = import_module(module)
    found = globals()[name] = getattr(home, name) if hasattr(home, name) else import_module(f"{module}.{name}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()} - {"TYPE_CHECKING"})
