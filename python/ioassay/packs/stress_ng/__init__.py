"""stress-ng: the driver, its claims, and the studies of kernel subsystems."""

from ioassay.pack import Pack

PACK = Pack(
    "Kernel subsystems, loaded by stress-ng",
    drivers={"stress_ng": ".driver:StressNg"},
    claims={"stress_ng": ".claims.stressor_metrics:CLAIMS"},
    programs={"stress_ng": "stress-ng"},
)
