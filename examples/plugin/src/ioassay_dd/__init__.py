"""dd for ioassay: how long a block takes, what of that is the same for every block, and the interrupts meanwhile."""

from ioassay.pack import Pack

IOASSAY_API = 1
PACK = Pack(
    "dd of GNU coreutils",
    drivers={"dd": "ioassay_dd.driver:Dd"},
    monitors={"softirqs": "ioassay_dd.softirqs"},
    analyses={"block_cost": "ioassay_dd.block_cost"},
    figures={"block_time": "ioassay_dd.block_time"},
)
