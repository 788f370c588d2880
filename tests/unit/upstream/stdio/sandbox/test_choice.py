"""Which means is taken."""

from __future__ import annotations

import pytest

from discovery_engine.config.serve_settings import SandboxKind, SandboxSettings
from discovery_engine.upstream.stdio.sandbox.choice import Choice, choose
from discovery_engine.upstream.stdio.sandbox.launch import SandboxError
from discovery_engine.upstream.stdio.sandbox.means import MeansState
from tests.rows import rows

WRAP = MeansState("bubblewrap", program="/usr/bin/bwrap")
NO_WRAP = MeansState("bubblewrap", problem="is not there", hint="install it")
LAND = MeansState("landlock", gaps=("signals",))
NO_LAND = MeansState("landlock", problem="needs Linux", hint="needs Linux 5.13")


def chosen(kind: SandboxKind, *found: MeansState, command: str = "npx") -> Choice:
    return choose("a", SandboxSettings(kind), command, found)


@pytest.mark.requirement("SBX-20")
def test_auto_takes_the_best_that_there_is() -> None:
    assert chosen("auto", WRAP, LAND) == Choice("bubblewrap", "/usr/bin/bwrap")
    assert chosen("auto", NO_WRAP, LAND) == Choice("landlock", gaps=("signals",))
    assert chosen("auto", WRAP, LAND, command="/usr/bin/docker").kind == "docker"
    assert chosen("auto", NO_WRAP, NO_LAND, command="podman").kind == "docker"


@pytest.mark.requirement("SBX-20")
def test_auto_without_any_means_starts_without_and_says_so() -> None:
    choice = chosen("auto", NO_WRAP, NO_LAND)

    assert choice.kind == "none"
    assert "no means" in str(choice)


@pytest.mark.requirement("SBX-20")
@rows(("kind", "hint"), [("bubblewrap", "install it"), ("landlock", "needs Linux 5.13")])
def test_a_kind_that_is_named_is_never_replaced(kind: SandboxKind, hint: str) -> None:
    others = [one for one in (WRAP, LAND) if one.means != kind]
    missing = [one for one in (NO_WRAP, NO_LAND) if one.means == kind]

    with pytest.raises(SandboxError) as caught:
        chosen(kind, *missing, *others)

    assert caught.value.hint == hint


@pytest.mark.requirement("SBX-30")
@rows(("kind", "command"), [("docker", "npx"), ("landlock", "docker")])
def test_a_kind_that_does_not_fit_its_command_is_refused(kind: SandboxKind, command: str) -> None:
    with pytest.raises(SandboxError):
        chosen(kind, WRAP, LAND, command=command)
