"""Drives that are made: the simulated SSD served to programs and kernels, NVMeVirt, and what a path to them costs."""

from ioassay.pack import Pack

PACK = Pack(
    "Virtual drives: served from the simulated SSD, or made by NVMeVirt",
    targets={
        "virtual": "ioassay.packs.virtual_drive.targets.virtual:VirtualTarget",
        "nvmevirt": "ioassay.packs.virtual_drive.targets.nvmevirt:NvmevirtTarget",
    },
    analyses={"drive": "ioassay.packs.virtual_drive.questions.drive"},
    paths={
        "virtual": "ioassay.packs.virtual_drive.questions.path_costs",
        "nvmevirt": "ioassay.packs.virtual_drive.questions.path_costs",
    },
    commands={
        "device": (
            "ioassay.packs.virtual_drive.commands.device",
            "Serve the simulated drive, and query a served drive.",
        )
    },
    api={
        "ServedDrive": "ioassay.packs.virtual_drive.served_drive",
        "serve": "ioassay.packs.virtual_drive.served_drive",
        "serve_group": "ioassay.packs.virtual_drive.served_drive",
    },
    before={"drive": "accountings", "device": "new-pack"},
)
