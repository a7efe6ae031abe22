"""Any program with a number in its output: the driver `command`."""

from ioassay.pack import Pack

PACK = Pack("Any program with a number in its output", drivers={"command": ".driver:CommandDriver"})
