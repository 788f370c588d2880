"""A server of skills, made with FastMCP: `skills_server.py NAME FOLDER`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

provider = SkillsDirectoryProvider(sys.argv[2], reload=True, experimental_skills=True)
server = FastMCP(sys.argv[1], providers=[provider])
server.add_extension(SkillsExtension(providers=[provider]))


@server.tool
def refund(order: str) -> str:
    """Refund an order"""
    return f"refunded {order}"


if __name__ == "__main__":
    server.run("stdio", show_banner=False)
