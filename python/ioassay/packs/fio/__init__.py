"""fio: the driver with users' job files, its claims, results and logs, its studies, and `ioassay quick`."""

from ioassay.pack import Pack

PACK = Pack(
    "Storage, loaded by fio",
    drivers={"fio": ".driver:Fio"},
    claims={"fio": ".claims.fio_claims"},
    programs={"fio": r"fio(-[\d.]+)?"},
    formats={"fio": ".claims.fio_entries"},
    histogram_logs={"fio": ".claims.fio_logs"},
    cases={"bssplit": ".mixes"},
    study_files={"fio": ".driver.jobfile"},
    analyses={"limits": ".questions.limits"},
    commands={"quick": (".commands.quick:quick", "Measure the disk under PATH in about a minute, with a report.")},
    api={"quick": ".quick_study"},
    before={"quick": "run", "limits": "load"},
)
