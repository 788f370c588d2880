"""State that gateways share in a database, so that a client may use any of them.

Not only gateways may read the database, so nothing in it is of use without a secret that it does
not have: the password of the database, a token, the handle of a result.
"""

from __future__ import annotations

from typing import TypeAlias

STATE_KEY = "DISCOVERY_STATE_KEY"
"""The variable with a secret of all gateways of a database that is used without a password."""
SHARES_NOTHING = (
    "the database is used without a password, so gateways share no secret: an unfinished call is "
    "continued where it began"
)
"""The text shown where no key can be derived."""


TokenDocuments: TypeAlias = tuple[str, ...]
"""The record of each access token, as JSON, in the order in which they were made."""
