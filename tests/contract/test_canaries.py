"""Nothing secret leaks: canaries of every kind, in every output of every command and meta-tool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from discovery_cli.program import cli
from tests.canaries import Place, command_outputs, gateway_outputs, leaks, place_in

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HEA-15", "SEC-7")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_in(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.mark.requirement("HEA-7")
async def test_no_answer_log_or_file_of_a_gateway_holds_a_part_of_a_secret(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    answers, others = await gateway_outputs(place)

    written = capfd.readouterr()
    streams = {"stderr": written.err.encode(), "stdout": written.out.encode()}

    assert leaks(answers | others | streams | place.files()) == []
    assert b"invalid token" in others["log"]  # it was there to be redacted
    assert b"/no/such/work-place" not in b"\n".join(answers.values())
    # What a program writes to stderr is for its owner.
    crash = b"\n".join(data for name, data in answers.items() if "crash" in name)
    assert b"invalid token" not in crash


@pytest.mark.thorough
async def test_no_output_of_a_command_holds_a_part_of_a_secret(place: Place) -> None:
    outputs = await command_outputs(place)

    assert all(b"Traceback" not in data for data in outputs.values())
    assert leaks(outputs | place.files()) == []
    assert b"invalid token" in outputs["health crash"]  # owners read what a program wrote


@pytest.mark.thorough
@pytest.mark.requirement("HEA-15")
@pytest.mark.parametrize("words", ["doctor", "health cwd", "list --status", "execute cwd fails"])
def test_a_reference_is_shown_as_it_is_written(place: Place, words: str) -> None:
    runner = CliRunner(env={**place.environ, "HOME": str(place.folder)})

    runner.invoke(cli, [*place.where, "refresh", "cwd"])
    done = runner.invoke(cli, [*place.where, *words.split()])

    assert b"${WORKDIR}" in done.stdout_bytes + done.stderr_bytes
    assert b"/no/such/work-place" not in done.stdout_bytes + done.stderr_bytes
