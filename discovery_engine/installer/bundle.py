"""A bundle (`mcpb`): how its server is started, read from its manifest without unpacking it.

A manifest may name `node`, `python` or a file of the bundle; anything else is refused. Its
`${user_config.…}` are values that the owner gives, and `${__dirname}` is where it is unpacked.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors import InstallRefusedError
from discovery_engine.installer.archive import open_archive, read_member
from discovery_engine.marketplace.entry import Input, InputFormat

_LARGEST = 1024 * 1024  # bytes of a manifest
_INPUTS = 100
_LONGEST = 8192  # characters of an argument
_PLACE = re.compile(r"\$\{([^{}]*)\}")
_CONFIG = "user_config."
_FORMATS: Mapping[str, InputFormat] = {
    "number": "number",
    "boolean": "boolean",
    "directory": "filepath",
    "file": "filepath",
}
_PROGRAMS = {"node": ("node",), "python": ("python3", "python")}
_HOMES = {
    "HOME": "~",
    "DESKTOP": "~/Desktop",
    "DOCUMENTS": "~/Documents",
    "DOWNLOADS": "~/Downloads",
}


class BundleServer(Struct, frozen=True):
    """How the server of a bundle is started."""

    program: str
    """`node` or `python3`; or a path in the folder where the bundle is unpacked."""
    script: str
    """The path of what that program runs; empty if the program is the bundle's own."""
    arguments: tuple[Input, ...]
    environment: tuple[Input, ...]
    python_path: str = ""
    """A folder of the bundle that Python modules are loaded from."""
    version: str = ""


def read_bundle(archive: Path, folder: Path) -> BundleServer:
    """The server of a bundle that will be unpacked in `folder`.

    Raises:
        InstallRefusedError: If it is no bundle, or starts anything but its own files.
    """
    with open_archive(archive) as opened:
        content = read_member(opened, "manifest.json", limit=_LARGEST)
        names = set(opened.namelist())
    if content is None:
        raise InstallRefusedError("the bundle has no manifest.json")
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InstallRefusedError("the manifest.json of the bundle is not JSON") from error
    return _Manifest(_object(manifest), folder, names).server()


class _Manifest:
    def __init__(self, manifest: Mapping[str, Any], folder: Path, files: set[str]) -> None:
        self._manifest = manifest
        self._folder = folder
        self._files = files
        self._asked = dict(self._user_config())

    def server(self) -> BundleServer:
        server = _object(self._manifest.get("server"))
        kind = server.get("type")
        entry_point = self._file(server.get("entry_point"))
        config = _object(server.get("mcp_config"))
        overrides = _object(_object(config.get("platform_overrides")).get(_platform()))
        config = {**config, **overrides}
        arguments = [_text(word) for word in _items(config.get("args"))]
        command = _text(config.get("command", ""))
        if kind in _PROGRAMS:
            program = _PROGRAMS[kind][0]
            if command not in ("", *_PROGRAMS[kind]):
                raise _starts(command)
            first = arguments.pop(0) if arguments else f"${{__dirname}}/{entry_point}"
            script = str(self._folder / self._file(_inside(first)))
        elif kind == "binary":
            program = str(self._folder / self._file(_inside(command) if command else entry_point))
            script = ""
        else:
            raise InstallRefusedError(
                f"the bundle is of the type {quoted(str(kind))}; known are node, python, binary"
            )
        variables = _object(config.get("env"))
        python_path = self._python_path(_text(variables.pop("PYTHONPATH", "")))
        return BundleServer(
            program,
            script,
            arguments=tuple(self._input(word, "positional", word) for word in arguments),
            environment=tuple(
                self._input(name, "environment", _text(value)) for name, value in variables.items()
            ),
            python_path=python_path,
            version=one_line(str(self._manifest.get("version", "")))[:128],
        )

    def _user_config(self) -> Iterable[tuple[str, Input]]:
        given = _object(self._manifest.get("user_config"))
        for name, about in list(given.items())[:_INPUTS]:
            one = _object(about)
            default = one.get("default")
            usual = "" if isinstance(default, (list, dict, type(None))) else _text(default)
            yield (
                name,
                Input(
                    name,
                    "variable",
                    description=one_line(str(one.get("description") or one.get("title") or "")),
                    default=_homes(str(usual).lower() if isinstance(default, bool) else usual),
                    format=_FORMATS.get(str(one.get("type")), "string"),
                    is_required=one.get("required") is True,
                    is_secret=one.get("sensitive") is True,
                    is_repeated=one.get("multiple") is True,
                ),
            )

    def _input(self, name: str, kind: Any, text: str) -> Input:
        """A text of the manifest as an input, whose variables are what the owner gives."""
        alone = re.fullmatch(r"\$\{user_config\.([^{}]+)\}", text)
        if alone and kind == "positional" and alone[1] in self._asked:
            return replace(self._asked[alone[1]], kind="positional")
        variables: dict[str, Input] = {}

        def filled(place: re.Match[str]) -> str:
            inner = place[1]
            if inner.startswith(_CONFIG) and inner.removeprefix(_CONFIG) in self._asked:
                key = inner.removeprefix(_CONFIG)
                variables[key] = self._asked[key]
                return f"{{{key}}}"
            if inner == "__dirname":
                return str(self._folder)
            return os.sep if inner in ("/", "pathSeparator") else _homes(place[0])

        value = _PLACE.sub(filled, text)
        return Input(name, kind, value=value, variables=tuple(variables.values()))

    def _python_path(self, text: str) -> str:
        return str(self._folder / _inside(text)) if text else ""

    def _file(self, path: object) -> str:
        if not isinstance(path, str) or path.removeprefix("./") not in self._files:
            raise InstallRefusedError(f"the bundle has no file {quoted(str(path))} to start")
        return path.removeprefix("./")


def _inside(text: str) -> str:
    """The path in the bundle that a text of the manifest names."""
    path = text.removeprefix("${__dirname}").lstrip("/") if "${__dirname}" in text else ""
    steps = PurePosixPath(path).parts
    if not steps or ".." in steps or "${" in path or "\\" in path:
        raise _starts(text)
    return path


def _starts(text: str) -> InstallRefusedError:
    return InstallRefusedError(
        f"the bundle would start {quoted(text)}, which is no file of its own"
    )


def _homes(text: str) -> str:
    return _PLACE.sub(lambda place: _HOMES.get(place[1], place[0]), text)


def _platform() -> str:
    return sys.platform


def _object(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return list(value)[:_INPUTS] if isinstance(value, list) else []


def _text(value: object) -> str:
    """A text of the manifest.

    Raises:
        InstallRefusedError: If it is none, or too long.
    """
    text = str(value) if isinstance(value, (str, int, float)) else None
    if text is None or len(text) > _LONGEST:
        raise InstallRefusedError("the manifest.json of the bundle is malformed")
    return text
