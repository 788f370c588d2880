"""numpy, which the extra `vectors` installs. It is slow to load: import this within functions."""

from __future__ import annotations

from discovery_engine.errors import ConfigurationError
from discovery_engine.errors.extras import extra_missing

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    problem = extra_missing("vectors", "search by meaning", error.name or "numpy")
    raise ConfigurationError([problem]) from error

__all__ = ["NDArray", "np"]
