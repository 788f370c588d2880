"""Serves the operations of an OpenAPI document as tools over stdio, in a process of its own.

    OPENAPI_URL=https://api.example.com python -m discovery_engine.upstream.openapi_server DOCUMENT

The address of the service and its headers are in the environment, as `config.openapi_entry` puts
them there. The document never selects where they are sent: without `OPENAPI_URL` requests with
headers go to the origin of the document only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import httpx2
import yaml

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.openapi_entry import HEADER_VARIABLE, LOST, URL_VARIABLE
from discovery_engine.errors.extras import install_command, missing_library

_CONNECT_TIMEOUT = 30.0  # seconds; `timeouts.call` of the gateway ends a call
_LARGEST_DOCUMENT = 64 * 1024 * 1024  # bytes; that of Microsoft Graph has 35 MB
_EXAMPLES = frozenset({"example", "examples", "default"})
# How an HTTP method acts, in the words of MCP (RFC 9110, 9.2).
_HINTS = {
    "GET": {"readOnlyHint": True},
    "HEAD": {"readOnlyHint": True},
    "OPTIONS": {"readOnlyHint": True},
    "PUT": {"idempotentHint": True},
    "DELETE": {"destructiveHint": True, "idempotentHint": True},
}


def main() -> None:
    if missing_library("openapi"):
        sys.exit(f"`openapi` needs an extra: {install_command('openapi')}")
    document, url = sys.argv[1], os.environ.get(URL_VARIABLE, "")
    headers = {
        name.removeprefix(HEADER_VARIABLE): value
        for name, value in os.environ.items()
        if name.startswith(HEADER_VARIABLE)
    }
    try:
        spec = _read(document, url, headers)
        server = _server(spec, _client(spec, document, url, headers))
    except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        sys.exit(f"OpenAPI document {document}: {_reason(error)}")
    server.run("stdio", show_banner=False)


def _server(spec: JSONObject, client: httpx2.AsyncClient) -> Any:
    os.environ["FASTMCP_ENV_FILE"] = os.devnull  # not `.env` of the working folder
    # It takes two seconds to import: a document that cannot be served is reported before.
    from fastmcp import FastMCP, settings
    from fastmcp.server.providers.openapi import OpenAPIProvider
    from fastmcp.tools.base import ToolAnnotations

    dead = {reference for reference in _references(spec) if _target(spec, reference) is None}

    def annotate(route: Any, tool: Any) -> None:
        """Say how the operation acts, for rules about `annotations`, and what it lacks."""
        hints = _HINTS.get(route.method.upper(), {})
        tool.annotations = ToolAnnotations(title=route.summary, **hints)
        if lost := sorted(dead and dead & _needed(spec, route.path, route.method.lower())):
            names = ", ".join(lost)
            tool.description += f"\n\nWithout {names}: the document has nothing there."
            tool.meta = {**(tool.meta or {}), LOST: lost}

    settings.log_level = "ERROR"  # what it logs would repeat the reason with a traceback
    server = FastMCP(spec["info"]["title"], instructions=spec["info"].get("description"))
    # Services answer other than they describe, and an answer is of use all the same.
    provider = OpenAPIProvider(spec, client, mcp_component_fn=annotate, validate_output=False)
    server.add_provider(provider)
    return server


def _read(document: str, url: str, headers: dict[str, str]) -> JSONObject:
    """The document as JSON.

    Raises:
        OSError, HTTPError: If it cannot be read.
        ValueError: If it is no OpenAPI document that can be served.
    """
    if document.startswith(("http://", "https://")):
        is_own = not url or _origin(url) == _origin(document)
        with httpx2.stream("GET", document, headers=headers if is_own else {}) as response:
            if response.status_code != httpx2.codes.OK:
                reason = f"the address answers {response.status_code} {response.reason_phrase}"
                raise ValueError(reason)
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                _require_size(len(content))
    else:
        path = Path(document)
        _require_size(path.stat().st_size)
        content = path.read_bytes()
    return _checked(_parsed(content))


def _require_size(size: int) -> None:
    if size > _LARGEST_DOCUMENT:
        raise ValueError(f"it has more than {_LARGEST_DOCUMENT >> 20} MiB")


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        pass
    try:
        # YAML has dates, and numbers as keys (`200:`), which JSON has not.
        return json.loads(json.dumps(yaml.load(content, yaml.CSafeLoader), default=str))
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"it is neither JSON nor YAML: {error}") from None


def _checked(spec: Any) -> JSONObject:
    head = spec if isinstance(spec, dict) else {}
    info = head.get("info")
    if "swagger" in head:
        raise ValueError("it is Swagger 2.0; convert it to OpenAPI 3, e.g. with swagger2openapi")
    if not str(head.get("openapi", "")).startswith("3."):
        raise ValueError("it is no OpenAPI document: it has no `openapi: 3…` at its top")
    title = info.get("title") if isinstance(info, dict) else None
    if not isinstance(title, str):
        raise ValueError("`info.title` is missing; every document needs one")  # noqa: TRY004
    if not (isinstance(head.get("paths"), dict) and head["paths"]):
        raise ValueError("it describes no operation: `paths` is missing or empty")
    return head


def _references(value: JSONValue) -> Iterator[str]:
    """Yield the references in a part of a document, but for those in examples."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            if isinstance(reference := part.get("$ref"), str):
                yield reference
            parts += [member for key, member in part.items() if key not in _EXAMPLES]
        elif isinstance(part, list):
            parts += part


def _target(spec: JSONObject, reference: str) -> JSONValue:
    """Return what a reference leads to; None if there is nothing in this document."""
    target: JSONValue = spec
    head, *keys = reference.split("/")
    for key in keys if head == "#" else ("",):
        name = unquote(key).replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target


def _needed(spec: JSONObject, path: str, method: str) -> set[str]:
    """Return the references that the arguments of an operation need, directly or not."""
    item = spec["paths"][path]
    operation = item.get(method, {})
    parts = [item.get("parameters"), operation.get("parameters"), operation.get("requestBody")]
    needed: set[str] = set()
    while parts:
        new = set(_references(parts.pop())) - needed
        needed |= new
        parts += [_target(spec, reference) for reference in new]
    return needed


def _client(
    spec: JSONObject, document: str, url: str, headers: dict[str, str]
) -> httpx2.AsyncClient:
    base = httpx2.URL(url or _named_address(spec, document))
    if not url and headers and _origin(str(base)) != _origin(document):
        raise ValueError(
            f"it names the service {base}, and headers are sent only where the entry says;"
            f" add `url: {base}` to the entry if that is right"
        )
    return httpx2.AsyncClient(
        base_url=base.copy_with(query=None),
        params=base.params,
        headers=headers,
        timeout=httpx2.Timeout(None, connect=_CONNECT_TIMEOUT),
    )


def _named_address(spec: JSONObject, document: str) -> str:
    """The address of the service, as the document has it."""
    servers = spec.get("servers") or [{"url": "/"}]
    address = str(servers[0].get("url", "/"))
    for name, variable in (servers[0].get("variables") or {}).items():
        address = address.replace(f"{{{name}}}", str(variable.get("default", "")))
    address = urljoin(document, address)
    if not address.startswith(("http://", "https://")):
        raise ValueError("it names no address of the service; add `url: https://…` to the entry")
    return address


def _origin(address: str) -> tuple[str, str, int | None]:
    url = httpx2.URL(address)
    return url.scheme, url.host, url.port


def _reason(error: Exception) -> str:
    """One line: the first fault with its place, of all that a model found."""
    cause: Any = error.__cause__
    if cause is not None and hasattr(cause, "errors"):
        faults = cause.errors()
        place = ".".join(str(part) for part in faults[0]["loc"])
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return f"at {place}: {faults[0]['msg']}{more}"
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    main()
