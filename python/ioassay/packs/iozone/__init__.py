"""IOzone's file tests, by IOzone and by our own engine `filesuite`: drivers, claims, command, question and studies."""

from ioassay.pack import Pack

PACK = Pack(
    "IOzone's file tests, by IOzone itself and by the command filesuite",
    drivers={
        "filesuite": "ioassay.packs.iozone.driver:Filesuite",
        "iozone": "ioassay.packs.iozone.driver:Iozone",
    },
    claims={
        "iozone": "ioassay.packs.iozone.claims.iozone_claims",
        "filesuite": "ioassay.packs.iozone.claims.filesuite_json:CLAIMS",
    },
    programs={"iozone": r"(?i:iozone[\w.-]*)"},  # Debian's package calls it iozone, other builds iozone3 or iozone_*
    formats={"iozone": "ioassay.packs.iozone.claims.iozone_claims:RESULTS"},
    analyses={"accountings": "ioassay.packs.iozone.questions.timing_definitions"},
    commands={
        "filesuite": (
            "ioassay.packs.iozone.commands.filesuite:COMMAND",
            "Write and read a file in records, in thirteen ways, and report the speed of each pass.",
        )
    },
    before={"accountings": "describe", "filesuite": "help"},
)
