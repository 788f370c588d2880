"""The roots of the configuration, as servers are given them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import Settings


def roots_of(settings: Settings) -> tuple[JSONObject, ...]:
    """The answer to `roots/list`, one for each of `server.roots`; empty to ask the client.

    A relative folder starts at the folder of the configuration file.
    """
    base = Path(settings.path).parent if settings.path else Path.cwd()
    return tuple(_root(text, base) for text in settings.server.roots)


def _root(text: str, base: Path) -> JSONObject:
    if text.startswith("file://"):
        uri = text
    else:
        uri = (base / Path(text).expanduser()).absolute().as_uri()
    name = urlsplit(uri).path.rstrip("/").rpartition("/")[2]
    return {"uri": uri, "name": name} if name else {"uri": uri}
