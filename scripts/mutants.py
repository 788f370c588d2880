"""Change the code of a part in small ways, and see whether the tests that concern it fail.

    python scripts/mutants.py [PART ...]

`mutmut` makes the changes. The parts, their modules and their tests stand in `pyproject.toml`, in
`[tool.mutants]`. Each part is mutated in a copy below `.mutants/PART`, where `mutmut show NAME`
prints one mutant. What was found out is kept there: run again, only functions that changed since
are tried, and mutants that survived. Without that folder, everything is tried again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".mutants"
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mutants"]


@dataclass(frozen=True)
class Part:
    name: str
    modules: list[str]
    tests: list[str]

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def configuration(self) -> str:
        """What `mutmut` reads; a list of strings is written alike in JSON and TOML."""
        return "\n".join(
            [
                "[tool.mutmut]",
                f"source_paths = {json.dumps(CONFIGURATION['packages'])}",
                f"only_mutate = {json.dumps(self.modules)}",
                f"also_copy = {json.dumps(sorted(_top_level()))}",
                f"pytest_add_cli_args_test_selection = {json.dumps(self.tests)}",
                'pytest_add_cli_args = ["--hypothesis-profile=mutants"]',
                f"do_not_mutate_patterns = {json.dumps(CONFIGURATION['ignored'])}",
                "use_git_change_detection = false",
                "",
            ]
        )


@dataclass(frozen=True)
class Outcome:
    part: Part
    tried: int
    killed: int
    survivors: list[str]

    @property
    def score(self) -> float:
        return 100 * self.killed / self.tried if self.tried else 0.0


def _tracked() -> list[str]:
    """The files of the project, relative to its root."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in listed.decode().split("\0") if name and (ROOT / name).exists()]


def _top_level() -> set[str]:
    return {name.split("/")[0] for name in _tracked()} - set(CONFIGURATION["packages"])


def _lay_out(part: Part) -> None:
    """Bring the copies up to date, with their times: what did not change stays untouched."""
    wanted, work = set(_tracked()), part.folder / "mutants"
    for name in wanted:
        source, copy = ROOT / name, part.folder / name
        if not copy.exists() or copy.stat().st_mtime != source.stat().st_mtime:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
            if source.suffix != ".py":  # which mutmut copies once, and mutates no more
                (work / name).unlink(missing_ok=True)
    for folder in (part.folder, work):
        for name in (*CONFIGURATION["packages"], "tests"):
            for file in (folder / name).rglob("*.py"):
                if str(file.relative_to(folder)) not in wanted:
                    file.unlink()
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    (part.folder / "pyproject.toml").write_text(f"{settings}\n{part.configuration}", "utf-8")


def _mutmut(part: Part, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mutmut", *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=part.folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )


def _survivors(part: Part) -> list[str]:
    """The mutants that no test noticed; one that ran out of time was noticed."""
    listed = _mutmut(part, "results").stdout.split("\n")
    told = (line.strip().partition(": ") for line in listed)
    return [name for name, _, how in told if how not in {"", "timeout", "skipped"}]


def mutate(part: Part) -> Outcome:
    _lay_out(part)
    earlier = set(_survivors(part))
    try:
        _mutmut(part, "run")
        # It lets what it found out stand, and there may be new tests.
        if again := earlier & set(_survivors(part)):
            _mutmut(part, "run", *sorted(again))
    except subprocess.CalledProcessError as exc:
        print(exc.stdout[-4000:])
        raise
    _mutmut(part, "export-cicd-stats")
    counts = json.loads((part.folder / "mutants" / "mutmut-cicd-stats.json").read_text("utf-8"))
    survivors, tried = _survivors(part), counts["total"] - counts["skipped"]
    return Outcome(part, tried, tried - len(survivors), survivors)


def main(names: list[str]) -> int:
    parts = [Part(name, **given) for name, given in CONFIGURATION["parts"].items()]
    if unknown := set(names) - {part.name for part in parts}:
        print(f"no such part: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    outcomes = []
    for part in parts:
        if not names or part.name in names:
            print(f"== {part.name}", flush=True)
            outcome = mutate(part)
            outcomes.append(outcome)
            print(*outcome.survivors, sep="\n")
    least = CONFIGURATION["least"]
    print(f"{'part':<12} {'mutants':>8} {'killed':>8} {'score':>8}")
    for outcome in outcomes:
        score = f"{outcome.score:.1f} %"
        print(f"{outcome.part.name:<12} {outcome.tried:>8} {outcome.killed:>8} {score:>8}")
    return 0 if all(outcome.score >= least for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
