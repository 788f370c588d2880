r"""The content of a result of `tools/call` as neutral parts, for programs that show it to models.

    content = ResultContent.of(result)
    content.text        "Done\n[image image/png, 4.0 kB]"
    content.parts       (TextPart("Done"), MediaPart("image", "image/png", "iVBORw0…"))

Text is unchanged. The content is valid, as `Engine.execute` returns it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, says

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
    """The content of a result as a model is shown it."""

    parts: tuple[ResultPart, ...]
    """The parts in the order of the blocks; last the structured content, unless a text has it."""
    structured: JSONValue = None
    """The `structuredContent`; None if there is none."""
    is_error: bool = False
    """True if the tool failed or its call was refused."""

    @classmethod
    def of(cls, result: JSONObject) -> ResultContent:
        """Read the content of a result of `tools/call`."""
        parts = tuple(map(_part, result["content"]))
        structured = result.get("structuredContent")
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        if structured is not None and not says(texts, structured):
            parts = (*parts, TextPart(json.dumps(structured, ensure_ascii=False)))
        return cls(parts, structured, bool(result.get("isError")))

    @property
    def is_only_structured(self) -> bool:
        """True if the text contains nothing but the structured content."""
        if self.structured is None or len(self.parts) != 1:
            return False
        try:
            return bool(json.loads(self.text) == self.structured)
        except (ValueError, RecursionError):
            return False

    @property
    def text(self) -> str:
        """Return all parts as text; media by type and size."""
        return "\n".join(map(part_text, self.parts))

    @property
    def media(self) -> tuple[MediaPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, MediaPart))


def part_text(part: ResultPart) -> str:
    """A part as text; media by type and size."""
    if isinstance(part, TextPart):
        return part.text
    named = "resource" if part.uri else part.kind
    return _placeholder(named, part.uri or part.media_type, part.data)


def block_text(block: JSONObject) -> str:
    """A block of content as text; media by type and size."""
    return part_text(_part(block))


def _part(block: JSONObject) -> ResultPart:
    match block["type"]:
        case "text":
            return TextPart(block["text"])
        case "image" | "audio" as kind:
            return MediaPart(kind, block["mimeType"], block["data"])
        case "resource":
            return _resource(block["resource"])
    return TextPart(f"{block['name']} <{block['uri']}>")


def _resource(resource: JSONObject) -> ResultPart:
    if "text" in resource:
        return TextPart(resource["text"])
    media_type = resource.get("mimeType") or "application/octet-stream"
    family = media_type.partition("/")[0]
    kind: MediaKind = "image" if family == "image" else "audio" if family == "audio" else "file"
    return MediaPart(kind, media_type, resource["blob"], resource["uri"])


def _placeholder(named: str, what: str, data: str) -> str:
    count = len(data) * _BASE64
    size = f"{count / _KB:.1f} kB" if count >= _KB else f"{count:.0f} bytes"
    return f"[{' '.join(filter(None, (named, what)))}, {size}]"


def texts_of(result: JSONObject) -> Iterator[str]:
    """The blocks of a result as text, for people; structured content alone is indented."""
    yield from map(block_text, result["content"])
    structured = result.get("structuredContent")
    if structured is not None and not result["content"]:
        yield json.dumps(structured, indent=2, ensure_ascii=False)
