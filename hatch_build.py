"""Builds with the modules of other projects that the page uses, where npm can bring them.

A source distribution has them already. Without them there is the API alone, and a note on how to
get the page.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageModules(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        script = Path(self.root) / "scripts" / "page_modules.py"
        if version != "editable" and script.exists():
            subprocess.run([sys.executable, str(script)], check=False)
