"""The key `sandbox`: what the program of a server is confined to."""

from __future__ import annotations

import os.path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.model.field_types import (
    Count,
    Flag,
    Word,
    choice,
    custom_error,
    list_or_nothing,
    one_or_many,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.sandbox_settings import SandboxKind, SandboxSettings

_DEFAULTS = SandboxSettings("auto")


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


class SandboxSection(Section):
    """What the program of a server is confined to: folders, network, memory, processes."""

    kind: Annotated[SandboxKind, choice] = Field(
        default=_DEFAULTS.kind,
        description="The means: `bubblewrap`, `landlock` (both on Linux), `docker` for a command"
        " that is `docker run`, `auto` for the first of them that the system has, or `none`.",
        examples=["bubblewrap"],
    )
    read: Grants = Field(
        default=[],
        description="Files and folders that it may read, besides those of the system; `~` is the"
        " home folder, of which it sees nothing else. A relative path starts at the folder of this"
        " file.",
        examples=[["~/notes"]],
    )
    write: Grants = Field(
        default=[],
        description="Files and folders that it may read and write.",
        examples=[["~/project"]],
    )
    network: Flag = Field(
        default=_DEFAULTS.network,
        description="Whether it may use the network.",
        examples=[True],
    )
    memory_mib: Annotated[Count, Field(ge=16, le=16 * 1024 * 1024)] = Field(
        default=_DEFAULTS.memory_mib,
        description="The most memory of one of its processes, in MiB.",
        examples=[512],
    )
    processes: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=_DEFAULTS.processes,
        description="The most processes and threads that it has at the same time.",
        examples=[64],
    )


sandbox_or_kind = BeforeValidator(_as_mapping, json_schema_input_type=SandboxKind | SandboxSection)
"""Beside a section: the kind alone is a sandbox without grants."""
