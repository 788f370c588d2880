"""How tests start `offering_server.py`, and builders of what it offers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.tools.model import ServerName
from tests.servers.programs import HERE


def resource(uri: str, name: str = "", **fields: Any) -> JSONObject:
    return {"uri": uri, "name": name or uri.rpartition("/")[2], **fields}


def template(uri_template: str, name: str = "files", **fields: Any) -> JSONObject:
    return {"uriTemplate": uri_template, "name": name, **fields}


def prompt(name: str, *arguments: str, **fields: Any) -> JSONObject:
    listed = [{"name": argument, "required": True} for argument in arguments]
    return {"name": name, **({"arguments": listed} if listed else {}), **fields}


def skill(name: str, contents: Mapping[str, str], description: str = "") -> JSONObject:
    """A skill, whose files are those of `contents` that lie in its folder."""
    root = f"skill://{name}/"
    files = [
        {"uri": uri, "size": len(text), "digest": f"sha256:{sha256(text.encode()).hexdigest()}"}
        for uri, text in contents.items()
        if uri.startswith(root)
    ]
    frontmatter = {"name": name, "description": description or name}
    return {"uri": f"{root}SKILL.md", "frontmatter": frontmatter, "resources": files}


@dataclass(frozen=True)
class World:
    """What one server offers; it may be changed while the server runs."""

    path: Path
    name: str = "docs"

    def offer(self, **world: Any) -> World:
        self.path.write_text(json.dumps(world), "utf-8")
        return self

    def server(self, *, era: str = "both", **settings: Any) -> ServerSettings:
        program = str(HERE / "offering_server.py")
        arguments = ("-I", "-S", program, str(self.path), "--era", era)
        transport = StdioTransport(sys.executable, arguments)
        return ServerSettings(ServerName(self.name), transport, **settings)

    def asked(self, *methods: str) -> list[JSONObject]:
        """The messages of these methods that the server got, in order; of all if none is given."""
        log = Path(f"{self.path}.log")
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        messages = map(json.loads, lines)
        return [one for one in messages if not methods or one.get("method") in methods]
