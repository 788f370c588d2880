"""Hints on installing the programs that start servers and packages."""

from __future__ import annotations

from collections.abc import Mapping

INSTALL_HINTS: Mapping[str, str] = {
    "uvx": "uvx comes with uv: `pip install uv`, or https://docs.astral.sh/uv/",
    "uv": "`pip install uv`, or https://docs.astral.sh/uv/",
    "npx": "npx comes with Node.js: https://nodejs.org/",
    "npm": "npm comes with Node.js: https://nodejs.org/",
    "node": "install Node.js: https://nodejs.org/",
    "bunx": "bunx comes with Bun: https://bun.sh/",
    "deno": "install Deno: https://deno.com/",
    "docker": "install Docker: https://docs.docker.com/get-started/get-docker/",
    "dnx": "dnx comes with .NET 10: https://dotnet.microsoft.com/download",
    "python": "install Python: https://www.python.org/, or try `python3`",
}
