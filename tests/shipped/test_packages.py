"""What people install besides the wheel: each is valid, of this version, and does what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import click
import pytest
import yaml

from discovery_cli.program import cli
from discovery_engine import __version__
from discovery_engine.marketplace.entry import EntryOrigin
from discovery_engine.marketplace.server_json import parse_server
from scripts.release import MANIFESTS
from tests.servers.programs import HERE
from tests.shipped.conftest import ROOT

PACKAGING = ROOT / "packaging"
SKILL = PACKAGING / "claude-plugin" / "skills" / "discovery" / "SKILL.md"
NODE = shutil.which("node")


@pytest.mark.parametrize("file", MANIFESTS)
def test_every_package_is_of_the_version_of_the_program(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    named = re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?!\d)", text)

    assert set(named) == {__version__}


def test_the_entry_for_the_official_registry_is_read_as_one_package() -> None:
    document = json.loads((PACKAGING / "server.json").read_text("utf-8"))

    entry = parse_server(document, origin=EntryOrigin("file", "official"))

    [package] = entry.packages
    assert (package.identifier, package.version) == ("mcp-discovery-engine", __version__)


def test_the_skill_has_its_head_and_names_commands_that_exist() -> None:
    _, head, text = SKILL.read_text("utf-8").split("---\n", 2)

    assert yaml.safe_load(head)["name"] == SKILL.parent.name
    for words in re.findall(r"`discovery ([a-z -]+)", text):
        command: click.Command = cli
        for word in words.split():
            if not isinstance(command, click.Group):
                break
            following = command.get_command(click.Context(command), word)
            assert following, words
            command = following


def test_the_container_starts_with_a_command_line_that_the_program_accepts() -> None:
    [words] = re.findall(r"^CMD (.*)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    name, *arguments = json.loads(words)
    program = click.Context(cli, **cli.context_settings)
    command = cli.get_command(program, name)

    assert command
    context = command.make_context(name, arguments, parent=program)
    assert context.params["allowed_hosts"] == ("localhost",)


def test_the_extension_for_claude_desktop_starts_though_no_file_was_chosen(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "DISCOVERY_CONFIG": "${user_config.configuration}"}
    server = [sys.executable, PACKAGING / "mcpb" / "server.py"]

    done = subprocess.run(server, check=False, capture_output=True, input=b"", env=environment)

    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
@pytest.mark.parametrize("runner", ["uvx", "pipx"])
def test_the_npm_package_runs_this_version_by_the_runner_that_is_there(
    tmp_path: Path, runner: str
) -> None:
    program = tmp_path / runner
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "$@"\nexit 7\n', "utf-8")
    program.chmod(0o755)

    done = npm_package("search", "a b", path=str(tmp_path))

    assert done.returncode == 7
    assert f"mcp-discovery-engine{'@' if runner == 'uvx' else '=='}{__version__}" in done.stdout
    assert done.stdout.endswith("search a b\n")


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_the_npm_package_says_what_is_missing(tmp_path: Path) -> None:
    done = npm_package("search", path=str(tmp_path))

    assert done.returncode == 6
    assert "uvx" in done.stderr
    assert "hint: install uv" in done.stderr


def npm_package(*words: str, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(NODE), PACKAGING / "npm" / "run.js", *words],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": path},
    )


def test_the_action_reports_a_tool_that_is_not_as_it_is_pinned(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    server = {"command": sys.executable, "args": [str(HERE / "changing_server.py"), str(tools)]}
    configuration = json.dumps({"servers": {"tiny": server}})
    (tmp_path / "discovery.yaml").write_text(configuration, "utf-8")

    tools.write_text("echo", "utf-8")
    action(tmp_path, "config", "lock")
    same, first = checked(tmp_path)
    tools.write_text("echo!text", "utf-8")
    changed, second = checked(tmp_path)

    assert (same, changed) == (0, 1)
    assert first.count("✅") == 3
    assert "### ❌ Tools are as discovery.lock pins them" in second
    assert "tiny:echo" in second


def checked(folder: Path) -> tuple[int, str]:
    """The exit code of the action's script, and its report."""
    done = action(folder)
    assert "report=" in (folder / "output").read_text("utf-8")
    return done.returncode, (folder / "discovery-report.md").read_text("utf-8")


def action(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script of the action, or a command as it would."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "CONFIG": str(folder / "discovery.yaml"),
        "QUERIES": "",
        "FAIL_UNDER": "",
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
    }
    script = [PACKAGING / "action" / "check.sh"]
    command = ["discovery", "--config", environment["CONFIG"], *words] if words else script
    return subprocess.run(command, check=bool(words), capture_output=True, env=environment)


@pytest.mark.packages
def test_the_recipe_of_a_release_builds_every_package_from_the_commit(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(f"# Changelog\n\n## {__version__}\n\n### Added\n- All of it.\n", "utf-8")
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "Release"], check=True)

    recipe = [sys.executable, "-m", "scripts.release", "https://github.com/acme/discovery"]
    done = subprocess.run(recipe, cwd=clone, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    built = clone / "dist"
    assert (built / "notes.md").read_text("utf-8") == "### Added\n- All of it.\n"
    assert (
        json.loads((built / "server.json").read_text("utf-8"))["name"] == "io.github.acme/discovery"
    )
    files = [path for path in built.rglob("*") if path.is_file()]
    assert not [path for path in files if b"OWNER/NAME" in path.read_bytes()]
    [_] = built.glob("mcp_discovery_model-*.whl")
    [wheel] = built.glob("mcp_discovery_engine-*.whl")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("METADATA")]
        assert b"Homepage, https://github.com/acme/discovery" in archive.read(metadata)
    assert any(name.endswith("share/man/man1/discovery-search.1.gz") for name in names)
    assert any(name.endswith("share/zsh/site-functions/_discovery") for name in names)
    assert any(name.startswith("discovery_server/page/static/modules/") for name in names)
    [package] = (built / "npm").glob("*.tgz")
    with tarfile.open(package) as tar:
        assert sorted(tar.getnames()) == ["package/package.json", "package/run.js"]
    with ZipFile(built / "discovery.mcpb") as archive:
        assert "manifest.json" in archive.namelist()
