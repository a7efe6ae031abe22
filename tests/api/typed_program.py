"""A program that uses the whole API, for the type checker. It is never run."""

from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, assert_type

import polars as pl
from altair.typing import ChartType

import ioassay as ia
from ioassay.roles import CurrentRates, Trial
from ioassay.study.model import Suite


class Watching(ia.Progress):
    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        print(folder, suite.title, [trial.id for trial in trials])

    def planned(self, trials: int, seconds: float) -> None:
        print(trials, seconds)

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        print(trial.point, rates.elapsed_s)


def studies(executor: Executor) -> None:
    study = ia.Study(driver="null", params={"noise": 0.1}, factors={"x": [1, 2]}, repetitions=3)
    assert_type(ia.Study.read("quick", scale="quick", settings={"runtime": "1s"}), ia.Study)
    assert_type((study.name, study.title, study.to_toml()), tuple[str, str, str])
    plan = study.plan(destroy_data=["disk"], allow_exec=True)
    assert_type(plan, ia.Plan)
    assert_type((plan.trials, plan.seconds, plan.written_bytes), tuple[pl.DataFrame, float, int])
    run = study.run("out", progress=Watching(), executor=executor, workers=2, wait_quiet_s=1.0)
    assert_type(run, ia.Run)
    assert_type(ia.open(Path("out")), ia.Run)
    assert_type(ia.quick(".", budget_s=60), ia.Run)
    assert_type(ia.import_results(["fio.json"], "imported", title="Mine"), ia.Run)
    assert_type(run.resume(), ia.Run)
    with ia.LivePage() as page:
        assert_type((page, page.url), tuple[ia.LivePage, str])
        assert_type(study.run(progress=page), ia.Run)


def runs(run: ia.Run) -> None:
    frames = (run.trials, run.samples, run.series, run.histograms, run.calls, run.warnings, run.claims)
    for frame in frames:
        assert_type(frame, pl.DataFrame)
    assert_type(run.sql("SELECT 1"), pl.DataFrame)
    assert_type(run.findings, list[ia.Finding])
    assert_type(run.findings[0].statement, str)
    assert_type(run.figures, list[str])
    assert_type(run.figure(run.figures[0]), ChartType)
    assert_type((run.report(), run.root, run.title), tuple[Path, Path, str])
    bundle = run.export("shared.tar.gz", redact=True)
    assert_type(bundle, ia.Bundle)
    assert_type((bundle.path, bundle.bytes, bundle.manifest.replaced), tuple[Path, int, dict[str, int]])
    assert_type((run.failed, run.contradicted), tuple[int, int])
    assert_type(run.trust.conditions if run.trust else None, str | None)
    compared = ia.compare(run, "other", margin=0.1, confidence=0.99)
    assert_type(compared, ia.Comparison)
    assert_type((compared.rows, compared.verdict, compared.regression), tuple[pl.DataFrame, str, bool])
    assert_type((compared.report("page"), compared.junit()), tuple[Path, str])


def searches(study: ia.Study) -> None:
    found = ia.tune(study, maximize="value", subject_to=["value > 1"], trials=10, ranges={"x": [1, 2]})
    assert_type(found, ia.Search)
    assert_type(found.best, dict[str, str | int | float | bool] | None)
    assert_type((found.confirmed, found.feasible, found.history), tuple[bool, bool, pl.DataFrame])
    assert_type(found.resume(), ia.Search)


def commands() -> None:
    judged = ia.witness(["dd", "if=a", "of=b"], level="block", claims=["bytes=1MiB"], twins=2)
    assert_type(judged, ia.Judgement)
    assert_type((judged.verdict, judged.explanation, judged.stdout), tuple[str, str, str])
    assert_type((judged.exit_code, judged.contradicted), tuple[int | None, bool])
    listing = ia.witness(["dd", "if=a", "of=b"], calls=Path("calls.txt")).listing
    if listing is not None:
        assert_type((listing.calls, listing.file, listing.unlisted), tuple[int, Path | None, int])
        assert_type([(each.path, each.calls, each.first[0]) for each in listing.files], list[tuple[str, int, str]])
    recording = ia.record(["dd", "if=a", "of=b"], "trace.csv", device="sda")
    assert_type(recording, ia.Recording)
    assert_type((recording.trace, recording.requests), tuple[Path, int])


def results_over_time(run: ia.Run) -> None:
    store = ia.history("s3://bucket/history")
    assert_type(store, ia.Store)
    assert_type(store.add(run.records, label="v1.2", host="runners"), bool)
    assert_type(store.runs("nightly", {"kernel": "6.1"}), pl.DataFrame)
    assert_type(store.values("nightly", "read.bw", where={"grade": "fit"}), pl.DataFrame)


def pairs_and_drives(study: ia.Study) -> None:
    assert_type(ia.turns(study, study, turns=5), ia.Comparison)
    assert_type(ia.qualify("disk.img", scale="quick", size="64MiB"), ia.Run)
    assert_type(ia.Qualification.of("disk.img", purge="none"), ia.Qualification)


def hosts() -> None:
    assert_type(ia.__version__, str)
    found = ia.doctor("/mnt/disk")
    assert_type(found, ia.Diagnosis)
    assert_type([(one.code, one.text, one.remedy) for one in found.warnings], list[tuple[str, str, str]])
    assert_type([plugin.problem for plugin in found.plugins], list[str])
    assert_type(ia.restore_settings(), list[str])


def drives() -> None:
    done = ia.simulate("trace.csv", policy="lru", buffer="8MiB")
    assert_type(done, ia.Simulation)
    assert_type(ia.traces.info("trace.csv"), dict[str, Any])
    assert_type(ia.sweep("trace.csv", [{"policy": "lru"}]), list[ia.Simulation])
    with ia.serve("1GiB", policy="epo", buffer="8MiB", options={"read_us": 100}) as drive:
        assert_type(drive, ia.ServedDrive)
        assert_type(drive.addresses, dict[str, str])
        assert_type(drive.stats(), dict[str, Any])
        assert_type(drive.metrics(), dict[str, float])
        assert_type(drive.inject(kind="latency", delay="50ms"), list[int])
    with ia.serve_group([{"size": "1GiB"}, {"size": "1GiB", "policy": "lru"}]) as group:
        assert_type(group, list[ia.ServedDrive])
        assert_type((drive.power_cut(), drive.size_bytes, drive.path), tuple[int, int, Path | None])


def errors() -> None:
    try:
        ia.open("nowhere")
    except (ia.StudyError, ia.InputError, ia.UsageError) as error:
        assert_type(error, ia.StudyError | ia.InputError | ia.UsageError)
        raise SystemExit(error.exit_code) from None
    except ia.IoassayError as error:
        assert_type(error.exit_code, int)
