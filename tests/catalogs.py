"""An engine over tools that a test writes down, for searches: no tool of it can be called."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discovery_engine import SearchAnswer
from discovery_engine.sync import SyncEngine, open_engine
from tests.servers.programs import HERE

JSONObject = dict[str, Any]
JSONValue = Any


def tool(name: str, description: str = "", **fields: Any) -> JSONObject:
    """A definition as `tools/list` has it."""
    return {"name": name, "description": description, "inputSchema": schema(), **fields}


def schema(*required: str, **properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def listing(file: Path, tools: Sequence[JSONObject | str]) -> JSONObject:
    """The configuration of a server that lists `tools`, which it reads from `file` each time."""
    definitions = [tool(one) if isinstance(one, str) else one for one in tools]
    file.write_text(json.dumps(definitions), "utf-8")
    args = ["-I", "-S", str(HERE / "listing_server.py"), str(file)]
    return {"command": sys.executable, "args": args}


def configure(
    folder: Path,
    catalogs: Mapping[str, Sequence[JSONObject | str]],
    settings: Mapping[str, JSONObject] | None = None,
    **sections: Any,
) -> Path:
    """Write `discovery.yaml`, with a server for each catalog, of which `settings` has more."""
    servers = {
        name: {**listing(folder / f"{name}.json", tools), **(settings or {}).get(name, {})}
        for name, tools in catalogs.items()
    }
    file = folder / "discovery.yaml"
    file.write_text(json.dumps({"servers": servers, **sections}), "utf-8")
    return file


@contextmanager
def opened(
    folder: Path,
    catalogs: Mapping[str, Sequence[JSONObject | str]],
    settings: Mapping[str, JSONObject] | None = None,
    **sections: Any,
) -> Iterator[SyncEngine]:
    """Yield an engine that has listed a server for each catalog."""
    config = configure(folder, catalogs, settings, **sections)
    with open_engine(config, data_dir=folder / "data") as engine:
        engine.refresh()
        yield engine


def environ_of(folder: Path) -> dict[str, str]:
    """The environment of `discovery` run with the configuration and the data of `opened`."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "DISCOVERY_CONFIG": str(folder / "discovery.yaml"),
        "DISCOVERY_DATA_DIR": str(folder / "data"),
    }


def names(answer: SearchAnswer) -> list[str]:
    """The tools that an answer found, or that are nearest if none fits."""
    return [hit.entry.tool.name for hit in answer.hits or answer.nearest]
