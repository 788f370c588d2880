"""The JSON Schema of `discovery.yaml`, from which editors complete, explain and check."""

from __future__ import annotations

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.model.config_file import Configuration

SCHEMA_FILE = "discovery.schema.json"
"""The name of the schema's file beside the configuration."""
MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
"""The first line of a generated `discovery.yaml`: it leads editors to the schema."""

# The dialect that the YAML language server supports best.
_DIALECT = "http://json-schema.org/draft-07/schema#"
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}


def json_schema() -> JSONObject:
    """The schema of the canonical spelling; a fresh copy that the caller may change."""
    schema = Configuration.model_json_schema(by_alias=True, mode="validation")
    whole = {key: value for key, value in schema.items() if key != "$defs"}
    whole["properties"] = {
        **schema["properties"],
        "discovery": {
            "description": "The whole configuration may stand under this key.",
            "examples": [{"servers": {}}],
            "$ref": "#/$defs/Configuration",
        },
    }
    definitions = {**schema["$defs"], "Configuration": {**schema, "$defs": {}}}
    cleaned: JSONObject = _cleaned({**whole, "$defs": definitions})
    return {"$schema": _DIALECT, **cleaned, "title": "discovery.yaml"}


def _cleaned(value: JSONValue) -> JSONValue:
    """Without titles: pydantic repeats every key as one, which editors would show instead of help.

    With limits as JSON Schema has them: pydantic leaves its own names where a type is converted.
    """
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        members = {k: v for k, v in value.items() if not (k == "title" and isinstance(v, str))}
        return {
            _LIMITS.get(key, key) if isinstance(item, int | float) else key: _cleaned(item)
            for key, item in members.items()
        }
    return value
