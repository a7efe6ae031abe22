"""The simulated SSD: `simulate`, traces, comparisons of drives with measurements, and the studies of write buffers."""

from ioassay.pack import Pack

PACK = Pack(
    "A simulated SSD, and the traces that it runs",
    drivers={"simulate": "ioassay.packs.ssd.driver:Simulate"},
    analyses={"reductions": "ioassay.packs.ssd.questions.reductions_text"},
    commands={
        "record": (
            "ioassay.packs.ssd.commands.record",
            "Run COMMAND and record each request that reaches a block device, with its issue time.",
        ),
        "simulate": (
            "ioassay.packs.ssd.commands.simulate:simulate",
            "Run a trace on a simulated SSD and report response times and the drive's activity.",
        ),
        "drive": (
            "ioassay.packs.ssd.commands.drive",
            "List and show descriptions of drives, and compare them with measurements.",
        ),
        "trace": ("ioassay.packs.ssd.commands.trace", "Inspect, convert and generate traces of block requests."),
    },
    api={
        "Recording": "ioassay.packs.ssd.command_recording",
        "Simulation": "ioassay.packs.ssd.simulator.results",
        "record": "ioassay.packs.ssd.command_recording",
        "simulate": "ioassay.packs.ssd.simulator",
        "simulator": "ioassay.packs.ssd",
        "sweep": "ioassay.packs.ssd.simulator",
        "traces": "ioassay.packs.ssd",
    },
    before={
        "reductions": "hosts",
        "record": "filesuite",
        "simulate": "filesuite",
        "drive": "filesuite",
        "trace": "worker",
    },
)
