"""IOzone's file tests, by IOzone and by our own engine `filesuite`: drivers, claims, command, question and studies."""

from ioassay.pack import Pack

PACK = Pack(
    "IOzone's file tests, by IOzone itself and by the command filesuite",
    drivers={"filesuite": ".driver:Filesuite", "iozone": ".driver:Iozone"},
    claims={"iozone": ".claims.iozone_claims", "filesuite": ".claims.filesuite_json:CLAIMS"},
    programs={"iozone": r"(?i:iozone[\w.-]*)"},  # Debian's package calls it iozone, other builds iozone3 or iozone_*
    analyses={"accountings": ".questions.timing_definitions"},
    commands={
        "filesuite": (
            ".commands.filesuite:COMMAND",
            "Write and read a file in records, in thirteen ways, and report the speed of each pass.",
        )
    },
    before={"accountings": "describe", "filesuite": "help"},
)
