"""A registry that speaks the API of the official one, over entries that a test changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from tests.servers.web_server import WebAnswer, WebRequest, json_answer, web_server

OFFICIAL = "io.modelcontextprotocol.registry/official"
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def moment(day: float) -> str:
    """A day after the first of January 2026, as registries write it."""
    return (_BEGIN + timedelta(days=day)).isoformat().replace("+00:00", "Z")


def listed(
    name: str,
    *,
    version: str = "1.0.0",
    description: str = "",
    day: float = 0,
    status: str = "active",
    message: str = "",
    is_latest: bool = True,
    **members: Any,
) -> dict[str, Any]:
    """An entry as the registry lists it; with one npm package, if nothing else is given."""
    namespace, _, own = name.partition("/")
    document: dict[str, Any] = {
        "name": name,
        "description": description or f"Server {own}",
        "version": version,
        "repository": {"url": f"https://github.com/{namespace.rpartition('.')[2]}/{own}"},
    }
    if not {"packages", "remotes"} & members.keys():
        document["packages"] = [
            {"registryType": "npm", "identifier": own or name, "version": version}
        ]
    official = {
        "status": status,
        "publishedAt": moment(day),
        "updatedAt": moment(day),
        "isLatest": is_latest,
    }
    if message:
        official["statusMessage"] = message
    return {"server": document | members, "_meta": {OFFICIAL: official}}


@dataclass
class RegistryServer:
    url: str = ""
    entries: list[Any] = field(default_factory=list)
    page_size: int = 100
    asked: list[WebRequest] = field(default_factory=list)
    fault: Callable[[WebRequest], WebAnswer | None] = lambda _: None
    """Another answer to a request, or none."""
    has_etags: bool = False

    @property
    def queries(self) -> list[dict[str, str]]:
        return [request.query for request in self.asked]

    def answer(self, request: WebRequest) -> WebAnswer:
        self.asked.append(request)
        if (fault := self.fault(request)) is not None:
            return fault
        if request.path.endswith("/versions"):
            name = request.path.removesuffix("/versions").rpartition("/")[2].replace("%2F", "/")
            of_name = [one for one in self.entries if one["server"]["name"] == name]
            return json_answer({"servers": of_name, "metadata": {"count": len(of_name)}})
        if request.path != "/v0.1/servers":
            return json_answer({"title": "Not Found"}, 404)
        answer = json_answer(self._page(request.query))
        tag = f'"{sha256(answer.content).hexdigest()}"'
        if not self.has_etags:
            return answer
        if request.headers.get("if-none-match") == tag:
            return WebAnswer(status=304)
        return WebAnswer(answer.content, headers={**answer.headers, "ETag": tag})

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        wanted = [one for one in self.entries if self._is_wanted(one, query)]
        start = int(query.get("cursor", "0"))
        page = wanted[start : start + self.page_size]
        metadata: dict[str, Any] = {"count": len(page)}
        if start + self.page_size < len(wanted):
            metadata["nextCursor"] = str(start + self.page_size)
        return {"servers": page, "metadata": metadata}

    @staticmethod
    def _is_wanted(entry: Any, query: dict[str, str]) -> bool:
        if not isinstance(entry, dict) or "_meta" not in entry:
            return True
        official = entry["_meta"][OFFICIAL]
        if official["status"] == "deleted" and query.get("include_deleted") != "true":
            return False
        if query.get("version") == "latest" and not official["isLatest"]:
            return False
        return bool(official["updatedAt"] >= query.get("updated_since", ""))


@contextmanager
def registry_server(*entries: Any, **options: Any) -> Iterator[RegistryServer]:
    registry = RegistryServer(entries=list(entries), **options)
    with web_server(registry.answer) as server:
        registry.url = server.url
        yield registry
