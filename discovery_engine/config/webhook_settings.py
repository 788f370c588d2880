"""The section `webhooks` as the rest of the engine sees it: where events of servers are sent.

No field declares a permission, so that all of it is the owner's alone: a file of untrusted origin
could have names of tools sent to an address of its choice.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from msgspec.structs import replace

from discovery_engine.config.settings_section import (
    INTERNAL,
    Patterns,
    SettingsSection,
    Values,
)

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
    """An address to which events of servers and tools are sent, as signed HTTP requests."""

    name: Annotated[str, INTERNAL]
    # Empty in what is remembered of a configuration.
    url: Annotated[str, Values(examples=["https://hooks.example.com/discovery"])] = ""
    """The address that each event is sent to with POST."""

    secret: Annotated[tuple[str, ...], Values(examples=["${secret:HOOK_KEY}"])] = ()
    """The secret that signs, `whsec_` and base64 of 24 to 64 bytes. Refer to it, do not write it.
    Several sign while one takes the place of another."""
    events: Annotated[
        tuple[str, ...], Values(examples=[["server.failing", "server.recovered", "tool.*"]])
    ] = ()
    """The types of events, as `server.failing` or `tool.*`; all if there is none."""
    servers: Annotated[Patterns, Values(examples=[["github", "jira-*"]])] = ()
    """The only servers whose events are sent, as patterns; all if there is none."""
    private: Annotated[bool, Values(examples=[True])] = False
    """Allow an address in your private network, and `http://` to it."""
    timeout: Annotated[float, Values(gt=0, le=60, examples=[5])] = 10.0
    """Seconds that one attempt may take, the answer included."""
    enabled: Annotated[bool, Values(examples=[False])] = True
    """Whether events are sent; without it none is stored either."""

    def wants(self, event_type: str) -> bool:
        return not self.events or any(fnmatchcase(event_type, pattern) for pattern in self.events)

    def without_secrets(self) -> WebhookSettings:
        """The same without what may be secret: an address may hold a key, too."""
        return replace(self, url="", secret=())
