"""Settings and parts of a catalog as JSON text, and back.

Nothing secret passes: `without_secrets` comes before anything is written. A field that has its
default is left out, and one that is not known is refused, so that a record of another version
is never half understood. The structs are their own declaration of that form.

A part with its tools and offerings is one row (`PartRow`), with a column for each field of the
tools: a start reads them all and looks closely at a few. Definitions stay text, and none is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from io import BytesIO
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import NODEFAULT, Struct, convert, to_builtins
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.catalog import (
    DroppedTool,
    Entry,
    Failure,
    OfferingEntry,
    RemovedTool,
    ServerPart,
)
from discovery_engine.config.marketplace_settings import MarketplaceSettings, MarketplaceSource
from discovery_engine.config.serve_settings import SandboxSettings, ViewSettings
from discovery_engine.config.settings import (
    Calibration,
    InputFile,
    RemoteTransport,
    ServerSettings,
    Settings,
    Source,
    StdioTransport,
)
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.rules.overrides.override import Override
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import NO_OVERRIDE, AppliedOverride, ServerName, Tool
from discovery_engine.tools.offering import Offering, OfferingKind

if TYPE_CHECKING:
    from discovery_engine.tools.findings import Findings

T = TypeVar("T")

_OVERRIDDEN = "overridden"  # beside the fields of a part

_Reader: TypeAlias = Callable[[JSONValue], Any]


def without_secrets(settings: Settings) -> Settings:
    """Drop what must not be stored: literals that could be secrets, pinned values, excerpts.

    A transport that has such a literal is dropped whole, and for a shared database each is. The
    result says in `remembered` whether servers can be started with it.
    """
    search, embeddings, server = settings.search, settings.search.embeddings, settings.server
    enrich = settings.enrich
    if enrich.url or enrich.api_key:
        enrich = replace(enrich, url="", api_key="")
    if embeddings.url or embeddings.api_key:
        search = replace(search, embeddings=replace(embeddings, url="", api_key=""))
    if search.reranker.is_on:
        # Its address says that there is one.
        from discovery_engine.secrets.masking import redact_url  # noqa: PLC0415 - as in `_is_safe`

        reranker = replace(search.reranker, url=redact_url(search.reranker.url), api_key="")
        search = replace(search, reranker=reranker)
    if server.on_list_changed:
        server = replace(server, on_list_changed=())
    stored = replace(
        settings,
        search=search,
        enrich=enrich,
        marketplace=settings.marketplace.without_headers(),
        webhooks=tuple(webhook.without_secrets() for webhook in settings.webhooks),
        server=server,
        overrides=tuple(override.without_values() for override in settings.overrides),
        warnings=tuple(replace(problem, excerpt="") for problem in settings.warnings),
    )
    servers = [_server_without_secrets(server, settings) for server in settings.servers]
    is_whole = stored == settings and all(
        server.is_registered or server == given
        for server, given in zip(servers, settings.servers, strict=True)
    )
    remembered = settings.remembered or ("whole" if is_whole else "in part")
    return replace(stored, servers=tuple(servers), remembered=remembered)


def _server_without_secrets(server: ServerSettings, settings: Settings) -> ServerSettings:
    is_apart = server.is_registered or settings.registry.url  # the row of its entry; other machines
    if server.transport and not is_apart and (settings.remembered or _is_safe(server.transport)):
        return server
    problem = replace(server.problem, excerpt="") if server.problem else None
    sandbox = server.sandbox if server.sandbox.is_on else None
    return replace(server, transport=None, remembered_sandbox=sandbox, problem=problem)


def _is_safe(transport: StdioTransport | RemoteTransport) -> bool:
    # Its patterns are for what is saved, which most starts do not do.
    from discovery_engine.config.entry_secrets import redact_transport  # noqa: PLC0415

    return redact_transport(transport) == transport


def settings_to_text(settings: Settings) -> str:
    """JSON text of settings, without their secrets."""
    return json.dumps(to_builtins(without_secrets(settings)), separators=(",", ":"))


def settings_from_text(text: str) -> Settings:
    """Parse the settings that `settings_to_text` wrote.

    Raises:
        ValueError: If the text is something else.
    """
    try:
        return _struct(Settings, json.loads(text))
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"not stored settings: {exc!r}") from exc


def _struct(cls: Callable[..., T], record: JSONObject) -> T:
    """Convert like `msgspec.convert`, which resolves all annotations first: 0.1 s of a start."""
    readers = _readers(cls)
    values = {}
    for key, value in record.items():
        name, read = readers[key]
        values[name] = value if read is None else read(value)
    return cls(**values)


@cache
def _readers(cls: Any) -> Mapping[str, tuple[str, _Reader | None]]:
    """The fields of a struct, by the keys under which they are stored, with what reads each."""
    defaults = _defaults(cls)
    names = zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
    items = _ITEMS.get(cls, {})
    return {key: (name, _reader(key, defaults.get(name), items.get(key))) for key, name in names}


def _reader(key: str, default: object, item: type[Struct] | None) -> _Reader | None:
    if key == "findings":
        return _findings
    if key == "transport" and default is None:
        return _transport
    if item:
        return lambda values: tuple([_struct(item, value) for value in values])
    if part := type(default) if isinstance(default, Struct) else _PARTS.get(key):
        return lambda value: None if value is None else _struct(part, value)
    if default == ():
        return lambda values: tuple(map(_frozen, values))
    return _frozen if default is None else None


def _transport(record: JSONObject | None) -> StdioTransport | RemoteTransport | None:
    if record is None:
        return None
    fields = {key: value for key, value in record.items() if key != "type"}
    if record["type"] == "stdio":
        return _struct(StdioTransport, fields)
    return _struct(RemoteTransport, fields)


def _frozen(value: JSONValue) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def to_text(value: ServerPart | Verdict) -> str:
    """JSON text of `value`; of a part without its definitions, but with what overrides them."""
    if isinstance(value, ServerPart):
        record = _encode(replace(value, entries=(), offerings=())) | _overridden_of(value)
    else:
        record = _encode(value)
    return json.dumps(record, separators=(",", ":"))


def _overridden_of(part: ServerPart) -> JSONObject:
    tools = (entry.tool for entry in part.entries)
    overrides = {t.upstream_name: _encode(t.overridden) for t in tools if t.overridden.by}
    return {_OVERRIDDEN: overrides} if overrides else {}


def part_from_text(text: str) -> tuple[ServerPart, Mapping[str, AppliedOverride]]:
    """The part that `to_text` wrote, and what overrides its tools, by their upstream names.

    Raises:
        ValueError: If it is not that.
    """
    try:
        record = json.loads(text)
        overridden = record.pop(_OVERRIDDEN, {})
        overrides = {
            name: _struct(AppliedOverride, override) for name, override in overridden.items()
        }
        return _struct(ServerPart, record), overrides
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"not a remembered part: {exc}") from exc


def from_text(cls: type[T], text: str) -> T:
    """Parse the value that `to_text` wrote.

    Raises:
        ValueError: If the text is something else.
    """
    try:
        return _struct(cls, json.loads(text))
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"not a remembered {cls.__name__}: {exc}") from exc


class PartRow(Struct, frozen=True):
    """All that is kept of a part; what is of its tools is in step."""

    part: str
    names: str
    upstream_names: str
    verdicts: str
    judged: str
    sources: bytes
    digest: bytes | None
    offerings: str | None
    """JSON of all but tools; NULL if there is nothing else."""


def is_same_listing(known: PartRow, new: PartRow) -> bool:
    """Return whether two rows are equal except for the time at which they were listed.

    The digest is compared in place of the sources.
    """
    if replace(known, part="", sources=b"") != replace(new, part="", sources=b""):
        return False
    known_fields, new_fields = json.loads(known.part), json.loads(new.part)
    known_fields.pop("listed_at", None)
    new_fields.pop("listed_at", None)
    return bool(known_fields == new_fields)


def with_failure(row: PartRow, failure: Failure) -> PartRow | None:
    """The row of the same listing, of which the last attempt failed; None if it says so already."""
    record = json.loads(row.part)
    old_failure = record.get("failure", {})
    if [old_failure.get(name) for name in ("code", "message")] == [failure.code, failure.message]:
        return None
    return replace(row, part=json.dumps(record | {"failure": _encode(failure)}))


def part_to_row(part: ServerPart) -> PartRow:
    tools = [entry.tool for entry in part.entries]
    numbers = {verdict: number for number, verdict in enumerate(part.verdicts)}
    runs = groupby(entry.verdict for entry in part.entries)
    return PartRow(
        to_text(part),
        json.dumps([tool.given_name for tool in tools]),
        json.dumps([tool.upstream_name for tool in tools]),
        "\n".join(map(_text, numbers)),
        json.dumps([(numbers[verdict], len(list(run))) for verdict, run in runs]),
        "\n".join([tool.source for tool in tools]).encode(),
        part.digest,
        _offerings_text(part.offerings) if part.offerings else None,
    )


def part_from_row(row: PartRow) -> ServerPart:
    """Convert a row that `part_to_row` made back into its part.

    Raises:
        LookupError, TypeError, ValueError: If the row is not of this version, or not whole.
    """
    part, overridden = part_from_text(row.part)
    upstream_names = json.loads(row.upstream_names)
    names = upstream_names if row.names == row.upstream_names else json.loads(row.names)
    kinds = [_verdict(line) for line in row.verdicts.splitlines()]
    runs = (repeat(kinds[number], count) for number, count in json.loads(row.judged))
    verdicts = list(chain.from_iterable(runs))
    # Unlike `split` it skips from line to line, and most of what is read here are definitions.
    sources = list(BytesIO(row.sources))
    if not len(names) == len(upstream_names) == len(verdicts) == len(sources):
        raise ValueError(f"the columns of the tools of {part.server!r} are not in step")
    overrides = map(overridden.get, upstream_names, repeat(NO_OVERRIDE))
    texts = map(bytes.decode, map(bytes.rstrip, sources))
    tools = map(Tool, repeat(part.server), names, upstream_names, texts, overrides)
    offerings = _offerings(part.server, row.offerings) if row.offerings else ()
    part = replace(part, entries=tuple(map(Entry, tools, verdicts)), offerings=offerings)
    return part.with_digest(row.digest) if row.digest else part


def _offerings_text(entries: Iterable[OfferingEntry]) -> str:
    return json.dumps(
        [
            (e.offering.kind, e.offering.identifier, _text(e.verdict), e.offering.source)
            for e in entries
        ]
    )


def _offerings(server: ServerName, text: str) -> tuple[OfferingEntry, ...]:
    return tuple(
        OfferingEntry(Offering(server, OfferingKind(kind), identifier, source), _verdict(verdict))
        for kind, identifier, verdict, source in json.loads(text)
    )


# A catalog has few verdicts that differ, and each server has most of them.
@lru_cache(maxsize=1000)
def _verdict(text: str) -> Verdict:
    return from_text(Verdict, text)


@lru_cache(maxsize=1000)
def _text(verdict: Verdict) -> str:
    return to_text(verdict)


def _encode(value: Any) -> JSONValue:
    if isinstance(value, Struct):
        defaults = _defaults(type(value))
        present = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: _encode(v) for name, v in present if v != defaults.get(name, NODEFAULT)}
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


@cache
def _defaults(cls: Any) -> Mapping[str, Any]:
    """The defaults of the fields, without resolving any annotation."""
    defaults = cls.__struct_defaults__
    names = cls.__struct_fields__[len(cls.__struct_fields__) - len(defaults) :]
    values = (default.factory() if hasattr(default, "factory") else default for default in defaults)
    return dict(zip(names, values, strict=True))


def _findings(record: JSONObject | None) -> Findings | None:
    if not record:
        return record
    # Most parts have none, and loading what they are costs a start more than reading a part does.
    from discovery_engine.tools.findings import Finding  # noqa: PLC0415

    return convert(record, dict[str, tuple[Finding, ...]])


# What the lists under these keys hold, and structs that no default shows.
_ITEMS: dict[type[Struct], dict[str, type[Struct]]] = {
    Settings: {
        "servers": ServerSettings,
        "serverRules": Rule,
        "toolRules": Rule,
        "resourceRules": Rule,
        "promptRules": Rule,
        "overrides": Override,
        "sources": Source,
        "views": ViewSettings,
        "webhooks": WebhookSettings,
        "inputs": InputFile,
        "warnings": Diagnostic,
    },
    ViewSettings: {"rules": Rule, "resourceRules": Rule, "promptRules": Rule},
    MarketplaceSettings: {"sources": MarketplaceSource},
    ServerPart: {"dropped": DroppedTool, "removed": RemovedTool},
}
_PARTS: dict[str, type[Struct]] = {
    "problem": Diagnostic,
    "origin": Origin,
    "rememberedSandbox": SandboxSettings,
    "sandbox": SandboxSettings,
    "failure": Failure,
    "calibration": Calibration,
}
