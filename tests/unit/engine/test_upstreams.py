"""Output of servers is redacted, whatever their secrets are and when they changed."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import UnavailableError
from tests.factories import make_server
from tests.servers.programs import upstreams

pytestmark = pytest.mark.anyio

REFUSED = "import os, sys; sys.exit('no user for first-token or ' + os.environ['TOKEN'])"


@pytest.mark.requirement("HEA-15")
async def test_a_token_that_is_renewed_in_its_file_is_hidden_as_the_old_one_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, written = tmp_path / "token", []
    transport = StdioTransport(
        sys.executable, ("-I", "-S", "-c", REFUSED), env={"TOKEN": f"${{file:{token}}}"}
    )
    server = make_server(transport=transport)

    caplog.set_level(logging.INFO)
    async with upstreams() as opened:
        for value in ("first-token", "second-token"):
            token.write_text(value, "utf-8")
            opened.reset_backoff(server.name)
            with pytest.raises(UnavailableError) as caught:
                await opened.list_tools(server)
            written.append(caught.value.stderr.strip())

    assert written == ["no user for •••• or ••••"] * 2
    assert "no user for" in caplog.text
    assert "-token" not in caplog.text
