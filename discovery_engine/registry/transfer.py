"""A registry copied into an empty one of another back-end, and compared by digests.

How servers introduced themselves, leases and search indexes are of a machine, and made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from discovery_engine._util.digests import blake2b
from discovery_engine.errors import RegistryError
from discovery_engine.registry.codec import part_to_row, settings_to_text
from discovery_engine.registry.protocols import Registry, Snapshot
from discovery_engine.registry.records import DecisionExport
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ToolKey


class PortableRegistry(Registry, Protocol):
    """A registry of which everything can be read, and written as it is."""

    def scopes(self) -> Collection[str]:
        """Those in which anything is kept but decisions."""

    def export_decisions(self) -> DecisionExport: ...

    def import_decisions(self, decisions: DecisionExport) -> None:
        """Hold these, and no others."""

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None: ...

    def used_vectors(self, scope: str) -> Mapping[tuple[str, bytes], bytes]:
        """The vectors that a scope uses, by model and digest of the text."""


class ContentDigest(msgspec.Struct, frozen=True):
    """How much of a kind a registry holds, and the digest of it."""

    count: int
    digest: str


def copy_registry(source: PortableRegistry, target: PortableRegistry) -> dict[str, ContentDigest]:
    """Copy all into an empty registry; returns what was copied, by kind.

    Raises:
        RegistryError: If the target is not empty, or is not the same afterwards.
    """
    if target.newest_decision() or target.scopes():
        raise RegistryError(
            "the registry to copy to is not empty, and what it holds would be lost",
            hint="name an empty one: another database or file, or delete that one first",
        )
    for scope in sorted(source.scopes()):
        _copy_scope(source, target, scope)
    target.save_requests(source.written_requests())
    # Last: a copy that was interrupted is then no registry that has decisions.
    target.import_decisions(source.export_decisions())
    expected, found = content_of(source), content_of(target)
    if different := sorted(kind for kind in expected if expected[kind] != found[kind]):
        raise RegistryError(
            f"the copy differs from the original in: {', '.join(different)}",
            hint="stop the gateways that write to either, delete the copy, and repeat the command",
        )
    return found


def content_of(registry: PortableRegistry) -> dict[str, ContentDigest]:
    """What a registry holds, by kind; equal for two that hold the same."""
    decisions = registry.export_decisions()
    scopes = sorted(registry.scopes())
    snapshots = {scope: _own_snapshot(registry, scope) for scope in scopes}
    parts = [
        (scope, part_to_row(part))
        for scope, one in snapshots.items()
        for part in (one.catalog.parts.values() if one else ())
    ]
    return {
        "decisions": _digest(decisions.effective),
        "settings": _digest(
            (scope, settings_to_text(one.settings)) for scope, one in snapshots.items() if one
        ),
        "servers": _digest(parts),
        "uses": _digest((scope, registry.uses(scope)) for scope in scopes if registry.uses(scope)),
        "vectors": _digest(
            (scope, *one) for scope in scopes for one in registry.used_vectors(scope).items()
        ),
        "written requests": _digest(registry.written_requests()),
        "presets": _digest((scope, one) for scope in scopes for one in registry.presets(scope)),
        "requests of agents": _digest(
            (scope, one) for scope in scopes for one in registry.agent_requests(scope)
        ),
    }


def _copy_scope(source: PortableRegistry, target: PortableRegistry, scope: str) -> None:
    if snapshot := _own_snapshot(source, scope):
        target.save_settings(scope, snapshot.settings)
        # `decided` is only saved with a scope that was loaded: others may have saved it otherwise.
        target.load(scope)
        catalog = snapshot.catalog
        parts = catalog.parts.values()
        target.save_parts(scope, parts, revision=catalog.revision, decided=snapshot.decided)
        target.save_uses(scope, source.uses(scope))
        for (model, digest), data in source.used_vectors(scope).items():
            target.save_vectors(scope, model, {digest: data})
    for preset in source.presets(scope):
        target.save_preset(scope, preset)
    for request in source.agent_requests(scope):
        target.save_agent_request(scope, request)


def _own_snapshot(registry: PortableRegistry, scope: str) -> Snapshot | None:
    snapshot = registry.load(scope)
    return snapshot.own if snapshot else None


def _digest(items: Iterable[object]) -> ContentDigest:
    texts = sorted(map(repr, items))
    hashed = blake2b(digest_size=16)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(content) + content)
    return ContentDigest(len(texts), hashed.hexdigest())
