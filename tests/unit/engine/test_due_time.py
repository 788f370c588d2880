from __future__ import annotations

import pytest

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.config.settings import CacheSettings
from discovery_engine.engine.lister import due_in
from discovery_engine.tools.model import ServerName
from tests.factories import make_part
from tests.rows import rows


@rows(
    ("part", "expected"),
    [
        pytest.param(ServerPart(ServerName("a")), 0.0, id="never listed"),
        pytest.param(make_part("a", listed_at=100.0), 3500.0, id="after the owner's ttl"),
        pytest.param(make_part("a", listed_at=100.0, ttl=600.0), 500.0, id="asked for less"),
        pytest.param(make_part("a", listed_at=100.0, ttl=9e9), 3500.0, id="asked for more"),
        pytest.param(make_part("a", listed_at=100.0, ttl=0.0), -40.0, id="asked for none"),
        pytest.param(
            make_part("a", listed_at=100.0, failure=Failure("X", "", "", 180.0)),
            40.0,
            id="failed",
        ),
        pytest.param(make_part("a", listed_at=86_000.0), 0.0, id="listed in the future"),
        pytest.param(
            make_part("a", listed_at=100.0, failure=Failure("X", "", "", 86_000.0)),
            0.0,
            id="failed in the future",
        ),
    ],
)
def test_a_server_is_due_when_its_list_is_old(part: ServerPart, expected: float) -> None:
    assert due_in(part, CacheSettings(ttl=3600.0), now=200.0) == expected
