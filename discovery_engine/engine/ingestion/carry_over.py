"""The parts of a catalog that still hold after the settings or the decisions have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.catalog import ServerPart
from discovery_engine.trust.server_identity import known_as
from discovery_engine.upstream.connection import connection_fingerprint

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.engine.ingestion.ingestor import Ingestor
    from discovery_engine.rules.rule import Rule
    from discovery_engine.store.snapshot import Snapshot


def carried_over(known: Snapshot, ingestor: Ingestor) -> tuple[ServerPart, ...]:
    """The parts of a snapshot that still hold under the ingestor's settings, judged by its rules.

    A server whose transport changed gets an empty part. Where nothing changed that a verdict
    depends on, no tool is looked at.
    """
    settings = ingestor.rulebook.settings
    before = known.settings
    # Not known, if processes with different rules have saved listings.
    is_known = known.decided is not None
    same_rules = _rules_of(before) == _rules_of(settings) and _same_overrides(before, settings)
    same_decisions = known.decided == ingestor.trust.decisions.number
    same_trust = same_decisions and _same_trust(before, settings)
    return tuple(
        _carried_over(
            known.catalog.parts.get(server.name),
            server,
            ingestor,
            same_rules=is_known and same_rules,
            is_judged=same_trust and _is_judged_alike(before, settings, server),
        )
        for server in settings.servers
    )


def _carried_over(
    part: ServerPart | None,
    server: ServerSettings,
    ingestor: Ingestor,
    *,
    same_rules: bool,
    is_judged: bool,
) -> ServerPart:
    verdict = ingestor.server_verdict(server)
    if part is None or part.connection != connection_fingerprint(server):
        return ServerPart(server.name, verdict=verdict, connection=connection_fingerprint(server))
    if part.listed_at is None:  # nothing to judge; another process may have listed it meanwhile
        return part if verdict == part.verdict else replace(part, verdict=verdict)
    is_same = same_rules and verdict == part.verdict
    if is_same and (is_judged or ingestor.makes_same(server, part)):
        return part
    tools = [entry.tool for entry in part.entries]
    return ingestor.make_part(server, part, tools, [entry.offering for entry in part.offerings])


def _same_trust(one: Settings, other: Settings) -> bool:
    """Return whether the same decisions withhold the same tools under both settings."""
    ours, theirs = ((s.trust, s.name, s.path, s.frozen) for s in (one, other))
    # The digest of the lock file is among the inputs.
    return ours == theirs and (not one.frozen or one.inputs == other.inputs)


def _is_judged_alike(before: Settings, settings: Settings, server: ServerSettings) -> bool:
    """Return whether a server's settings are equal as far as its tools' verdicts depend on them."""
    old_server = before.by_name.get(server.name)
    if old_server is None or (old_server.prefix, old_server.trust) != (server.prefix, server.trust):
        return False
    return known_as(old_server, before.path) == known_as(server, settings.path)


def _rules_of(settings: Settings) -> tuple[tuple[Rule, ...], ...]:
    return settings.tool_rules, settings.resource_rules, settings.prompt_rules


def _same_overrides(one: Settings, other: Settings) -> bool:
    """Compares overrides without argument values: stored overrides have none."""
    ours, theirs = (
        [override.without_values() for override in settings.overrides] for settings in (one, other)
    )
    return ours == theirs
