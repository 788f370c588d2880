"""What every section of the configuration has in common."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

_Settings = TypeVar("_Settings", bound=Struct)


class Section(BaseModel):
    """Keys are camelCase, or snake_case; unknown ones and values of another type are refused.

    A field takes its default from the settings; only nothing (`""`, `[]`, `{}`, None) is written.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    def to_settings(self, settings: type[_Settings], **values: Any) -> _Settings:
        """The settings with the values of this section's fields; `values` are those of others."""
        given = {
            one.name: _frozen(getattr(self, one.name), one.default)
            for one in _fields(settings)
            if one.name in type(self).model_fields and one.name not in values
        }
        return settings(**given | values)


@cache
def _fields(settings: type[Struct]) -> tuple[FieldInfo, ...]:
    # To resolve the annotations takes 0.3 ms, half of the time for an entry of `servers`.
    return fields(settings)


def _frozen(value: Any, default: Any) -> Any:
    """A field's value as the settings have it; empty text is None where that is the default."""
    match value:
        case Section():
            return value.to_settings(type(default))
        case list():
            return tuple(_frozen(one, NODEFAULT) for one in value)
        case "" if default is None:
            return None
    return value
