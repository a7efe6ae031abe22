"""One command judged outside of a study, or what runs already: `witness`.

commands/witness.py     the command line: whom to watch, and the exit status
judgement_text.py       what it says
witness_judgement.py    the Python API: runs, claims and verdicts of one command; claims that the user states
attachment.py           running processes under the witness, also those of a control group
"""

from ioassay.pack import Pack

_API = "ioassay.packs.witness.witness_judgement"
PACK = Pack(
    "The claims of any command, held against the kernel's counts",
    commands={
        "witness": (
            "ioassay.packs.witness.commands.witness",
            "Run COMMAND and compare its claims with the kernel's counts. Exit 4: the kernel contradicts a claim.",
        )
    },
    api={"Judgement": _API, "witness": _API},
    before={"witness": "device"},
)
