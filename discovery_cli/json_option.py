"""Options whose value is a JSON object: written there, in a file, or on stdin."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from discovery_engine._util.json import JSONObject, parse_json


def read_object(text: str, option: str) -> JSONObject:
    """The object that an option gives.

    Raises:
        UsageError: If it cannot be read, or is no JSON object.
    """
    try:
        value = parse_json(_written(text).removeprefix("\ufeff"))
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
        raise click.UsageError(f"{option} cannot be read: {why}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{option} is not UTF-8 text") from error
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f'{option} must be a JSON object, like {{"title": "…"}}')
    return value


def _written(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    if text.startswith("@"):
        return Path(text[1:]).read_text(encoding="utf-8")
    return text
