"""The base of all sections of the configuration, and how a section is made of its settings."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from types import GenericAlias, ModuleType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from discovery_engine.config.model.field_types import (
    KINDS,
    Count,
    Flag,
    Number,
    Text,
    choice,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.settings_section import INTERNAL, Kind, Values

_Settings = TypeVar("_Settings", bound=Struct)
_SCALARS: Mapping[object, Any] = {bool: Flag, float: Number, int: Count, str: Text}


class Section(BaseModel):
    """Keys are camelCase, or snake_case; unknown ones and values of another type are refused."""

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

    origins: ClassVar[Mapping[str, tuple[type[Struct], str]]] = {}
    """The settings that its keys are made of, and the fields there."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        form = handler(schema)
        members = handler.resolve_ref_schema(form).get("properties", {})
        for key, (settings, name) in cls.origins.items():
            if text := _texts(sys.modules[settings.__module__]).get((settings.__name__, name)):
                members[key].setdefault("description", text)
        return form

    def to_settings(self, settings: type[_Settings], **values: Any) -> _Settings:
        """The settings with the values of this section's fields; `values` are those of others."""
        own_values = {
            field.name: _frozen(getattr(self, field.name), field.default)
            for field in _fields(settings)
            if field.name in type(self).model_fields and field.name not in values
        }
        return settings(**own_values | values)


def section(
    *settings: type[Struct],
    name: str = "",
    check: Callable[[Any], None] | None = None,
    **types: Any,
) -> Any:
    """The section of which settings are made: their fields, with defaults, limits, descriptions.

    Args:
        settings: The last one gives the section its description.
        name: What it is called in the JSON Schema.
        check: Raises an error if the values of the fields do not fit together.
        types: Those of fields with more rules than the settings declare; a pair has a default, too.
    """
    members: dict[str, Any] = {}
    origins: dict[str, tuple[type[Struct], str]] = {}
    for cls in settings:
        hints = get_type_hints(cls, include_extras=True)
        for field in _fields(cls):
            hint = hints[field.name]
            key = field.name if field.encode_name == to_camel(field.name) else field.encode_name
            if key in members or INTERNAL in _marks(hint):
                continue
            kind = types.pop(key, None) or field_type(hint)
            kind, default = kind if isinstance(kind, tuple) else (kind, _default(field, hint, kind))
            members[key] = (kind, Field(default, **examples(hint)))
            origins[to_camel(key)] = (cls, field.name)
    model: Any = create_model(
        name or f"{settings[-1].__name__.removesuffix('Settings')}Section",
        __base__=Section,
        __doc__=settings[-1].__doc__,
        __validators__={"check": _validator(check)} if check else {},
        **types | members,
    )
    model.origins = origins
    return model


def field_type(hint: Any) -> Any:
    """The type of a field, as pydantic checks it, for that of a setting."""
    marks = _marks(hint)
    limits: dict[str, Any] = {}
    for mark in marks:
        limits |= mark.limits if isinstance(mark, Values) else {}
    kind = next((KINDS[mark] for mark in marks if isinstance(mark, Kind)), None) or _plain(
        _base(hint)
    )
    return Annotated[kind, Field(**limits)] if limits else kind


def examples(hint: Any) -> dict[str, Any]:
    """The argument of a pydantic field for the examples of values that a setting declares."""
    metas = [mark for mark in _marks(hint) if isinstance(mark, Values) and mark.examples]
    return {"examples": metas[0].examples} if metas else {}


def _plain(hint: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(args[0])
    if origin is Literal:
        return Annotated[hint, choice]
    if origin is tuple:
        return Annotated[GenericAlias(list, field_type(args[0])), list_or_nothing]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Annotated[_section_of(hint), mapping_or_nothing]
    return _SCALARS[hint]


def _optional(hint: Any) -> Any:
    if _is_text(hint):
        return field_type(hint)
    if get_origin(_base(hint)) is Literal:
        return Annotated[_base(hint) | None, choice]
    return field_type(hint) | None


_section_of = cache(section)


def _is_text(hint: Any) -> bool:
    return _base(hint) is str


def _base(hint: Any) -> Any:
    return hint.__origin__ if _marks(hint) else hint


def _marks(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _default(field: FieldInfo, hint: Any, kind: Any) -> Any:
    """The default as it could be written: empty text where no null is."""
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    match field.default:
        case Struct():
            return get_args(kind)[0]()
        case tuple():
            return list(field.default)
        case None if _is_text(get_args(_base(hint))[0]):
            return ""
    return ... if field.default is NODEFAULT else field.default


def _validator(check: Callable[[Any], None]) -> Any:
    def validated(entry: Any) -> Any:
        check(entry)
        return entry

    return model_validator(mode="after")(validated)


@cache
def _texts(module: ModuleType) -> Mapping[tuple[str, str], str]:
    """The texts below the fields of all classes in a module, which only its source has."""
    classes = (node for node in ast.parse(getsource(module)).body if isinstance(node, ast.ClassDef))
    return {
        (cls.name, field.target.id): cleandoc(text.value.value).replace("\n", " ")
        for cls in classes
        for field, text in pairwise(cls.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


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
            return tuple(_frozen(item, NODEFAULT) for item in value)
        case "" if default is None:
            return None
    return value
