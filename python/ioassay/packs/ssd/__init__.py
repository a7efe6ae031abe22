"""The simulated SSD: `simulate`, traces, comparisons of drives with measurements, and the studies of write buffers."""

from ioassay.pack import Pack

PACK = Pack(
    "A simulated SSD, and the traces that it runs",
    drivers={"simulate": ".driver:Simulate"},
    analyses={"reductions": ".questions.reductions_text", "twin": ".questions.twin"},
    figures={"twin_curves": ".figures.twin_curves:TWIN_CURVES"},
    commands={
        "record": (
            ".commands.record",
            "Run COMMAND, record each request that reaches a block device with its issue time, and state latencies.",
        ),
        "simulate": (
            ".commands.simulate:simulate",
            "Run a trace on a simulated SSD and report response times and the drive's activity.",
        ),
        "drive": (".commands.drive", "List and show descriptions of drives, and compare them with measurements."),
        "trace": (".commands.trace", "Inspect, convert and generate traces of block requests."),
    },
    api={
        "Recording": ".command_recording",
        "Simulation": ".simulator.results",
        "Drift": ".twin.drift",
        "Twin": ".twin.learning",
        "drift": ".twin.drift",
        "learn": ".twin.learning",
        "record": ".command_recording",
        "simulate": ".simulator",
        "simulator": "ioassay.packs.ssd",
        "sweep": ".simulator",
    },
    before={
        "reductions": "hosts",
        "twin": "load",
        "trace": "worker",
        **dict.fromkeys(("record", "simulate", "drive"), "filesuite"),
    },
)
