"""The kinds of tests, which run before a change lands, and what a run of them costs.

A kind is a marker. Tests get those of their folder and of the fixtures that they use here; a test
that starts something else of a kind has the marker written on it. Kinds are left out of
`make test`, but for their stories, which are marked `landing`: one for each thing that only a test
of that kind can show. `make test-all` runs everything.

A cost is counted, not timed, so that it is the same on a busy machine: the programs that a run
starts, the databases that it makes and the browsers that it opens. `scripts/test_costs.py` compares
them with the numbers in `pyproject.toml`.
"""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

KINDS = (
    "database", "browser", "packages", "frameworks", "conformance", "chaos", "matrix", "thorough",
)  # fmt: skip
_OF_PATHS = {
    "tests/contract/marketplace/test_install_commands.py": "packages",
    "tests/contract/marketplace/test_installing.py": "packages",
    "tests/contract/marketplace/test_marketplace_commands.py": "packages",
    "tests/contract/marketplace/test_package_managers.py": "packages",
    "tests/contract/test_install_api.py": "packages",
    "tests/e2e/test_terminal_questions.py": "thorough",
    "tests/attacks/test_installations.py": "packages",
    "tests/e2e/conformance/": "conformance",
    "tests/e2e/foreign/": "conformance",
    "tests/e2e/frameworks/": "frameworks",
    "tests/e2e/test_agents_of_others.py": "conformance",
    "tests/e2e/test_conformance": "conformance",
    "tests/e2e/test_marketplace_installation.py": "packages",
    "tests/e2e/test_serve_foreign.py": "conformance",
    "tests/e2e/test_serve_node.py": "conformance",
    "tests/e2e/test_workers.py": "chaos",
    "tests/fleet/test_chaos.py": "chaos",
    "tests/page/": "browser",
    "tests/unit/call_log/test_power_cuts.py": "chaos",
    "tests/unit/marketplace/package_managers/test_python_packages.py": "packages",
    "tests/unit/marketplace/test_package_sources.py": "packages",
    "tests/unit/store/test_power_cuts.py": "chaos",
    "tests/unit/upstream/test_session_life.py": "chaos",
}
_OF_FIXTURES = {"postgres_server": "database", "chromium": "browser"}
_STARTS = ((subprocess.Popen, "__init__"), (os, "posix_spawn"), (os, "fork"))
_RECORD = "costs"

_counts: Counter[str] = Counter()
"""Of the test that runs: `programs`, `databases`, `browsers`."""
_costs: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Of all tests so far, by kind."""


def thinned(values: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`, of which the first alone runs before a change lands."""
    first, *others = values
    return [first, *(_of_matrix(value) for value in others)]


def _of_matrix(value: Any) -> Any:
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.matrix], id=value.id)
    row = value if isinstance(value, tuple) else (value,)
    return pytest.param(*row, marks=pytest.mark.matrix)


def _is_landing(config: pytest.Config) -> bool:
    """Whether it is the selection of `make test`."""
    return str(config.option.markexpr).startswith("landing or not")


def count(what: str) -> None:
    """Count one of `programs`, `databases` or `browsers` that the running test pays for."""
    _counts[what] += 1


def _counted(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def counted(*args: Any, **options: Any) -> Any:
        count("programs")
        return start(*args, **options)

    return counted


def kind_of(item: pytest.Item) -> str:
    """The first of `KINDS` that a test is of; `landing` if it is of none."""
    return next((kind for kind in KINDS if item.get_closest_marker(kind)), "landing")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of a kind without a story, which `make test` would collect for nothing."""
    if not _is_landing(config) or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    is_of_kind = any(path.startswith(folder) for folder in _OF_PATHS)
    return (is_of_kind and "mark.landing" not in collection_path.read_text("utf-8")) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        of_fixtures = (kind for name, kind in _OF_FIXTURES.items() if name in fixtures)
        of_paths = (kind for path, kind in _OF_PATHS.items() if item.nodeid.startswith(path))
        for kind in {*of_fixtures, *of_paths}:
            item.add_marker(kind)


def pytest_configure() -> None:
    # A hook of `sys.addaudithook` would be called a hundred times for each program.
    for owner, name in _STARTS:
        setattr(owner, name, _counted(getattr(owner, name)))


def pytest_collection_finish() -> None:
    """Keep thousands of tests out of each look of the garbage collector."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    _counts.clear()
    begun = time.monotonic()
    result = yield
    costs = _costs[kind_of(item)]
    costs.update(_counts, cases=1)
    costs["milliseconds"] += round((time.monotonic() - begun) * 1000)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # a process of pytest-xdist, which sends what it counted
        output[_RECORD] = {kind: dict(costs) for kind, costs in _costs.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for kind, costs in getattr(node, "workeroutput", {}).get(_RECORD, {}).items():
        _costs[kind].update(costs)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what each kind cost, and write it down for `scripts/test_costs.py`."""
    if not _costs:
        return
    columns = ("cases", "programs", "databases", "browsers")
    terminalreporter.section("costs by kind")
    terminalreporter.line(f"{'':12}" + "".join(f"{name:>11}" for name in (*columns, "seconds")))
    for kind in sorted(_costs, key=lambda kind: (kind != "landing", kind)):
        costs = _costs[kind]
        numbers = (*(costs[name] for name in columns), round(costs["milliseconds"] / 1000))
        terminalreporter.line(f"{kind:12}" + "".join(f"{number:>11,}" for number in numbers))
    total = sum(_costs.values(), Counter())
    is_whole = _is_landing(config) and not config.option.keyword
    if config.cache and is_whole and config.args == config.getini("testpaths"):
        record = {name: total[name] for name in columns}
        config.cache.set("discovery/costs", record)
