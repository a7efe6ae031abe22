"""The live page of a run: `LivePage`, which the option --live opens."""

from ioassay.pack import Pack

PACK = Pack("The local page that shows a run while it lasts", api={"LivePage": ".live_page"})
