"""Servers without a sandbox of their own get that of `server.sandbox`."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.config.settings import ServerSettings, Settings, StdioTransport


def with_default_sandbox(settings: Settings) -> Settings:
    """The settings in which every program has the sandbox that counts for it.

    The one of an entry counts alone: nothing of the default is added to it.
    """
    if not settings.server.sandbox.is_on:
        return settings
    sandbox = _from_its_folder(settings.server.sandbox, settings.path)
    servers = tuple(_sandboxed(server, sandbox) for server in settings.servers)
    return replace(settings, servers=servers)


def _sandboxed(server: ServerSettings, sandbox: SandboxSettings) -> ServerSettings:
    transport = server.transport
    if not isinstance(transport, StdioTransport) or transport.sandbox is not None:
        return server
    return replace(server, transport=replace(transport, sandbox=sandbox))


def _from_its_folder(sandbox: SandboxSettings, file: str | None) -> SandboxSettings:
    """With absolute paths, because the servers of another file would have another folder."""
    folder = Path(file).parent if file else Path()
    read, write = (
        tuple(path if path.startswith("~") else str(folder / path) for path in paths)
        for paths in (sandbox.read, sandbox.write)
    )
    return replace(sandbox, read=read, write=write)
