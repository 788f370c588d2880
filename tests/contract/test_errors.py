"""Errors and diagnostics as programs and people read them: specs/errors.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.diagnostics import Origin
from discovery_engine.errors import (
    DiscoveryError,
    FailureKind,
    InvalidArgumentsError,
    MissingValue,
    NeedsAuthError,
    NeedsConfigError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.rows import rows

MISSING = MissingValue("env.TOKEN", "TOKEN", "${TOKEN} is not set")


@pytest.mark.requirement("ERR-2")
@rows(
    ("error", "facts"),
    [
        (ServerNotFoundError("x", ["y"]), {"server": "x", "nearest": ("y",)}),
        (ToolNotFoundError("s", "x", ["y"]), {"server": "s", "tool": "x", "nearest": ("y",)}),
        (ToolAmbiguousError("x", ["a:x"]), {"tool": "x", "nearest": ("a:x",)}),
        (
            InvalidArgumentsError("s", "x", ["m"], "x()"),
            {"tool": "x", "mistakes": ("m",), "signature": "x()"},
        ),
        (ToolDisabledError("s", "x", "r"), {"server": "s", "tool": "x"}),
        (
            UnavailableError("s", FailureKind.EXITED, "r", stderr="boom"),
            {"server": "s", "kind": "exited", "reason": "r", "stderr": "boom"},
        ),
        (
            NeedsConfigError("s", [MISSING], Origin("/d.yaml", 3, 5)),
            {"server": "s", "kind": "needs_config", "missing": (MISSING,)},
        ),
        (NeedsAuthError("s", "r"), {"server": "s", "kind": "auth"}),
        (UpstreamTimeoutError("s", "w", 3.0), {"server": "s", "seconds": 3.0}),
        (UpstreamProtocolError("s", "m", -32603), {"server": "s", "rpc_code": -32603}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, DiscoveryError) else None,
)
def test_an_error_has_its_facts_as_attributes(
    error: DiscoveryError, facts: dict[str, object]
) -> None:
    assert {name: getattr(error, name) for name in facts} == facts


@pytest.mark.requirement("ERR-2")
def test_a_diagnostic_has_its_code_in_json_and_behind_its_message(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    rules = "toolRules: [{pattern: a, enabled: false}, {pattern: a, enabled: true}]\n"
    discovery.configure(rules=rules + "sources: [{type: zed}]\n", broken={"command": ["x"]})

    form = discovery("config", "check", "--json").json
    text = discovery("config", "check").out

    for kind in ("problems", "warnings", "findings"):
        assert form[kind], kind
        for found in form[kind]:
            assert {"code", "message", "severity", "subject", "hint"} <= found.keys()
            assert f"{found['message']} [{found['code']}]" in text


@pytest.mark.requirement("HEA-10")
@rows("kind", FailureKind)
def test_every_kind_of_failure_has_a_next_step_that_does_not_try_the_same_again(
    kind: FailureKind,
) -> None:
    error = UnavailableError("git", kind, "it failed")

    assert error.hint
    assert "discovery refresh" not in error.hint
    assert "{" not in error.hint
