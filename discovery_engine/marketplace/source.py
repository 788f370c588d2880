"""Sources of the marketplace: synced ones are copied page by page, live ones queried each time.

A source raises no exception but `SourceFailure`. A failure affects only that source: its previous
copy is still served, and the answer includes the failure as a diagnostic.
"""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from discovery_engine._util import digests
from discovery_engine._util.address_classes import reachable_classes
from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.json import JSONValue
from discovery_engine._util.retry_after import retry_after
from discovery_engine._util.text import quoted
from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.rpc.json_codec import decode
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.secrets.values import secrets_in

if TYPE_CHECKING:
    from discovery_engine._util.fetch.fetcher import Fetched, Fetcher

FailureCode: TypeAlias = Literal[
    "MARKETPLACE_SOURCE_UNAVAILABLE",  # down, slow or rate-limited: may be temporary
    "MARKETPLACE_SOURCE_INVALID",  # the response is not that of a marketplace
    "MARKETPLACE_LIST_INVALID",  # a list of the owner cannot be parsed
]


class SourceFailure(Exception):  # noqa: N818 - a signal within this package
    """The reason why a source could not be read."""

    def __init__(
        self,
        code: FailureCode,
        reason: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        is_passing: bool = False,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.hint = hint
        self.retry_after = retry_after
        """Seconds to wait before the next request, as the source demands; None if it does not."""
        self.is_passing = is_passing
        """True if an immediate retry may succeed."""
        self.origin = origin or Origin("")

    def diagnostic(self, source: str) -> Diagnostic:
        return Diagnostic(self.code, self.reason, self.hint, source, self.origin)


class SyncPoint(Struct, frozen=True):
    """The progress of copying a source; only the source interprets it."""

    cursor: str = ""
    """The cursor of the next page; empty for the first page."""
    since: str = ""
    """The time since which changes are requested; empty for all entries."""
    etag: str = ""
    """The ETag of the first page at the last read."""


class SourcePage(Struct, frozen=True):
    """A page of a source."""

    entries: tuple[MarketplaceEntry, ...] = ()
    """The entries of the page; entries with the status `deleted` are removed from the copy."""
    malformed: tuple[str, ...] = ()
    """A reason for each entry that was skipped because it is malformed."""
    mistakes: tuple[Diagnostic, ...] = ()
    """Mistakes in a list of the owner, who can correct them."""
    cursor: str = ""
    """The cursor of the next page; empty if this is the last one."""
    etag: str = ""
    is_unchanged: bool = False
    """True if nothing has changed since the last read."""
    size: int = 0
    """The number of bytes that were read."""


PageReader: TypeAlias = Callable[[SyncPoint], Awaitable[SourcePage]]
"""Reads the page at a sync point; raises `SourceFailure` if that fails."""


def copy_key(settings: MarketplaceSource) -> str:
    """Return the key of the copy of a source, made of its name, type, address and trust level.

    The name alone does not suffice, because configurations that share a data folder may use the
    same name for different sources.
    """
    made_of = (settings.type, settings.address or settings.path, settings.trusted_as)
    return f"{settings.name} {digests.digest(repr(made_of).encode()).hex()[:16]}"


class SyncedSource(ABC):
    """A source that is copied; searches read the copy."""

    has_changes = False
    """True if the source can return only the changes since a time."""

    def __init__(self, settings: MarketplaceSource) -> None:
        self.settings = settings
        self.origin = EntryOrigin(settings.name, settings.trusted_as)
        self.is_local = bool(settings.path)
        """True for a file of the owner; every search checks it for changes, which is cheap."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[PageReader]:
        """Connect to the source.

        Raises:
            SourceFailure: If the connection fails.
        """


class LiveSource(Protocol):
    """A source that is queried for each search; nothing of it is copied."""

    @property
    def settings(self) -> MarketplaceSource: ...

    async def search(self, query: str, *, limit: int) -> Sequence[MarketplaceEntry]:
        """Return at most `limit` entries that match a query, the best first.

        Raises:
            SourceFailure: If the request fails.
        """

    async def lookup(self, name: str, version: str = "") -> MarketplaceEntry | None:
        """Return the entry of that exact name; None if it does not exist or the name is invalid.

        Raises:
            SourceFailure: If the request fails.
        """


_OK = 200
_UNCHANGED = 304
_REFUSED = (401, 403, 407)
_GONE = (404, 410)
_LIMITED = (429, 503)
_FAILED = 500  # and above
_PASSING = ("timeout", "broken", "unreachable")
_MAX_NON_JSON_EXCERPT = 60  # characters of a response that is not JSON


class SourceAddress:
    """The base URL of a source with its resolved headers; made by `open_address`."""

    def __init__(self, fetcher: Fetcher, url: str, headers: Mapping[str, str]) -> None:
        self._fetcher = fetcher
        self._headers = headers
        self.url = url

    async def get(self, url: str, *, limit: int, etag: str = "") -> Fetched | None:
        """Get a URL; return None if the server answers that `etag` is still current.

        Args:
            url: The URL to get.
            limit: The maximum number of bytes of the body.
            etag: The ETag of an earlier response; empty for none.

        Raises:
            SourceFailure: If the request fails, or the status is not 200.
        """
        headers = {**self._headers, "if-none-match": etag} if etag else self._headers
        try:
            answer = await self._fetcher.get(url, limit=limit, headers=headers)
        except FetchError as error:
            raise _not_fetched(error) from error
        if answer.status == _UNCHANGED and etag:
            return None
        if answer.status != _OK:
            raise _status_failure(answer)
        return answer


@asynccontextmanager
async def open_address(
    source: MarketplaceSource, secrets: SecretResolver, folder: str | None
) -> AsyncGenerator[SourceAddress]:
    """Yield the address of a source; relative paths in `${file:…}` start at `folder`.

    Raises:
        SourceFailure: If a public address is not encrypted, or a header cannot be resolved.
    """
    _require_encryption(source)
    headers = await anyio.to_thread.run_sync(_resolved_headers, source, secrets, folder)
    try:
        # Most searches send no request, and the HTTP client takes 0.1 s of CPU to import.
        from discovery_engine._util.fetch.fetcher import open_fetcher  # noqa: PLC0415

        async with open_fetcher(source.address, is_private=source.private) as fetcher:
            yield SourceAddress(fetcher, source.address.rstrip("/"), headers)
    except FetchError as error:
        raise _not_fetched(error) from error


def _read_file(folder: Path, name: str, etag: str) -> tuple[bytes | None, str]:
    """Read a file of the owner, unless its tag is `etag`; return its content or None, and its tag.

    The tag consists of size, modification time and inode.

    Raises:
        SourceFailure: If it is not a regular file, cannot be read, or is too long.
    """
    path = folder / Path(name).expanduser()
    try:
        status = path.stat()
        tag = f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
        if tag == etag:
            return None, tag
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would block
            raise _file_failure(path, "is no file")
        with path.open("rb") as file:
            content = file.read(bounds.CATALOG_BYTES + 1)
    except OSError as error:
        raise _file_failure(path, f"cannot be read: {error.strerror or error}") from error
    if len(content) > bounds.CATALOG_BYTES:
        raise _file_failure(path, f"is longer than {bounds.CATALOG_BYTES // 1024 // 1024} MiB")
    return content, tag


def json_of(answer: Fetched) -> JSONValue:
    """Decode the JSON body of a response.

    Raises:
        SourceFailure: If it is not JSON, for instance an HTML page.
    """
    start = answer.body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if start[:1] == b"<" or kind in ("text/html", "application/xhtml+xml"):
        raise invalid("it answers with a page for people, not with JSON")
    try:
        return decode(answer.body)
    except ValueError as error:
        what = quoted(start[:_MAX_NON_JSON_EXCERPT].decode("utf-8", "replace"))
        raise invalid(f"it answers with what is no JSON, beginning with {what}") from error


def invalid(reason: str) -> SourceFailure:
    """Return the failure of a source whose response is not what its type promises."""
    hint = "check `url` and `type` of the source; if they are right, tell its owner"
    return SourceFailure("MARKETPLACE_SOURCE_INVALID", reason, hint=hint)


def _require_encryption(source: MarketplaceSource) -> None:
    """Raise `SourceFailure` for a public address without TLS, whose responses can be altered."""
    parts = urlsplit(source.address)
    is_public = reachable_classes(parts.hostname or "", is_private=source.private) == {"public"}
    if parts.scheme != "https" and is_public:
        reason = "its address is not encrypted, so that anyone on the way could change its answers"
        raise _unavailable(reason, hint="write https:// for the source")


def _resolved_headers(
    source: MarketplaceSource, secrets: SecretResolver, folder: str | None
) -> dict[str, str]:
    headers = {}
    for name, template in source.headers.items():
        try:
            value = resolve(template, secrets, base_dir=folder)
        except (UnsetReference, MalformedReferenceError) as error:
            hint = "give it a value, then run it again"
            raise _unavailable(f"header {name!r}: {error}", hint=hint) from error
        header_secrets = list(secrets_in(value, name))
        KNOWN_SECRETS.add(
            (secret.text for secret in header_secrets),
            (secret.text for secret in header_secrets if secret.is_certain),
        )
        headers[name] = value
    return headers


def _unavailable(reason: str, *, hint: str = "") -> SourceFailure:
    return SourceFailure("MARKETPLACE_SOURCE_UNAVAILABLE", reason, hint=hint)


def _not_fetched(error: FetchError) -> SourceFailure:
    is_passing = error.problem in _PASSING
    return SourceFailure(
        "MARKETPLACE_SOURCE_UNAVAILABLE", error.reason, hint=error.hint, is_passing=is_passing
    )


def _status_failure(answer: Fetched) -> SourceFailure:
    status = answer.status
    reason = f"it answers HTTP {status}"
    if status in _REFUSED:
        hint = "check `headers` of the source: the key may be missing, wrong or expired"
        return _unavailable(f"{reason}: it refuses access", hint=hint)
    if status in _GONE:
        return invalid(f"{reason}: there is no such address")
    wait = retry_after(answer.headers.get("retry-after", ""))
    if status in _LIMITED and wait is not None:
        reason, hint = f"{reason} and asks to wait {wait:.0f} s", "it is asked again after that"
    else:
        hint = "try again later" if status in _LIMITED or status >= _FAILED else "check `url`"
    return SourceFailure(
        "MARKETPLACE_SOURCE_UNAVAILABLE",
        reason,
        hint=hint,
        retry_after=wait,
        is_passing=status in _LIMITED or status >= _FAILED,
    )


def _file_failure(path: Path, reason: str) -> SourceFailure:
    hint = "check `path` of the source"
    return SourceFailure(
        "MARKETPLACE_SOURCE_UNAVAILABLE", reason, hint=hint, origin=Origin(str(path))
    )


# Sources that consist of one document.


class DocumentSource(SyncedSource):
    """Base class of sources that are one document, from a file or a URL.

    Subclasses parse it in `page`.
    """

    def __init__(
        self, settings: MarketplaceSource, secrets: SecretResolver, *, folder: str | None = None
    ) -> None:
        super().__init__(settings)
        self._secrets = secrets
        self._folder = folder

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[PageReader]:
        if self.settings.path:
            yield partial(self._read, None)
            return
        async with open_address(self.settings, self._secrets, self._folder) as address:
            yield partial(self._read, address)

    @abstractmethod
    def page(self, content: bytes, etag: str) -> SourcePage:
        """Parse all entries of a document; called in a thread.

        Raises:
            SourceFailure: If the document is not of the expected format.
        """

    async def _read(self, address: SourceAddress | None, point: SyncPoint) -> SourcePage:
        content: bytes | None = None
        etag = point.etag
        if address is None:
            folder = Path(self._folder or ".")
            content, etag = await anyio.to_thread.run_sync(
                _read_file, folder, self.settings.path, etag
            )
        elif answer := await address.get(address.url, limit=bounds.CATALOG_BYTES, etag=etag):
            content, etag = answer.body, answer.headers.get("etag", "")
        if content is None:
            return SourcePage(etag=etag, is_unchanged=True)
        return await anyio.to_thread.run_sync(self.page, content, etag)
