"""`discovery why`: the rule that decided about a tool, a resource or a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_explained, pass_invocation, view_option
from discovery_cli.output import Cell, Output
from discovery_cli.targets import noting_unlisted, say_unlisted, servers_shown, tool_shown
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import clean, named
from discovery_engine.engine.json_forms.catalog_forms import (
    examples_of,
    explained_tool_form,
    verdict_form,
    visible_to_form,
)
from discovery_engine.errors.codes import CODES, FAMILIES, cure_of
from discovery_engine.view.explanations import (
    explain_offering,
    explain_tool,
    reservations_of,
    why_hidden,
    why_uri_hidden,
)

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry, OfferingEntry
    from discovery_engine.rules.rule import RuleExplanation, Step
    from discovery_engine.view.explanations import Reservation
    from discovery_engine.view.view import View


@click.command("why")
@click.argument(
    "words", metavar="SERVER:TOOL|CODE", nargs=-1, required=True, shell_complete=complete_explained
)
@click.option("--resource", "kind", flag_value="resource", help="Explain a resource, by its URI.")
@click.option("--prompt", "kind", flag_value="prompt", help="Explain a prompt, by its name.")
@view_option
@pass_invocation
def command(
    invocation: Invocation, words: tuple[str, ...], *, kind: str | None, view_name: str | None
) -> None:
    """Explain why a tool, resource or prompt is enabled or disabled, or what a code means.

    Each rule is shown with its effect: the first rule that matches and has `enabled` decides. Then
    come the teams and users that the tool is reserved for, and its `overrides`; if several set the
    same field, the last one counts. A word with `://` is the URI of a resource, and one
    like SERVER_NOT_FOUND the code of an error or a note.

    \b
      discovery why git:git_reset
      discovery why file:///notes.txt
      discovery why --prompt docs:review
      discovery why SERVER_NOT_FOUND
    """
    output = invocation.output
    if kind is None and words[0] in CODES:
        _explain_code(output, words[0])
        return
    if kind is None and "://" in words[0]:
        kind = "resource"
    if kind is not None:
        _explain_offering(invocation, words, view_name, is_prompt=kind == "prompt")
        return
    view = invocation.view(servers_shown(words, None))
    say_unlisted(output, view, words, None)
    entry, extra = tool_shown(view, words, None)
    if extra:
        raise click.UsageError(f"only one tool can be explained at a time; remove {extra[0]!r}")
    explanation = explain_tool(view, entry)
    reserved = reservations_of(view, entry, explanation)
    hidden = why_hidden(view, entry, view_name)
    if output.as_json:
        form = explained_tool_form(entry, explanation, view) | visible_to_form(reserved)
        output.answer({**form, **_view_form(view_name, hidden)})
    else:
        _show(output, entry.key.label, entry, explanation)
        _show_reservations(output, reserved)
        _show_view(output, view_name, hidden)
        _show_overrides(output, entry, view)


def _explain_code(output: Output, code: str) -> None:
    severity, meaning = CODES[code]
    part = next(title for title, codes in FAMILIES.items() if code in codes)
    if output.as_json:
        form = {"code": code, "severity": severity, "meaning": meaning, "part": part}
        output.answer({**form, "cure": cure_of(code)})
        return
    output.line(f"{code}  {severity or 'any severity'}  ({part})", "strong")
    output.line(f"  {meaning}")
    output.line(f"  {cure_of(code)}")
    output.say(f"`discovery logs --status {code}` shows when it happened")


def _explain_offering(
    invocation: Invocation, words: tuple[str, ...], view_name: str | None, *, is_prompt: bool
) -> None:
    output, view = invocation.output, invocation.view()
    if words[1:]:
        raise click.UsageError(f"only one can be explained at a time; remove {words[1]!r}")
    uri = None
    with noting_unlisted(output, lambda: view):
        if is_prompt:
            entry = view.offerings.prompt(None, words[0])
        elif template := view.offerings.template(None, words[0]):
            entry = template
        else:
            target = view.offerings.resource(None, words[0])
            entry, uri = target.entry, target.uri
    explanation = explain_offering(view, entry)
    reserved = reservations_of(view, entry, explanation)
    address = view.offerings.address(entry.offering)
    hidden = why_hidden(view, entry, view_name)
    if hidden is None and view_name and uri:
        hidden = why_uri_hidden(view, entry.offering.server, uri, view_name)
    if output.as_json:
        about = {"kind": entry.offering.kind.value, "address": address}
        verdict = verdict_form(entry.offering.server, entry, explanation)
        verdict |= visible_to_form(reserved)
        output.answer({**about, **verdict, **_view_form(view_name, hidden)})
    else:
        _show(output, clean(address, newlines=False), entry, explanation)
        _show_reservations(output, reserved)
        _show_view(output, view_name, hidden)


def _view_form(name: str | None, hidden: str | None) -> JSONObject:
    return {"view": name, "hidden": hidden} if name else {}


def _show_view(output: Output, name: str | None, hidden: str | None) -> None:
    if name:
        output.line(f"   view {name}: {f'hidden, {hidden}' if hidden else 'shown'}")


def _show(
    output: Output, label: str, entry: Entry | OfferingEntry, explanation: RuleExplanation
) -> None:
    verdict = explanation.verdict
    state = "enabled" if verdict.enabled else "disabled"
    mark = output.mark(good=verdict.enabled)
    output.table([[mark, Cell(label, "strong"), f"{state}: {explanation.sentence}"]])
    if entry.verdict.tags:
        output.line(f"   tags: {', '.join(map(named, entry.verdict.tags))}")
    output.table([_row(step) for step in explanation.steps], indent=3)


def _show_reservations(output: Output, reserved: Sequence[Reservation]) -> None:
    output.table(
        [
            ["and to" if at else "visible to", hold.text, hold.by, Cell(str(hold.origin), "faint")]
            for at, hold in enumerate(reserved)
        ],
        indent=3,
    )


def _show_overrides(output: Output, entry: Entry, view: View) -> None:
    overridden = entry.tool.overridden
    if entry.tool.name != entry.tool.given_name:
        output.line(f"   its server calls it {named(entry.tool.given_name)}")
    overrides = [(index, view.settings.overrides[index]) for index in overridden.by]
    output.table(
        [
            [f"override {index + 1}", override.gives(), Cell(str(override.origin), "faint")]
            for index, override in overrides
        ],
        indent=3,
    )
    for problem in overridden.problems:
        output.line(f"   note: {problem}")
    if examples := examples_of(entry, view):
        texts = counted(len(examples.texts), "typical request")
        output.line(f"   found by {texts} ({examples})")


def _row(step: Step) -> list[Cell | str]:
    return [
        f"rule {step.index + 1}",
        _part(step),
        f"tags {', '.join(map(named, step.tags))}" if step.tags else "",
        Cell(str(step.rule.origin), "faint"),
    ]


def _part(step: Step) -> str:
    """Return the effect of a rule in a word or two."""
    if step.decided:
        return "decides: " + ("enabled" if step.rule.enabled else "disabled")
    if step.too_slow:
        return "timed out"
    if not step.matched:
        return "does not match"
    return "matches, comes too late" if step.rule.enabled is not None else "matches"
