"""`server.json`, the format of the official registry: of 2025-12-11, and older in snake_case.

    {"name": "io.github.acme/files", "version": "1.2.0", "packages": [
        {"registryType": "npm", "identifier": "@acme/files", "version": "1.2.0",
         "environmentVariables": [{"name": "FILES_KEY", "isSecret": true, "isRequired": true}]}]}

A malformed offer is refused alone and stays visible with its reason; only a document without a
usable name is no entry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar, get_args

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
from discovery_engine.marketplace.members import (
    MalformedEntryError,
    MalformedOfferError,
    as_object,
    as_value,
    child,
    date,
    flag,
    member,
    named_objects,
    objects,
    shown_text,
    texts,
    value_text,
    web_address,
)
from discovery_engine.marketplace.package_names import (
    identifier_problem,
    is_digest,
    split_image,
    version_problem,
)

_Offer = TypeVar("_Offer")

_OFFICIAL = "io.modelcontextprotocol.registry/official"
_RUNTIMES: dict[RegistryType, str] = {
    "npm": "npx",
    "pypi": "uvx",
    "oci": "docker",
    "nuget": "dnx",
    "mcpb": "",
}
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
# Addresses of package indexes are those of the user: none stands here, and the usual ones are known
# by the first 64 bits of their SHA-256.
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


def parse_server(
    document: JSONValue, *, origin: EntryOrigin, meta: JSONValue = None
) -> MarketplaceEntry:
    """The entry that a `server.json` describes.

    Args:
        document: The parsed JSON.
        origin: The source that it came from.
        meta: What the registry adds beside it; the document's own `_meta` if it is None.

    Raises:
        MalformedEntryError: If it has no usable name.
    """
    if not isinstance(document, dict):
        raise MalformedEntryError("it is no object")
    name = shown_text(document, "name", bounds.NAME + 1)
    if len(name) > bounds.NAME or not _NAME.fullmatch(name):
        raise MalformedEntryError("it has no usable name")
    official = _official_meta(meta if isinstance(meta, dict) else child(document, "_meta"))
    official = official or child(document, f"x-{_OFFICIAL.partition('/')[0]}")
    refused: list[RefusedOffer] = []
    packages = _offers(document, "packages", _package, refused)
    remotes = _offers(document, "remotes", _remote, refused)
    repository = web_address(child(document, "repository"), "url")
    version = _version(document)
    published = date(official, "publishedAt") or date(official, "releaseDate")
    status = _status(official) if "status" in official else _status(document)
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
        tags=texts(document, "tags", bounds.TAGS),
        versions=(VersionNote(version, published, status),) if version else (),
        origins=(origin,),
    )


def _official_meta(meta: JSONObject) -> JSONObject:
    section = meta.get(_OFFICIAL)
    return section if isinstance(section, dict) else {}


def _offers(
    document: JSONObject,
    name: str,
    parse: Callable[[JSONObject], _Offer],
    refused: list[RefusedOffer],
) -> tuple[_Offer, ...]:
    items = member(document, name)
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
            offers.append(parse(as_object(item)))
        except MalformedOfferError as error:
            refused.append(_refused(item, name, str(error)))
    return tuple(offers)


def _refused(item: JSONValue, name: str, reason: str) -> RefusedOffer:
    document = item if isinstance(item, dict) else {}
    kind = shown_text(document, "registryType", 40) or shown_text(document, "registryName", 40)
    where = "identifier" if name == "packages" else "url"
    identifier = shown_text(document, where, bounds.NAME) or shown_text(document, "name", 80)
    return RefusedOffer(kind or ("remote" if name == "remotes" else ""), identifier, reason)


def _package(package: JSONObject) -> PackageOffer:
    registry_type = _registry_type(package)
    identifier = value_text(package, "identifier") or value_text(package, "name")
    version = value_text(package, "version")
    integrity = _file_hash(package)
    registry_url = value_text(package, "registryBaseUrl").rstrip("/")
    if registry_type == "oci":
        identifier, tag, digest = split_image(identifier)
        if digest and not is_digest(digest):
            raise MalformedOfferError("its digest is none of SHA-256")
        # Docker takes the tag; a version beside it is often that of the server: `v1.2.0`, `1.2.0`.
        version, integrity = version if tag in _MOVING else tag, digest or integrity
        identifier, registry_url = _with_registry(identifier, registry_url), ""
    if version in _MOVING:
        version = ""
    problem = identifier_problem(registry_type, identifier)
    if problem := problem or version_problem(registry_type, version):
        raise MalformedOfferError(problem)
    return PackageOffer(
        registry_type=registry_type,
        identifier=identifier,
        version=version,
        runtime_hint=_runtime(package, registry_type),
        runtime_arguments=_arguments(package, "runtimeArguments"),
        package_arguments=_arguments(package, "packageArguments"),
        environment=_inputs(package, "environmentVariables", "environment"),
        transport=_transport(package),
        integrity=integrity,
        registry_url="" if is_usual_registry(registry_url) else registry_url,
    )


def _registry_type(package: JSONObject) -> RegistryType:
    type_name = value_text(package, "registryType") or value_text(package, "registryName")
    if registry_type := _REGISTRY_TYPES.get(type_name.lower()):
        return registry_type
    types = ", ".join(get_args(RegistryType))
    raise MalformedOfferError(
        f"packages of type {type_name[:40]!r} are not known; known are {types}"
    )


def _runtime(package: JSONObject, registry_type: RegistryType) -> str:
    """Return the publisher's hint if it is a known runtime, else the usual one of that registry."""
    hint = value_text(package, "runtimeHint")
    return hint if hint in _KNOWN_RUNTIMES else _RUNTIMES[registry_type]


def _with_registry(image: str, registry_url: str) -> str:
    """An image with the registry that older documents have beside it."""
    host = registry_url.partition("://")[2].partition("/")[0]
    first = image.partition("/")[0]
    has_host = "/" in image and ("." in first or ":" in first or first == "localhost")
    if not host or has_host or host in ("docker.io", "index.docker.io"):
        return image
    return f"{host}/{image}"


def _file_hash(package: JSONObject) -> str:
    digest = value_text(package, "fileSha256").removeprefix("sha256:")
    if digest and not _HASH.fullmatch(digest):
        raise MalformedOfferError("its file hash is none of SHA-256")
    return f"sha256:{digest.lower()}" if digest else ""


def _transport(package: JSONObject) -> OfferedTransport:
    transport = member(package, "transport")
    if transport is None:
        return OfferedTransport()
    if not isinstance(transport, dict):
        raise MalformedOfferError("'transport' is no object")
    kind = _transport_type(transport)
    return OfferedTransport(
        type=kind,
        url="" if kind == "stdio" else value_text(transport, "url"),
        headers=_inputs(transport, "headers", "header"),
        variables=_variables(transport),
    )


def _transport_type(document: JSONObject) -> TransportType:
    type_name = value_text(document, "type") or value_text(document, "transportType")
    if transport_type := _TRANSPORTS.get(type_name.lower()):
        return transport_type
    raise MalformedOfferError(f"its transport {type_name[:40]!r} is not known")


def _remote(remote: JSONObject) -> RemoteOffer:
    kind = _transport_type(remote)
    url = value_text(remote, "url")
    if kind == "stdio" or not _TEMPLATE_ADDRESS.fullmatch(url) or len(url) > bounds.ADDRESS:
        raise MalformedOfferError("it has no http:// or https:// address")
    variables = _variables(remote)
    declared_names = {variable.name for variable in variables}
    # Without a declaration only the person who installs it can know the value.
    open_places = (
        name for name in dict.fromkeys(_PLACE.findall(url)) if name not in declared_names
    )
    undeclared = (Input(name, "variable", is_required=True) for name in open_places)
    headers = _inputs(remote, "headers", "header")
    return RemoteOffer(kind, url, headers, (*variables, *undeclared))


def _arguments(package: JSONObject, name: str) -> tuple[Input, ...]:
    return tuple(map(_argument, objects(package, name)))


def _argument(document: JSONObject) -> Input:
    kind = value_text(document, "type")
    if kind == "positional":
        argument = _input(document, "positional", value_text(document, "valueHint"))
        if not argument.value and not argument.name:
            argument = _input(document, "positional", value_text(document, "name"))
        return argument
    if kind == "named":
        name = value_text(document, "name")
        if not _FLAG.fullmatch(name):
            raise MalformedOfferError(f"the argument {name[:40]!r} is no name of a flag")
        return _input(document, "named", name)
    raise MalformedOfferError(f"an argument is of the unknown type {kind[:40]!r}")


def _inputs(document: JSONObject, name: str, kind: InputKind) -> tuple[Input, ...]:
    inputs = tuple(_named_input(item, kind) for item in objects(document, name))
    names = [
        offered_input.name.lower() if kind == "header" else offered_input.name
        for offered_input in inputs
    ]
    if len(set(names)) < len(names):
        raise MalformedOfferError(f"{name!r} has the same name twice")
    return inputs


def _named_input(document: JSONObject, kind: InputKind) -> Input:
    name = value_text(document, "name")
    is_good = is_header_name(name) if kind == "header" else _VARIABLE.fullmatch(name)
    if not is_good or len(name) > bounds.NAME:
        raise MalformedOfferError(f"{name[:40]!r} is no name of a {_KINDS[kind]}")
    return _input(document, kind, name)


def _variables(document: JSONObject) -> tuple[Input, ...]:
    variables = []
    for name, item in named_objects(document, "variables"):
        if not _VARIABLE.fullmatch(name) or len(name) > bounds.NAME:
            raise MalformedOfferError(f"{name[:40]!r} is no name of a variable")
        variables.append(_input(item, "variable", name))
    return tuple(variables)


def _input(document: JSONObject, kind: InputKind, name: str) -> Input:
    format_name = shown_text(document, "format", 20)
    value = value_text(document, "value")
    variables = () if kind == "variable" else _variables(document)
    places = set(_PLACE.findall(value))
    return Input(
        name=name,
        kind=kind,
        value=value,
        description=shown_text(document, "description"),
        default=value_text(document, "default"),
        placeholder=shown_text(document, "placeholder", bounds.NAME),
        choices=_choices(document),
        format=next((candidate for candidate in _FORMATS if candidate == format_name), "string"),
        variables=tuple(variable for variable in variables if variable.name in places),
        is_required=flag(document, "isRequired"),
        is_secret=flag(document, "isSecret"),
        is_repeated=flag(document, "isRepeated"),
    )


def _choices(document: JSONObject) -> tuple[str, ...]:
    items = member(document, "choices")
    if items is None:
        return ()
    if not isinstance(items, list) or len(items) > bounds.CHOICES:
        raise MalformedOfferError(f"'choices' is not a list of at most {bounds.CHOICES}")
    return tuple(map(partial(as_value, name="choices"), items))


def _version(document: JSONObject) -> str:
    detail = child(document, "versionDetail")
    return shown_text(document, "version", bounds.NAME) or shown_text(
        detail, "version", bounds.NAME
    )


def _status(document: JSONObject) -> EntryStatus:
    status_name = shown_text(document, "status", 20).lower()
    return next((status for status in _STATUSES if status == status_name), "active")


def _publisher(name: str) -> str:
    """Who owns a name: `io.github.acme/files` is of `acme` at GitHub, `com.acme/x` of acme.com."""
    namespace, slash, _ = name.partition("/")
    if not slash:
        return ""
    labels = namespace.removeprefix("@").split(".")
    if labels[:2] in (["io", "github"], ["com", "github"]) and labels[2:]:
        return f"github.com/{'.'.join(labels[2:])}"
    return ".".join(reversed(labels)) if len(labels) > 1 else namespace


def _tools(document: JSONObject) -> tuple[OfferedTool, ...] | None:
    """Return the tools that an entry lists; None in the official format, which has none."""
    items = member(document, "tools")
    if not isinstance(items, list):
        return None
    return parse_tools(items)


def parse_tools(items: Iterable[JSONValue]) -> tuple[OfferedTool, ...]:
    """Tools as names, or as objects with `name` and `description`; what is neither is left out."""
    tools: dict[str, OfferedTool] = {}
    for item in items:
        document = {"name": item} if isinstance(item, str) else item
        if isinstance(document, dict) and (name := shown_text(document, "name", bounds.NAME)):
            text = shown_text(document, "description", bounds.TOOL_TEXT)
            tools.setdefault(name, OfferedTool(name, text))
        if len(tools) == bounds.TOOLS:
            break
    return tuple(tools.values())


_KINDS: dict[InputKind, str] = {"environment": "variable", "header": "header"}


def is_usual_registry(registry_url: str) -> bool:
    """Return whether a registry is the one in which packages of its type usually are."""
    digest = hashlib.sha256(registry_url.encode(errors="replace")).hexdigest()[:16]
    return registry_url in _USUAL_HOSTS or digest in _USUAL_INDEXES
