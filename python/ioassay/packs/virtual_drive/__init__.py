"""Drives that are made: the simulated SSD served to programs and kernels, NVMeVirt, and what a path to them costs."""

from ioassay.pack import Pack

PACK = Pack(
    "Virtual drives: served from the simulated SSD, or made by NVMeVirt",
    targets={"virtual": ".targets.virtual:VirtualTarget", "nvmevirt": ".targets.nvmevirt:NvmevirtTarget"},
    analyses={"drive": ".questions.drive"},
    paths={"virtual": ".questions.path_costs", "nvmevirt": ".questions.path_costs"},
    commands={"device": (".commands.device", "Serve the simulated drive, and query a served drive.")},
    api={"ServedDrive": ".served_drive", "serve": ".served_drive", "serve_group": ".served_drive"},
    before={"drive": "accountings", "device": "new-pack"},
)
