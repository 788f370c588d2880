"""Restores the view of the last run from the registry.

This path imports no YAML, no pydantic, no event loop and no MCP SDK: a command that only reads
takes little longer than starting Python.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from discovery_engine.config.files.data_folder import data_folder
from discovery_engine.config.files.inputs import is_current
from discovery_engine.config.files.location import (
    catalog_key,
    catalog_key_of,
    decision_scope,
    locate,
)
from discovery_engine.config.loading.untrusted import is_untrusted_origin
from discovery_engine.errors import RegistryError
from discovery_engine.search.usage import usage_shares
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
from discovery_engine.store.backends import (
    UNKNOWN_DATABASE,
    open_fallback,
    open_reader,
    open_registry,
    sqlite_url,
)
from discovery_engine.store.stored_reader import registration_mark
from discovery_engine.view.notices import RegistryOutage, lost
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.examples.book import ExampleBook
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.search.usage import UseCount
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.sqlite.sqlite_reader import SqliteReader
    from discovery_engine.store.stored_reader import StoredReader
    from discovery_engine.tools.model import ServerName, ToolKey

logger = logging.getLogger(__name__)

_REGISTRY = "registry.db"
# A commit keeps readers out for some milliseconds, and on a slow disk for one or two seconds.
_READING_PATIENCE = 2.0  # seconds to wait for other processes
_OPENING_PATIENCE = 5.0  # seconds to wait for other processes; several may bring it up to date


def stored_view(
    config: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    frozen: bool = False,
) -> View | None:
    """Return the view of the last run, without an event loop; None if it is not current.

    It is not current if a file has changed since, if a server was never listed, or if a value that
    was missing for a server exists now. `environ` is that of the process if None.
    """
    environ = os.environ if environ is None else environ
    path = registry_path(data_dir, environ)
    if not path.exists():
        return None
    place = locate(config, environ=environ)
    name = catalog_key(place.path, is_untrusted=is_untrusted_origin(place), frozen=frozen)
    open_store: _Opener = partial(_reader, path)
    try:
        state = _recall(open_store, name)
        if state and state.snapshot.settings.registry.url and state.is_current:
            # The file has the settings alone; what they name has the rest.
            open_store = partial(_shared, state.snapshot.settings, path, environ)
            name = catalog_key_of(state.snapshot.settings)
            state = _recall(open_store, name)
    except RegistryError as error:
        logger.warning("Nothing could be recalled: %s", error)
        return None
    if state is None or not state.is_current:
        return None
    snapshot = state.snapshot.own
    if snapshot.settings.registered != state.registered:
        return None
    secrets = StoredSecretResolver(environ, path.parent)
    catalog = snapshot.catalog
    if has_unasked(catalog) or newly_configured(snapshot.settings, catalog, secrets):
        return None
    _warn_of_loss(state.lost_at)
    open_book = cache(partial(_book, snapshot.settings, state.mark, open_store))
    keep = partial(_keep_index, open_store, name)
    open_searcher = partial(_searcher, snapshot, open_book, state.index, keep)
    if snapshot.settings.search.is_in_database and snapshot.settings.registry.url:
        open_shared = partial(_shared, snapshot.settings, path, environ)
        open_searcher = partial(
            _database_searcher, snapshot, open_book, name, open_shared, open_searcher
        )
    return View(
        snapshot.settings,
        snapshot.catalog,
        open_searcher,
        open_book=open_book,
        usage=usage_shares(state.uses, time.time()),
        lost_at=state.lost_at,
        outage=state.outage,
    )


T = TypeVar("T")

_Opener: TypeAlias = Callable[[], AbstractContextManager["StoredReader"]]


class _Recalled(Struct, frozen=True):
    """The data that a start reads from a registry."""

    snapshot: Snapshot
    index: bytes | None
    uses: Mapping[ToolKey, UseCount]
    lost_at: float | None
    mark: str
    registered: str
    outage: RegistryOutage | None

    @property
    def is_current(self) -> bool:
        return is_current(self.snapshot.settings.inputs)


def _recall(open_store: _Opener, name: str) -> _Recalled | None:
    with open_store() as store:
        snapshot, index = store.load(name), store.load_index(name)
        if snapshot is None:
            return None
        return _Recalled(
            snapshot,
            index,
            store.uses(name) if snapshot.settings.search.learn else {},
            store.lost_at(decision_scope(snapshot.settings)),
            store.requests_mark(),
            registration_mark(store, snapshot.settings),
            # Last: whether all else was of the copy.
            RegistryOutage.of(store.health) if store.health else None,
        )


def open_store(
    settings: Settings,
    *,
    data_dir: str | Path | None,
    environ: Mapping[str, str],
    patience: float = _READING_PATIENCE,
) -> Registry:
    """Open the registry that settings name: the file of the data folder, or a database.

    Raises:
        RegistryError: If it cannot be opened.
    """
    path = registry_path(data_dir, environ)
    if not settings.registry.url:
        return open_registry(sqlite_url(path), patience=patience)
    # Its driver takes longer to load than most commands run.
    from discovery_engine.engine.shared_store import open_shared_store  # noqa: PLC0415

    return open_shared_store(settings, path, environ, patience=patience)


def _shared(settings: Settings, path: Path, environ: Mapping[str, str]) -> closing[Registry]:
    return closing(open_store(settings, data_dir=path.parent, environ=environ))


def unchanged_settings(
    config: str | Path | None,
    *,
    environ: Mapping[str, str],
    data_dir: str | Path | None,
) -> Settings | None:
    """Return the settings of the last run if an engine can open with them, else None.

    Their files must be unchanged, and nothing may be needed that is not stored: approvals of a file
    of untrusted origin, the servers of other files (which depend on variables), or the key of an
    embedder. Servers have transports as far as these are stored (`Settings.remembered`).
    """
    try:
        with _last_run(config, environ, data_dir) as last:
            if last is None or last[1].registry.url:  # then a database has its registered servers
                return None
            settings = _with_registered(*last)
    except RegistryError as error:
        logger.debug("The last configuration cannot be recalled: %s", error)
        return None
    if settings is None:
        return None
    has_untrusted = any(
        server.is_untrusted_origin and not server.is_registered for server in settings.servers
    )
    search = settings.search
    has_addresses = search.embeddings.is_on or search.reranker.is_on
    needs_more = has_untrusted or settings.sources or has_addresses
    return None if needs_more else settings


@contextmanager
def last_registry(
    config: str | Path | None, *, environ: Mapping[str, str], data_dir: str | Path | None
) -> Iterator[tuple[Registry, Settings] | None]:
    """Open the registry with the settings of the last run, for what depends on these alone.

    Servers may lack transports. None if there are no such settings, or anything of them has
    changed: a file, a registered server, a switch or a shared rule.

    Raises:
        RegistryError: If the registry cannot be used.
    """
    with _last_run(config, environ, data_dir) as last:
        settings = last[1] if last else None
    if settings is None:
        yield None
        return
    with closing(open_store(settings, data_dir=data_dir, environ=environ)) as store:
        is_same = registration_mark(store, settings) == settings.registered
        yield (store, settings) if is_same else None


def names_database(
    config: str | Path | None, *, environ: Mapping[str, str], data_dir: str | Path | None
) -> bool:
    """Return whether the settings of the last run name a database as the registry."""
    with suppress(RegistryError), _last_run(config, environ, data_dir) as last:
        return bool(last and last[1].registry.url)
    return False


@contextmanager
def _last_run(
    config: str | Path | None, environ: Mapping[str, str], data_dir: str | Path | None
) -> Iterator[tuple[Registry, Settings] | None]:
    """Open the file's registry with the settings of the last run; None if a file has changed.

    None also for a file of untrusted origin, and if there was no run.
    """
    path = registry_path(data_dir, environ)
    place = locate(config, environ=environ)
    if place.path is None or not path.exists() or is_untrusted_origin(place):
        yield None
        return
    with closing(open_registry(sqlite_url(path), patience=_READING_PATIENCE)) as store:
        settings = store.load_settings(catalog_key(place.path, is_untrusted=False, frozen=False))
        yield (store, settings) if settings and is_current(settings.inputs) else None


def _with_registered(store: Registry, settings: Settings) -> Settings | None:
    """Return the settings with the transports of registered servers; None if these changed."""
    if registration_mark(store, settings) != settings.registered:
        return None
    if not any(server.is_registered for server in settings.servers):
        return settings
    from discovery_engine.engine.registered_servers import recalled  # noqa: PLC0415 - as below

    return recalled(settings, store)


def has_unasked(catalog: Catalog) -> bool:
    """Return whether a server was never listed.

    Its entry, which is not stored, has the reason.
    """
    return any(
        part.listed_at is None and part.failure is None and part.verdict.enabled
        for part in catalog.parts.values()
    )


def newly_configured(
    settings: Settings, catalog: Catalog, secrets: SecretResolver
) -> frozenset[ServerName]:
    """Return the servers that failed because of missing values which exist now."""
    failed = {name: part.failure for name, part in catalog.parts.items() if part.failure}
    wanting = {name: failure.missing for name, failure in failed.items() if failure.missing}
    if not wanting:
        return frozenset()
    from discovery_engine.secrets.resolver import has_value  # noqa: PLC0415 - seldom needed

    folders = {server.name: os.path.dirname(server.origin.file) for server in settings.servers}  # noqa: PTH120 - "" must stay ""
    owners = {server.name: server.secret_owner for server in settings.servers}
    return frozenset(
        name
        for name, missing in wanting.items()
        if all(
            has_value(reference, secrets, base_dir=folders.get(name) or None, server=owners[name])
            for reference in missing
        )
    )


def _searcher(
    snapshot: Snapshot,
    open_book: Callable[[], ExampleBook],
    index: bytes | None,
    keep: Callable[[bytes], None],
) -> Searcher:
    """Return the searcher of the stored index; if that is outdated, build and store another."""
    # Most reads do not search, and importing the search takes a tenth of their time.
    from discovery_engine.search.searcher import build_searcher, load_searcher  # noqa: PLC0415

    settings, catalog, book = snapshot.settings, snapshot.catalog, open_book()
    searcher = (
        load_searcher(
            index, catalog, settings.search, descriptions=settings.descriptions, book=book
        )
        if index
        else None
    )
    if searcher:
        return searcher
    built = build_searcher(catalog, settings.search, descriptions=settings.descriptions, book=book)
    if built.is_storable:
        keep(built.dump())
    return built


def _database_searcher(
    snapshot: Snapshot,
    open_book: Callable[[], ExampleBook],
    name: str,
    open_shared: Callable[[], AbstractContextManager[Registry]],
    open_local: Callable[[], Searcher],
) -> Searcher:
    """Return a searcher that searches in the database."""
    from discovery_engine.store.postgres.database_searcher import open_database_searcher
    from discovery_engine.store.postgres.search_documents import SearchDocuments

    settings = snapshot.settings
    return open_database_searcher(
        snapshot.catalog,
        settings.search,
        descriptions=settings.descriptions,
        book=open_book(),
        documents=SearchDocuments(_DatabaseForEachCall(open_shared), name),
        open_local=open_local,
    )


class _DatabaseForEachCall:
    """The database of a registry, which is open only while it is used."""

    def __init__(self, open_shared: Callable[[], AbstractContextManager[Registry]]) -> None:
        self._open = open_shared

    def read(self, work: Callable[[Any], T]) -> T:
        with self._opened() as database:
            return database.read(work)

    def write(self, work: Callable[[Any], T]) -> T:
        with self._opened() as database:
            return database.write(work)

    def run_alone(self, work: Callable[[Any], T]) -> T:
        with self._opened() as database:
            return database.run_alone(work)

    @contextmanager
    def _opened(self) -> Iterator[SearchDatabase]:
        with self._open() as store:
            if store.search is None:
                raise RegistryError("the registry is no database")
            yield store.search


def _book(settings: Settings, mark: str, open_store: _Opener) -> ExampleBook:
    # As the search: most reads need none.
    from discovery_engine.search.examples.book import ExampleBook, WrittenBook  # noqa: PLC0415

    book = WrittenBook(mark, open_store) if mark else None
    return ExampleBook.of(settings.search, book)


def _reader(path: Path) -> closing[SqliteReader]:
    return closing(open_reader(path, patience=_READING_PATIENCE))


def _keep_index(open_store: _Opener, name: str, index: bytes) -> None:
    try:
        with open_store() as store:
            store.save_index(name, index)
    except RegistryError as error:
        logger.info("The next search will make its index again: %s", error)


@contextmanager
def open_registry_or_fallback(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> Iterator[Registry]:
    """Open the registry; one in memory if caching is off, or if it cannot be opened."""
    # Imported here, because a command that only reads does not need it.
    from discovery_engine.engine.registered_servers import settle_scope  # noqa: PLC0415
    from discovery_engine.store.memory import FallbackRegistry  # noqa: PLC0415

    if not settings.cache.enabled:
        yield FallbackRegistry("`cache.enabled` is false", hint="set it to true")
        return
    try:
        store = open_store(
            settings,
            data_dir=data_dir,
            environ=environ,
            patience=_OPENING_PATIENCE,
        )
    except RegistryError as error:
        logger.warning("Nothing will be remembered: %s", error)
        is_file = not settings.registry.url
        url = sqlite_url(registry_path(data_dir, environ)) if is_file else UNKNOWN_DATABASE
        store = open_fallback(url, error)
    with closing(store):
        with suppress(RegistryError):  # the next read of the decisions reports it
            settle_scope(store, settings, at=time.time())
            _warn_of_loss(store.lost_at(decision_scope(settings)))
        yield store


def _warn_of_loss(lost_at: float | None) -> None:
    if lost_at is not None:
        logger.warning("%s", lost(lost_at).message)


def registry_path(data_dir: str | Path | None, environ: Mapping[str, str]) -> Path:
    """Return the path of the registry in `data_dir`, `$DISCOVERY_DATA_DIR` or the user's folder."""
    return Path(data_folder(data_dir, environ)) / _REGISTRY


def with_registered(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> Settings:
    """Return the settings of files with their registered servers, where no engine is open."""
    is_there = settings.registry.url or registry_path(data_dir, environ).exists()
    if not settings.cache.enabled or not is_there:
        return settings
    from discovery_engine.engine.registered_servers import RegisteredServers  # noqa: PLC0415

    try:
        with closing(open_store(settings, data_dir=data_dir, environ=environ)) as store:
            return RegisteredServers(store, environ).join(settings)
    except RegistryError as error:
        logger.warning("The registered servers cannot be read: %s", error)
        return settings
