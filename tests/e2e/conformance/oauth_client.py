"""The engine as the client of one authorization scenario of the official conformance suite.

    python oauth_client.py URL

It does what a person does: use the server until it is `needs_auth`, log in, and use it again, with
three logins at most. The browser step follows the redirects of the suite's authorization server.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import anyio
import httpx2

from discovery_engine import open_engine
from discovery_engine.catalog import Failure
from discovery_engine.engine import Engine
from discovery_engine.errors import DiscoveryError, NeedsAuthError

SERVER = "suite"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
LOGINS = 3
TIMEOUT = 20.0


async def main(address: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    entry = {"url": address, "oauth": oauth_of(context)}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "discovery.yaml"
        config.write_text(json.dumps({"servers": {SERVER: entry}}), "utf-8")
        async with open_engine(config, data_dir=folder) as engine:
            for _ in range(LOGINS):
                if await used(engine):
                    break
                await engine.logins.log_in(SERVER, browse, timeout=TIMEOUT)
            else:
                await used(engine)


def oauth_of(context: dict[str, Any]) -> dict[str, Any]:
    """The `oauth` that an owner writes who was given these values."""
    oauth: dict[str, Any] = {"clientMetadataUrl": DOCUMENT}
    if "client_id" in context:
        oauth = {"clientId": context["client_id"], "clientSecret": context["client_secret"]}
    if "client-credentials" in context.get("name", ""):
        oauth["grant"] = "client_credentials"
    return oauth


async def used(engine: Engine) -> bool:
    """List the tools and call each; whether none of that lacks a login or a scope."""
    report = await engine.refresh()
    errors: list[DiscoveryError | Failure] = [failure for _, failure in report.servers if failure]
    for entry in (await engine.list_tools(SERVER)).entries:
        try:
            await engine.execute(SERVER, entry.tool.name, {})
        except DiscoveryError as error:
            errors.append(error)
    print(*errors, sep="\n", file=sys.stderr)  # noqa: T201
    return not any(error.code == NeedsAuthError.code for error in errors)


def browse(address: str) -> None:
    """A browser that agrees to everything, in a thread while the login waits."""
    follow = {"follow_redirects": True, "timeout": TIMEOUT}
    threading.Thread(target=httpx2.get, args=[address], kwargs=follow, daemon=True).start()


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
