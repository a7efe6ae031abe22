"""Results and claims of tools that ioassay does not run itself, and `ioassay import`, which makes runs of results."""

from ioassay.pack import Pack

PACK = Pack(
    "Outputs and results of tools that others ran",
    claims={
        "dd": ".disk_tools:DD",
        "sysbench": ".database_tools:SYSBENCH",
        "ioping": ".ioping:CLAIMS",
        "bonnie": ".disk_tools:BONNIE",
        "hdparm": ".disk_tools:HDPARM",
        "pgbench": ".database_tools:PGBENCH",
        "redis_benchmark": ".database_tools:REDIS_BENCHMARK",
        "elbencho": ".result_files:ELBENCHO",
        "vdbench": ".result_files:VDBENCH",
    },
    programs={
        "dd": "g?dd",
        "bonnie": r"bonnie(\+\+)?",
        "redis_benchmark": "(redis|valkey|keydb)-benchmark",
        "vdbench": r"vdbench(\.(ba)?sh)?",
    },
    formats={"phoronix": ".result_files:PHORONIX"},
    commands={"import": (".commands.import_run:import_", "Turn results from elsewhere into a run with a report.")},
    api={"import_results": ".importer"},
    before={"import": "doctor"},
)
