"""The demo: real servers, one configuration, and the main job from end to end."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import servers  # noqa: E402 - the script beside this one

DISCOVERY = Path(sys.executable).parent / "discovery"
CONFIG = ROOT / "examples" / "quickstart" / "discovery.yaml"

COMMANDS = [
    "refresh",
    "list --tools",
    "search 'what time is it in Tokyo'",
    "inspect time:convert_time",
    "execute time:convert_time source_timezone=Europe/Berlin time=12:00 target_timezone=Asia/Tokyo",
    "search 'undo all changes'",
    "why git:git_reset",
]


def main() -> int:
    there = servers.bring()
    print(f"\nServers: {', '.join(there)}", file=sys.stderr)
    environment = os.environ | {"DISCOVERY_DATA_DIR": str(ROOT / ".demo")}
    failures = [line for line in COMMANDS if not _show(line, environment)]
    if failures:
        print(f"\n{len(failures)} of {len(COMMANDS)} commands failed", file=sys.stderr)
    return len(failures)


def _show(line: str, environment: dict[str, str]) -> bool:
    print(f"\n$ discovery {line}", flush=True)
    command = [str(DISCOVERY), "--config", str(CONFIG), *shlex.split(line)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
