"""Whatever a study file says: it runs, or it is told what is wrong with it. Never anything else."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ioassay.errors import IoassayError, UsageError
from ioassay.narrative.pipeline import analyse_all
from ioassay.report import figures
from ioassay.roles import Consent
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.store import frames
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog, plan
from ioassay.study.model import Suite

SCALARS = st.one_of(
    st.booleans(),
    st.integers(-3, 10),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "null", "fio", "file", "cpu", "4KiB", "10s", "1ms", "randrw", "read", "5%", "a=b", "${HOME}"]),
    st.text(max_size=8),
    st.dates(),
)
PLAIN = st.one_of(
    st.booleans(),
    st.integers(-3, 70000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["4KiB", "10s", "1ms", "read", "5%", "1", "libaio", "a b", "${HOME}", "4k/50:8k/50", "1-4", "é"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def some(values: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A table with some of the keys, each with one of its values or, rarely, anything."""
    choices = {key: st.sampled_from(known) if known else PLAIN for key, known in values.items()}
    rarely = {key: st.integers(0, 19).flatmap(lambda n, c=c: VALUES if n == 0 else c) for key, c in choices.items()}
    return st.fixed_dictionaries({}, optional=rarely)


NULL = ["value", "noise", "drift", "sleep", "samples", "metrics", "effects", "latencies", "fail_share", "requests"]
FIO = ["rw", "bs", "ioengine", "iodepth", "runtime", "size", "direct", "numjobs", "logs", "log_interval", "bssplit"]
FIO += ["filename", "rwmixwrite", "ramp_time", "offset", "time_based", "job", "job_path", "job_folder", "stonewall"]
PARAMS = some({name: [] for name in NULL}) | some(
    {
        "rw": ["read", "randrw", "trimwrite"],
        "bs": ["4KiB", 4096, "4k,8k,"],
        "runtime": ["1s", 2, 0],
        "size": ["1MiB", "10%"],
        "bssplit": ["4k/50:8k/50", "4k", "4k/x"],
        **{name: [] for name in FIO[9:]},
    }
)
LEVELS = st.lists(PLAIN, min_size=1, max_size=3)
FACTORS = st.dictionaries(
    st.sampled_from([*NULL, *FIO, "target.path", "target.size", "run.timeout", "run.cooldown"]), LEVELS, max_size=2
)
CASES = st.lists(st.builds(lambda table, name: {**table, "name": name}, PARAMS, st.text(max_size=3)), max_size=2)
FIGURE = some(
    {"kind": ["bar", "trend", "cdf"], "name": ["f", "g"], "x": [], "y": ["value"], "where": [{}], "log_x": []}
).map(lambda table: {"kind": "bar", "name": "f", **table})
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["s", "a-b"]),
    "repetitions": st.integers(1, 5),
    "until": some({"ci": ["5%"], "min": [2], "max": [3]}).map(lambda table: {"metric": "value", **table}),
    "seed": st.integers(0, 5),
    "target": some({"size": ["1MiB"], "keep": [True]}).map(lambda table: {"kind": "file", "path": "tf", **table}),
    "params": PARAMS,
    "factors": FACTORS,
    "case": CASES,
    "run": some({"timeout": ["1s"], "cooldown": [0], "governor": ["keep"], "drop_caches": [False]}),
    "watch": some({"monitors": [[], ["cpu"]], "interval": ["1s"], "witness": ["off"]}),
    "analysis": some({"responses": [[], ["value"]], "questions": [[]], "confidence": [0.9]}),
    "figures": st.lists(FIGURE, max_size=2),
    "scale": st.fixed_dictionaries({}, optional={"quick": some({"params": [{}], "factors": [{}], "until": []})}),
}
SOUND = st.fixed_dictionaries({"title": st.just("T"), "driver": st.sampled_from(["null", "fio"])}, optional=PARTS).map(
    lambda table: {key: value for key, value in table.items() if key != ("until" if "repetitions" in table else "")}
)
STUDY = SOUND | st.builds(
    lambda table, odd: {**table, **odd}, SOUND, st.dictionaries(st.sampled_from(list(PARTS)), VALUES)
)


def or_anything(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda chance: VALUES if chance == 0 else strategy)


SUITE = st.fixed_dictionaries(
    {"suite": or_anything(st.lists(st.sampled_from(["jobs", "quick", "x.toml", "none.toml"]) | st.text(max_size=5)))},
    optional={"title": VALUES, "name": VALUES, "study": or_anything(st.lists(STUDY, max_size=2)), "seed": VALUES},
)
ASSIGNMENTS = (
    st.just([])
    | st.just([])
    | st.just([])
    | st.lists(
        st.text(max_size=12)
        | st.sampled_from(
            ["bs=4k,8k", "run.timeout=nan", "x=1,NaN", "target.size=1e999", "params.={}", "seed=[1]", "a.b.c=1"]
        ),
        max_size=2,
    )
)


def examined(suite: Suite) -> None:
    """All that `ioassay plan` does with a study, but for looking at targets."""
    for study in suite.studies:
        figures.check(study)
    for bench in preflight.assemble(suite, Consent()):
        list(preflight.examine_points(bench))
        preflight.forecast(bench)
        bench.touches()
    next(plan.trials(suite))
    catalog.to_table(suite)


@settings(suppress_health_check=list(HealthCheck))
@given(
    table=st.integers(0, 9).flatmap(lambda n: SUITE if n == 0 else STUDY),
    scale=st.sampled_from(["full", "quick"]),
    set_=ASSIGNMENTS,
    factors=ASSIGNMENTS,
)
def test_any_table_is_a_study_or_a_study_error(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, Any], scale: str, set_: list[str], factors: list[str]
) -> None:
    def change(study: Any) -> dict[str, Any]:
        return catalog.adjusted_all([study], scale=scale, settings=set_, factors=factors)[0][0]

    try:
        suite = catalog.from_table(table, Path("x.toml"), change)
        assume(sum(plan.count(suite).values()) < 1000)
        examined(suite)
    except UsageError as error:
        assert str(error)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")))
def test_any_file_is_a_study_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("any.toml", "any.fio"):
        (folder / name).write_bytes(content)
        try:
            examined(catalog.load(str(folder / name)))
        except IoassayError as error:
            assert name in str(error) or "any" in str(error)


class Quiet(Progress):
    """Progress that goes nowhere."""


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(table=SOUND.map(lambda table: {**table, "driver": "null", "target": {}, "watch": {"monitors": []}}))
def test_what_is_sound_runs_and_is_analysed(tmp_path_factory: pytest.TempPathFactory, table: dict[str, Any]) -> None:
    try:
        suite = catalog.from_table(table, Path("x.toml"))
        assume(sum(plan.count(suite).values()) < 60)
        benches = preflight.assemble(suite, Consent())
        preflight.examine(benches)
    except UsageError:
        assume(False)
    assume(sum(preflight.forecast(bench).seconds for bench in benches) < 1)
    assume(all(float(trial.params.get("samples", 0)) < 1e4 for bench in benches for trial in bench.points()))
    store = RunStore.create(tmp_path_factory.mktemp("any") / "run", suite, {})
    tally = run.execute(store, benches, Quiet())
    assert tally.planned == sum(plan.count(suite).values())
    for finding in analyse_all(frames.load(store)):
        assert finding.statement
