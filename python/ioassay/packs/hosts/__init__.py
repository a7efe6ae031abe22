"""Other hosts: executors of Dask, hosts that measure, which of them is slow, and what all do together."""

from ioassay.pack import Pack

PACK = Pack(
    "Other hosts that compute or measure, by Dask",
    analyses={"hosts": ".questions.hosts_text"},
    merged={"clients": "hosts"},
    figures={"hosts": ".figures.host_deviations"},
    executors=dict.fromkeys(("dask", "slurm", "pbs", "lsf"), ".executors:OPENER"),
    commands={
        "worker": (
            ".commands.worker:worker",
            "Measure on this host for runs elsewhere, one trial at a time, until Ctrl-C.",
        )
    },
    before={"hosts": "load", "worker": "device"},
)
