"""A rule and a verdict as plain values: what was written, and what came of it.

Nothing is compiled here, so that a remembered catalog can be read without loading a pattern
library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field

from discovery_engine.diagnostics import Origin

Withheld: TypeAlias = Literal["changed", "pending", "suspicious", "unpinned"]
"""Why a tool is withheld: its definition changed since it was accepted, was never accepted, is
suspicious and was never accepted, or differs from what the lock file pins."""
Refusal: TypeAlias = Literal["untrusted", "altered", "unpinned"]
"""Why a server is not started: it was not approved, something else was approved, or the lock file
does not pin it."""
Reason: TypeAlias = (
    Literal["default", "rule", "whitelist", "server", "switch", "off"] | Withheld | Refusal
)
"""`whitelist`: no rule decided while another rule enables; `server`: its server is disabled;
`off`: the configuration disables every server."""

WITHHELD: frozenset[str] = frozenset(get_args(Withheld))
NOBODY = "nobody"
"""In `visible_to`, where the teams and users cannot be read: no token stands for it."""
FOR_REVIEW: tuple[Withheld, ...] = ("changed", "pending", "suspicious")
"""Why a tool is withheld that its owner may accept."""
REFUSALS: frozenset[str] = frozenset(get_args(Refusal))


class Rule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of `toolRules`, `resourceRules`, `promptRules` or `serverRules`, as written.

    Written out, a field has the name of its key.
    """

    patterns: tuple[str, ...] = field(default=(), name="pattern")
    servers: tuple[str, ...] = field(default=(), name="server")
    """Patterns that the server's name must match; not in `serverRules`."""
    annotations: Mapping[str, bool | str] = field(default_factory=dict)
    """The annotations that the tool must have; only in `toolRules`."""
    has_tags: tuple[str, ...] = field(default=(), name="matchTags")
    """Patterns of which the server's tags must match one; not in `toolRules`."""
    enabled: bool | None = None
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] = field(default=(), name="visibleTo")
    """The teams and users for whom alone what it matches is; for all if there are none."""
    origin: Origin = Origin("")


class Verdict(Struct, frozen=True, cache_hash=True):
    """The decision whether a tool (or a server) is enabled, its tags in rule order, and why."""

    enabled: bool = True
    tags: tuple[str, ...] = ()
    reason: Reason = "default"
    rule: int | None = None
    """The index of the rule that decided; set with reason `rule`."""
    detail: str = ""
    """More of the reason, for the owner alone; set where a server is refused."""

    def carries(self, tags: Collection[str], *, any_tag: bool = False) -> bool:
        """Return whether it has all of `tags`, or one with `any_tag`; True if `tags` is empty."""
        matches = any if any_tag else all
        return not tags or matches(tag in self.tags for tag in tags)
