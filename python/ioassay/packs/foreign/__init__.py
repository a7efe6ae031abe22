"""Results and claims of tools that ioassay does not run itself, and `ioassay import`, which makes runs of results."""

from ioassay.pack import Pack

PACK = Pack(
    "Outputs and results of tools that others ran",
    claims={
        "dd": "ioassay.packs.foreign.dd",
        "sysbench": "ioassay.packs.foreign.sysbench",
        "ioping": "ioassay.packs.foreign.ioping",
        "bonnie": "ioassay.packs.foreign.bonnie",
        "hdparm": "ioassay.packs.foreign.hdparm",
        "pgbench": "ioassay.packs.foreign.pgbench",
        "redis_benchmark": "ioassay.packs.foreign.redis_benchmark",
        "elbencho": "ioassay.packs.foreign.elbencho",
        "vdbench": "ioassay.packs.foreign.vdbench",
    },
    formats={
        "sysbench": "ioassay.packs.foreign.sysbench_results",
        "elbencho": "ioassay.packs.foreign.elbencho_csv",
        "vdbench": "ioassay.packs.foreign.vdbench_results",
        "phoronix": "ioassay.packs.foreign.phoronix",
    },
    commands={
        "import": ("ioassay.packs.foreign.import_command", "Turn results from elsewhere into a run with a report.")
    },
    api={"import_results": "ioassay.packs.foreign.importer"},
    before={"import": "doctor"},
)
