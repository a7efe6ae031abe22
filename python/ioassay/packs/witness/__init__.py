"""One command judged outside of a study, or what runs already: `witness`."""

from ioassay.pack import Pack

PACK = Pack(
    "The claims of any command, held against the kernel's counts",
    commands={
        "witness": (
            ".commands.witness",
            "Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.",
        )
    },
    api={"Judgement": ".witness_judgement", "witness": ".witness_judgement"},
    before={"witness": "device"},
)
