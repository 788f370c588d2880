"""What containers and services see of a machine: paths of their own, and little to write to.

    around = confined(stage, config=config, data=folder, state="/var/lib/discovery")
    subprocess.Popen([*around, "/opt/discovery/bin/discovery", "serve"])

A mount namespace stands for both: `ProtectSystem=strict` of systemd and `read_only` of containers
mean the same for a program.
"""

from __future__ import annotations

import subprocess
import sysconfig
from functools import cache
from pathlib import Path

NAMESPACE = ["unshare", "--map-root-user", "--mount"]
PROGRAM = Path(sysconfig.get_path("scripts")) / "discovery"

# What is in a folder of the machine stays there behind links, as the Python of the tests may be.
_SCRIPT = """
set -e
stage=$1 program=$2 config=$3 data=$4 state=$5
shift 5
mount -t tmpfs none "$stage"
for folder in etc opt var/lib; do
    mkdir -p "$stage/$folder"
    mount --rbind "/$folder" "$stage/$folder"
    mount -t tmpfs none "/$folder"
    find "$stage/$folder" -mindepth 1 -maxdepth 1 -exec ln -s -t "/$folder" {} +
done
mkdir -p /etc/discovery /opt/discovery/bin "$state"
cp "$config" /etc/discovery/discovery.yaml
mkdir "$stage/tmp"
export TMPDIR="$stage/tmp"
ln -s "$program" /opt/discovery/bin/discovery
mount --bind "$data" "$state"
for folder in / /etc /opt /var/lib; do
    mount -o remount,bind,ro "$folder"
done
exec "$@"
"""


@cache
def missing() -> str:
    """Why there can be no mount namespace here; empty if there can."""
    try:
        done = subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True, text=True)
    except OSError as error:
        return f"there is no `unshare`: {error}"
    return f"no mount namespace is allowed: {done.stderr.strip()}" if done.returncode else ""


def confined(stage: Path, *, config: Path, data: Path, state: str) -> list[str]:
    """The words before a command that is to run so, with `data` at the path `state`.

    `stage` is an empty folder; what is temporary for the command is below it, by `TMPDIR`.
    """
    places = [stage, PROGRAM, config, data]
    return [*NAMESPACE, "sh", "-c", _SCRIPT, "sh", *map(str, places), state]
