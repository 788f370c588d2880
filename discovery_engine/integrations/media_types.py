"""Which images and documents the APIs of models take.

A conversation with an image that an API refuses is refused with every further request. So the
beginning of an image decides, not what its server says it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from discovery_engine.agent.content import MediaPart

PDF: Final = "application/pdf"

ImageType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


def image_type(part: MediaPart) -> ImageType | None:
    """The type of an image that can be shown to a model; None for everything else."""
    if part.kind != "image":
        return None
    data = part.content
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None
