"""A registry of npm packages and an index of Python packages, on this machine.

The real npm, pip and uv are pointed at it by their own variables. What they install runs: the
packages are archives with a program.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Document = dict[str, Any]

_JSON = "application/json"
_SIMPLE = "application/vnd.pypi.simple.v1+json"
_SCRIPT = "console.log('it runs')\n"
_MODULE = "def main():\n    print('it runs')\n"


@dataclass
class PackageIndex:
    """What it has, and what it was asked for."""

    address: str = ""
    npm: dict[str, Document] = field(default_factory=dict)
    python: dict[str, list[Document]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The paths of all requests."""
    searches: bool = True
    """Whether the registry of npm packages has a search."""
    refuse: Callable[[str], tuple[int, bytes] | None] = lambda _: None
    """Another answer to a path: a status and a body."""

    @property
    def downloads(self) -> list[str]:
        return [path for path in self.asked if path.startswith("/files/")]

    def add_npm(
        self,
        name: str,
        version: str = "1.0.0",
        *,
        published: str = "2026-01-02T03:04:05.000Z",
        script: str = _SCRIPT,
        files: Mapping[str, str] | None = None,
        **members: Any,
    ) -> str:
        """Add a version, whose program is `script`; returns its integrity."""
        unscoped = name.rpartition("/")[2]
        manifest = {"name": name, "version": version, "bin": {unscoped: "main.js"}} | members
        shebang = f"#!/usr/bin/env node\n{script}"
        content = {"package.json": json.dumps(manifest), "main.js": shebang} | dict(files or {})
        archive = _tarball(content)
        path = f"/files/{unscoped}-{version}.tgz"
        self.files[path] = archive
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
        dist = {"tarball": f"{self.address}{path}", "integrity": integrity}
        dist["shasum"] = hashlib.sha1(archive).hexdigest()
        packument = self.npm.setdefault(
            name, {"name": name, "dist-tags": {}, "versions": {}, "time": {}}
        )
        packument["versions"][version] = manifest | {"dist": dist, "_id": f"{name}@{version}"}
        packument["dist-tags"]["latest"] = version
        packument["time"][version] = published
        return integrity

    def add_wheel(
        self,
        name: str,
        version: str = "1.0.0",
        *,
        uploaded: str = "2026-01-02T03:04:05Z",
        program: str | None = None,
        module: str = _MODULE,
        metadata: str = "",
        yanked: str | bool = False,
        requires: tuple[str, ...] = (),
    ) -> str:
        """Add a version, whose program runs `main` of `module`; returns its digest."""
        package = re.sub(r"[-.]+", "_", name).lower()
        info = f"{package}-{version}.dist-info"
        headers = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{metadata}"
        headers += "".join(f"Requires-Dist: {one}\n" for one in requires)
        content = {
            f"{package}.py": module,
            f"{info}/METADATA": headers,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[console_scripts]\n{program or name} = {package}:main\n",
        }
        wheel = _wheel(content, info)
        file = f"{package}-{version}-py3-none-any.whl"
        self.files[f"/files/{file}"] = wheel
        digest = hashlib.sha256(wheel).hexdigest()
        self.python.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(
            {
                "filename": file,
                "url": f"{self.address}/files/{file}",
                "hashes": {"sha256": digest},
                "upload-time": uploaded,
                "size": len(wheel),
                "yanked": yanked,
            }
        )
        return f"sha256:{digest}"

    def environ(self, home: Path) -> dict[str, str]:
        """The variables with which npm, pip and uv ask this index, and keep all below `home`."""
        (home / "npmrc").touch()
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return kept | {
            "HOME": str(home),
            "npm_config_registry": f"{self.address}/npm/",
            "npm_config_userconfig": str(home / "npmrc"),
            "npm_config_globalconfig": str(home / "global-npmrc"),
            "npm_config_cache": str(home / "npm-cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{self.address}/simple/",
            "PIP_CACHE_DIR": str(home / "pip-cache"),
            "UV_DEFAULT_INDEX": f"{self.address}/simple/",
            "UV_CACHE_DIR": str(home / "uv-cache"),
            "UV_TOOL_DIR": str(home / "uv-tools"),
            "UV_NO_CONFIG": "1",
        }

    def reply(self, path: str) -> tuple[int, str, bytes]:
        """Status, type and body."""
        self.asked.append(path)
        if refused := self.refuse(path):
            return refused[0], _JSON, refused[1]
        parts = urlsplit(path)
        place = unquote(parts.path)
        if place in self.files:
            return 200, "application/octet-stream", self.files[place]
        if place == "/npm/-/v1/search" and self.searches:
            return 200, _JSON, json.dumps(self._found(parts.query)).encode()
        if (name := place.removeprefix("/npm/")) in self.npm:
            return 200, _JSON, json.dumps(self.npm[name]).encode()
        if (name := place.removeprefix("/simple/").rstrip("/")) in self.python:
            return 200, _SIMPLE, json.dumps(self._listed(name)).encode()
        return 404, _JSON, b'{"error": "Not found"}'

    def _found(self, query: str) -> Document:
        asked = parse_qs(query)
        words = asked.get("text", [""])[0].split()
        size = int(asked.get("size", ["20"])[0])
        objects = [
            {"package": _summary(one)}
            for one in self.npm.values()
            if all(_fits(word, _summary(one)) for word in words)
        ]
        return {"objects": objects[:size], "total": len(objects), "time": "now"}

    def _listed(self, name: str) -> Document:
        files = self.python[name]
        versions = sorted({one["filename"].split("-")[1] for one in files})
        return {"meta": {"api-version": "1.1"}, "name": name, "files": files, "versions": versions}


@contextmanager
def package_index() -> Iterator[PackageIndex]:
    index = PackageIndex()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, kind, body = index.reply(self.path)
            if (wanted := self.headers.get("Range")) and status == 200:
                body, whole = _range(body, wanted), len(body)
                status = 206
                first = int(re.findall(r"\d*", wanted.partition("=")[2])[0] or whole - len(body))
                self.send_response(status)
                self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{whole}")
            else:
                self.send_response(status)
            self._finish(kind, body, with_body=True)

        def do_HEAD(self) -> None:
            status, kind, body = index.reply(self.path)
            self.send_response(status)
            self._finish(kind, body, with_body=False)

        def _finish(self, kind: str, body: bytes, *, with_body: bool) -> None:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _summary(packument: Document) -> Document:
    latest = packument["dist-tags"]["latest"]
    manifest = packument["versions"][latest]
    return {
        "name": packument["name"],
        "version": latest,
        "description": manifest.get("description", ""),
        "keywords": manifest.get("keywords", []),
        "date": packument["time"][latest],
        "publisher": {"username": "someone"},
        "maintainers": [{"username": "someone"}],
        "links": {"repository": manifest.get("repository", "")},
    }


def _fits(word: str, summary: Document) -> bool:
    if word.startswith("keywords:"):
        return word.removeprefix("keywords:") in summary["keywords"]
    return word in f"{summary['name']} {summary['description']} {summary['keywords']}".lower()


def _range(body: bytes, wanted: str) -> bytes:
    first, _, last = wanted.partition("=")[2].partition("-")
    if not first:
        return body[-int(last) :]
    return body[int(first) : int(last) + 1 if last else None]


def _tarball(content: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in content.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text.encode())
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def _wheel(content: Mapping[str, str], info: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        record = ""
        for name, text in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            record += f"{name},sha256={digest.decode().rstrip('=')},{len(text.encode())}\n"
            archive.writestr(zipfile.ZipInfo(name), text)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), f"{record}{info}/RECORD,,\n")
    return packed.getvalue()
