"""`execute`, `refresh` and the progress of both, with an engine made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_cli.commands.execute import show_result
from discovery_cli.output import Output
from tests.factories import (
    make_entry,
)
from tests.rows import rows
from tests.unit.cli.backends import run, usual_view


@pytest.mark.requirement("CLI-17")
@rows(
    ("words", "message"),
    [
        pytest.param(["create_issue", "--args", "{"], "--args is not JSON", id="no JSON"),
        pytest.param(["create_issue", "--args", "[]"], "must be a JSON object", id="a list"),
        pytest.param(["create_issue", "--args", "@absent"], "cannot be read", id="no file"),
        pytest.param(["create_issue", "--args", "[" * 100_000], "nests too deeply", id="too deep"),
        pytest.param(["create_issue", "--args", '{"a": NaN}'], "NaN is not JSON", id="no number"),
        pytest.param(["create_issue"], "title is missing", id="missing"),
        pytest.param(["create_issue", "titel=a"], "did you mean 'title'?", id="slip in a name"),
        pytest.param(["create_issue", "a", "[]", "true", "d"], "nowhere to put 'd'", id="too many"),
        pytest.param(["github"], "'github' is a server, name a tool of it", id="only a server"),
        pytest.param(
            ["github", "creat_issue"], "did you mean 'create_issue'?", id="slip in a tool"
        ),
        pytest.param(["githb", "create_issue"], "did you mean 'github'?", id="slip in a server"),
        pytest.param(["nothing"], "no server has a tool 'nothing'", id="no such tool"),
        pytest.param(["status"], "name one of them: github:status, time:status", id="ambiguous"),
    ],
)
def test_a_mistake_is_reported_before_any_server_is_asked(words: list[str], message: str) -> None:
    done = run("execute", *words, recalled=usual_view())

    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.requirement("CLI-18")
@rows(
    ("result", "shown"),
    [
        pytest.param({"content": [{"type": "text", "text": "a\n\x1b[1mb"}]}, "a\nb\n", id="text"),
        pytest.param(
            {"content": [{"type": "image", "mimeType": "image/png", "data": "A" * 4000}]},
            "[image image/png, 3.0 kB]\n",
            id="image",
        ),
        pytest.param(
            {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "words"}}]},
            "words\n",
            id="text resource",
        ),
        pytest.param(
            {"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}]},
            "[resource a:b, 3 bytes]\n",
            id="binary resource",
        ),
        pytest.param(
            {"content": [{"type": "resource_link", "name": "n", "uri": "a:b"}]},
            "n <a:b>\n",
            id="link",
        ),
    ],
)
def test_every_kind_of_content_is_shown(
    result: dict[str, Any], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_result(Output(), make_entry(), result)

    assert capsys.readouterr().out == shown
