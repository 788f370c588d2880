"""Serves a folder of skills over stdio, in a process of its own.

    python -m discovery_engine.upstream.skills_server FOLDER

Each folder in it that has a `SKILL.md` is a skill, as soon as it is there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from discovery_engine.errors.extras import install_command, missing_library


def main() -> None:
    if missing_library("openapi"):
        sys.exit(f"`skills` needs an extra: {install_command('openapi')}")
    folder = Path(sys.argv[1])
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder")
    os.environ["FASTMCP_ENV_FILE"] = os.devnull  # not `.env` of the working folder
    from fastmcp import FastMCP, settings
    from fastmcp.server.providers.skills import SkillsDirectoryProvider
    from fastmcp.skills.extension import SkillsExtension

    settings.log_level = "WARNING"  # it names each skill that it omits
    provider = SkillsDirectoryProvider(folder, reload=True, experimental_skills=True)
    server = FastMCP(folder.name, providers=[provider])
    server.add_extension(SkillsExtension(providers=[provider]))
    server.run("stdio", show_banner=False)


if __name__ == "__main__":
    main()
