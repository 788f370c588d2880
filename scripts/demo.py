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

# Each with the exit code that it should leave with: 2 says that no tool fits.
COMMANDS = {
    "refresh": 0,
    "list --tools": 0,
    "search 'what time is it in Tokyo'": 0,
    "inspect time:convert_time": 0,
    "execute time:convert_time source_timezone=Europe/Berlin time=12:00 "
    "target_timezone=Asia/Tokyo": 0,
    "search 'book a flight to Paris'": 2,
    "why git:git_reset": 0,
}


def main() -> int:
    there = servers.bring()
    print(f"\nServers: {', '.join(there)}", file=sys.stderr)
    environment = os.environ | {"DISCOVERY_DATA_DIR": str(ROOT / ".demo")}
    failures = [line for line, code in COMMANDS.items() if _show(line, environment) != code]
    if failures:
        print(f"\n{len(failures)} of {len(COMMANDS)} commands failed", file=sys.stderr)
    return len(failures)


def _show(line: str, environment: dict[str, str]) -> int:
    print(f"\n$ discovery {line}", flush=True)
    command = [str(DISCOVERY), "--config", str(CONFIG), *shlex.split(line)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
