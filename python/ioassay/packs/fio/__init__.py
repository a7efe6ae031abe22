"""fio: the driver with users' job files, its claims, results and logs, its studies, and `ioassay quick`."""

from ioassay.pack import Pack

PACK = Pack(
    "Storage, loaded by fio",
    drivers={"fio": "ioassay.packs.fio.driver:Fio"},
    claims={"fio": "ioassay.packs.fio.claims.fio_claims"},
    programs={"fio": r"fio(-[\d.]+)?"},
    formats={"fio": "ioassay.packs.fio.claims.fio_entries"},
    histogram_logs={"fio": "ioassay.packs.fio.claims.fio_logs"},
    cases={"bssplit": "ioassay.packs.fio.mixes"},
    study_files={"fio": "ioassay.packs.fio.driver.jobfile"},
    commands={
        "quick": (
            "ioassay.packs.fio.commands.quick:quick",
            "Measure the disk under PATH in about a minute, with a report.",
        )
    },
    api={"quick": "ioassay.packs.fio.quick_study"},
    before={"quick": "run"},
)
