from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.config.settings import ServeSettings, Settings
from discovery_engine.runtime.roots import roots_of


@pytest.mark.requirement("QST-47")
def test_roots_are_addresses_of_folders_with_their_names(tmp_path: Path) -> None:
    roots = ("here", "/srv/shop/", "file:///data/a%20b", "file:///")
    settings = Settings(path=str(tmp_path / "discovery.yaml"), server=ServeSettings(roots=roots))

    assert roots_of(settings) == (
        {"uri": (tmp_path / "here").as_uri(), "name": "here"},
        {"uri": "file:///srv/shop", "name": "shop"},
        {"uri": "file:///data/a%20b", "name": "a%20b"},
        {"uri": "file:///"},
    )


@pytest.mark.requirement("QST-47")
def test_without_roots_the_client_is_asked() -> None:
    assert roots_of(Settings()) == ()
