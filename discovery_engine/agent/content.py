r"""The content of a result of `tools/call` as neutral parts, for programs that show it to models.

    content = ResultContent.of(result)
    content.text        "Done\n[image image/png, 4.0 kB]"
    content.parts       (TextPart("Done"), MediaPart("image", "image/png", "iVBORw0…"))

Text is unchanged. Nothing of a result raises an error: a block that is not valid becomes text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json

_KB = 1000
_BASE64 = 3 / 4  # bytes per character

MediaKind: TypeAlias = Literal["image", "audio", "file"]


class TextPart(Struct, frozen=True):
    text: str


class MediaPart(Struct, frozen=True):
    """An image, a sound or another file."""

    kind: MediaKind
    media_type: str
    data: str
    """Base64, valid."""
    uri: str = ""
    """That of the resource, if it is one."""

    @property
    def content(self) -> bytes:
        return base64.b64decode(self.data)


ResultPart: TypeAlias = TextPart | MediaPart


class ResultContent(Struct, frozen=True):
    """What a model is shown of a result."""

    parts: tuple[ResultPart, ...]
    """In the order of the blocks; last the structured content as JSON, unless a text has it."""
    structured: JSONValue = None
    """The `structuredContent`; None if there is none."""
    is_error: bool = False
    """Whether the tool failed, or its call was refused."""

    @classmethod
    def of(cls, result: JSONObject) -> ResultContent:
        """What a result of `tools/call` contains."""
        content = result.get("content")
        parts = tuple(map(_part, content if isinstance(content, list) else ()))
        structured = result.get("structuredContent")
        if structured is not None and not _say(parts, structured):
            parts = (*parts, TextPart(json.dumps(structured, ensure_ascii=False)))
        return cls(parts, structured, bool(result.get("isError")))

    @property
    def is_only_structured(self) -> bool:
        """Whether the text says nothing but the structured content."""
        if self.structured is None or len(self.parts) != 1:
            return False
        try:
            return bool(json.loads(self.text) == self.structured)
        except (ValueError, RecursionError):
            return False

    @property
    def text(self) -> str:
        """All parts as text; media by type and size."""
        return "\n".join(map(part_text, self.parts))

    @property
    def media(self) -> tuple[MediaPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, MediaPart))


def _say(parts: Sequence[ResultPart], structured: JSONValue) -> bool:
    """Whether the texts have all of the structured content, as those of most servers do.

    SDKs wrap what is no object: `{"result": ["a", "b"]}` beside the texts `a` and `b`.
    """
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    values = [_read(text) for text in texts]
    said = [texts, values, *texts, *values]
    is_wrapped = isinstance(structured, dict) and list(structured) == ["result"]
    return structured in said or (is_wrapped and structured["result"] in said)


def _read(text: str) -> JSONValue:
    """A text as JSON; as it is if it is none."""
    try:
        return parse_json(text)
    except ValueError:
        return text


def part_text(part: ResultPart) -> str:
    """A part as text; media by type and size."""
    if isinstance(part, TextPart):
        return part.text
    named = "resource" if part.uri else part.kind
    return _placeholder(named, part.uri or part.media_type, part.data)


def block_text(block: JSONValue) -> str:
    """A block of content as text; media by type and size."""
    return part_text(_part(block))


def _part(block: JSONValue) -> ResultPart:
    facts = block if isinstance(block, dict) else {}
    match facts.get("type"):
        case "text":
            return TextPart(str(facts.get("text", "")))
        case "image" | "audio" as kind:
            return _media(kind, facts.get("mimeType"), facts.get("data"))
        case "resource":
            return _resource(facts.get("resource"))
        case "resource_link":
            return TextPart(f"{facts.get('name', '')} <{facts.get('uri', '')}>")
    return TextPart(json.dumps(block, ensure_ascii=False))


def _resource(resource: JSONValue) -> ResultPart:
    facts = resource if isinstance(resource, dict) else {}
    if isinstance(text := facts.get("text"), str):
        return TextPart(text)
    uri, blob = str(facts.get("uri") or ""), facts.get("blob")
    if not isinstance(blob, str):
        return TextPart(_placeholder("resource", uri, blob))
    media_type = str(facts.get("mimeType") or "application/octet-stream")
    family = media_type.partition("/")[0]
    kind: MediaKind = "image" if family == "image" else "audio" if family == "audio" else "file"
    return _media(kind, media_type, blob, uri)


def _media(kind: MediaKind, media_type: JSONValue, data: JSONValue, uri: str = "") -> ResultPart:
    media_type = media_type if isinstance(media_type, str) else ""
    if isinstance(data, str) and media_type and _is_base64(data):
        return MediaPart(kind, media_type, data, uri)
    return TextPart(_placeholder("resource" if uri else kind, uri or media_type, data))


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _placeholder(named: str, what: str, data: JSONValue) -> str:
    return f"[{' '.join(filter(None, (named, what)))}, {_size(data)}]"


def _size(data: JSONValue) -> str:
    count = len(data) * _BASE64 if isinstance(data, str) else 0
    return f"{count / _KB:.1f} kB" if count >= _KB else f"{count:.0f} bytes"


def texts_of(result: JSONObject) -> Iterator[str]:
    """The blocks of a result as text, for people; structured content alone is indented."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    yield from map(block_text, blocks)
    structured = result.get("structuredContent")
    if structured is not None and not blocks:
        yield json.dumps(structured, indent=2, ensure_ascii=False)
