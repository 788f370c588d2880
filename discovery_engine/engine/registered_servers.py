"""Registered servers, switches and shared rules joined to the settings of a configuration.

They are one more source, `registry`: a name of the file or of another source wins, and the server
is then called `NAME@registry`. Each waits for approval as one that was found does; to add it with
the verbs of the owner approves it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from discovery_engine.config.files.location import decision_scope, scope_of
from discovery_engine.config.serialization import deserialize_server
from discovery_engine.config.settings import (
    OWN_SOURCE,
    REGISTRY,
    Calibration,
    ServerSettings,
    Settings,
    with_default_sandbox,
)
from discovery_engine.errors import ConfigurationError, Diagnostic, RegistryError
from discovery_engine.rules.rule import NOBODY
from discovery_engine.store.stored_reader import registration_mark
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.server_identity import switched_as

if TYPE_CHECKING:
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.server_records import RegisteredServer, ServerSwitch

logger = logging.getLogger(__name__)

CALIBRATION = "calibration"
"""The section of the shared rules that has the calibration of the confidence, as JSON."""


class Registrations(Struct, frozen=True):
    """The content of the registry for one configuration."""

    mark: str = ""
    servers: Mapping[str, RegisteredServer] = {}
    switches: Mapping[str, ServerSwitch] = {}
    rules: Mapping[str, str] = {}
    """Rules before those of the file, as YAML by section."""
    calibration: Calibration | None = None


class RegisteredServers:
    """The registered servers of one configuration; methods block.

    Entries are compared with the values of `environ`.
    """

    def __init__(self, store: Registry, environ: Mapping[str, str]) -> None:
        self._store = store
        self._environ = environ
        self._last = Registrations()

    def join(self, settings: Settings, rules: Mapping[str, str] | None = None) -> Settings:
        """The settings with what is registered now; with what was last read if none can be.

        Args:
            settings: Those of the files.
            rules: Shared rules in place of the present ones.

        Raises:
            ConfigurationError: If `rules` are invalid.
        """
        records = self.read(settings)
        if rules is None:
            return joined(settings, records, self._environ)
        return with_rules(joined(settings, replace(records, rules={}), self._environ), rules)

    def read(self, settings: Settings) -> Registrations:
        """Return what is registered now; what was last read if that is unknown."""
        try:
            self._last = registrations(self._store, settings)
        except RegistryError as error:
            logger.warning("The registered servers cannot be read: %s", error)
        return self._last

    def is_current(self, settings: Settings) -> bool:
        """Return whether the registry has no other servers, switches and rules than `settings`."""
        try:
            return registration_mark(self._store, settings) == settings.registered
        except RegistryError as error:
            logger.debug("The mark of registered servers cannot be read: %s", error)
            return True


def settle_scope(store: Registry, settings: Settings, *, at: float) -> None:
    """Have decisions that were made before a configuration had its name count under it.

    Where machines share the registry, another one may have those decisions, under its path or an
    earlier name. Then nothing is accepted at first sight until the owner has reviewed it.

    Args:
        store: The registry of the settings.
        settings: As they are read of files.
        at: Unix time in seconds.

    Raises:
        RegistryError: If they cannot be read or moved.
    """
    scope = decision_scope(settings)
    store.take_over(scope, scope_of(settings.path), at=at)
    if store.gateways:
        store.note_new_scope(scope, at=at)


def registrations(store: Registry, settings: Settings) -> Registrations:
    """Return what is registered for a configuration.

    Raises:
        RegistryError: If it cannot be read.
    """
    # First, so that what is registered meanwhile has another mark.
    mark = registration_mark(store, settings)
    if not mark:
        return Registrations()
    scope = decision_scope(settings)
    servers = {server.name: server for server in store.registered_servers(scope)}
    rules = {**store.shared_rules(scope)}
    calibration = _calibration(rules.pop(CALIBRATION, ""))
    return Registrations(mark, servers, store.switches(scope), rules, calibration)


def _calibration(text: str) -> Calibration | None:
    if not text:
        return None
    try:
        return json.decode(text, type=Calibration)
    except MsgspecError:  # of another version of the program
        return None


def joined(settings: Settings, records: Registrations, environ: Mapping[str, str]) -> Settings:
    """The settings of a file and its sources, with what is registered."""
    if not records.mark:
        return settings
    settings = replace(settings, registered=records.mark, calibration=records.calibration)
    if records.servers:
        settings = _merged(settings, records.servers.values(), environ)
    if records.switches:
        settings = _switched(settings, records.switches)
    try:
        return with_rules(settings, records.rules)
    except ConfigurationError as error:  # a newer version of the program may have saved them
        return replace(settings, warnings=(*settings.warnings, *error.problems))


def with_rules(settings: Settings, texts: Mapping[str, str]) -> Settings:
    """The settings with shared rules before those of the file.

    Raises:
        ConfigurationError: If a text is invalid.
    """
    if not texts:
        return settings
    # It parses YAML, and most registries have no rules.
    from discovery_engine.config.editing.section_edit import RULES, parse_rules  # noqa: PLC0415

    rules = {name: parse_rules(name, texts.get(name, ""), place=REGISTRY) for name in RULES}
    return replace(
        settings,
        tool_rules=(*rules["toolRules"], *settings.tool_rules),
        server_rules=(*rules["serverRules"], *settings.server_rules),
        resource_rules=(*rules["resourceRules"], *settings.resource_rules),
        prompt_rules=(*rules["promptRules"], *settings.prompt_rules),
    )


def recalled(settings: Settings, store: Registry) -> Settings | None:
    """Remembered settings with the transports of registered servers, which their rows have.

    None if other servers are registered by now.

    Raises:
        RegistryError: If these cannot be read.
    """
    stored_registrations = registrations(store, settings)
    if stored_registrations.mark != settings.registered:
        return None
    bound_to = _bound_to(settings)
    servers = [
        _with_transport(server, stored_registrations.servers, bound_to)
        if server.is_registered
        else server
        for server in settings.servers
    ]
    return with_default_sandbox(replace(settings, servers=tuple(servers)))


def _with_transport(
    server: ServerSettings, records: Mapping[str, RegisteredServer], bound_to: str
) -> ServerSettings:
    record = records.get(server.renamed_from or server.name)
    if record is None:
        return server
    transport = _server(record, bound_to).transport
    return replace(server, transport=transport, remembered_sandbox=None)


def _merged(
    settings: Settings, servers: Iterable[RegisteredServer], environ: Mapping[str, str]
) -> Settings:
    # It knows the formats of all clients, and most configurations have no registered server.
    from discovery_engine.config.loading.merging import merge  # noqa: PLC0415
    from discovery_engine.config.sources.source_result import SourceResult  # noqa: PLC0415
    from discovery_engine.secrets.resolver import EnvironmentResolver  # noqa: PLC0415

    bound_to = _bound_to(settings)
    result = SourceResult(tuple(_server(server, bound_to) for server in servers))
    return merge(settings, [result], EnvironmentResolver(environ))


def _bound_to(settings: Settings) -> str:
    """Return the digest of the overrides of a file that others wrote; empty for other files.

    Approvals are bound to it besides the entries.
    """
    if not settings.is_untrusted_origin:
        return ""
    from discovery_engine.config.loading.untrusted import overrides_digest  # noqa: PLC0415

    return overrides_digest(settings)


def _server(record: RegisteredServer, bound_to: str) -> ServerSettings:
    try:
        server = deserialize_server(record.name, record.entry)
    except ValueError as error:
        hint = f"`discovery remove {record.name}`, and add it again"
        message = f"its registered entry cannot be used: {error}"
        subject = f"servers.{record.name}"
        problem = Diagnostic("SOURCE_ENTRY_INVALID", message, hint, subject)
        visible_to = (NOBODY,) if "visibleTo" in record.entry else ()
        server = ServerSettings(ServerName(record.name), problem=problem, visible_to=visible_to)
    return replace(
        server,
        source=REGISTRY,
        is_untrusted_origin=True,
        bound_to=bound_to,
        package=str(record.package or ""),
        created_at=record.created_at,
        updated_at=record.updated_at,
    )


def _switched(settings: Settings, switches: Mapping[str, ServerSwitch]) -> Settings:
    servers = [
        _with_switch(server, switches.get(switched_as(server, settings.path)))
        for server in settings.servers
    ]
    return replace(settings, servers=tuple(servers))


def _with_switch(server: ServerSettings, switch: ServerSwitch | None) -> ServerSettings:
    """The server as it is switched; `enabled: false` in `discovery.yaml` is final."""
    if switch is None:
        return server
    if not switch.is_wanted:
        return replace(server, enabled=False, switch="off") if server.enabled else server
    if server.source == OWN_SOURCE:
        return server
    return replace(server, enabled=True, switch="on")
