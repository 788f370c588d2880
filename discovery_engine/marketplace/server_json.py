"""Parses `server.json`, the format of the official registry: as of 2025-12-11, and snake_case.

    {"name": "io.github.acme/files", "version": "1.2.0", "packages": [
        {"registryType": "npm", "identifier": "@acme/files", "version": "1.2.0",
         "environmentVariables": [{"name": "FILES_KEY", "isSecret": true, "isRequired": true}]}]}

A malformed offer is refused by itself, and stays visible with its reason. Only a document without a
usable name is refused as a whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

from msgspec import Meta, Struct, ValidationError, convert

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.syntax import is_header_name
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    EntryStatus,
    Input,
    InputFormat,
    InputKind,
    MarketplaceEntry,
    OfferedTool,
    OfferedTransport,
    PackageOffer,
    RefusedOffer,
    RegistryType,
    RemoteOffer,
    TransportType,
    VersionNote,
    entry_id,
)
from discovery_engine.marketplace.package_names import (
    PACKAGE_KINDS,
    identifier_problem,
    is_digest,
    split_image,
    version_problem,
)

_Offer = TypeVar("_Offer", PackageOffer, RemoteOffer)

_OFFICIAL = "io.modelcontextprotocol.registry/official"
_KNOWN_RUNTIMES = ("npx", "bunx", "node", "uvx", "uv", "python", "docker", "podman", "dnx")
_REGISTRY_TYPES: dict[str, RegistryType] = {
    **{name: name for name in get_args(RegistryType)},
    "docker": "oci",
    "docker-hub": "oci",
}
_TRANSPORTS: dict[str, TransportType] = {
    **{name: name for name in get_args(TransportType)},
    "streamable": "streamable-http",
    "streamable_http": "streamable-http",
    "http": "streamable-http",
}
_STATUSES: tuple[EntryStatus, ...] = ("active", "deprecated", "deleted")
_FORMATS: tuple[InputFormat, ...] = get_args(InputFormat)
_USUAL_HOSTS = (
    "https://docker.io",
    "https://ghcr.io",
    "https://github.com",
    "https://gitlab.com",
    "https://index.docker.io",
)
# The addresses of package indexes are the user's own settings, and none is written here: the usual
# ones are recognized by the first 64 bits of their SHA-256.
_USUAL_INDEXES = frozenset(
    ["036b43b16792c643", "b4c93a4591f5e6dd", "d63b5c53b226459c", "670c1461c29885f9"]
)
_NAME = re.compile(r"[A-Za-z0-9@][A-Za-z0-9@._/-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_FLAG = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9._:-]*")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_TEMPLATE_ADDRESS = re.compile(r"https?://[^\s/?#@\\]+(?:[/?#][^\s\\]*)?", re.IGNORECASE)
_HASH = re.compile(r"[0-9a-fA-F]{64}")
_MOVING = ("latest", "*", "")
_SNAKE_CASE = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)

# The form of an offer. Texts for display may have any type; other types than text are ignored.
_Scalar: TypeAlias = (
    Annotated[str, Meta(max_length=bounds.VALUE, pattern=r"\A[^\0\r\n]*\Z")] | int | float | bool
)
_Value: TypeAlias = _Scalar | None


class _Variable(Struct, frozen=True, rename="camel"):
    value: _Value = None
    default: _Value = None
    choices: Annotated[list[_Scalar], Meta(max_length=bounds.CHOICES)] | None = None
    is_required: bool | None = None
    is_secret: bool | None = None
    is_repeated: bool | None = None
    description: Any = None
    placeholder: Any = None
    format: Any = None


_Variables: TypeAlias = Annotated[dict[str, _Variable], Meta(max_length=bounds.INPUTS)] | None


class _Input(_Variable, frozen=True, rename="camel"):
    type: _Value = None
    name: _Value = None
    value_hint: _Value = None
    variables: _Variables = None


_Inputs: TypeAlias = Annotated[list[_Input], Meta(max_length=bounds.INPUTS)] | None


class _Transport(Struct, frozen=True, rename="camel"):
    type: _Value = None
    transport_type: _Value = None
    url: _Value = None
    headers: _Inputs = None
    variables: _Variables = None


class _Package(Struct, frozen=True, rename="camel"):
    registry_type: _Value = None
    registry_name: _Value = None
    registry_base_url: _Value = None
    identifier: _Value = None
    name: _Value = None
    version: _Value = None
    file_sha256: _Value = None
    runtime_hint: _Value = None
    runtime_arguments: _Inputs = None
    package_arguments: _Inputs = None
    environment_variables: _Inputs = None
    transport: _Transport | None = None


class MalformedOfferError(ValueError):
    """A malformed offer, which is refused as a whole."""


class MalformedEntryError(ValueError):
    """A document that is no entry."""


def parse_server(
    document: JSONValue, *, origin: EntryOrigin, meta: JSONValue = None
) -> MarketplaceEntry:
    """Return the entry that a `server.json` describes.

    Args:
        document: The parsed JSON.
        origin: The source of the document.
        meta: The registry's metadata; None for the document's own `_meta`.

    Raises:
        MalformedEntryError: If it has no usable name.
    """
    if not isinstance(document, dict):
        raise MalformedEntryError("it is no object")
    document = _camel_case(document)
    name = shown_text(document, "name", bounds.NAME + 1)
    if len(name) > bounds.NAME or not _NAME.fullmatch(name):
        raise MalformedEntryError("it has no usable name")
    metadata = _camel_case(meta) if isinstance(meta, dict) else child(document, "_meta")
    official = child(metadata, _OFFICIAL) or child(document, f"x-{_OFFICIAL.partition('/')[0]}")
    refused: list[RefusedOffer] = []
    packages = _offers(document, "packages", _package, refused)
    remotes = _offers(document, "remotes", _remote, refused)
    repository = web_address(child(document, "repository"), "url")
    places = (document, child(document, "versionDetail"))
    version = next(filter(None, (shown_text(each, "version", bounds.NAME) for each in places)), "")
    published = date(official, "publishedAt") or date(official, "releaseDate")
    status = _status(official if "status" in official else document)
    return MarketplaceEntry(
        id=entry_id(name, repository, packages, remotes),
        name=name,
        title=shown_text(document, "title", bounds.NAME),
        description=shown_text(document, "description"),
        version=version,
        publisher=_publisher(name),
        repository=repository,
        website=web_address(document, "websiteUrl"),
        published_at=published,
        updated_at=date(official, "updatedAt") or published,
        status=status,
        status_message=shown_text(official, "statusMessage"),
        packages=packages,
        remotes=remotes,
        refused=tuple(refused[: bounds.OFFERS]),
        tools=_tools(document),
        tags=_tags(document),
        versions=(VersionNote(version, published, status),) if version else (),
        origins=(origin,),
    )


def shown_text(document: JSONObject, name: str, most: int = bounds.TEXT) -> str:
    """Return a member as text for display, cut to `most` characters; empty if it is no text."""
    return _shown(document.get(name), most)


def date(document: JSONObject, name: str) -> str:
    """Return a member as a date in ISO 8601; empty if it is none."""
    text = shown_text(document, name, 40)
    return text if _DATE.fullmatch(text) else ""


def web_address(document: JSONObject, name: str) -> str:
    """Return a member as an HTTP URL for display; empty for any other value."""
    text = shown_text(document, name, bounds.ADDRESS)
    is_web = text.lower().startswith(("https://", "http://")) and not re.search(r"\s", text)
    return text if is_web else ""


def child(document: JSONObject, name: str) -> JSONObject:
    """Return a member that is an object; empty if it is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _shown(value: JSONValue, most: int = bounds.TEXT) -> str:
    return value[:most].strip() if isinstance(value, str) else ""


def _camel_case(value: JSONValue) -> Any:
    """Return a document with member names in camelCase; before September 2025: snake_case."""
    if isinstance(value, list):
        return [_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        _SNAKE_CASE.sub(lambda match: match[1].upper(), key): (
            dict(zip(member, map(_camel_case, member.values()), strict=True))  # names of its own
            if key == "variables" and isinstance(member, dict)
            else _camel_case(member)
        )
        for key, member in value.items()
    }


def _offers(
    document: JSONObject,
    name: str,
    parse: Callable[[JSONValue], _Offer],
    refused: list[RefusedOffer],
) -> tuple[_Offer, ...]:
    items = document.get(name)
    if not isinstance(items, list):
        if items is not None:
            refused.append(RefusedOffer(name, "", f"{name!r} is not a list"))
        return ()
    if len(items) > bounds.OFFERS:
        reason = f"{len(items):,} offers, of which {bounds.OFFERS} are read"
        refused.append(RefusedOffer(name, "", reason))
    offers = []
    for item in items[: bounds.OFFERS]:
        try:
            offers.append(parse(item))
        except (MalformedOfferError, ValidationError) as error:
            refused.append(_refused(item, name, str(error)))
    return tuple(offers)


def _refused(item: JSONValue, name: str, reason: str) -> RefusedOffer:
    document = item if isinstance(item, dict) else {}
    kind = shown_text(document, "registryType", 40) or shown_text(document, "registryName", 40)
    where = "identifier" if name == "packages" else "url"
    identifier = shown_text(document, where, bounds.NAME) or shown_text(document, "name", 80)
    return RefusedOffer(kind or ("remote" if name == "remotes" else ""), identifier, reason)


def _package(item: JSONValue) -> PackageOffer:
    package = convert(item, _Package)
    registry_type = _registry_type(_text(package.registry_type) or _text(package.registry_name))
    identifier = _text(package.identifier) or _text(package.name)
    version = _text(package.version)
    digest = _text(package.file_sha256).removeprefix("sha256:").lower()
    if digest and not _HASH.fullmatch(digest):
        raise MalformedOfferError("its file hash is none of SHA-256")
    integrity = f"sha256:{digest}" if digest else ""
    registry_url = _text(package.registry_base_url).rstrip("/")
    if registry_type == "oci":
        identifier, tag, digest = split_image(identifier)
        if digest and not is_digest(digest):
            raise MalformedOfferError("its digest is none of SHA-256")
        # Docker uses the tag; the version is often that of the server: `v1.2.0`, `1.2.0`.
        version, integrity = version if tag in _MOVING else tag, digest or integrity
        identifier, registry_url = _with_registry(identifier, registry_url), ""
    if version in _MOVING:
        version = ""
    problem = identifier_problem(registry_type, identifier)
    if problem := problem or version_problem(registry_type, version):
        raise MalformedOfferError(problem)
    hint = _text(package.runtime_hint)
    transport = package.transport
    return PackageOffer(
        registry_type=registry_type,
        identifier=identifier,
        version=version,
        runtime_hint=hint if hint in _KNOWN_RUNTIMES else PACKAGE_KINDS[registry_type].runtime,
        runtime_arguments=_arguments(package.runtime_arguments),
        package_arguments=_arguments(package.package_arguments),
        environment=_inputs(package.environment_variables, "environment"),
        transport=OfferedTransport() if transport is None else _transport(transport),
        integrity=integrity,
        registry_url="" if is_usual_registry(registry_url) else registry_url,
    )


def _registry_type(name: str) -> RegistryType:
    if registry_type := _REGISTRY_TYPES.get(name.lower()):
        return registry_type
    types = ", ".join(get_args(RegistryType))
    raise MalformedOfferError(f"packages of type {name[:40]!r} are not known; known are {types}")


def _with_registry(image: str, registry_url: str) -> str:
    """Return an image with its registry, which older documents have beside it."""
    host = registry_url.partition("://")[2].partition("/")[0]
    first = image.partition("/")[0]
    has_host = "/" in image and ("." in first or ":" in first or first == "localhost")
    if not host or has_host or host in ("docker.io", "index.docker.io"):
        return image
    return f"{host}/{image}"


def _transport(transport: _Transport) -> OfferedTransport:
    name = _text(transport.type) or _text(transport.transport_type)
    if (kind := _TRANSPORTS.get(name.lower())) is None:
        raise MalformedOfferError(f"its transport {name[:40]!r} is not known")
    url = "" if kind == "stdio" else _text(transport.url)
    headers = _inputs(transport.headers, "header")
    return OfferedTransport(kind, url, headers, _variables(transport.variables))


def _remote(item: JSONValue) -> RemoteOffer:
    remote = _transport(convert(item, _Transport))
    if not _TEMPLATE_ADDRESS.fullmatch(remote.url) or len(remote.url) > bounds.ADDRESS:
        raise MalformedOfferError("it has no http:// or https:// address")
    names = {variable.name for variable in remote.variables}
    # Only the person who installs it can know the value of an undeclared variable.
    open_places = (name for name in dict.fromkeys(_PLACE.findall(remote.url)) if name not in names)
    undeclared = (Input(name, "variable", is_required=True) for name in open_places)
    return RemoteOffer(remote.type, remote.url, remote.headers, (*remote.variables, *undeclared))


def _arguments(items: Sequence[_Input] | None) -> tuple[Input, ...]:
    return tuple(map(_argument, items or ()))


def _argument(item: _Input) -> Input:
    kind, name = _text(item.type), _text(item.name)
    if kind == "positional":
        hint = _text(item.value_hint)
        return _input(item, "positional", hint if hint or _text(item.value) else name)
    if kind != "named":
        raise MalformedOfferError(f"an argument is of the unknown type {kind[:40]!r}")
    if not _FLAG.fullmatch(name):
        raise MalformedOfferError(f"the argument {name[:40]!r} is no name of a flag")
    return _input(item, "named", name)


def _inputs(items: Sequence[_Input] | None, kind: InputKind) -> tuple[Input, ...]:
    inputs = tuple(_input(item, kind, _checked(_text(item.name), kind)) for item in items or ())
    names = {each.name.lower() if kind == "header" else each.name for each in inputs}
    if len(names) < len(inputs):
        raise MalformedOfferError(f"it has the same {kind} twice")
    return inputs


def _variables(items: dict[str, _Variable] | None) -> tuple[Input, ...]:
    return tuple(
        _input(item, "variable", _checked(name, "variable")) for name, item in (items or {}).items()
    )


def _checked(name: str, kind: InputKind) -> str:
    is_good = is_header_name(name) if kind == "header" else _VARIABLE.fullmatch(name)
    if not is_good or len(name) > bounds.NAME:
        raise MalformedOfferError(f"{name[:40]!r} is no name of a {_KINDS[kind]}")
    return name


def _input(item: _Variable, kind: InputKind, name: str) -> Input:
    value = _text(item.value)
    places = set(_PLACE.findall(value))
    variables = _variables(item.variables) if isinstance(item, _Input) else ()
    return Input(
        name=name,
        kind=kind,
        value=value,
        description=_shown(item.description),
        default=_text(item.default),
        placeholder=_shown(item.placeholder, bounds.NAME),
        choices=tuple(map(_text, item.choices or ())),
        format=item.format if item.format in _FORMATS else "string",
        variables=tuple(variable for variable in variables if variable.name in places),
        is_required=bool(item.is_required),
        is_secret=bool(item.is_secret),
        is_repeated=bool(item.is_repeated),
    )


def _text(value: _Value) -> str:
    """Return a value as text for a program; numbers and booleans as in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _status(document: JSONObject) -> EntryStatus:
    name = shown_text(document, "status", 20).lower()
    return next((status for status in _STATUSES if status == name), "active")


def _publisher(name: str) -> str:
    """Return the owner of a name: `github.com/acme` for `io.github.acme/files`, or a domain."""
    namespace, slash, _ = name.partition("/")
    if not slash:
        return ""
    labels = namespace.removeprefix("@").split(".")
    if labels[:2] in (["io", "github"], ["com", "github"]) and labels[2:]:
        return f"github.com/{'.'.join(labels[2:])}"
    return ".".join(reversed(labels)) if len(labels) > 1 else namespace


def _tags(document: JSONObject) -> tuple[str, ...]:
    items = document.get("tags")
    listed = items[: bounds.TAGS] if isinstance(items, list) else []
    return tuple(item[: bounds.NAME] for item in listed if isinstance(item, str))


def _tools(document: JSONObject) -> tuple[OfferedTool, ...] | None:
    """Return the tools of an entry; None if it has no list, as in the official format."""
    items = document.get("tools")
    if not isinstance(items, list):
        return None
    return parse_tools(items)


def parse_tools(items: Iterable[JSONValue]) -> tuple[OfferedTool, ...]:
    """Return tools from names or objects with `name` and `description`; others are left out."""
    tools: dict[str, OfferedTool] = {}
    for item in items:
        document = {"name": item} if isinstance(item, str) else item
        if isinstance(document, dict) and (name := shown_text(document, "name", bounds.NAME)):
            text = shown_text(document, "description", bounds.TOOL_TEXT)
            tools.setdefault(name, OfferedTool(name, text))
        if len(tools) == bounds.TOOLS:
            break
    return tuple(tools.values())


_KINDS: dict[InputKind, str] = {
    "environment": "variable",
    "header": "header",
    "variable": "variable",
}


def is_usual_registry(registry_url: str) -> bool:
    """Return whether a registry is a usual one for packages of its type."""
    digest = hashlib.sha256(registry_url.encode(errors="replace")).hexdigest()[:16]
    return registry_url in _USUAL_HOSTS or digest in _USUAL_INDEXES
