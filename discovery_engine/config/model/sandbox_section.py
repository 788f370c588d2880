"""The key `sandbox`: what the program of a server is confined to."""

from __future__ import annotations

import os.path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.model.field_types import (
    Word,
    choice,
    custom_error,
    list_or_nothing,
    one_or_many,
)
from discovery_engine.config.model.section import section
from discovery_engine.config.sandbox_settings import SandboxKind, SandboxSettings


def _as_mapping(value: JSONValue) -> JSONValue:
    """A kind alone, as in `sandbox: auto`, is a sandbox of that kind without grants."""
    if isinstance(value, PlainScalar) and value.meaning is None:
        return None
    return {"kind": value} if isinstance(value, (str, PlainScalar)) else value


def _plain_path(text: str) -> str:
    if "${" in text:
        raise custom_error("must not hold ${references}", hint="begin with ~ for the home folder")
    if os.path.expanduser(text).startswith("~"):  # noqa: PTH111 - that of `pathlib` raises
        hint = "write ~/notes, or ./~notes for a folder of that name"
        raise custom_error("begins with the home folder of an unknown user", hint=hint)
    return text


Grants = Annotated[list[Annotated[Word, AfterValidator(_plain_path)]], one_or_many, list_or_nothing]


SandboxSection = section(
    SandboxSettings, kind=(Annotated[SandboxKind, choice], "auto"), read=Grants, write=Grants
)
sandbox_or_kind = BeforeValidator(_as_mapping, json_schema_input_type=SandboxKind | SandboxSection)
"""Beside a section: the kind alone is a sandbox without grants."""
