"""Models for frameworks that take the schema of arguments as a pydantic model only."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from discovery_engine._util.json import JSONObject


def open_model(name: str, schema: JSONObject) -> type[BaseModel]:
    """A model that has the given JSON Schema, and takes all arguments as they are.

    So a framework shows the schema unchanged, and the engine alone checks the arguments: its
    errors say what a model has to do.
    """

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow", title=name)

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> JSONObject:
            return schema

    Arguments.__name__ = Arguments.__qualname__ = name
    return Arguments
