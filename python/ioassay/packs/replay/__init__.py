"""Traces replayed on real and served drives, in an open loop: driver, command and study."""

from ioassay.pack import Pack

PACK = Pack(
    "Traces, replayed on real and served drives",
    drivers={"replay": ".driver:Replay"},
    claims={"replay": ".claims:CLAIMS"},
    analyses={"lateness": ".questions.lateness"},
    commands={
        "replay": (
            ".commands.replay:replay",
            "Issue a trace's requests to a drive at the trace's own times, and report response times and lateness.",
        )
    },
    before={"replay": "filesuite", "lateness": "describe"},
)
