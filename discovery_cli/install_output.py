"""Shows in full what an installation or an update would do, before it is approved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from discovery_engine.engine.owner.candidates import shell_word, visible_line

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation
    from discovery_cli.output import Output
    from discovery_engine.marketplace.installer.offered_inputs import AskedInput
    from discovery_engine.marketplace.installer.plan import (
        Difference,
        InstalledChange,
        InstallPlan,
        UpdatePlan,
    )

_WIDTH = 8


def say_installed(output: Output, plan: InstallPlan, change: InstalledChange) -> None:
    """Print what was done, what was checked, and what was not."""
    pin, place = change.pin, "discovery.yaml" if change.where == "file" else "the registry"
    output.say(f"installed {change.name} {pin.version} in {place}")
    if not plan.url:
        kind = pin.integrity.partition(":")[0].partition("-")[0]
        output.say(
            f"its {kind} hash was compared" if kind else "there is no hash to compare it with"
        )
    say_started(output, change)


def say_started(output: Output, change: InstalledChange) -> None:
    """Print whether a server was started for the first time in its version."""
    if change.problem:
        output.say(f"{change.name} could not be started yet: {visible_line(change.problem)}")
        output.say(f"`discovery tools {change.name}` tries it again")
    else:
        output.say(f"it was started, and its tools are listed: `discovery tools {change.name}`")


def show_plan(output: Output, plan: InstallPlan) -> None:
    for line in plan_lines(plan):
        output.line(line)


def progress_of(invocation: Invocation) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not (invocation.as_json or invocation.no_progress):
            invocation.output.say(text)

    return say


def plan_lines(plan: InstallPlan) -> Iterator[str]:
    """All there is to see, one thing on each line, with nothing cut."""
    yield f"{plan.name}  ({visible_line(plan.entry.name)})"
    for name, text in _facts(plan):
        yield f"  {name:<{_WIDTH}} {text}"
    for warning in plan.warnings:
        yield f"  {'careful':<{_WIDTH}} {visible_line(warning)}"


def input_line(field: AskedInput) -> str:
    """A value that can be given, with what its publisher says of it."""
    kind = "secret" if field.is_secret else field.input.format
    state = "required" if field.input.is_required else "optional"
    words = [f"{visible_line(field.key)} ({state} {kind})"]
    if field.input.description:
        words.append(visible_line(field.input.description))
    if field.input.choices:
        words.append(f"one of {', '.join(map(visible_line, field.input.choices))}")
    if field.input.default and not field.is_secret:
        words.append(f"default {visible_line(field.input.default)}")
    return "; ".join(words)


def update_lines(plan: UpdatePlan) -> Iterator[str]:
    """Yield lines on what is different after an update."""
    pin = plan.record.current.pin
    if plan.problem is not None:
        yield f"{plan.name}  {pin.version}: {visible_line(plan.problem.message)}"
        if plan.problem.hint:
            yield f"  {'next':<11} {visible_line(plan.problem.hint)}"
        return
    if plan.is_empty:
        yield f"{plan.name}  {pin.version} is the newest"
    else:
        yield f"{plan.name}  ({visible_line(plan.record.entry_name)})"
    for difference in plan.differences:
        yield f"  {difference.what:<11} {_change(difference)}"
    if plan.install:
        for warning in plan.install.warnings:
            yield f"  {'careful':<11} {visible_line(warning)}"
        for missing in plan.install.missing:
            yield f"  {'needs':<11} {input_line(missing)}"


def _facts(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    yield from _remote_facts(plan) if plan.url else _local_facts(plan)
    if description := plan.server_entry.get("description"):
        yield "about", visible_line(str(description))
    pin = plan.pin
    package = filter(None, (pin.registry_type, pin.identifier, pin.version, pin.integrity))
    yield "package", visible_line(" ".join(package))
    sources = ", ".join(f"{origin.source} ({origin.trust})" for origin in plan.entry.origins)
    yield "origin", visible_line(sources)
    for name in ("publisher", "repository"):
        if text := getattr(plan.entry, name):
            yield name, visible_line(text)
    for name in plan.secrets:
        yield "stores", f"the secret {visible_line(name)}, encrypted"
    for program in plan.prerequisites:
        state = program.version or "is there"
        yield "needs", f"{program.program}: {program.problem or state}"
    for field in plan.asked:
        if not field.is_given:
            yield "takes", input_line(field)


def _remote_facts(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    yield "reaches", shell_word(plan.url)
    for name, text in plan.shown(plan.headers).items():
        yield "header", f"{shell_word(name)}: {shell_word(text)}"


def _local_facts(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    yield "starts", " ".join(map(shell_word, plan.argv))
    if cwd := plan.server_entry.get("cwd"):
        yield "in", shell_word(str(cwd))
    for name, text in plan.shown(plan.environment).items():
        yield "env", f"{shell_word(name)}={shell_word(text)}"
    yield "sandbox", visible_line(_sandbox(plan.server_entry.get("sandbox")))
    if plan.confinement:
        yield "here", f"confined by {plan.confinement}"


def _sandbox(entry: object) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    words = [str(entry.get("kind", "auto"))]
    words += (f"reads {path}" for path in entry.get("read", ()))
    words += (f"changes {path}" for path in entry.get("write", ()))
    words.append("network" if entry.get("network") else "no network")
    return "; ".join(words)


def _change(difference: Difference) -> str:
    before, after = visible_line(difference.before), visible_line(difference.after)
    if not before or not after:
        return f"+ {after}" if after else f"- {before}"
    return f"{before} -> {after}"
