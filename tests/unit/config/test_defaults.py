"""Each default is written once: in the settings. What an owner may write takes it from there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import fields

from discovery_engine.config import model
from discovery_engine.config.model import (
    config_file,
    embeddings,
    oauth,
    search_section,
    serve_section,
    server,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.serve_settings import PoolWeights, ServeSettings
from discovery_engine.config.settings import (
    CacheSettings,
    EmbeddingsSettings,
    Limits,
    LogSettings,
    OAuthSettings,
    SearchSettings,
    ServerSettings,
    Settings,
    Timeouts,
    Weights,
)
from tests.rows import rows

NOTHING = ("", None)


@rows("file", sorted(Path(model.__path__[0]).glob("*.py")), ids=lambda file: file.stem)
def test_no_default_but_nothing_is_written_in_a_section(file: Path) -> None:
    def written() -> Iterator[object]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "default":
                try:
                    yield ast.literal_eval(node.value)
                except ValueError:
                    continue  # taken from elsewhere

    assert [one for one in written() if one and one not in NOTHING] == []


@rows(
    ("section", "settings"),
    [
        (config_file.Configuration, Settings),
        (config_file.CacheSection, CacheSettings),
        (search_section.SearchSection, SearchSettings),
        (search_section.WeightsSection, Weights),
        (serve_section.PoolWeightsSection, PoolWeights),
        (serve_section.ServeSection, ServeSettings),
        (config_file.LogSection, LogSettings),
        (embeddings.EmbeddingsSection, EmbeddingsSettings),
        (server.ServerEntry, ServerSettings),
        (server.TimeoutsSection, Timeouts),
        (server.LimitsSection, Limits),
        (oauth.OAuthSection, OAuthSettings),
    ],
)
def test_a_key_that_is_left_out_is_as_the_settings_have_it(
    section: type[Section], settings: type[Struct]
) -> None:
    defaults = {one.name: one.default for one in fields(settings)}
    shared = {name: one for name, one in section.model_fields.items() if name in defaults}

    assert shared
    for name, one in shared.items():
        if isinstance(one.default, Section):
            assert isinstance(defaults[name], Struct)
        elif name not in {"transport", "servers"}:
            assert (one.default or None) == (defaults[name] or None), name
