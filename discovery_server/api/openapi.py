"""The OpenAPI description of the API, made from its routes and the types of their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from discovery_engine._util.json import JSONObject
from discovery_engine.version import __version__
from discovery_server.api.route import ApiRoute

_VERSION = "3.1.0"
_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_TEMPLATE = "#/components/schemas/{name}"
_JSON = "application/json"
_ERROR: JSONObject = {
    "type": "object",
    "required": ["code", "message", "hint"],
    "properties": {
        "code": {"type": "string", "description": "Stable; those of the command line."},
        "message": {"type": "string", "description": "What happened."},
        "hint": {"type": "string", "description": "The next step; may be empty."},
    },
}


def describe(routes: Iterable[ApiRoute], base: str) -> JSONObject:
    """The document; `base` is the path below which the routes are."""
    routes = tuple(routes)
    kinds = {kind for route in routes for kind in (route.asked, route.answer) if kind}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_TEMPLATE)
    paths: dict[str, dict[str, JSONObject]] = {}
    for route in routes:
        path = route.path.replace(":path}", "}")
        paths.setdefault(f"{base}{path}", {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": _VERSION,
        "info": {"title": "discovery", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: ApiRoute, schemas: dict[str, Any]) -> JSONObject:
    answer = {"$ref": _TEMPLATE.format(name=route.answer.__name__)} if route.answer else _OBJECT
    operation: JSONObject = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Needs a token with the scope `{route.scope}`.",
        "responses": {
            str(route.status): {"description": "Done", "content": {_JSON: {"schema": answer}}},
            "default": {
                "description": "It was refused, or failed",
                "content": {_JSON: {"schema": _TEMPLATE_OF_ERROR}},
            },
        },
    }
    parameters: list[JSONObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(route.path)
    ]
    if route.has_body:
        schema = {"$ref": _TEMPLATE.format(name=route.asked.__name__)}
        required = bool(schemas[route.asked.__name__].get("required"))
        body = {"required": required, "content": {_JSON: {"schema": schema}}}
        operation["requestBody"] = body
    else:
        query_schema = schemas[route.asked.__name__]
        required_names = query_schema.get("required", ())
        parameters += [
            {
                "name": name,
                "in": "query",
                "required": name in required_names,
                "description": schema.get("description", ""),
                "schema": schema,
            }
            for name, schema in query_schema.get("properties", {}).items()
        ]
    if parameters:
        operation["parameters"] = parameters
    return operation


_OBJECT: JSONObject = {"type": "object"}
_TEMPLATE_OF_ERROR: JSONObject = {"$ref": _TEMPLATE.format(name="Error")}
