"""The files of other clients that `import` and `init` read, and the questions that both ask."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import did_you_mean
from discovery_engine.config.settings import Source
from discovery_engine.config.sources import SOURCE_TYPES, client_files, read_source

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine.config.sources import ClientFile, SourceResult


def found_files() -> tuple[ClientFile, ...]:
    """The files of clients on this machine, none of them opened."""
    return client_files(environ=os.environ, home=Path.home(), cwd=Path.cwd(), platform=sys.platform)


def read(sources: Iterable[Source]) -> Mapping[str, SourceResult]:
    """What the sources hold, by what to call each of them."""
    return {
        source.type: read_source(
            source,
            environ=os.environ,
            home=Path.home(),
            cwd=Path.cwd(),
            platform=sys.platform,
        )
        for source in sources
    }


def source_named(text: str) -> Source:
    """A client by its id, or any file by its path.

    Raises:
        UsageError: If it is neither.
    """
    if text in SOURCE_TYPES and text != "custom":
        return Source(text)
    if Path(text).expanduser().exists():
        return Source("custom", str(Path(text).expanduser().absolute()))
    question = did_you_mean(text, SOURCE_TYPES)
    raise click.UsageError(f"{text!r} is neither a client nor a file{question}")


def may_ask() -> bool:
    """Whether questions can be asked on a terminal."""
    return sys.stdin.isatty() and not os.environ.get("DISCOVERY_NO_PROMPT")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask, unless the answer was given beforehand.

    Raises:
        UsageError: If there is no terminal to ask on.
    """
    if yes:
        return True
    if not may_ask():
        raise click.UsageError(
            "there is no terminal to ask on; use --yes to write the file, or --dry-run to show it"
        )
    return click.confirm(question, default=True, err=True)


def say_files(output: Output, files: Iterable[ClientFile]) -> None:
    for file in files:
        output.say(f"  {file.label}: {file.path}")
