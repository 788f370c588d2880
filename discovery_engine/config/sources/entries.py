"""Converts an entry of a client's file to a server, and its lists of tools to rules.

An unusable entry becomes a server with a `problem`, so that it is listed and explained, and other
entries are unaffected. A problem never quotes a value.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import named
from discovery_engine.config.settings import (
    OAuthSettings,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
    Timeouts,
)
from discovery_engine.config.settings_section import LONGEST_TIMEOUT
from discovery_engine.config.sources.client_table import ClientRow, EntryShape, load_table
from discovery_engine.config.sources.source_result import allow_rule, approval_rule, deny_rule
from discovery_engine.config.sources.variables import VariableSyntax
from discovery_engine.config.syntax import (
    is_address,
    is_command_line,
    is_header_name,
    is_loopback_redirect,
    is_secure_address,
)
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.references import is_variable
from discovery_engine.tools.model import ServerName

_LONGEST_TOOL = 200  # characters
_MOST_KEYS = 8  # keys in one note
_FALSE = (False, "false", "False")


class SkippedEntryError(Exception):
    """An entry that is valid in its client, but that no other program can start."""


class ReadEntry(Struct, frozen=True):
    server: ServerSettings
    rules: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    """Warnings for the owner; the server is usable."""


class EntryReader(Struct, frozen=True):
    """Reads the entries of one container in a file."""

    client: ClientRow
    origin: Origin
    path: str
    """The key path of the container."""
    dialect: VariableSyntax

    def read(self, name: ServerName, value: JSONValue, *, key: str) -> ReadEntry:
        """Return the server of an entry, with a `problem` if the entry is unusable.

        `key` is its name in the file.

        Raises:
            SkippedEntryError: If the entry must not be imported.
        """
        server = ServerSettings(name, None, origin=self.origin, source=self.client.id)
        self.dialect.notes.clear()
        self.dialect.asked.clear()
        try:
            return self._read(server, EntryFields(_unwrapped(value, self.client.entry)))
        except EntryError as error:
            path = ".".join(filter(None, (self.path, key, error.path)))
            problem = Diagnostic(
                "SOURCE_ENTRY_INVALID", error.message, error.hint, path, self.origin
            )
            return ReadEntry(replace(server, problem=problem))

    def _read(self, server: ServerSettings, fields: EntryFields) -> ReadEntry:
        shape = self.client.entry
        _refuse_foreign(fields, shape)
        server = replace(
            server,
            transport=self._transport(fields),
            description=fields.text(shape.description) or "",
            enabled=_is_enabled(fields, shape),
            timeouts=_timeouts(fields, shape),
        )
        server = replace(server, prompts=dict(self.dialect.asked))
        rules = self._rules(server.name, fields)
        unread = [why for key, why in shape.unread.items() if fields.get(key) is not None]
        switches = (*shape.on, *shape.off, *shape.approve_all)  # reading one is enough
        without = {*shape.ignored, *shape.unwrap, *shape.skip, *switches}
        if others := [key for key in fields.unread if key not in without]:
            unread.append(f"not read: {', '.join(map(named, others[:_MOST_KEYS]))}")
        return ReadEntry(server, rules, (*self.dialect.notes, *unread))

    def _transport(self, fields: EntryFields) -> StdioTransport | RemoteTransport:
        shape = self.client.entry
        kind = _kind(fields, shape)
        key = next((key for key in shape.url if fields.get(key) is not None), None)
        has_command = fields.first(shape.command) is not None
        if kind == "stdio" or (kind is None and has_command):
            return self._stdio(fields)
        if key is not None:
            return self._remote(fields, key, kind or shape.url[key])
        expected_keys = (
            next(iter(shape.url)) if kind else f"{shape.command[0]} or {next(iter(shape.url))}"
        )
        raise EntryError("", f"it has no {expected_keys}")

    def _stdio(self, fields: EntryFields) -> StdioTransport:
        shape = self.client.entry
        command, args, env = _command(fields, shape)
        if any(not name or "=" in name for name in env):
            raise EntryError(shape.env[0], "must be a map from names of variables")
        own = {key: self._translate(value, in_env=True) for key, value in env.items()}
        cwd = fields.text(shape.cwd)
        return StdioTransport(
            self._translate(command),
            tuple(map(self._translate, args)),
            self._forwarded(fields) | own,
            self._translate(cwd) if cwd else None,
        )

    def _forwarded(self, fields: EntryFields) -> dict[str, str]:
        """Return references to the variables whose names are listed, as text or maps with `name`.

        A list often has one bad name among good ones: that one is noted, and left out.
        """
        key, value = fields.first(self.client.entry.env_names) or ("", [])
        if not isinstance(value, list):
            raise EntryError(key, "must be a list of names of variables")
        references = {}
        for number, entry in enumerate(value):
            name = entry.get("name") if isinstance(entry, dict) else entry
            if isinstance(name, str) and is_variable(name):
                references[name] = f"${{{name}}}"
            else:
                self.dialect.notes.append(
                    f"{key}.{number} is no name of a variable: the program starts without it"
                )
        return references

    def _remote(self, fields: EntryFields, key: str, kind: Any) -> RemoteTransport:
        shape = self.client.entry
        url = self._translate(fields.text((key,)) or "")
        if not is_address(url):
            raise EntryError(key, "must be an address, http://… or https://…")
        headers = {k: self._translate(v) for k, v in fields.map(shape.headers).items()}
        if token := fields.text(shape.bearer):
            headers.setdefault("Authorization", f"Bearer {self._translate(token)}")
        if variable := fields.text(shape.bearer_name):
            headers["Authorization"] = f"Bearer ${{{_variable(variable, shape.bearer_name[0])}}}"
        for header, variable in fields.map(shape.header_names).items():
            headers[header] = f"${{{_variable(variable, shape.header_names[0])}}}"
        for header, value in headers.items():
            _check_header(header, value, shape.headers[0])
        return self._with_oauth(RemoteTransport(url, headers, kind), fields)

    def _with_oauth(self, remote: RemoteTransport, fields: EntryFields) -> RemoteTransport:
        """Return `remote` with the entry's usable OAuth settings; note the others."""
        keys = self.client.entry.oauth
        client = fields.text(keys["client_id"])
        secret = fields.text(keys["client_secret"])
        metadata = fields.text(keys["auth_server_metadata_url"]) or ""
        redirect = _redirect_uri(fields, keys)
        for address, is_usable in ((metadata, is_secure_address), (redirect, is_loopback_redirect)):
            if address and not is_usable(address):
                self.dialect.notes.append("an address of its oauth cannot be used and is left out")
        if remote.has_own_authorization:
            return remote
        oauth = OAuthSettings(
            client_id=self._translate(client or ""),
            client_secret=self._translate(secret or "") if client else "",
            scopes=_scopes(fields, keys["scopes"]),
            auth_server_metadata_url=metadata if is_secure_address(metadata) else "",
            redirect_uri=redirect if is_loopback_redirect(redirect) else "",
        )
        return replace(remote, oauth=oauth)

    def _translate(self, text: str, *, in_env: bool = False) -> str:
        return self.dialect.translate(text, in_env=in_env)

    def _rules(self, server: ServerName, fields: EntryFields) -> tuple[Rule, ...]:
        shape, origin = self.client.entry, self.origin
        rules = [
            deny_rule(server, _tools(fields, (key,), shape) or (), origin) for key in shape.deny
        ]
        for key in shape.allow:
            if isinstance(switches := fields.get(key), dict):
                rules.append(deny_rule(server, _switched_off(switches), origin))
                continue
            permitted = _tools(fields, (key,), shape)
            if permitted or (permitted is not None and shape.empty_allow == "none"):
                rules.append(allow_rule(server, permitted, origin))
        trusted = ["*"] if any(map(fields.flag, shape.approve_all)) else []
        for key in shape.approve:
            trusted += _tools(fields, (key,), shape) or ()
        rules.append(approval_rule(server, trusted, self.client.id, origin))
        return tuple(rule for rule in rules if rule is not None)


def _unwrapped(entry: JSONValue, shape: EntryShape) -> JSONObject:
    if not isinstance(entry, dict):
        raise EntryError("", "must be a map that describes a server")
    unwrapped: JSONObject = dict(entry)
    for key in shape.unwrap:
        if isinstance(inner := entry.get(key), dict):
            unwrapped |= inner
    return unwrapped


def _refuse_foreign(fields: EntryFields, shape: EntryShape) -> None:
    for key, reasons in shape.skip.items():
        value = fields.get(key)
        if value is not None and isinstance(value, str):
            reason = reasons.get(value, reasons.get("*"))
            if reason:
                raise SkippedEntryError(reason)


def _kind(fields: EntryFields, shape: EntryShape) -> str | None:
    """Return the transport that the entry names; None if it names none."""
    pair = fields.first(shape.kind)
    if pair is None or isinstance(pair[1], dict):
        return None
    key, word = pair[0], _as_text(pair[1], pair[0])
    kinds = load_table().kinds
    kind = kinds.get(word.lower().replace("-", "").replace("_", ""))
    if kind is None:
        kind_names = ", ".join(sorted({*kinds.values()} - {"auto"}))
        raise EntryError(key, f"no such transport: {word[:40]!r}", f"known are {kind_names}")
    return kind


def _command(fields: EntryFields, shape: EntryShape) -> tuple[str, list[str], dict[str, str]]:
    """Return program, arguments and environment; some clients nest or list them in one key."""
    pair = fields.first(shape.command)
    if pair is None:
        raise EntryError("", f"it has no {shape.command[0]}")
    key, value = pair
    if isinstance(value, dict):
        nested = EntryFields(value)
        command = nested.text(("path", "command")) or ""
        args, env = nested.texts(("args",)) or [], nested.map(("env",))
    elif isinstance(value, list):
        command, *args = _as_texts(value, key) or [""]
        env = {}
    else:
        command, args, env = _as_text(value, key), [], {}
        has_one_reading = is_command_line(command) and not set("\\$") & set(command)
        if has_one_reading and fields.first(shape.args) is None:
            with suppress(ValueError):
                command, *args = shlex.split(command)
    if not command.strip():
        raise EntryError(key, "must name a program")
    return command, args + (fields.texts(shape.args) or []), env | fields.map(shape.env)


def _variable(name: str, path: str) -> str:
    if is_variable(name):
        return name
    raise EntryError(path, "must hold the name of a variable")


def _scopes(fields: EntryFields, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the scopes of a list, or of one text with blanks."""
    pair = fields.first(keys)
    if pair is None:
        return ()
    key, value = pair
    texts = _as_texts(value, key) if isinstance(value, list) else [_as_text(value, key)]
    return tuple(dict.fromkeys(scope for text in texts for scope in text.split()))


def _redirect_uri(fields: EntryFields, keys: Mapping[str, Sequence[str]]) -> str:
    if port := fields.text(keys["callback_port"]):
        return f"http://localhost:{port}/callback"
    return fields.text(keys["redirect_uri"]) or ""


def _check_header(name: str, value: str, path: str) -> None:
    if not is_header_name(name):
        raise EntryError(path, "must be a map from names of headers")
    if "\r" in value or "\n" in value:
        raise EntryError(f"{path}.{name}", "must be on one line")


def _is_enabled(fields: EntryFields, shape: EntryShape) -> bool:
    is_on = all(fields.get(key) not in _FALSE for key in shape.on)
    return is_on and not any(map(fields.flag, shape.off))


def _timeouts(fields: EntryFields, shape: EntryShape) -> Timeouts:
    """Return the timeouts of an entry; those that are no positive numbers are ignored."""
    steps: dict[str, float] = {}
    for step, keys in shape.timeouts.items():
        for key, units in keys.items():
            seconds = _seconds(fields.get(key), float(units))
            if seconds is not None:
                steps[step] = seconds
    return Timeouts(**steps)


def _seconds(value: JSONValue, units: float) -> float | None:
    try:
        seconds = float(value) / units
    except (TypeError, ValueError, OverflowError):
        return None
    usable = not isinstance(value, bool) and math.isfinite(seconds) and seconds > 0
    return min(seconds, LONGEST_TIMEOUT) if usable else None


def _tools(fields: EntryFields, keys: Sequence[str], shape: EntryShape) -> list[str] | None:
    pair = fields.first(keys)
    if pair is None:
        return None
    key, value = pair
    names = _as_texts([value] if isinstance(value, str) else value, key)
    if shape.call_syntax:
        names = [name.partition("(")[0] for name in names]
    if any(len(name) > _LONGEST_TOOL for name in names):
        raise EntryError(key, f"the name of a tool has more than {_LONGEST_TOOL} characters")
    return [name for name in names if name]


def _switched_off(tools: JSONObject) -> list[str]:
    """Return the tools that are off in a map of tools to switches, or to maps with `enabled`."""
    switches = {
        name: switch.get("enabled") if isinstance(switch, dict) else switch
        for name, switch in tools.items()
    }
    return [str(name) for name, switch in switches.items() if switch in _FALSE]


def entries_of(
    container: JSONObject | list[JSONValue], shape: EntryShape
) -> list[tuple[JSONValue, JSONValue]]:
    """Yield the names and entries of a map, or of a list whose items have names."""
    if isinstance(container, dict):
        return list(container.items())
    return [(_item_name(item, shape, at), item) for at, item in enumerate(container, 1)]


def _item_name(item: JSONValue, shape: EntryShape, number: int) -> JSONValue:
    named: Mapping[str, Any] = item if isinstance(item, dict) else {}
    return next((named[key] for key in shape.name if key in named), f"server-{number}")


class EntryError(Exception):
    """A mistake in an entry; `path` leads to it from the entry."""

    def __init__(self, path: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.hint = hint


class EntryFields:
    def __init__(self, entry: JSONObject) -> None:
        self._entry = entry
        self._read: set[str] = set()

    @property
    def unread(self) -> list[str]:
        """The keys with a value that have not been read yet."""
        return [
            str(key)
            for key, value in self._entry.items()
            if key not in self._read and value not in (None, "", [], {})
        ]

    def get(self, key: str) -> JSONValue:
        """Return the value of a key, whose dots go down a level; None for null or no such key."""
        self._read.add(key.partition(".")[0])
        value: JSONValue = self._entry
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def first(self, keys: Sequence[str]) -> tuple[str, JSONValue] | None:
        """Return the first of these keys that has a value, and its value; None if none has."""
        pairs = ((key, self.get(key)) for key in keys)
        return next(((key, value) for key, value in pairs if value is not None), None)

    def text(self, keys: Sequence[str]) -> str | None:
        pair = self.first(keys)
        return None if pair is None else _as_text(pair[1], pair[0])

    def texts(self, keys: Sequence[str]) -> list[str] | None:
        pair = self.first(keys)
        return None if pair is None else _as_texts(pair[1], pair[0])

    def map(self, keys: Sequence[str]) -> dict[str, str]:
        pair = self.first(keys)
        return {} if pair is None else _as_map(pair[1], pair[0])

    def flag(self, key: str) -> bool:
        return self.get(key) in (True, "true", "True")


def _as_text(value: JSONValue, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        text = str(value)
        if "\0" not in text and text.encode(errors="replace").decode() == text:
            return text
        raise EntryError(path, "holds characters that no program can be given")
    raise EntryError(path, "must be text")


def _as_texts(value: JSONValue, path: str) -> list[str]:
    if not isinstance(value, list):
        raise EntryError(path, "must be a list of texts")
    return [_as_text(item, f"{path}.{number}") for number, item in enumerate(value)]


def _as_map(value: JSONValue, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise EntryError(path, "must be a map of texts")
    return {
        _as_text(key, path): _as_text(member, f"{path}.{key}")
        for key, member in value.items()
        if key is not None and member is not None
    }
