"""A change of the configured servers, as far as the installer has to know about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from discovery_engine.installer.install_records import Place

if TYPE_CHECKING:
    from discovery_engine.registry.server_records import PackagePin


class PlannedServerChange(Protocol):
    """A planned change; `engine.servers` makes and applies it."""

    @property
    def name(self) -> str:
        """The name by which the server is addressed."""

    @property
    def where(self) -> Place: ...
    @property
    def diff(self) -> str: ...


class InstalledChange(Struct, frozen=True):
    """A server that was installed, updated or set back."""

    name: str
    """The name by which it is addressed."""
    where: Place
    diff: str
    pin: PackagePin
