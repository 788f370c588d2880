"""Files of other clients, which `config import` and `init` read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from discovery_cli.command_group import did_you_mean
from discovery_engine.config.settings import Source
from discovery_engine.config.sources import SOURCE_TYPES, client_files, read_source, source_of_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discovery_cli.output import Output
    from discovery_engine.config.sources import ClientFile, SourceResult


class _Machine(TypedDict):
    environ: Mapping[str, str]
    home: Path
    cwd: Path
    platform: str


def _machine() -> _Machine:
    return _Machine(environ=os.environ, home=Path.home(), cwd=Path.cwd(), platform=sys.platform)


def found_files() -> tuple[ClientFile, ...]:
    """Return the files of clients on this machine, without opening them."""
    return client_files(**_machine())


def read(sources: Iterable[Source]) -> Sequence[tuple[str, SourceResult]]:
    """Read the sources, each with the name of its client."""
    return [(source.type, read_source(source, **_machine())) for source in sources]


def source_named(text: str) -> Source:
    """Return the source that an argument names.

    It is the id of a client (`cursor`), the path of a file, or both (`cursor:PATH`) for a file in
    the format of that client.

    Raises:
        UsageError: If the text is none of these.
    """
    if text in SOURCE_TYPES and text != "custom":
        return Source(text)
    if os.path.exists(path := Path(text).expanduser()):  # noqa: PTH110 - a name may be too long
        return source_of_file(path.absolute(), **_machine())
    client, _, file = text.partition(":")
    if client in SOURCE_TYPES and os.path.isfile(Path(file).expanduser()):  # noqa: PTH113 - too
        return Source(client, str(Path(file).expanduser().absolute()))
    if client in SOURCE_TYPES and file:
        raise click.UsageError(f"there is no file {file!r}")
    question = did_you_mean(text, SOURCE_TYPES)
    raise click.UsageError(f"{text!r} is neither a client nor a file{question}")


def say_files(output: Output, files: Iterable[ClientFile]) -> None:
    for file in files:
        output.say(f"  {file.label}: {file.path}")
