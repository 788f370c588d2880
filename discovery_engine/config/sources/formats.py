"""Parses a client's file into plain values: dicts, lists and text.

Numbers and YAML's words stay text (`1.10`, `0123`, `no`), because servers get them as text. Text
copied from a page is repaired if it has only one reading: in a Markdown fence, without the outer
braces, with typographic quotes, or with unescaped backslashes in Windows paths. Any bytes give a
value or an `UnreadableError`.
"""

from __future__ import annotations

import json
import re
import tomllib
from contextlib import suppress
from typing import Any, Literal, TypeAlias, cast

import json5
import yaml

from discovery_engine._util.json import JSONValue

Format: TypeAlias = Literal["json", "toml", "yaml", "any"]

_SUFFIXES: dict[str, Format] = {
    ".json": "json",
    ".jsonc": "json",
    ".json5": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}
_STRICTER_THAN_YAML: tuple[Format, ...] = ("json", "toml")
_DEEPEST = 64
_MOST_NODES = 500_000  # of YAML, with its aliases expanded
_MOST_JSON5 = 65_536  # characters; the parser takes about six seconds for a million
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_NOT_LINE_BREAK = re.compile(r"[^\n]")
# The parser takes quadratic time for such a key.
_DEEP_KEY = re.compile(rf"""(?<![\w"'-])(?:[\w"'-]++\s*+\.\s*+){{{_DEEPEST}}}""")
_FENCED = re.compile(r"^[ \t]*```(\w*)[^\S\n]*\n(.*?)^[ \t]*```[^\S\n]*$", re.DOTALL | re.MULTILINE)
_STRAIGHT = str.maketrans("\u201c\u201d\u201e\u201f", '""""')
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_UNESCAPED = re.compile(
    r"""^"[A-Za-z]:\\(?![\\/]|u[0-9a-fA-F]{4})"""  # C:\temp, whose `\t` would be a tabulator
    r"""|(?<!\\)(?:\\\\)*\\(?:[^"\\/bfnrtu'0vx]|u(?![0-9a-fA-F]{4})|x(?![0-9a-fA-F]{2}))"""
)
_BACKSLASH = re.compile(r'\\["\\]|\\')
_TOML_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


class UnreadableError(Exception):
    """The text is invalid in its format; `line` and `column` count from 1, 0 means unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def format_of(suffix: str, otherwise: Format) -> Format:
    """Return the format for the suffix of a file; `otherwise` for an unknown one."""
    return _SUFFIXES.get(suffix.lower(), otherwise)


def parse(data: bytes, kind: Format) -> JSONValue:
    """Return the value of a file; an empty file is an empty dict.

    Raises:
        UnreadableError: If it is invalid, nested too deeply, or grows too large.
    """
    text = _decoded(data)
    if not text.strip():
        return {}
    try:
        return _of_any_format(text) if kind == "any" else _parsed(text, kind)
    except UnreadableError:
        blocks = _FENCED.findall(text)
        if len(blocks) > 1:
            reason = "it has several blocks between lines of ```, and only one can be read"
            raise UnreadableError(reason) from None
        if not blocks:
            raise
    language, block = blocks[0]
    kind = format_of(f".{language}", "any")
    return _of_any_format(block) if kind == "any" else _parsed(block, kind)


def _parsed(text: str, kind: Format) -> JSONValue:
    try:
        return _PARSERS[kind](text)
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None


def _decoded(data: bytes) -> str:
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"it is not {encoding.removesuffix('-sig').upper()} text", line, 1
        ) from None


def _of_any_format(text: str) -> JSONValue:
    """Parse a text in the first format in which it is a dict or a list."""
    if text.lstrip().startswith("{"):
        return _parsed(text, "json")
    for kind in _STRICTER_THAN_YAML:
        with suppress(UnreadableError):
            if isinstance(value := _parsed(text, kind), dict | list):
                return value
    if isinstance(value := _parsed(text, "yaml"), dict | list):
        return value
    raise UnreadableError("it is neither a map nor a list", 1, 1)


def _json(text: str) -> JSONValue:
    text = _STRING.sub(_with_escapes, text) if "\\" in text else text
    try:
        return _lenient_json(text)
    except UnreadableError:
        straight = text.translate(_STRAIGHT)
        begins = straight.lstrip()[:1]
        copied = [straight] if straight != text else []
        copied += [f"{{{straight}}}", f"{{{straight}"] if begins == '"' else []
        for whole in copied:
            with suppress(UnreadableError):
                return _lenient_json(whole)
        raise


def _with_escapes(string: re.Match[str]) -> str:
    """Return a JSON string with its backslashes escaped, if it is an unescaped Windows path."""
    if not _UNESCAPED.search(string[0]):
        return string[0]
    return _BACKSLASH.sub(lambda match: match[0].ljust(2, "\\"), string[0])


def _lenient_json(text: str) -> JSONValue:
    try:
        return _plain_json(text)
    except json.JSONDecodeError:
        pass
    try:
        return _plain_json(without_comments(text))
    except json.JSONDecodeError as error:
        if len(text) <= _MOST_JSON5:
            return _json5(text, error)
        raise UnreadableError(error.msg, error.lineno, error.colno) from None


def _plain_json(text: str) -> JSONValue:
    return json.loads(text, parse_int=str, parse_float=str)


def without_comments(text: str, *, trailing_commas: bool = False) -> str:
    """Return JSON with comments and trailing commas blanked, so that positions stay valid.

    With `trailing_commas`, those commas are kept.
    """
    bare = _COMMENT.sub(_blank, text)
    return bare if trailing_commas else _TRAILING_COMMA.sub(_blank, bare)


def _blank(match: re.Match[str]) -> str:
    return match[1] or _NOT_LINE_BREAK.sub(" ", match[0])


def _json5(text: str, error: json.JSONDecodeError) -> JSONValue:
    try:
        return json5.loads(text, parse_int=_digits, parse_float=str)
    except ValueError:
        raise UnreadableError(error.msg, error.lineno, error.colno) from None


def _digits(text: str, base: int = 10) -> str:
    return text if base == 10 else str(int(text, base))  # noqa: PLR2004


def _toml(text: str) -> JSONValue:
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise UnreadableError("it is nested too deeply", line, 1)
    try:
        return tomllib.loads(text, parse_float=str)
    except ValueError as error:
        place = _TOML_PLACE.search(str(error))
        line, column = (int(place[1]), int(place[2])) if place else (0, 0)
        raise UnreadableError(_TOML_PLACE.sub("", str(error)).strip(), line, column) from None


_CLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _TextLoader(_CLoader):  # type: ignore[misc]
    """Constructs every scalar but null as text, and resolves no tags."""

    yaml_implicit_resolvers = {
        first: [("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"))]
        for first in ("~", "n", "N", "")
    } | {"<": [("tag:yaml.org,2002:merge", re.compile(r"^<<$"))]}
    yaml_constructors = {
        f"tag:yaml.org,2002:{kind}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]
        for kind in ("null", "str", "seq", "map")
    } | {None: yaml.SafeLoader.yaml_constructors[None]}


def _yaml(text: str) -> JSONValue:
    try:
        _refuse_bombs(text)
        return yaml.load(text, _TextLoader)  # noqa: S506 - it builds text, lists and maps only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise UnreadableError(error.problem or "it is not YAML", line, column) from None
    except yaml.YAMLError as error:
        raise UnreadableError(str(error).partition("\n")[0]) from None


def _refuse_bombs(text: str) -> None:
    """Raise `UnreadableError` if YAML is too deep or, with aliases, too large for the C parser."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str, int]] = [("", 0)]
    for event in yaml.parse(text, _TextLoader):
        anchor, size = getattr(event, "anchor", None) or "", 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, size))
            if len(open_nodes) > _DEEPEST:
                raise _refusal(event, "it is nested too deeply")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
        elif isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:
                raise _refusal(event, f"alias {anchor!r} stands for nothing before it")
            size = sizes[anchor]
        sizes[anchor] = size
        outer, total = open_nodes[-1]
        open_nodes[-1] = (outer, total + size)
        if total > _MOST_NODES:
            raise _refusal(event, "its aliases make it too large")


def _refusal(event: yaml.Event, reason: str) -> UnreadableError:
    mark = cast("yaml.Mark", event.start_mark)
    return UnreadableError(reason, mark.line + 1, mark.column + 1)


_PARSERS = {"json": _json, "toml": _toml, "yaml": _yaml}
