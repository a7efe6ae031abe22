"""Results and claims of tools that ioassay does not run itself, and `ioassay import`, which makes runs of results."""

from ioassay.pack import Pack

PACK = Pack(
    "Outputs and results of tools that others ran",
    claims={
        "dd": "ioassay.packs.foreign.disk_tools:DD",
        "sysbench": "ioassay.packs.foreign.database_tools:SYSBENCH",
        "ioping": "ioassay.packs.foreign.ioping:CLAIMS",
        "bonnie": "ioassay.packs.foreign.disk_tools:BONNIE",
        "hdparm": "ioassay.packs.foreign.disk_tools:HDPARM",
        "pgbench": "ioassay.packs.foreign.database_tools:PGBENCH",
        "redis_benchmark": "ioassay.packs.foreign.database_tools:REDIS_BENCHMARK",
        "elbencho": "ioassay.packs.foreign.result_files:ELBENCHO",
        "vdbench": "ioassay.packs.foreign.result_files:VDBENCH",
    },
    programs={
        "dd": "g?dd",
        "bonnie": r"bonnie(\+\+)?",
        "redis_benchmark": "(redis|valkey|keydb)-benchmark",
        "vdbench": r"vdbench(\.(ba)?sh)?",
    },
    formats={
        "sysbench": "ioassay.packs.foreign.database_tools:SYSBENCH_RESULTS",
        "elbencho": "ioassay.packs.foreign.result_files:ELBENCHO_RESULTS",
        "vdbench": "ioassay.packs.foreign.result_files:VDBENCH_RESULTS",
        "phoronix": "ioassay.packs.foreign.result_files:PHORONIX_RESULTS",
    },
    commands={
        "import": (
            "ioassay.packs.foreign.commands.import_run:import_",
            "Turn results from elsewhere into a run with a report.",
        )
    },
    api={"import_results": "ioassay.packs.foreign.importer"},
    before={"import": "doctor"},
)
