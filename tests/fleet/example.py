"""The files of `examples/fleet`, as tests read and run them."""

from __future__ import annotations

import os
import re
import shlex
import socket
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "fleet"
CADDYFILE = FOLDER / "Caddyfile"
PROGRAM = "/opt/discovery/bin/discovery"
UNITS = sorted((FOLDER / "systemd").glob("*.service"))
PORT = "8080"
RELEASE = "team"
_PLAIN = re.compile(r"\{\{ \.(?:Release\.Name|Values\.(\w+)) (?:\| indent (\d+) )?\}\}")


@dataclass(frozen=True)
class Deployed:
    """A gateway or a worker as the example runs it."""

    words: list[str]
    environ: dict[str, str]
    state: str
    """The one folder that it may write to, beside those for what is temporary."""


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
    return found


def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    return found


def discovery_services() -> dict[str, Any]:
    """Those that run this program."""
    return {name: one for name, one in services().items() if one.get("image") == "discovery"}


def container(name: str) -> Deployed:
    """A service of `compose.yaml`; its image has `discovery` as its entry point."""
    service = services()[name]
    environ = {"PATH": os.defpath, **service["environment"]}
    return Deployed([PROGRAM, *service["command"]], environ, environ["DISCOVERY_DATA_DIR"])


def manifests() -> list[dict[str, Any]]:
    """What the chart makes of its values; its templates have nothing but such values in them."""
    values = yaml.safe_load((FOLDER / "helm" / "values.yaml").read_text("utf-8"))

    def value(found: re.Match[str]) -> str:
        text = str(values[found[1]]) if found[1] else RELEASE
        return textwrap.indent(text, " " * int(found[2])) if found[2] else text

    files = sorted((FOLDER / "helm" / "templates").iterdir())
    texts = [_PLAIN.sub(value, file.read_text("utf-8")) for file in files]
    assert "{{" not in "".join(texts)
    return [manifest for text in texts for manifest in yaml.safe_load_all(text)]


def pod(kind: str) -> Deployed:
    """The container in the pods of a chart's manifest."""
    [spec] = [one["spec"]["template"]["spec"] for one in manifests() if one["kind"] == kind]
    [container] = spec["containers"]
    environ = {one["name"]: one.get("value", RELEASE) for one in container["env"]}
    environ = {"PATH": os.defpath, **environ}
    return Deployed([PROGRAM, *container["args"]], environ, environ["DISCOVERY_DATA_DIR"])


def unit(name: str, instance: str = "") -> Deployed:
    """A unit of systemd, without its secrets."""
    lines = [(key, _specified(value, instance)) for key, value in unit_lines(name)["Service"]]
    environ = dict(value.split("=", 1) for key, value in lines if key == "Environment")
    [command] = [value for key, value in lines if key == "ExecStart"]
    [state] = [value for key, value in lines if key == "StateDirectory"]
    folder = f"/var/lib/{state.split()[-1]}"
    return Deployed(shlex.split(command), {"PATH": os.defpath, **environ}, folder)


def unit_lines(name: str) -> dict[str, list[tuple[str, str]]]:
    """Keys and values of each section in their order; a key may be there more than once."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (FOLDER / "systemd" / name).read_text("utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.append((key, value))
    return found


def _specified(value: str, instance: str) -> str:
    return value.replace("%i", instance).replace("%l", socket.gethostname().partition(".")[0])
