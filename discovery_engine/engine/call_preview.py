"""A preview of a call: what it would send, and where, without sending it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.config.entry_secrets import redact_transport
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.secrets.masking import redact_url

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry


class CallPreview(Struct, frozen=True):
    entry: Entry
    """The tool, with the verdict of the rules."""
    arguments: JSONObject
    """The arguments as they would be sent; they fit the tool's schema."""
    pinned: JSONObject
    """The arguments that the owner adds, as written: references, not their values."""
    transport: StdioTransport | RemoteTransport | None
    unchecked: str = ""
    """Why the arguments could not be checked; empty if they were."""

    @property
    def place(self) -> str:
        """Where it would be sent, without any path of this machine."""
        if isinstance(self.transport, RemoteTransport):
            return urlsplit(redact_url(self.transport.url)).netloc or "a remote server"
        return "a program on this machine"

    @property
    def target(self) -> str:
        """The same for the owner: the command or the address, without secrets."""
        match redact_transport(self.transport) if self.transport else None:
            case StdioTransport(command=command, args=args):
                return " ".join([command, *args])
            case RemoteTransport(url=url):
                return url
        return ""
