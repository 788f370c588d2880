from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.errors import InstallRefusedError
from discovery_engine.marketplace.entry import Input, PackageOffer
from discovery_engine.marketplace.installer.offered_inputs import (
    InputValues,
    refused_hint,
    runtime_options,
    server_arguments,
)
from tests.rows import rows

NAMES = {"npm": "@acme/files", "pypi": "acme-files", "oci": "acme/files", "nuget": "Acme.Files"}


def an_offer(kind: Any, *arguments: Input) -> PackageOffer:
    return PackageOffer(kind, NAMES[kind], "1.2.0", runtime_arguments=arguments)


def named(name: str, value: str = "", **members: Any) -> Input:
    return Input(name, "named", value=value, **members)


def word(value: str, **members: Any) -> Input:
    return Input("", "positional", value=value, **members)


def options(kind: str, *arguments: Input, **given: str) -> Any:
    return runtime_options(an_offer(kind, *arguments), InputValues("files", given))


@pytest.mark.requirement("INS-2")
@rows(
    ("kind", "arguments", "expected"),
    [
        pytest.param("npm", [named("-y")], (), id="npx -y"),
        pytest.param("npm", [word("@acme/files@1.2.0")], (), id="npx package"),
        pytest.param("npm", [named("--package", "@acme/files")], (), id="npx --package"),
        pytest.param("pypi", [named("--from", "acme-files==1.2.0")], (), id="uvx --from"),
        pytest.param("pypi", [word("--from"), word("acme-files")], (), id="uvx --from, in words"),
        pytest.param("pypi", [named("--python", "3.12")], ("--python", "3.12"), id="uvx --python"),
        pytest.param("oci", [named("-i"), named("--rm"), word("run")], (), id="docker usual"),
        pytest.param("oci", [named("--network=none")], ("--network", "none"), id="docker network"),
        pytest.param("oci", [named("--memory", "512m")], ("--memory", "512m"), id="docker memory"),
        pytest.param("nuget", [named("--yes")], (), id="dnx --yes"),
    ],
)
def test_an_option_that_chooses_nothing_is_taken(
    kind: str, arguments: list[Input], expected: tuple[str, ...]
) -> None:
    assert options(kind, *arguments).options == expected


@pytest.mark.requirement("INS-2")
@rows(
    ("kind", "arguments"),
    [
        pytest.param("npm", [named("-c", "touch M")], id="npx -c"),
        pytest.param("npm", [named("--call=touch M")], id="npx --call"),
        pytest.param("npm", [named("--prefix", "/tmp/evil")], id="npx --prefix"),
        pytest.param("npm", [named("--registry", "https://evil.example")], id="npx --registry"),
        pytest.param("npm", [named("--package", "evil")], id="npx another package"),
        pytest.param("npm", [named("--node-options", "--require /x.js")], id="npx --node-options"),
        pytest.param("npm", [named("--userconfig", "/tmp/npmrc")], id="npx --userconfig"),
        pytest.param("npm", [word("./evil")], id="npx path"),
        pytest.param("npm", [word("--call"), word("touch M")], id="npx --call, in words"),
        pytest.param("pypi", [named("--with", "evil")], id="uvx --with"),
        pytest.param("pypi", [named("--from", "git+https://evil.example/x")], id="uvx --from git"),
        pytest.param("pypi", [named("--index-url", "https://evil.example")], id="uvx --index-url"),
        pytest.param("pypi", [named("--python", "/tmp/python")], id="uvx --python path"),
        pytest.param("pypi", [named("--env-file", "/home/ada/.env")], id="uvx --env-file"),
        pytest.param("oci", [named("--privileged")], id="docker --privileged"),
        pytest.param("oci", [named("-v", "/:/host")], id="docker -v"),
        pytest.param("oci", [named("--volume=/:/host")], id="docker --volume"),
        pytest.param("oci", [named("--mount", "type=bind,src=/,dst=/host")], id="docker --mount"),
        pytest.param("oci", [named("--entrypoint", "sh")], id="docker --entrypoint"),
        pytest.param("oci", [named("--network", "host")], id="docker --network host"),
        pytest.param("oci", [named("--pid=host")], id="docker --pid"),
        pytest.param("oci", [named("--env-file", "/etc/passwd")], id="docker --env-file"),
        pytest.param("oci", [word("evil.example/img")], id="docker another image"),
        pytest.param("nuget", [named("--source", "https://evil.example")], id="dnx --source"),
        pytest.param("npm", [named("-y", "-c")], id="a value for a flag without one"),
    ],
)
def test_any_other_option_is_refused(kind: str, arguments: list[Input]) -> None:
    with pytest.raises(InstallRefusedError, match="which is not allowed") as why:
        options(kind, *arguments)

    assert why.value.code == "INSTALL_REFUSED"


@pytest.mark.requirement("INS-2")
def test_a_mount_is_of_the_folder_that_the_owner_names() -> None:
    folder = Input("folder", "variable", is_required=True, default="/")
    mount = named("--mount", "type=bind,src={folder},dst=/data", variables=(folder,))

    found = options("oci", mount, folder="/home/ada/notes")

    assert found.options == ("--mount", "type=bind,src=/home/ada/notes,dst=/data")
    assert "changes /home/ada/notes" in found.warnings[0]


@pytest.mark.requirement("INS-2")
def test_no_default_of_an_entry_is_mounted() -> None:
    folder = Input("folder", "variable", default="/")
    values = InputValues("files", {})
    mount = named("-v", "{folder}:/data", variables=(folder,), is_required=True)

    found = runtime_options(an_offer("oci", mount), values)

    assert found.options == ()
    assert [one.key for one in values.asked.values() if one.is_missing] == ["folder"]


@pytest.mark.requirement("INS-2")
def test_a_folder_cannot_change_the_rest_of_its_mount() -> None:
    folder = Input("folder", "variable", is_required=True)
    mount = named("-v", "{folder}:/data", variables=(folder,))

    with pytest.raises(InstallRefusedError):
        options("oci", mount, folder="/a,dst=/etc")


@pytest.mark.requirement("INS-2")
def test_a_variable_that_an_option_sets_is_one_of_the_environment() -> None:
    found = options("oci", named("-e", "MODE=fast"), named("--env", "KEY"))

    assert [(one.name, one.value, one.kind) for one in found.environment] == [
        ("MODE", "fast", "environment"),
        ("KEY", "", "environment"),
    ]


@pytest.mark.requirement("INS-2")
@rows("hint", ["bash", "sh", "/usr/bin/env", "powershell", "uvx;sh", "sudo"])
def test_a_runtime_hint_that_is_no_runtime_is_refused(hint: str) -> None:
    assert refused_hint(PackageOffer("npm", "a", "1.0.0", runtime_hint=hint)) == hint


def test_usual_runtime_hints_decide_nothing() -> None:
    assert refused_hint(PackageOffer("npm", "a", "1.0.0", runtime_hint="bunx")) is None
    assert refused_hint(PackageOffer("pypi", "a", "1.0.0", runtime_hint="python")) is None
    assert refused_hint(PackageOffer("pypi", "a", "1.0.0")) is None


@pytest.mark.requirement("INS-10")
def test_arguments_of_the_server_keep_their_order_and_kind() -> None:
    values = InputValues("files", {"folder": ["/a", "/b"], "verbose": "true", "quiet": "no"})
    inputs = (
        Input("--stdio", "named"),
        Input("--mode", "named", value="fast"),
        Input("--folder", "named", is_repeated=True),
        Input("--verbose", "named", format="boolean"),
        Input("--quiet", "named", format="boolean"),
        Input("--level", "named", description="How much"),
        Input("", "positional", value="serve"),
    )

    assert server_arguments(inputs, values) == (
        *("--stdio", "--mode", "fast", "--folder", "/a", "--folder", "/b", "--verbose", "serve"),
    )
