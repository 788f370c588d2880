"""How long unused vectors are kept: for one whole period at least, for two at most.

Processes note what they use. The first one that notes something in a new period drops what none has
noted in the one before, and uses are noted anew. No process knows the tools of all others, as while
a configuration is rolled out: so what is dropped is decided by what all of them noted.
"""

from __future__ import annotations

PERIOD = 30 * 86_400.0  # seconds; a process notes each day
LEASE = "unused vectors"
"""Its fence is the number of the period: whoever sets it has been the first."""


def period_at(now: float) -> int:
    return int(now // PERIOD)
