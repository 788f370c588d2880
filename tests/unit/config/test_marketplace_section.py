from __future__ import annotations

import pytest

from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.loading.untrusted import restrict
from discovery_engine.config.marketplace_settings import (
    MarketplaceSettings,
)
from discovery_engine.config.serialization import serialize_redacted
from discovery_engine.config.settings import Settings
from discovery_engine.errors import ConfigurationError
from discovery_engine.store.codec import without_secrets
from tests.rows import rows

ACME = b"""
marketplace:
  sources:
    - {id: acme, type: mcp-registry, url: https://acme.example/r?key=s3cret,
       headers: {X-Key: l1teral, Authorization: "Bearer ${ACME}"}}
    - {type: npm, priority: 5}
    - {type: pypi, enabled: false}
"""


RESERVED = (
    *("169.254.169.254", "169.254.169.254.", "0xa9fea9fe", "2852039166", "169.254.43518"),
    *("[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "0.0.0.0"),
    *("224.0.0.1", "[ff02::1]", "0"),
)


def parsed(text: bytes) -> Settings:
    return parse_settings(text, file="discovery.yaml")


@pytest.mark.requirement("MKT-8")
def test_sources_of_a_file_of_untrusted_origin_count_for_nothing() -> None:
    restricted = restrict(parsed(ACME))

    assert restricted.marketplace == MarketplaceSettings()
    assert [warning.subject for warning in restricted.warnings] == ["marketplace.sources"]


@pytest.mark.requirement("MKT-8")
@rows(
    ("sources", "subject"),
    [
        ("[{type: npm, url: https://a.example}]", "marketplace.sources.0.url"),
        ("[{type: mcp-registry, path: a.yaml}]", "marketplace.sources.0.path"),
        ("[{type: file}]", "marketplace.sources.0"),
        ("[{type: file, path: a, url: https://a.example}]", "marketplace.sources.0"),
        ("[{type: file, path: a, headers: {A: b}}]", "marketplace.sources.0.headers"),
        ("[{type: smithery}]", "marketplace.sources.0.type"),
        ("[{type: mcp-registry, url: 'ftp://a.example'}]", "marketplace.sources.0.url"),
        ("[{type: mcp-registry, url: 'https://${HOST}/'}]", "marketplace.sources.0.url"),
        *(
            (f"[{{type: mcp-registry, url: 'http://{host}/'}}]", "marketplace.sources.0.url")
            for host in RESERVED
        ),
        ("[{type: mcp-registry, id: Two Words}]", "marketplace.sources.0.id"),
        ("[{type: mcp-registry}, {type: mcp-registry}]", "marketplace.sources"),
        ("[{type: npm, id: x}, {type: pypi, id: x}]", "marketplace.sources"),
        ("[{type: mcp-registry, headers: {'A B': c}}]", "marketplace.sources.0.headers.••••"),
    ],
)
def test_a_source_that_does_not_fit_its_type_is_refused_at_its_place(
    sources: str, subject: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(f"marketplace: {{sources: {sources}}}".encode())

    assert [problem.subject for problem in caught.value.problems] == [subject]
    assert all(problem.origin.line == 1 for problem in caught.value.problems)


def test_headers_and_keys_of_addresses_are_neither_shown_nor_remembered() -> None:
    settings = parsed(ACME)

    shown = str(serialize_redacted(settings))

    assert "s3cret" not in shown
    assert "l1teral" not in shown
    assert "Bearer" not in shown
    assert "${ACME}" in shown
    assert "l1teral" not in str(without_secrets(settings).marketplace)
