"""MCP Apps: tools whose results a host shows in a sandboxed page, a resource `ui://…`.

A tool names its page in `_meta.ui.resourceUri`; the page names in its own `_meta.ui` the domains
that it wants to reach. Source: the extension `io.modelcontextprotocol/ui`.
"""

from __future__ import annotations

from collections.abc import Iterator

from discovery_engine._util.json import JSONObject, object_of

APP_MIME_TYPE = "text/html;profile=mcp-app"
_SCHEME = "ui://"
_URI = "resourceUri"
_OLD_URI = "ui/resourceUri"  # beside `ui`, before the extension was final
_WANTS = {
    "connectDomains": "connects to",
    "resourceDomains": "loads from",
    "frameDomains": "frames",
    "baseUriDomains": "takes as its base",
}
"""The members of `csp`, each as a verb."""


def app_of(definition: JSONObject) -> str:
    """Return the URI of the page of a tool; empty if it has none."""
    meta = object_of(definition.get("_meta"))
    uri = object_of(meta.get("ui")).get(_URI, meta.get(_OLD_URI))
    return uri if isinstance(uri, str) and uri.startswith(_SCHEME) else ""


def is_of_app_alone(definition: JSONObject) -> bool:
    """Return whether only the page of a tool may call it, not a model."""
    visibility = object_of(object_of(definition.get("_meta")).get("ui")).get("visibility")
    return isinstance(visibility, list) and "app" in visibility and "model" not in visibility


def meta_with_app(definition: JSONObject, address: str) -> JSONObject:
    """Return the `_meta` of a tool that has a page, with another address of it."""
    meta: JSONObject = definition["_meta"]
    if _OLD_URI in meta:
        meta = {**meta, _OLD_URI: address}
    ui = object_of(meta.get("ui"))
    return {**meta, "ui": {**ui, _URI: address}} if _URI in ui else meta


def wanted_access(definition: JSONObject) -> Iterator[str]:
    """Yield what the page of a resource wants besides itself, such as `connects to a.example`."""
    ui = object_of(object_of(definition.get("_meta")).get("ui"))
    csp = object_of(ui.get("csp"))
    for member, verb in _WANTS.items():
        domains = csp.get(member)
        if isinstance(domains, list) and domains:
            yield f"{verb} {', '.join(map(str, domains))}"
    if permissions := object_of(ui.get("permissions")):
        yield f"uses {', '.join(permissions)}"
    if isinstance(domain := ui.get("domain"), str):
        yield f"runs at {domain}"
