"""The name of one of several gateways, by which a balancer finds it again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from discovery_engine.errors import ConfigurationError

VARIABLE = "DISCOVERY_GATEWAY_NAME"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


def gateway_name(environ: Mapping[str, str]) -> str:
    """The name of this gateway; empty if it has none.

    Raises:
        ConfigurationError: If it cannot be part of a header.
    """
    name = environ.get(VARIABLE, "")
    if name and not _NAME.fullmatch(name):
        hint = "use up to 63 letters, digits and - _, for instance `gateway-1`"
        message = f"{name!r} cannot be the name of a gateway"
        raise ConfigurationError.of_file("SERVE_NAME_INVALID", VARIABLE, message, hint)
    return name
