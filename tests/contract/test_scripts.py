"""Python of an agent that calls tools: specs/steps.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.agents import text_of
from tests.result_agents import Agent, agent_of, fields

pytestmark = pytest.mark.anyio


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    rules = [{"pattern": "text", "enabled": False}]
    async with agent_of(tmp_path, server={"script": True}, toolRules=rules) as made:
        yield made


@pytest.mark.requirement("STP-7")
async def test_a_script_computes_with_what_tools_return_and_answers_its_last_value(
    agent: Agent,
) -> None:
    code = """
import asyncio
rows = await call("results:rows", {"count": 4})
names = [row["name"] for row in rows["items"] if row["id"] % 2]
echoes = await asyncio.gather(*[call("results:echo", value=name) for name in names])
print("asked for", len(names))
picture = await call("results:image", size=1)
{"echoed": [echo["value"] for echo in echoes], "next": rows["next"], "picture": picture}
"""
    answer = await agent("execute_script", code=code)

    assert json.loads(answer["content"][0]["text"]) == {
        "echoed": ["row 1", "row 3"],
        "next": "page 2",
        "picture": "A picture:\n[image image/png, 3 bytes]",
    }
    assert answer["content"][1]["text"] == "asked for 2\n"
    assert fields(answer)["calls"] == 4
    assert [call["arguments"] for call in agent.sent[1:3]] == [
        {"value": "row 1"},
        {"value": "row 3"},
    ]


@pytest.mark.requirement("STP-7")
async def test_an_error_of_a_call_can_be_caught_and_otherwise_ends_the_script_with_its_calls(
    agent: Agent,
) -> None:
    caught = await agent(
        "execute_script",
        code="""
errors = []
for tool in ["results:fail", "results:text", "results:nothing", "results:rows"]:
    try:
        await call(tool, {"count": "many"} if tool == "results:rows" else {})
    except RuntimeError as error:
        errors.append(str(error))
errors
""",
    )
    ended = await agent(
        "execute_script",
        code='await call("results:echo", {"value": 1})\nawait call("results:fail")\n',
    )

    first, disabled, unknown, wrong = json.loads(caught["content"][0]["text"])
    assert first == "It broke"
    assert disabled.startswith("TOOL_DISABLED: ")
    assert unknown.startswith("TOOL_NOT_FOUND: ")
    assert wrong.startswith("INVALID_ARGUMENTS: ")
    assert ended["isError"]
    assert "line 2" in text_of(ended)
    assert "It broke" in text_of(ended)
    assert "Calls made: results:echo: ok; results:fail: failed" in text_of(ended)


@pytest.mark.requirement("STP-7")
async def test_a_script_that_is_no_python_or_has_no_value_says_so(agent: Agent) -> None:
    answer = await agent("execute_script", code='await call("results:echo", {"value": 1})\nfor')
    silent = await agent("execute_script", code="x = 1")
    long = await agent("execute_script", code="#" * 20_001)

    assert "INVALID_SCRIPT" in text_of(answer)
    assert "line 2" in text_of(answer)
    assert text_of(silent) == "No value: end the script with an expression. No tool was called."
    assert "20,001 characters" in text_of(long)
    assert agent.sent == []


ATTACKS = {
    "a file": "open('/etc/passwd').read()",
    "a folder": "import os\nos.listdir('/')",
    "a path": "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "the environment": "import os\nos.environ['HOME']",
    "a variable": "import os\nos.getenv('HOME')[0]",
    "a program": "import subprocess",
    "a shell": "import os\nos.system('true')",
    "a socket": "import socket",
    "a request": "import urllib.request",
    "foreign code": "import ctypes",
    "an import by name": "__import__('subprocess')",
    "an import by library": "import importlib\nimportlib.import_module('subprocess')",
    "a class": "().__class__.__bases__[0].__subclasses__()",
    "a function's globals": "call.__globals__['os']",
    "a frame": "import sys\nsys._getframe(1)",
    "a module's loader": "import json\njson.__loader__",
    "no end": "while True:\n  try:\n    while True: pass\n  except: pass",
    "memory at once": "'a' * 10**9",
    "memory by steps": "rows = []\nwhile True: rows.append('a' * 1000)",
    "a number": "10 ** (10 ** 9)",
    "depth": "def f(n): return f(n + 1)\nf(0)",
    "sleep": "import time\ntime.sleep(3600)",
    "no call": "await call('results', 'echo', {'value': 1})",
    "an endless name": "await call('x' * 10_000_000, {})",
    "arguments that never end": "await call('results:echo', value='a' * (17 << 20))",
    "an argument that is no JSON": "await call('results:echo', value=[print])",
    "a number that is no JSON": "await call('results:echo', value=float('nan'))",
    "a deep argument": "a = 1\nfor n in range(2000): a = [a]\nawait call('results:echo', a=a)",
    "more calls than allowed": "for n in range(101): await call('results:echo', {'value': n})",
}


@pytest.mark.requirement("STP-7")
async def test_a_script_reaches_nothing_but_tools_and_its_limits_hold(agent: Agent) -> None:
    answers = {}
    for name, code in ATTACKS.items():
        with anyio.fail_after(60):
            answers[name] = await agent("execute_script", code=code)
    after = await agent("execute_script", code="1 + 1")

    assert {name: text_of(a) for name, a in answers.items() if not a["isError"]} == {}
    assert "a script may make 100 calls" in text_of(answers["more calls than allowed"])
    assert len(agent.sent) == 100
    assert 'call("server:tool", {"argument": value})' in text_of(answers["no call"])
    assert len(text_of(answers["an endless name"])) < 1_000
    assert "a script may send 16 MiB" in text_of(answers["arguments that never end"])
    assert "the arguments are no JSON" in text_of(answers["a deep argument"])
    assert text_of(after) == "2"


@pytest.mark.requirement("STP-7")
async def test_a_flood_of_output_is_cut_and_a_value_that_is_no_json_is_shown(agent: Agent) -> None:
    flood = await agent("execute_script", code="for n in range(100_000): print('x' * 100)")
    strange = await agent("execute_script", code="[{1}, (2, 3), b'x', lambda: 1]")

    deep = await agent("execute_script", code="a = 1\nfor n in range(5000): a = [a]\na")
    long = await agent("execute_script", code="await call('results:echo')\n10 ** 5000")

    assert fields(flood)["printed"] == 20_000
    assert not strange["isError"]
    assert "cannot be shown" in text_of(deep)
    assert fields(long)["calls"] == 1


@pytest.mark.requirement("STP-7")
async def test_without_read_result_no_answer_names_it(tmp_path: Path) -> None:
    truncate = {"style": "head_tail", "characters": 1_000}
    async with agent_of(tmp_path, server={"script": True, "truncate": truncate}) as agent:
        answer = await agent("execute_script", code="'x' * 200_000")

    assert len(text_of(answer)) < 2_000
    assert "read_result" not in text_of(answer)


@pytest.mark.requirement("STP-7")
async def test_a_call_that_the_script_does_not_await_is_finished_before_the_answer(
    agent: Agent,
) -> None:
    code = """
import asyncio
await asyncio.gather(call("results:wait", {"seconds": 0.3}), call("results:fail"))
"""
    answer = await agent("execute_script", code=code)
    last = await agent("execute_script", code='call("results:fail")')

    assert "results:wait: ok" in text_of(answer)
    assert (
        "a call was not awaited; write `await call(…)`. Calls made: results:fail: failed"
        in text_of(last)
    )


@pytest.mark.requirement("STP-7")
async def test_progress_grows_with_each_call_that_ends(agent: Agent) -> None:
    progress = []

    async def note(done: float, *_: object) -> None:
        progress.append(done)

    code = """
import asyncio
await asyncio.gather(*[call("results:echo", value=n) for n in range(4)])
"""
    await agent.engine.toolset().call_as_result("execute_script", {"code": code}, on_progress=note)

    assert progress == [1, 2, 3, 4]


@pytest.mark.requirement("STP-7")
async def test_texts_of_several_lines_are_passed_as_written(agent: Agent) -> None:
    code = 'await call("results:echo", value="""a\n  \n\tb""")'
    await agent("execute_script", code=code)
    await agent("execute_script", code="\n    await call('results:echo', value=1)\n")

    assert [call["arguments"]["value"] for call in agent.sent] == ["a\n  \n\tb", 1]


def test_without_its_library_the_tool_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "discovery.yaml").write_text("server: {script: true}\nservers: {}\n")
    program = """
import asyncio, sys
sys.modules["pydantic_monty"] = None
from discovery_engine import open_engine

async def main():
    async with open_engine("discovery.yaml", data_dir="data") as engine:
        answer = await engine.toolset().call_as_result("execute_script", {"code": "1"})
        print(answer["content"][0]["text"])

asyncio.run(main())
"""
    for given in (program, program.replace('"pydantic_monty"', '"unused"')):
        done = subprocess.run(
            [sys.executable, "-c", given],
            cwd=tmp_path,
            env={**os.environ, "MONTY_BIN": "/missing"},
            capture_output=True,
            text=True,
            check=False,
        )

        assert "EXTRA_MISSING" in done.stdout
        assert "pip install 'mcp-discovery-engine[script]'" in done.stdout
