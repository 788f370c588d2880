"""Makes the pack of typical requests that ships with the program.

    python scripts/pack_requests.py

It takes the requests and the tool lists of `benchmarks/everyday`. The lists themselves are their
authors' and stay there: the pack has the names of tools, and digests of the words of their
definitions. The same input gives the same bytes under one version of zlib. Raise `PACK_VERSION` in
`discovery_engine/search/examples/book.py` when the requests change.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from discovery_engine.search.examples.book import PACK_VERSION
from discovery_engine.search.examples.pack import FILE, MANIFEST, SIGNATURES, Signature, plain_name
from discovery_engine.tools.model import ServerName, Tool

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "everyday"
REQUESTS = FOLDER / "typical_requests.jsonl.gz"
CATALOG = FOLDER / "catalog.jsonl.gz"
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have; the manifest has the real one


def main() -> None:
    members = made()
    FILE.parent.mkdir(exist_ok=True)
    date = datetime.now(tz=UTC).date().isoformat()
    with zipfile.ZipFile(FILE, "w") as packed:
        for name, text in {MANIFEST: manifest(members, date), **members}.items():
            entry = zipfile.ZipInfo(name, _TIME)
            packed.writestr(entry, text, zipfile.ZIP_DEFLATED, 9)
    print(manifest(members, date))
    print(f"{FILE.stat().st_size:,} bytes")


def made() -> dict[str, str]:
    """The files of the pack but its manifest, by name."""
    signatures: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for definition in packed_lines(CATALOG):
        server = definition.pop("server")
        tool = Tool.from_mcp(ServerName(server), definition)
        signatures[server][plain_name(tool.upstream_name)] = Signature.of(tool).to_text()
    requests: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for one in packed_lines(REQUESTS):
        requests[one["server"]][one["name"]] = one["requests"]
    files: dict[str, Any] = {SIGNATURES: signatures}
    files |= {f"{server}.json": tools for server, tools in sorted(requests.items())}
    return {name: compact(content) for name, content in files.items()}


def manifest(members: Mapping[str, str], date: str) -> str:
    """What the pack is, for people."""
    servers = [json.loads(text) for name, text in members.items() if name != SIGNATURES]
    return json.dumps(
        {
            "version": PACK_VERSION,
            "date": date,
            "licence": "MIT",
            "servers": len(servers),
            "tools": sum(map(len, servers)),
            "requests": sum(len(requests) for tools in servers for requests in tools.values()),
            "digest": digest(members),
            "about": "Typical requests of tools of popular public servers, written for this"
            " project from their tool lists; no text of the servers is in it but names of tools.",
        },
        indent=2,
    )


def digest(members: Mapping[str, str]) -> str:
    """SHA-256 of all files but the manifest, in the order of their names."""
    whole = hashlib.sha256()
    for name, text in sorted(members.items()):
        whole.update(f"{name}\n{text}\n".encode())
    return whole.hexdigest()


def compact(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def packed_lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as unpacked:
        yield from map(json.loads, unpacked)


if __name__ == "__main__":
    main()
