from __future__ import annotations

import pytest

from discovery_engine.config.marketplace_settings import SourceTrust
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    MarketplaceEntry,
    PackageOffer,
    RemoteOffer,
    entry_id,
    repository_key,
)
from tests.rows import rows


@pytest.mark.requirement("MKT-4")
@rows(
    "address",
    [
        "https://github.com/acme/files",
        "https://github.com/Acme/Files.git",
        "git+https://github.com/acme/files.git",
        "git://github.com/acme/files.git#main",
        "git@github.com:acme/files.git",
        "ssh://git@github.com/acme/files.git",
        "https://www.github.com/acme/files/",
        "https://github.com/acme/files/tree/main/packages/one?x=1",
        "github:acme/files",
    ],
)
def test_a_repository_is_the_same_in_every_spelling(address: str) -> None:
    assert repository_key(address) == "github.com/acme/files"


@pytest.mark.requirement("MKT-4")
def test_an_entry_is_identified_by_its_repository_and_package_not_by_its_name() -> None:
    package = PackageOffer("npm", "@acme/files", "1.0.0")
    newer = PackageOffer("npm", "@Acme/files", "2.0.0")
    image = PackageOffer("oci", "acme/files", "1.0.0")
    place = "https://github.com/acme/files"

    first = entry_id("io.github.acme/files", place, (package, image), ())
    second = entry_id("@acme/files", f"{place}.git", (image, newer), ())

    assert first == second == "github.com/acme/files#npm:@acme/files"
    assert entry_id("x", "https://github.com/evil/files", (package,), ()) != first
    assert entry_id("x", "", (package,), ()) == "npm:@acme/files"
    assert entry_id("x", "", (), (RemoteOffer("sse", "https://a.example/mcp/"),)) == (
        "remote:https://a.example/mcp"
    )
    assert entry_id("com.acme/X", "", (), ()) == "name:com.acme/x"


@pytest.mark.requirement("MKT-4")
@rows(
    ("registry_type", "one", "other"),
    [
        ("pypi", "Acme.Files", "acme-files"),
        ("pypi", "acme__files", "acme-files"),
        ("oci", "docker.io/acme/files", "acme/files"),
        (
            "mcpb",
            "https://github.com/a/b/releases/download/v1.0.0/x.mcpb",
            "https://github.com/a/b/releases/download/v1.1.0/x.mcpb",
        ),
        ("mcpb", "https://a.example/x-1.0.0.mcpb", "https://a.example/x-1.10.2-rc.1.mcpb"),
    ],
)
def test_a_package_has_one_key_in_every_spelling_and_version(
    registry_type: str, one: str, other: str
) -> None:
    first = PackageOffer(registry_type, one)  # type: ignore[arg-type]
    second = PackageOffer(registry_type, other)  # type: ignore[arg-type]

    assert first.key == second.key


@pytest.mark.requirement("MKT-5")
@rows(
    ("levels", "trust"),
    [
        ((), "unreviewed"),
        (("official",), "official"),
        (("curated", "official"), "official"),
        (("curated", "unreviewed", "official"), "unreviewed"),
        (("curated", "curated"), "curated"),
    ],
)
def test_an_entry_is_as_trusted_as_its_least_trusted_origin(
    levels: tuple[SourceTrust, ...], trust: SourceTrust
) -> None:
    origins = tuple(EntryOrigin(str(n), level) for n, level in enumerate(levels))

    entry = MarketplaceEntry("x", "x", origins=origins)

    assert entry.trust == trust
    assert entry.is_reviewed == (trust == "curated")
