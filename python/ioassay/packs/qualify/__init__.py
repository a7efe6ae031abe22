"""A drive as SNIA's Performance Test Specification qualifies it: the study, its question, its figures, the command."""

from ioassay.pack import Pack

PACK = Pack(
    "The qualification of a drive by SNIA's Performance Test Specification",
    analyses={"qualification": ".questions.qualification"},
    figures={"convergence": ".figures.convergence:CONVERGENCE", "steady_window": ".figures.convergence:STEADY_WINDOW"},
    commands={
        "qualify": (
            ".commands.qualify:qualify",
            "Qualify a drive as SNIA's Performance Test Specification does: all data on it is lost.",
        )
    },
    api={"Qualification": ".qualification_study", "qualify": ".qualification_study"},
    before={"qualification": "load", "qualify": "plan"},
)
