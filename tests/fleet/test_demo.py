"""The demo of a fleet, as `make demo-fleet` runs it, and the examples of one."""

from __future__ import annotations

import configparser
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from discovery_cli.program import cli
from discovery_engine.config.loading.loader import load_settings
from tests import postgres

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "fleet"
PROGRAM = "/opt/discovery/bin/discovery"


@pytest.mark.requirement("FLT-50")
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing())
def test_the_demo_shows_a_fleet_from_its_start_to_a_tool_that_is_held_back() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo_fleet.py")],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for seen in (
        "gateway-b finds clock:current_time",
        "is killed with SIGKILL",
        "takes it over",
        "gateway-a does not call it",
        "gateway-b does not call it",
    ):
        assert seen in done.stdout


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose.yaml").read_text("utf-8"))
    return found


def commands() -> Iterator[list[str]]:
    for service in compose()["services"].values():
        if service.get("image") == "discovery":
            yield service["command"]
    for unit in (EXAMPLE / "systemd").glob("*.service"):
        parser = configparser.RawConfigParser(strict=False)
        parser.read(unit, "utf-8")
        program, *words = shlex.split(parser["Service"]["ExecStart"])
        assert program == PROGRAM
        yield words


@pytest.mark.requirement("FLT-52")
def test_the_example_runs_commands_that_there_are() -> None:
    for name, *options in (found := list(commands())):
        command = cli.get_command(click.Context(cli), name)
        assert command
        command.make_parser(click.Context(command)).parse_args(list(options))

    assert sorted({name for name, *_ in found}) == ["serve", "worker"]


@pytest.mark.requirement("FLT-52")
def test_the_example_is_valid_and_refers_to_its_secrets() -> None:
    environ = {**os.environ, "DATABASE_URL": "postgresql://somewhere/db"}
    settings = load_settings(EXAMPLE / "discovery.yaml", environ=environ)
    services = compose()["services"]

    assert settings.registry.url == "${DATABASE_URL}"
    assert services["worker"]["deploy"]["replicas"] == 3
    assert {"database", "gateway-1", "gateway-2", "balancer"} < set(services)
    assert services["database"]["environment"]["POSTGRES_PASSWORD"].startswith("${")
    template = (EXAMPLE / ".env.example").read_text("utf-8").splitlines()
    assert [line for line in template if "=" in line and not line.startswith("#")] == [
        "DATABASE_PASSWORD=",
        "DISCOVERY_TOKEN=",
    ]
