"""`discovery connect`: this gateway in the files of MCP clients, and out of them again."""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from scripts.recording import printed, recorded
from tests.contract.discovery import Discovery
from tests.contract.test_sources import ROWS, lay_out
from tests.forked import Preloaded
from tests.rows import rows

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
CURSOR = {"mcpServers": {"files": {"command": "fs", "env": {"FS_TOKEN": TOKEN}}}}


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    (tmp_path / "discovery.yaml").write_text("servers: {}\n", "utf-8")
    return Discovery(tmp_path, forked)


def cursor_file(discovery: Discovery, content: Any = CURSOR) -> Path:
    path = discovery.home / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
    path.write_text(text, "utf-8", newline="")
    return path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.requirement("CON-1", "CON-3")
def test_every_client_is_connected_and_its_file_restored_to_the_byte(discovery: Discovery) -> None:
    files = {row.client: lay_out(row, "linux", discovery.home) for row in ROWS}
    before = contents(discovery.home)

    done = discovery("connect", *files, "--yes")
    found = discovery("connect", "--json")
    noted = [discovery("config", "import", "--from", name, "--dry-run").err for name in files]
    again = discovery("connect", *files, "--yes", "--json")
    discovery("connect", *files, "--undo", "--yes")

    assert done.code == 0
    assert {form["client"] for form in found.json["clients"] if form["connected"]} == {*files}
    assert {form["servers"] for form in found.json["clients"]} >= {3}
    unknown = [text for text in noted if text.count("SOURCE_ITSELF") != 1]
    assert not unknown, "an entry that the client's own reader does not see as this gateway"
    assert not any(form["written"] for form in again.json["clients"])
    assert {path: before.get(path) for path in contents(discovery.home) if path in before} == before


@pytest.mark.requirement("CON-4")
def test_a_file_is_made_where_the_client_is_and_removed_again(discovery: Discovery) -> None:
    for row in ROWS:
        lay_out(row, "linux", discovery.home).unlink()
    (discovery.home / ".claude").mkdir()
    names = [row.client for row in ROWS]

    done = discovery("connect", *names, "--yes", "--json")
    made = [Path(form["path"]) for form in done.json["clients"]]
    there = [path.exists() for path in made]
    discovery("connect", *names, "--undo", "--yes")

    assert len(made) == len(names) >= 30
    assert all(there)
    assert not any(path.exists() for path in made)


@pytest.mark.requirement("CON-4")
def test_a_client_that_is_not_here_gets_no_file(discovery: Discovery) -> None:
    done = discovery("connect", "cursor", "--yes")

    assert done.code == 2
    assert f"looked for {discovery.home}/.cursor/mcp.json" in done.err
    assert not (discovery.home / ".cursor").exists()
    assert "no MCP client was found" in discovery("connect").err


@pytest.mark.requirement("MOD-40")
def test_a_host_that_searches_tools_itself_is_named_with_the_mode_for_it(
    discovery: Discovery,
) -> None:
    (discovery.home / ".codex").mkdir()
    cursor_file(discovery, "{}")
    texts = {}
    for mode in ("meta", "auto"):
        config = discovery.home / "discovery.yaml"
        config.write_text(f"server: {{mode: {mode}}}\nservers: {{}}\n", "utf-8")
        for client in ("codex", "cursor"):
            texts[client, mode] = discovery("connect", client, "--yes", "--dry-run").err

    hinted = [key for key, text in texts.items() if "`discovery connect codex --mode auto`" in text]
    assert hinted == [("codex", "meta")]


@pytest.mark.requirement("MOD-40")
@rows(
    ("before", "after"),
    [
        ("servers: {}  # none\n", "servers: {}  # none\nserver:\n  mode: auto\n"),
        ("server: {mode: 'meta'}\nservers: {}\n", "server: {mode: auto}\nservers: {}\n"),
        ("server:\n  steps: true # yes\nservers: {}\n",
         "server:\n  steps: true # yes\n  mode: auto\nservers: {}\n"),
        ("discovery:\n  servers: {}\n", "discovery:\n  servers: {}\n  server:\n    mode: auto\n"),
    ],
)  # fmt: skip
def test_connect_sets_the_mode_in_the_configuration(
    discovery: Discovery, before: str, after: str
) -> None:
    (discovery.home / ".codex").mkdir(exist_ok=True)
    config = discovery.home / "discovery.yaml"
    config.write_text(before, "utf-8")

    previewed = discovery("connect", "codex", "--mode", "auto", "--dry-run")
    unchanged = config.read_text("utf-8")
    done = discovery("connect", "codex", "--mode", "auto", "--yes")

    assert "+" in previewed.out
    assert unchanged == before
    assert (done.code, config.read_text("utf-8")) == (0, after)
    discovery("connect", "codex", "--undo", "--yes")


@pytest.mark.requirement("CON-2")
def test_the_difference_is_shown_without_secrets_and_agreed_to(discovery: Discovery) -> None:
    path = cursor_file(discovery, json.dumps(CURSOR))
    before = path.read_text()

    refused = discovery.at_terminal("connect", "cursor", typed="n\n", after="mcp.json?")
    silent = discovery("connect", "cursor")
    previewed = discovery("connect", "cursor", "--dry-run")
    unchanged = path.read_text()
    agreed = discovery.at_terminal("connect", "cursor", typed="y\n", after="mcp.json?")

    assert '"serve"], "env"' in previewed.out
    assert TOKEN not in previewed.out + refused.shown + agreed.shown
    assert (refused.code, previewed.code, silent.code) == (0, 0, 2)
    assert unchanged == before
    assert list(json.loads(path.read_text())["mcpServers"]) == ["discovery", "files"]


@pytest.mark.requirement("CON-3")
def test_what_others_have_changed_since_stays(discovery: Discovery) -> None:
    path = cursor_file(discovery)
    discovery("connect", "cursor", "--yes")
    text = path.read_text()
    path.write_text(text.replace('"fs"', '"other"'))

    undone = discovery("connect", "cursor", "--undo", "--yes")
    again = discovery("connect", "cursor", "--undo", "--yes")

    assert "changed by others: only the entry 'discovery' is taken out" in undone.err
    assert path.read_text() == json.dumps(CURSOR, indent=2).replace('"fs"', '"other"') + "\n"
    assert "is not connected" in again.err


@pytest.mark.requirement("CON-3")
def test_another_view_replaces_the_entry_and_undo_knows_the_first_file(
    discovery: Discovery,
) -> None:
    path = cursor_file(discovery)
    before = path.read_bytes()
    discovery.configure(rules="views: {work: {}}\n")

    discovery("connect", "cursor", "--yes")
    discovery("connect", "cursor", "--view", "work", "--yes")
    unknown = discovery("connect", "cursor", "--view", "wrok", "--yes")
    servers = json.loads(path.read_text())["mcpServers"]
    discovery("connect", "cursor", "--undo", "--yes")

    assert servers["discovery"]["args"][-3:] == ["serve", "--view", "work"]
    assert unknown.code == 2
    assert "did you mean 'work'" in unknown.err
    assert path.read_bytes() == before


@pytest.mark.requirement("CON-1")
@rows(
    "text",
    [
        '{"mcpServers": {},, }',
        '{"mcpServers": 7}',
        '{"mcpServers": {"a": 1}',
        "[]",
        "{mcpServers: {}}",
    ],
)
def test_a_file_that_cannot_be_edited_is_an_error_and_nothing_is_written(
    discovery: Discovery, text: str
) -> None:
    path = cursor_file(discovery, text)
    other = lay_out(ROWS[0], "linux", discovery.home)
    before = other.read_bytes(), path.read_bytes()

    done = discovery("connect", ROWS[0].client, "cursor", "--yes")

    assert done.code == 2
    assert f"error: {path}" in done.err
    assert (other.read_bytes(), path.read_bytes()) == before


@pytest.mark.requirement("CON-1")
def test_links_modes_marks_and_line_ends_stay(discovery: Discovery) -> None:
    path = cursor_file(discovery, '\ufeff{\r\n\t// mine\r\n\t"mcpServers": {}\r\n}\r\n')
    real = discovery.home / "dotfiles.json"
    path.rename(real)
    path.symlink_to(real)
    real.chmod(0o640)
    before = real.read_bytes()

    discovery("connect", "cursor", "--yes")
    text = real.read_bytes().decode()
    mode = real.stat().st_mode & 0o777
    discovery("connect", "cursor", "--undo", "--yes")

    assert path.is_symlink()
    assert mode == 0o640
    assert text.startswith("\ufeff{\r\n\t// mine\r\n")
    assert text.count("\n") == text.count("\r\n") > 6
    assert real.read_bytes() == before


@pytest.mark.requirement("CON-5")
def test_servers_are_moved_with_their_secrets_and_one_entry_is_left(discovery: Discovery) -> None:
    path = cursor_file(discovery)
    other = lay_out(ROWS[0], "linux", discovery.home)
    other.write_text(json.dumps(CURSOR), "utf-8")
    before = path.read_bytes()
    own = discovery.home / "discovery.yaml"
    own.write_text("sources: [{type: cursor}]\n", "utf-8")

    done = discovery("connect", "cursor", ROWS[0].client, "--move", "--yes")
    left = [list(json.loads(file.read_text())["mcpServers"]) for file in (path, other)]
    discovery("connect", "cursor", "--undo", "--yes")

    assert done.code == 0
    assert left == [["discovery"], ["discovery"]]
    assert yaml.safe_load(own.read_text())["servers"]["files"]["env"] == {
        "FS_TOKEN": "${secret:files/FS_TOKEN}"
    }
    assert TOKEN not in done.out + done.err + own.read_text()
    assert path.read_bytes() == before


@pytest.mark.requirement("CON-4")
def test_a_configuration_that_was_only_found_is_not_made_trusted(discovery: Discovery) -> None:
    cursor_file(discovery)

    found = discovery("connect", "cursor", "--yes", DISCOVERY_CONFIG="")
    named = discovery("connect", "cursor", "--config", "discovery.yaml", "--yes")

    assert found.code == 2
    assert "--config" in found.err
    assert named.code == 0


@pytest.mark.requirement("CON-4")
def test_a_project_has_an_entry_of_its_own(discovery: Discovery) -> None:
    cursor_file(discovery)
    project = discovery.home / "project"
    (project / ".git").mkdir(parents=True)
    (project / "below").mkdir()
    environ = discovery.environ

    discovery.forked(
        ["connect", "vscode", "--project", "--yes"], cwd=project / "below", environ=environ
    )

    file = project / ".vscode" / "mcp.json"
    entry = json.loads(file.read_text())["servers"]["discovery"]
    assert entry["type"] == "stdio"
    file.unlink()
    file.symlink_to(discovery.home / "elsewhere.json")
    words = ["connect", "vscode", "--project", "--yes"]
    assert discovery.forked(words, cwd=project, environ=environ).code == 2
    assert not (discovery.home / "elsewhere.json").exists()


@pytest.mark.requirement("CON-1")
def test_links_open_clients_with_the_same_entry(discovery: Discovery) -> None:
    path = cursor_file(discovery)
    discovery("connect", "cursor", "--yes")
    entry = json.loads(path.read_text())["mcpServers"]["discovery"]

    links = discovery("connect", "--link", "--json").json["links"]

    query = parse_qs(urlsplit(links["cursor"]).query)
    assert json.loads(base64.b64decode(query["config"][0])) == entry
    assert json.loads(unquote(links["vscode"].partition("?")[2])) == {
        "name": "discovery",
        "type": "stdio",
        **entry,
    }


@pytest.mark.requirement("CLI-92")
def test_the_demo_shows_what_it_says_and_keeps_nothing(discovery: Discovery) -> None:
    before = contents(discovery.home)

    demo = discovery("init", "--demo", "--json", TMPDIR=str(discovery.home)).json["steps"]

    assert [step["code"] for step in demo] == [0, 0, 4, 2, 0]
    search, call, refusal, nothing, tokens = [step["shown"] for step in demo]
    assert search.startswith("✓  calendar:find_free_time")
    assert "sure match" in search
    assert call == "Tuesday 14:00\n"
    assert "disables tools matching '*delete*'" in refusal
    assert "no tool mentions 'order', 'pizza'" in nothing
    assert "all tools up front" in tokens
    assert not any(str(discovery.home) in step["shown"] for step in demo)
    assert contents(discovery.home) == before
    assert recorded() == printed(demo), "`python scripts/recording.py` records it again"


@pytest.mark.requirement("CLI-40")
def test_init_asks_which_clients_to_connect(discovery: Discovery) -> None:
    path = cursor_file(discovery)
    (discovery.home / "discovery.yaml").unlink()

    unknown = discovery("init", "--yes", "--connect", "crsor")
    written = (discovery.home / "discovery.yaml").exists()
    done = discovery.at_terminal(
        "init",
        typed="y\n",
        after="servers of Cursor?",
        then={
            "destroy something?": "y\n",
            "discovery.yaml?": "y\n",
            "or Enter": "cursor\n",
            "mcp.json?": "y\n",
        },
    )

    (discovery.home / "discovery.yaml").unlink()
    before = path.read_bytes()
    discovery("connect", "cursor", "--undo", "--yes")
    other = discovery("init", "--yes", DISCOVERY_CONFIG="")
    [words] = re.findall(r"`discovery (connect .*) CLIENT`", other.err)
    next_one = discovery(*shlex.split(words), "cursor", "--yes", DISCOVERY_CONFIG="")

    assert (unknown.code, written) == (2, False)
    assert next_one.code == 0, "the command that init names"
    assert path.read_bytes() == before
    assert "did you mean 'cursor'" in unknown.err
    assert done.code == 0
    entry = json.loads(path.read_text())["mcpServers"]["discovery"]
    assert str(discovery.home / "discovery.yaml") in entry["args"]
    assert TOKEN not in done.shown
