"""The section `webhooks` as the rest of the engine sees it: where events of servers are sent.

No field declares a permission, so that all of it is the owner's alone: a file of untrusted origin
could have names of tools sent to an address of its choice.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec.structs import replace

from discovery_engine.config.settings_section import SettingsSection

EVENT_TYPES = (
    "server.added",
    "server.changed",
    "server.removed",
    "server.failing",
    "server.recovered",
    "tool.added",
    "tool.changed",
    "tool.removed",
    "tool.held",
    "tool.released",
)
TEST_EVENT = "webhook.test"
"""The type of what `discovery webhooks test` sends, whatever a webhook is for."""


class WebhookSettings(SettingsSection, frozen=True):
    """An address to which events are sent. `url` and `secret` may hold `${references}`."""

    name: str
    url: str = ""
    """Empty in what is remembered of a configuration."""
    secret: tuple[str, ...] = ()
    """Each signs; several while one takes the place of another."""
    events: tuple[str, ...] = ()
    """Types, or globs of types; all if none is given."""
    servers: tuple[str, ...] = ()
    """Patterns of the only servers; all if none is given."""
    private: bool = False
    """Whether the address may lead into a private network, also by `http://`."""
    timeout: float = 10.0
    """Seconds for one attempt, the answer included."""
    enabled: bool = True

    def wants(self, event_type: str) -> bool:
        return not self.events or any(fnmatchcase(event_type, one) for one in self.events)

    def without_secrets(self) -> WebhookSettings:
        """The same without what may be secret: an address may hold a key, too."""
        return replace(self, url="", secret=())
