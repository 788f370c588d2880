"""Which images models are shown."""

from __future__ import annotations

import base64

import pytest

from discovery_engine.agent.content import MediaPart
from discovery_engine.integrations.adapter import image_type
from tests.rows import rows


@pytest.mark.requirement("FRM-100")
@rows(
    ("beginning", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n rest", "image/png"),
        (b"\xff\xd8\xff\xe0 rest", "image/jpeg"),
        (b"GIF89a rest", "image/gif"),
        (b"GIF87a rest", "image/gif"),
        (b"RIFF\x01\x02\x03\x04WEBP rest", "image/webp"),
        (b"RIFF\x01\x02\x03\x04WAVE rest", None),
        (b"<svg/>", None),
        (b"", None),
    ],
)
def test_the_first_bytes_of_an_image_say_what_it_is(beginning: bytes, expected: str | None) -> None:
    data = base64.b64encode(beginning).decode()

    assert image_type(MediaPart("image", "image/png", data)) == expected
    assert image_type(MediaPart("file", "image/png", data)) is None
