"""Runs all checks on an engine, without connecting to a server.

The checks read files and look for programs, so they run in a thread.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine.config.files.data_folder import exposed_data
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.settings import (
    EmbeddingsSettings,
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.config.sources import client_files
from discovery_engine.config.syntax import CONTAINER_CLIENTS
from discovery_engine.engine.doctor import checks
from discovery_engine.engine.doctor.checks import Check
from discovery_engine.engine.doctor.entry_lint import lint_overrides_of, lint_rules_of
from discovery_engine.engine.named_registry import report_on
from discovery_engine.engine.reranking import RerankerError, Reranking
from discovery_engine.engine.restore import registry_path
from discovery_engine.errors import (
    ConfigurationError,
    RegistryError,
    SecretStoreError,
    UnavailableError,
)
from discovery_engine.search.embedders.opening import missing_extra
from discovery_engine.search.embedders.sentence_model import installed_model
from discovery_engine.search.ranking.confidence import calibration_in_use
from discovery_engine.secrets.encrypted_store import EncryptedStore
from discovery_engine.secrets.keys import working_keyring
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
from discovery_engine.store.backends import open_registry, sqlite_url
from discovery_engine.store.call_log.log_database import LogDatabase
from discovery_engine.store.call_log.log_reader import LogReader
from discovery_engine.store.call_log.log_tables import CallLogError, Loss
from discovery_engine.upstream.connection import admitted_transport
from discovery_engine.upstream.server_output import OutputRedactor
from discovery_engine.upstream.stdio.environment import child_environment
from discovery_engine.upstream.stdio.executable import Which, on_this_machine
from discovery_engine.upstream.stdio.sandbox.choice import Choice, choose
from discovery_engine.upstream.stdio.sandbox.launch import SandboxError
from discovery_engine.upstream.stdio.sandbox.means import MeansState, find_means
from discovery_engine.view.notices import Notice, lost

if TYPE_CHECKING:
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

_RERANKED = "open an issue", ("delete an issue", "create an issue")
_WEEK = 7 * 86_400.0  # seconds


async def check_setup(
    view: View,
    servers: Sequence[ServerReport],
    *,
    environ: Mapping[str, str],
    now: float,
    data_dir: str | Path | None = None,
) -> tuple[Check, ...]:
    """Check the runtime, the configuration with its servers and rules, the catalog, the registry.

    Args:
        view: The engine's current view.
        servers: The result of `Engine.health`.
        environ: As `open_engine` takes it.
        now: Unix time in seconds.
        data_dir: As `open_engine` takes it.
    """
    loss = lost(view.lost_at) if view.lost_at else None  # the check of the database has the rest
    folder = registry_path(data_dir, environ).parent
    reranker = await _reranker(view.settings, StoredSecretResolver(environ, folder))

    def run() -> tuple[Check, ...]:
        return (
            _runtime(),
            *_view_checks(view, servers, environ, StoredSecretResolver(environ, folder), now),
            *_registry(data_dir, environ, loss, is_required=view.settings.cache.enabled),
            *_database(view.settings, data_dir, environ),
            *_search_place(view),
            *_calibration(view),
            *reranker,
            _call_log(view.settings, folder, now),
            *_secrets(view.settings, folder, environ),
            *_embeddings(view.settings.search.embeddings, folder),
        )

    return await anyio.to_thread.run_sync(run)


def check_invalid_configuration(
    error: ConfigurationError, *, environ: Mapping[str, str], data_dir: str | Path | None = None
) -> tuple[Check, ...]:
    """The checks that remain if the configuration cannot be loaded."""
    return (
        _runtime(),
        *(checks.of_problem(problem) for problem in error.problems),
        *_registry(data_dir, environ, None, is_required=False),
    )


def _runtime() -> Check:
    return checks.runtime(sys.version_info[:3], sqlite3.sqlite_version)


def _view_checks(
    view: View,
    servers: Sequence[ServerReport],
    environ: Mapping[str, str],
    secrets: SecretResolver,
    now: float,
) -> Iterator[Check]:
    settings, catalog = view.settings, view.catalog
    # Of 20,000 servers most have the same few programs, and all inherit the same variables.
    try_out: Callable[[ServerSettings], None] = partial(
        _resolve, environ=child_environment(environ, {}), secrets=secrets,
        means=find_means(environ), which=cache(shutil.which),
    )  # fmt: skip
    yield from checks.configuration(settings)
    for health in servers:
        yield checks.server(view.server_settings(health.name), health, try_out)
    yield _sandboxes(settings, environ)
    yield from checks.effects("rules", lint_rules_of(view))
    if settings.overrides:
        yield from checks.effects("overrides", lint_overrides_of(view))
    yield from checks.schemas(entry.tool for entry in catalog.visible)
    yield from checks.extensions(catalog)
    yield from checks.documents(catalog, settings)
    if settings.servers:
        yield checks.age(catalog, ttl=settings.cache.ttl, now=now)
    files = client_files(environ=environ, home=Path.home(), cwd=Path.cwd(), platform=sys.platform)
    yield checks.clients(files, [source.type for source in settings.sources])


def _resolve(
    server: ServerSettings,
    *,
    environ: Mapping[str, str],
    secrets: SecretResolver,
    means: Sequence[MeansState],
    which: Which,
) -> None:
    """Resolve a server's secrets and find its program, without starting it.

    It is known to be admitted. Its commands are run: a locked vault is a finding.
    `environ` has the variables that it inherits.

    Raises:
        UnavailableError: If one of them is missing.
    """
    transport = admitted_transport(server, secrets, lambda _, __: None)
    if isinstance(transport, StdioTransport):
        try:
            env = {**environ, **transport.env}
            program = on_this_machine(server.name, transport, env, which=which).command
            choose(server.name, server.sandbox, program, means)
        except UnavailableError as error:
            OutputRedactor.for_server(server, secrets).redact_error(error)
            raise


def _sandboxes(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Check what confines programs. A server that cannot be confined has a check of its own."""
    means = find_means(environ)
    choices: dict[str, Choice] = {}
    for server in settings.servers:
        if isinstance(server.transport, StdioTransport) and server.sandbox.is_on:
            with suppress(SandboxError):
                command = server.transport.command
                choices[server.name] = choose(server.name, server.sandbox, command, means)
    path = environ.get("PATH", os.defpath)
    clients = [name for name in CONTAINER_CLIENTS if shutil.which(name, path=path)]
    return checks.sandboxes(means, choices, clients)


def _call_log(settings: Settings, folder: Path, now: float) -> Check:
    reader = LogReader(folder, None)
    error: CallLogError | None = None
    losses: list[Loss] = []
    try:
        reader.check()
        losses = [loss for loss in reader.losses() if loss.at > now - _WEEK]
        if settings.log.calls != "off":
            LogDatabase(folder, scope_of(settings.path)).check()
    except CallLogError as reason:
        error = reason
    size = reader.path.stat().st_size if reader.path.is_file() else None
    return checks.call_log(settings.log, size, error, losses)


def _secrets(settings: Settings, folder: Path, environ: Mapping[str, str]) -> Iterator[Check]:
    """The state of the secret store; none if nothing is stored and no server could need it."""
    store = EncryptedStore(folder, environ)
    is_remote = any(isinstance(server.transport, RemoteTransport) for server in settings.servers)
    if store.exists or is_remote:
        place, count, error = store.planned_key_place(), 0, None
        try:
            count = len(store.names())
            place = store.key_place() or place
            store.verify()
        except SecretStoreError as reason:
            error = reason
        keyring = working_keyring() if place == "keyring" else ""
        yield checks.secrets(count, place, error, exists=store.exists, keyring=keyring)
    yield from checks.visible_secrets(settings.servers)


def _embeddings(settings: EmbeddingsSettings, folder: Path) -> Iterator[Check]:
    """The extra that search by meaning lacks, and the model, if one is there or wanted."""
    model, is_wanted = installed_model(folder), settings.provider == "discovery"
    is_absent = is_wanted and model is None
    if settings.is_on and not is_absent and (problem := missing_extra(settings)):
        yield checks.of_problem(problem, "search")
    elif model is not None or is_wanted:
        yield checks.model(model, is_used=is_wanted)


def _database(
    settings: Settings, data_dir: str | Path | None, environ: Mapping[str, str]
) -> Iterator[Check]:
    """The state of the database that is the registry; none if there is none."""
    if settings.registry.url and settings.cache.enabled:
        try:
            report = report_on(settings, data_dir=data_dir, environ=environ)
        except RegistryError as error:
            yield checks.database("", None, error)
        else:
            yield checks.database(report.place, report.database, None)


def _search_place(view: View) -> Iterator[Check]:
    """Yield where tools are searched, if there are two places."""
    if view.settings.registry.url and view.settings.cache.enabled:
        yield checks.search_place(view.settings.search, len(view.catalog))


async def _reranker(settings: Settings, secrets: SecretResolver) -> tuple[Check, ...]:
    """Yield whether the reranker answers in time, if there is one."""
    if not settings.search.reranker.is_on:
        return ()
    reranking = Reranking(secrets)
    try:
        # Twice: the first time may be over before all that it needs is loaded.
        with suppress(RerankerError):
            await reranking.ask(*_RERANKED, settings)
        await reranking.ask(*_RERANKED, settings)
    except RerankerError as error:
        message = f"the reranker is not used: {error.message}"
        return (Check(error.code, message, error.hint, "search"),)
    finally:
        await reranking.aclose()
    return (Check.passed("search", "the reranker answers in time"),)


def _calibration(view: View) -> Iterator[Check]:
    """Yield whether the calibration of the confidence suits the catalog, if there is one."""
    if calibration := view.settings.calibration:
        is_used = calibration_in_use(view.settings) is not None
        tools = sum(entry.is_visible for entry in view.catalog)
        yield checks.calibration(calibration, tools, is_used=is_used)


def _registry(
    data_dir: str | Path | None,
    environ: Mapping[str, str],
    loss: Notice | None,
    *,
    is_required: bool,
) -> Iterator[Check]:
    path = registry_path(data_dir, environ)
    if exposure := exposed_data(str(path.parent)):
        yield checks.of_problem(exposure, "data")
    error = None
    try:
        if is_required or path.exists():
            open_registry(sqlite_url(path)).close()
    except RegistryError as reason:
        error = reason
    check = checks.registry(path, path.stat().st_mode if path.exists() else None, error, loss)
    if exposure is None or check.level != "good":
        yield check
