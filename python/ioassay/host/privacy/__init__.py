"""What tells one machine and its people from others, and how it is kept out of what is published.

`facts.published` makes of raw host facts those that a run stores: host name, serial numbers and unknown kernel
parameters become keyed hashes. `secrets` gathers the values that identify this machine, and `redaction` replaces them
in any text. The key never leaves the user's state folder. Writing bundles is `ioassay.store.bundle`.
"""

from __future__ import annotations

from ioassay.host.privacy.facts import published
from ioassay.host.privacy.redaction import Redaction
from ioassay.host.privacy.secrets import Secret, of_host

__all__ = ["Redaction", "Secret", "of_host", "published"]
