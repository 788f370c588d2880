from __future__ import annotations

import pytest

from discovery_engine.marketplace.entry import RegistryType
from discovery_engine.marketplace.package_names import (
    identifier_problem,
    is_digest,
    split_image,
)
from tests.rows import rows

GOOD = [
    ("npm", "@acme/files"),
    ("npm", "files-server.js"),
    ("pypi", "Acme.Files_server-1"),
    ("nuget", "Acme.Files"),
    ("oci", "acme/files"),
    ("oci", "ghcr.io/acme/deep/files_server"),
    ("oci", "localhost:5000/files"),
    ("mcpb", "https://github.com/a/b/releases/download/v1/x.mcpb"),
]
BAD = [
    ("npm", "./files"),
    ("npm", "acme/files"),
    ("npm", "@acme"),
    ("npm", ".hidden"),
    ("npm", "a" * 215),
    ("pypi", "-r"),
    ("pypi", "acme[extra]"),
    ("pypi", "acme @ https://evil.example/x.whl"),
    ("oci", "acme/files:1.0"),
    ("oci", "-v"),
    ("oci", "../x"),
    ("oci", "a//b"),
    ("nuget", "a b"),
    ("mcpb", "http://a.example/x.mcpb"),
    ("mcpb", "file:///etc/passwd"),
    ("mcpb", "https://user:key@a.example/x.mcpb"),
    ("mcpb", "https://a.example/x y"),
    ("mcpb", "https://a.example:port/x"),
    ("mcpb", "https://ex\u0430mple.org/x"),
]


@pytest.mark.requirement("MKT-1")
@rows(("registry_type", "name"), GOOD)
def test_a_name_of_a_registry_is_one(registry_type: RegistryType, name: str) -> None:
    assert identifier_problem(registry_type, name) == ""


@pytest.mark.requirement("MKT-1")
@rows(("registry_type", "name"), BAD)
def test_what_a_runner_would_read_in_another_way_is_no_name(
    registry_type: RegistryType, name: str
) -> None:
    assert identifier_problem(registry_type, name)


def test_an_image_is_cut_into_name_tag_and_digest() -> None:
    digest = f"sha256:{'0' * 64}"

    assert split_image(f"localhost:5000/a/b:1@{digest}") == ("localhost:5000/a/b", "1", digest)
    assert split_image("localhost:5000/a") == ("localhost:5000/a", "", "")
    assert is_digest(digest)
    assert not is_digest("sha256:abc")
