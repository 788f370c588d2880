"""`discovery marketplace install|update|rollback|uninstall`, with registries on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.discovery import Discovery, Typed
from tests.forked import Finished, Preloaded
from tests.servers.mcp_registry_server import RegistryServer, listed, registry_server
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.package_servers import node_server
from tests.servers.programs import none_left_running

FILES, BARE = "io.github.acme/files", "io.github.acme/bare"
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
pytestmark = [pytest.mark.node, needs_npm]


class Buyer:
    """A home whose marketplace has one server, which asks for a folder and a secret."""

    def __init__(self, registry: RegistryServer, index: PackageIndex, discovery: Discovery) -> None:
        self.registry = registry
        self.index = index
        self.home = discovery.home
        self._discovery = discovery
        self._environ = index.environ(discovery.home)
        sources = [{"type": "mcp-registry", "id": "team", "url": registry.url}]
        text = json.dumps({"servers": {}, "marketplace": {"sources": sources}})
        self.config.write_text(text, "utf-8")

    @property
    def config(self) -> Path:
        return self.home / "discovery.yaml"

    def publish(self, version: str, *inputs: dict[str, Any], **members: Any) -> None:
        self.index.add_npm("@acme/files", version, script=node_server(version), **members)
        key = {"name": "FILES_KEY", "description": "Opens them", "isRequired": True}
        package = {
            "registryType": "npm",
            "identifier": "@acme/files",
            "version": version,
            "environmentVariables": [key | {"isSecret": True}, *inputs],
            "packageArguments": [{"type": "positional", "valueHint": "folder", "isRequired": True}],
        }
        days = float(len(self.registry.entries))
        for one in self.registry.entries:
            one["_meta"]["io.modelcontextprotocol.registry/official"]["isLatest"] = False
        self.registry.entries.append(listed(FILES, version=version, packages=[package], day=days))
        shutil.rmtree(self.home / "npm-cache", ignore_errors=True)

    def publish_bare(self, version: str) -> None:
        """Publish a server whose metadata do not say that it needs a key."""
        needs = "Error: ACME_KEY environment variable is required"
        check = f"if (!process.env.ACME_KEY) {{ console.error({needs!r}); process.exit(1); }}\n"
        self.index.add_npm("@acme/bare", version, script=check + node_server(version))
        package = {"registryType": "npm", "identifier": "@acme/bare", "version": version}
        self.registry.entries[:] = [listed(BARE, version=version, packages=[package])]
        shutil.rmtree(self.home / "npm-cache", ignore_errors=True)

    def __call__(self, *words: str, stdin: str = "") -> Finished:
        return self._discovery(*words, stdin=stdin, **self._environ)

    def at_terminal(self, *words: str, **given: str) -> Typed:
        return self._discovery.at_terminal(*words, **given, **self._environ)

    def install(self, *words: str, stdin: str = "") -> Finished:
        return self("marketplace", "install", FILES, *words, stdin=stdin)

    def seen(self) -> dict[str, Any]:
        """What the installed server saw of its environment."""
        found: dict[str, Any] = json.loads(self("execute", "files", "environment").out)
        return found


@pytest.fixture
def buyer(tmp_path: Path, forked: Preloaded) -> Iterator[Buyer]:
    with package_index() as index, registry_server() as registry, none_left_running():
        made = Buyer(registry, index, Discovery(tmp_path, forked))
        made.publish("1.0.0")
        yield made


@pytest.mark.requirement("INS-20")
def test_everything_that_would_run_is_shown_and_without_yes_nothing_is_installed(
    buyer: Buyer,
) -> None:
    before = buyer.config.read_text()

    shown = buyer.install("--with", "folder=/tmp", "--secret", "FILES_KEY", stdin="hunter-2\n")

    assert shown.code == 4
    assert "starts   npx -y @acme/files@1.0.0 /tmp\n" in shown.out
    assert "env      FILES_KEY='${secret:files/FILES_KEY}'\n" in shown.out
    assert "sandbox  auto; " in shown.out
    assert "package  npm @acme/files 1.0.0 sha512-" in shown.out
    assert "origin   team (unreviewed)\n" in shown.out
    assert "use --yes to approve what is shown" in shown.err
    assert "hunter-2" not in shown.out + shown.err
    assert (buyer.config.read_text(), buyer.index.downloads) == (before, [])


@pytest.mark.requirement("INS-10", "INS-20")
@pytest.mark.parametrize("words", [["--yes"], ["--yes", "--json"], []])
def test_a_missing_required_value_is_named_with_exit_code_6(buyer: Buyer, words: list[str]) -> None:
    refused = buyer.install(*words)

    assert refused.code == 6
    assert "files" in refused.err
    assert "FILES_KEY" in refused.err
    assert "folder" in refused.err
    assert "repeat the command with --with folder=" in refused.err
    assert " --secret FILES_KEY" in refused.err
    assert "--yes" not in refused.err
    assert buyer.index.downloads == []


@pytest.mark.landing
@pytest.mark.requirement("INS-11", "INS-20")
def test_an_installed_server_works_at_once_and_its_secret_is_nowhere(buyer: Buyer) -> None:
    done = buyer.install(
        "--with", "folder=/tmp", "--secret", "FILES_KEY", "--yes", stdin="hunter-2\n"
    )
    found = buyer.seen()

    assert (done.code, "installed files 1.0.0 in discovery.yaml" in done.err) == (0, True), done.err
    assert "its sha512 hash was compared" in done.err
    assert "it was started, and its tools are listed: `discovery tools files`" in done.err
    assert (found["args"], found["env"]["FILES_KEY"]) == (["/tmp"], "hunter-2")
    kept = [path for path in buyer.home.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"hunter-2" in path.read_bytes()]


@pytest.mark.requirement("INS-11", "INS-20")
def test_a_program_reads_what_was_installed_as_json(buyer: Buyer) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY}", "--json")

    planned = buyer.install(*words)
    done = buyer.install(*words, "--yes", "--to", "registry", "--as", "mine")

    assert (planned.code, planned.json["installed"]) == (4, False)
    assert planned.json["command"] == ["npx", "-y", "@acme/files@1.0.0", "/tmp"]
    assert planned.json["env"] == {"FILES_KEY": "${KEY}"}
    assert (done.code, done.json["installed"], done.json["where"]) == (0, True, "registry")
    assert done.json["name"] == "mine"


@pytest.mark.requirement("INS-11")
@pytest.mark.parametrize("option", ["--with", "--secret"])
def test_a_secret_in_the_arguments_is_refused(buyer: Buyer, option: str) -> None:
    refused = buyer.install("--with", "folder=/tmp", option, "FILES_KEY=hunter-2", "--yes")

    assert refused.code == 2
    assert "--secret FILES_KEY" in refused.err
    assert "others can see the arguments of a program" in refused.err
    assert "hunter-2" not in refused.err


@pytest.mark.requirement("INS-10", "INS-20")
def test_a_person_is_asked_for_values_and_for_approval(buyer: Buyer) -> None:
    done = buyer.at_terminal(
        *("marketplace", "install", FILES), typed="hunter-2\n/tmp\ny\n", after="FILES_KEY (hidden)"
    )

    assert done.code == 0, done.shown
    assert "hunter-2" not in done.shown
    assert "FILES_KEY (required secret); Opens them" in done.shown
    assert "Install 'files' as shown?" in done.shown
    assert buyer.seen()["env"]["FILES_KEY"] == "hunter-2"


@pytest.mark.requirement("INS-10", "INS-40")
def test_a_key_that_only_the_server_names_is_given_after_its_first_start_and_kept(
    buyer: Buyer,
) -> None:
    buyer.publish_bare("1.0.0")
    give = ("marketplace", "update", "bare", "--secret", "ACME_KEY")

    first = buyer("marketplace", "install", BARE, "--yes")
    given = buyer(*give, "--yes", stdin="hunter-2\n")
    buyer.publish_bare("2.0.0")
    buyer("marketplace", "sync", "--force")
    updated = buyer("marketplace", "update", "--yes")
    seen = json.loads(buyer("execute", "bare", "environment").out)

    assert (first.code, f"`discovery {' '.join(give)}`" in first.err) == (6, True), first.err
    assert given.code == 0, given.err
    assert (updated.code, seen["version"]) == (0, "2.0.0"), updated.err
    assert seen["env"]["ACME_KEY"] == "hunter-2"
    assert "hunter-2" not in buyer.config.read_text()


@pytest.mark.requirement("INS-10")
def test_a_person_is_asked_for_a_key_that_only_the_server_names(buyer: Buyer) -> None:
    buyer.publish_bare("1.0.0")

    done = buyer.at_terminal(
        *("marketplace", "install", BARE), typed="y\nhunter-2\n", after="Install 'bare' as shown?"
    )

    assert done.code == 0, done.shown
    assert "ACME_KEY (required secret)" in done.shown
    assert buyer("execute", "bare", "environment").code == 0


@pytest.mark.requirement("INS-40", "INS-42")
def test_a_server_is_updated_set_back_and_removed(buyer: Buyer) -> None:
    words = ("--with", "folder=/tmp", "--secret", "FILES_KEY", "--yes")
    assert buyer.install(*words, stdin="hunter-2\n").code == 0
    assert buyer("marketplace", "update", "--check").code == 0
    buyer.publish("2.0.0", {"name": "MODE", "value": "fast"})
    buyer("marketplace", "sync", "--force")

    checked = buyer("marketplace", "update", "--check")
    refused = buyer("marketplace", "update", "files")
    updated = buyer("marketplace", "update", "--yes")

    assert (checked.code, refused.code, updated.code) == (8, 4, 0), updated.err
    assert "version     1.0.0 -> 2.0.0\n" in checked.out
    assert "environment + MODE=fast\n" in checked.out
    assert (buyer.seen()["version"], buyer.seen()["env"]["MODE"]) == ("2.0.0", "fast")
    assert buyer("marketplace", "rollback", "files", "--yes").code == 0
    assert buyer.seen()["version"] == "1.0.0"
    removed = buyer("remove", "files", "--secrets", "delete", "--yes", "--json")
    assert (removed.json["written"], removed.json["secrets"]) == (True, [])
    assert json.loads(buyer("list", "--json").out)["servers"] == []
    assert not list((buyer.home / "data").glob("sandboxes/*"))


@pytest.mark.requirement("INS-42")
@pytest.mark.parametrize("where", ["file", "registry"])
def test_an_installed_server_is_listed_as_installed_wherever_it_stands(
    buyer: Buyer, where: str
) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--yes", "--to", where)
    assert buyer("list", "--installed").code == 0  # nothing is configured
    assert buyer.install(*words).code == 0

    listed = buyer("list", "--installed", "--json")
    seen = buyer("list", "--long")

    assert [one["package"] for one in listed.json["servers"]] == ["@acme/files@1.0.0"]
    assert "@acme/files@1.0.0" in seen.out
    assert buyer("remove", "files", "--yes").code == 0
    assert buyer("list", "--installed", "--json").json["servers"] == []


@pytest.mark.requirement("INS-11")
def test_values_that_the_publisher_chose_are_shown_and_secret_ones_are_not(buyer: Buyer) -> None:
    secret = {"name": "OPENER", "default": "hunter-2", "isSecret": True}
    buyer.publish("1.1.0", {"name": "MODE", "default": "fast"}, secret)
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-hunter-3}")

    shown, form = buyer.install(*words), buyer.install(*words, "--json").json

    assert "env      MODE=fast\n" in shown.out
    assert (form["env"]["MODE"], form["env"]["OPENER"]) == ("fast", "••••")
    assert "hunter" not in shown.out


@pytest.mark.requirement("INS-20")
def test_a_name_that_is_taken_is_said_before_anything_is_asked(buyer: Buyer) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--yes")
    assert buyer.install(*words).code == 0

    again = buyer.at_terminal("marketplace", "install", FILES, typed="y\n")
    other = buyer.install("--as", "FILES", *words)

    assert (again.code, other.code) == (2, 2), (again.shown, other.err)
    assert "(hidden)" not in again.shown
    assert "there is a server 'files' already" in again.shown
    assert "`discovery marketplace update` updates one that was installed" in other.err
    assert "`--as NAME` gives this one another name" in other.err


@pytest.mark.requirement("INS-13")
def test_what_confines_it_on_this_system_is_shown(buyer: Buyer) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--dry-run")

    shown, form = buyer.install(*words), buyer.install(*words, "--json").json

    kind = form["confinement"]["kind"]
    assert f"here     confined by {kind}" in shown.out
    assert all(gap in shown.out for gap in form["confinement"]["gaps"])
    assert ("careful  nothing confines it here" in shown.out) == (kind == "none")


@pytest.mark.requirement("INS-40")
def test_an_update_takes_the_values_that_a_new_version_requires(buyer: Buyer) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--yes")
    assert buyer.install(*words).code == 0
    buyer.publish("2.0.0", required("TOKEN", isSecret=True), required("REGION"))
    buyer("marketplace", "sync", "--force")
    update = ("marketplace", "update", "files")

    refused = buyer(*update, "--yes")
    unasked = buyer(*update)
    open_secret = buyer(*update, "--with", "TOKEN=hunter-2", "--with", "REGION=eu", "--yes")
    done = buyer(*update, "--with", "REGION=eu", "--secret", "TOKEN", "--yes", stdin="hunter-2\n")

    assert (refused.code, unasked.code) == (6, 6)
    for one in (refused, unasked):
        assert "needs       TOKEN (required secret)" in one.out
        assert (
            "`discovery secrets set files/TOKEN`, then"
            " `discovery marketplace update files --with REGION=…`"
        ) in one.err
        assert "--yes" not in one.err
    assert (open_secret.code, "hunter-2" in open_secret.err) == (2, False)
    assert buyer("marketplace", "update", "--with", "REGION=eu").code == 2  # for which server?
    assert done.code == 0, done.err
    seen = buyer.seen()
    assert (seen["version"], seen["env"]["TOKEN"], seen["env"]["REGION"]) == (
        "2.0.0",
        "hunter-2",
        "eu",
    )
    assert "hunter-2" not in done.out + done.err + buyer.config.read_text()


@pytest.mark.requirement("INS-40")
def test_an_update_that_fails_holds_up_no_other(buyer: Buyer) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--yes")
    assert buyer.install(*words).code == 0
    assert buyer.install("--as", "second", *words).code == 0
    buyer.publish("2.0.0", required("REGION"))
    buyer("marketplace", "sync", "--force")
    assert buyer("marketplace", "update", "second", "--with", "REGION=eu", "--yes").code == 0
    buyer.publish("3.0.0", required("REGION"))
    buyer("marketplace", "sync", "--force")

    done = buyer("marketplace", "update", "--yes")

    assert done.code == 6
    assert "files was not updated: server 'files' requires REGION" in done.err
    assert "updated 1 server" in done.err
    assert "1 server not updated: files" in done.err
    pins = {one["name"]: one["package"] for one in buyer("list", "--json").json["servers"]}
    assert pins == {"files": "@acme/files@1.0.0", "second": "@acme/files@3.0.0"}


@pytest.mark.requirement("INS-11")
def test_what_its_owner_gives_as_a_secret_is_stored_whatever_its_publisher_says(
    buyer: Buyer,
) -> None:
    buyer.publish("1.1.0", {"name": "OPENER"})
    buyer("marketplace", "sync", "--force")
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--secret", "OPENER")

    done = buyer.install(*words, "--yes", stdin="hunter-2\n")

    assert done.code == 0, done.err
    assert buyer.seen()["env"]["OPENER"] == "hunter-2"
    assert "hunter-2" not in done.out + done.err + buyer.config.read_text()
    buyer.publish("2.0.0", {"name": "OPENER"})
    buyer("marketplace", "sync", "--force")
    assert buyer("marketplace", "update", "--yes").code == 0
    assert buyer.seen()["env"]["OPENER"] == "hunter-2"


@pytest.mark.requirement("INS-20")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_nothing_is_set_back_or_removed_without_approval(buyer: Buyer, form: list[str]) -> None:
    words = ("--with", "folder=/tmp", "--with", "FILES_KEY=${KEY:-k}", "--yes")
    assert buyer.install(*words).code == 0
    buyer.publish("2.0.0")
    buyer("marketplace", "sync", "--force")
    assert buyer("marketplace", "update", "--yes").code == 0
    before = buyer.config.read_text()

    back = buyer("marketplace", "rollback", "files", *form)
    removed = buyer("remove", "files", *form)

    assert (back.code, removed.code, buyer.config.read_text()) == (4, 2, before)
    if form:
        assert back.json["version"] is None
    else:
        assert back.out == "files  2.0.0 -> 1.0.0\n"
        assert "use --yes to approve what is shown" in back.err
        assert "there is no terminal to ask on" in removed.err


def required(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "isRequired": True, **members}
