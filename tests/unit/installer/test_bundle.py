from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.errors import InstallRefusedError
from discovery_engine.marketplace.installer.bundles import BundleServer, read_bundle
from discovery_engine.marketplace.installer.offered_inputs import (
    InputValues,
    environment,
    server_arguments,
)
from tests.rows import rows

FOLDER = Path("/data/files-1")
NODE = {"type": "node", "entry_point": "server/index.js"}


def bundle(path: Path, manifest: Any, *files: str) -> Path:
    archive = path / "a.mcpb"
    with zipfile.ZipFile(archive, "w") as opened:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        opened.writestr("manifest.json", text)
        for name in files or ("server/index.js", "server/main.py", "bin/run"):
            opened.writestr(name, "")
    return archive


def read(path: Path, server: Any, **members: Any) -> BundleServer:
    return read_bundle(bundle(path, {"version": "1.2.0", "server": server, **members}), FOLDER)


def config(*args: str, command: str = "node", **env: str) -> dict[str, Any]:
    return {**NODE, "mcp_config": {"command": command, "args": list(args), "env": env}}


@pytest.mark.requirement("INS-1")
@rows(
    ("server", "program", "script"),
    [
        pytest.param(NODE, "node", "/data/files-1/server/index.js", id="node"),
        pytest.param(
            config("${__dirname}/server/index.js"),
            "node",
            "/data/files-1/server/index.js",
            id="args",
        ),
        pytest.param(
            {"type": "python", "entry_point": "server/main.py"},
            "python3",
            "/data/files-1/server/main.py",
            id="python",
        ),
        pytest.param(
            {"type": "binary", "entry_point": "bin/run"}, "/data/files-1/bin/run", "", id="binary"
        ),
    ],
)
def test_a_bundle_starts_its_own_files(
    tmp_path: Path, server: Any, program: str, script: str
) -> None:
    found = read(tmp_path, server)

    assert (found.program, found.script, found.version) == (program, script, "1.2.0")


@pytest.mark.requirement("INS-1")
@rows(
    "server",
    [
        pytest.param(config("-c", "touch M", command="bash"), id="shell"),
        pytest.param(config("-e", "process.exit()"), id="node -e"),
        pytest.param(config("--require", "/tmp/x.js"), id="node --require"),
        pytest.param(config("/etc/evil.js"), id="absolute path"),
        pytest.param(config("${__dirname}/../evil.js"), id="path that leads out"),
        pytest.param(config("${__dirname}/${HOME}/evil.js"), id="path with a place"),
        pytest.param(config("${__dirname}/no/such.js"), id="no such file"),
        pytest.param({**NODE, "entry_point": "../evil.js"}, id="entry point that leads out"),
        pytest.param({"type": "binary", "entry_point": "/bin/sh"}, id="binary elsewhere"),
        pytest.param(
            {"type": "binary", "entry_point": "bin/run", "mcp_config": {"command": "/bin/sh"}},
            id="command elsewhere",
        ),
        pytest.param({"type": "uv", "entry_point": "server/main.py"}, id="unknown type"),
        pytest.param({}, id="nothing"),
        pytest.param("node", id="no object"),
    ],
)
def test_a_bundle_that_starts_anything_else_is_refused(tmp_path: Path, server: Any) -> None:
    with pytest.raises(InstallRefusedError):
        read(tmp_path, server)


@rows("manifest", ["", "[]", "{", "[" * 100_000, '{"server": {"type": 7}}'])
def test_a_malformed_manifest_is_refused(tmp_path: Path, manifest: str) -> None:
    with pytest.raises(InstallRefusedError):
        read_bundle(bundle(tmp_path, manifest), FOLDER)


@pytest.mark.requirement("INS-10", "INS-11")
def test_values_of_the_owner_fill_a_manifest(tmp_path: Path) -> None:
    server = config(
        *("${__dirname}/server/index.js", "--home=${HOME}", "${user_config.folders}"),
        *("--key", "${user_config.api_key}", "${user_config.unknown}", "${file:/etc/passwd}"),
        API_KEY="${user_config.api_key}",
        PLACE="${__dirname}/data",
    )
    asked = {
        "folders": {"type": "directory", "multiple": True, "required": True, "title": "Folders"},
        "api_key": {"type": "string", "sensitive": True, "required": True},
        "deep": {"type": "boolean", "default": True},
    }
    found = read(tmp_path, server, user_config=asked)
    values = InputValues("files", {"folders": ["/a", "/b"], "api_key": "hunter-2"})

    assert server_arguments(found.arguments, values) == (
        *("--home=~", "/a", "/b", "--key", "${secret:files/api_key}"),
        *("$${user_config.unknown}", "$${file:/etc/passwd}"),
    )
    assert environment(found.environment, values).variables == {
        "API_KEY": "${secret:files/api_key}",
        "PLACE": "/data/files-1/data",
    }
    assert values.to_store == {"files/api_key": "hunter-2"}


@pytest.mark.requirement("INS-2")
def test_python_modules_are_loaded_from_the_bundle_alone(tmp_path: Path) -> None:
    python = {"type": "python", "entry_point": "server/main.py"}
    inside = {**python, "mcp_config": {"env": {"PYTHONPATH": "${__dirname}/server/lib"}}}
    outside = {**python, "mcp_config": {"env": {"PYTHONPATH": "/tmp/evil"}}}

    assert read(tmp_path, inside).python_path == "/data/files-1/server/lib"
    with pytest.raises(InstallRefusedError):
        read(tmp_path, outside)
