from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import InvalidPackageNameError
from discovery_engine.marketplace.entry import RegistryType
from discovery_engine.marketplace.package_names import (
    checked_name,
    checked_version,
    is_digest,
    split_image,
)
from tests.rows import rows

KINDS: tuple[RegistryType, ...] = ("npm", "pypi", "oci", "nuget")
HOSTILE = (
    *("", "-", "-c", "--call", "--privileged", "--from", "-e", "--index-url=http://x.example"),
    *("./local", "../../evil", "/etc/cron.d", "~/x", ".", "..", ".hidden", "a/../b", "C:\\x"),
    *("attacker/pwn;id", "git+https://x.example/y", "https://x.example/y.tgz", "file:x", "a@b@c"),
    *("github:a/b", "npm:other@1.0.0", "name@latest", "name @ https://x.example/y", "a b", "a\tb"),
    *("a;id", "a&&id", "a|id", "$(id)", "`id`", "a$HOME", "a>b", "a<b", "a*", "a?", "a'b", 'a"b'),
    *(
        "foo\n",
        "\nfoo",
        "foo\x00",
        "foo\x1b[2J",
        "foo\u202e",
        "foo\u200b",
        "s\u0435rver",
        "\uff4dcp",
    ),
    *("@", "@scope", "@scope/", "@/name", "@scope/a/b", "@../x", "a" * 5000, "%2e%2e", "a\\b"),
)


@pytest.mark.thorough
@pytest.mark.requirement("MKT-40")
@rows("name", HOSTILE)
@rows("kind", KINDS)
def test_what_a_runner_could_take_for_something_else_is_no_name(
    kind: RegistryType, name: str
) -> None:
    with pytest.raises(InvalidPackageNameError):
        checked_name(kind, name)


@rows(
    ("kind", "name"),
    [
        *(("npm", one) for one in ("mcp-remote", "@scope/server.files", "a", "7zip", "x_y")),
        *(("pypi", one) for one in ("mcp-server-time", "Flask", "a", "zope.interface", "x_y")),
        *(("oci", one) for one in ("mcp/time", "ghcr.io/acme/files", "localhost:5000/a/b")),
        *(("nuget", one) for one in ("Acme.Files", "a-b", "_x")),
        ("mcpb", "https://github.com/a/b/releases/download/v1/x.mcpb"),
    ],
)
def test_usual_names_pass_unchanged(kind: RegistryType, name: str) -> None:
    assert checked_name(kind, name) == name


@rows("name", ["evil.tgz", "@scope/evil.tgz", "evil.tar.gz", "evil.tar"])
def test_npm_would_take_such_a_name_for_a_file(name: str) -> None:
    with pytest.raises(InvalidPackageNameError):
        checked_name("npm", name)


@rows("name", ["evil.whl", "evil.zip", "evil.tar.gz"])
def test_pip_would_take_such_a_name_for_a_file(name: str) -> None:
    with pytest.raises(InvalidPackageNameError):
        checked_name("pypi", name)


@pytest.mark.requirement("MKT-40")
def test_letters_of_other_scripts_are_shown_as_code_points() -> None:
    with pytest.raises(InvalidPackageNameError) as caught:
        checked_name("npm", "mcp-s\u0435rver")

    assert "U+0435 (CYRILLIC SMALL LETTER IE)" in caught.value.message
    assert "by hand" in caught.value.hint


def test_invisible_characters_are_shown() -> None:
    with pytest.raises(InvalidPackageNameError, match=r"mcp<U\+200B>server"):
        checked_name("pypi", "mcp\u200bserver")


@pytest.mark.requirement("MKT-40")
@rows(
    "version",
    [
        "latest",
        "^1.0.0",
        "~1",
        "*",
        ">=1",
        "1.0 || 2",
        "-1",
        "",
        "1.0\n",
        "http://x",
        "../1",
        "1,2",
    ],
)
@rows("kind", ["npm", "pypi", "nuget"])
def test_a_range_a_tag_or_an_address_is_no_exact_version(kind: RegistryType, version: str) -> None:
    with pytest.raises(InvalidPackageNameError):
        checked_version(kind, version)


@pytest.mark.requirement("MKT-40")
@given(st.text(max_size=30), st.sampled_from(KINDS))
def test_no_name_that_passes_can_be_an_option_a_path_or_two_words(
    text: str, kind: RegistryType
) -> None:
    try:
        name = checked_name(kind, text)
    except InvalidPackageNameError:
        return
    assert name == text
    assert name.isascii()
    assert re.fullmatch(r"[A-Za-z0-9_@~][A-Za-z0-9._@:/~-]*", name)
    assert "//" not in name
    assert ".." not in name.split("/")


@pytest.mark.requirement("MKT-1")
def test_only_an_https_address_without_a_login_is_one_of_a_bundle() -> None:
    hosts = ("user:key@a.example/x.mcpb", "a.example/x y", "a.example:port/x", "ex\u0430mple.org/x")
    for address in ("http://a.example/x", "file:///etc/x", *(f"https://{host}" for host in hosts)):
        with pytest.raises(InvalidPackageNameError):
            checked_name("mcpb", address)


def test_an_image_is_cut_into_name_tag_and_digest() -> None:
    digest = f"sha256:{'0' * 64}"

    assert split_image(f"localhost:5000/a/b:1@{digest}") == ("localhost:5000/a/b", "1", digest)
    assert split_image("localhost:5000/a") == ("localhost:5000/a", "", "")
    assert is_digest(digest)
    assert not is_digest("sha256:abc")
