"""The project's own sentence model: a public base and an adapter of ours, put together here.

The adapter is shipped in `search/data/model`; the base comes from a package. What both make is an
int8 model in the data folder, which works without a network.
"""

from discovery_engine.search.embedders.opening import InstalledModel, installed_model
from discovery_engine.search.model.base_package import ModelError
from discovery_engine.search.model.installation import (
    install_model,
    remove_model,
    require_libraries,
)

__all__ = [
    "InstalledModel",
    "ModelError",
    "install_model",
    "installed_model",
    "remove_model",
    "require_libraries",
]
