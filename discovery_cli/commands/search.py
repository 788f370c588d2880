"""`discovery search`: tools by words or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click
from msgspec.structs import replace

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import (
    any_tag_option,
    complete_server,
    engine_in_view,
    in_view,
    one_server_options,
    pass_invocation,
    tag_option,
    view_option,
)
from discovery_cli.output import Output, max_tokens_option, show_result
from discovery_cli.rendering import (
    explained_hit_row,
    explanation_rows,
    hit_row,
    offering_row,
    say_notices,
    say_outages,
)
from discovery_cli.targets import one_server
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named, one_line
from discovery_engine.engine.json_forms.catalog_forms import search_form
from discovery_engine.view.search_answers import SEARCH_KINDS, Decision, SearchAnswer, SearchKind

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.view.view import View

_INDENT = 4  # columns before lines that explain a hit
# Seconds for new tools to get their vectors by a model on this machine.
_LOCAL_EMBEDDING_TIMEOUT = 10.0


class Filters(TypedDict):
    """Arguments of the engine's `search`."""

    server: str | None
    tags: tuple[str, ...]
    any_tag: bool
    limit: int | None
    include_disabled: bool


@click.command("search")
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="Only tools of this server."
)
@tag_option
@any_tag_option
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="Show at most N results.  [default: 10]",
)
@click.option(
    "--min-relevance",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Only results with at least this relevance, from 0 to 1.",
)
@click.option("--all", "include_disabled", is_flag=True, help="Also show disabled tools.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(SEARCH_KINDS),
    multiple=True,
    help="What to find; may be repeated.  [default: tool]",
)
@click.option("--explain", is_flag=True, help="Show how much each word adds to a match.")
@max_tokens_option
@view_option
@one_server_options
@pass_invocation
def command(  # noqa: PLR0913 - one for each option
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    server: str | None,
    tags: tuple[str, ...],
    any_tag: bool,
    limit: int | None,
    min_relevance: float,
    include_disabled: bool,
    kinds: tuple[SearchKind, ...],
    explain: bool,
    max_tokens: int | None,
    view_name: str | None,
) -> ExitCode:
    """Find tools by what they do, or by name.

    The best match comes first. The last line says how certain it is: sure, likely or unsure. If
    nothing matches, the reasons are shown. Exits with 2 if nothing matches, and with 5 while a
    server is still starting.

    \b
      discovery search create an issue
      discovery search branch --server git --explain
    """
    query = " ".join(words).strip()
    if not query:
        raise click.UsageError("the query is empty; give the words to search for")
    output = invocation.output
    concerned = one_server(server) if server else None
    view = in_view(invocation.view(concerned, is_searched=True), view_name)
    filters: Filters = {
        "server": server,
        "tags": tags,
        "any_tag": any_tag,
        "limit": limit,
        "include_disabled": include_disabled,
    }
    answer = SearchAnswer(query, ())
    if not kinds or "tool" in kinds:
        answer = _answer(invocation, view, query, filters, view_name)
    if set(kinds) - {"tool"}:
        others = view.search_offerings(
            query, kinds, server=server, tags=tags, any_tag=any_tag, limit=limit
        )
        answer = replace(answer, offerings=others)
    answer = answer.at_least(min_relevance)
    if max_tokens:
        from discovery_engine.agent.budget import Budget
        from discovery_engine.agent.search_rendering import search_result
        from discovery_engine.agent.tool_text import Detail

        result = search_result(answer, Budget(max_tokens), Detail.SCHEMA)
        show_result(output, result, search_form(answer, view, explain=explain))
    elif output.as_json:
        output.answer(search_form(answer, view, explain=explain))
    else:
        _show(output, view, answer, explain=explain)
    if answer.hits or answer.offerings:
        return ExitCode.OK
    is_early = any(notice.kind == "loading" for notice in answer.notices)
    return ExitCode.UNREACHABLE if is_early else ExitCode.USAGE


def _show(output: Output, view: View, answer: SearchAnswer, *, explain: bool) -> None:
    # A better, hidden tool is reported first: otherwise readers take one of the others.
    say_notices(output, [notice for notice in answer.notices if notice.code == "TOOL_DISABLED"])
    if explain:
        _explain(output, view, answer)
    else:
        output.table([hit_row(output, hit) for hit in answer.hits])
    if answer.offerings:
        output.table([offering_row(output, hit.entry, view) for hit in answer.offerings])
    others = [notice for notice in answer.notices if notice.kind not in ("hidden", "unavailable")]
    say_notices(output, others)
    say_outages(output, answer.notices)
    if summary := _summary(answer):
        output.say(summary)


def _explain(output: Output, view: View, answer: SearchAnswer) -> None:
    """Print each hit with its explanation; without hits, the nearest tools."""
    is_match = answer.decision is Decision.MATCH
    query = view.searcher.analyze(answer.query)
    for hit in answer.hits or answer.nearest:
        output.table([explained_hit_row(output, hit, is_match=is_match)])
        rows = explanation_rows(view.searcher.explain(query, hit))
        output.table(rows, indent=_INDENT)


def _summary(answer: SearchAnswer) -> str:
    """Return the number of hits; without one, what is missing and what comes nearest."""
    if any(notice.kind in ("empty", "unknown") for notice in answer.notices):
        return ""
    missing = ", ".join(repr(one_line(word)) for word in answer.uncovered)
    if answer.decision is Decision.UNSURE:
        nearest = f"unsure: {counted(len(answer.hits), 'near tool')}, check before you use one"
        server, verbs = answer.hits[0].entry.tool.server, " or ".join(answer.undone)
        undone = f"no tool of {named(server)} seems to {verbs}" if verbs else ""
        elsewhere = f"the first is not of {named(answer.elsewhere)}" if answer.elsewhere else ""
        why = f"none mentions {missing}" if missing else ""
        return "; ".join(filter(None, (nearest, elsewhere, undone, why)))
    if answer.hits:
        alike = f"; the first {answer.alike} fit equally well" if answer.alike > 1 else ""
        return f"{answer.certainty} match: {counted(len(answer.hits), 'tool')}{alike}"
    if answer.offerings:
        return ""
    why = f"no tool mentions {missing}" if missing else ""
    nearest = ", ".join(hit.entry.key.label for hit in answer.nearest)
    near = f"nearest, but unlikely to fit: {nearest}" if nearest else ""
    return "; ".join(filter(None, (why, near)))


def _answer(
    invocation: Invocation, view: View, query: str, filters: Filters, view_name: str | None
) -> SearchAnswer:
    """Return the answer of the view, which is quick; of the engine only if a model is set."""
    embeddings = view.settings.search.embeddings
    needs_engine = embeddings.is_on or view.settings.search.reranker.is_on
    if not needs_engine or view.searcher.is_tool_name(query):
        return view.search(query, **filters)

    async def search(engine: Engine) -> SearchAnswer:
        patience = embeddings.timeout if embeddings.is_remote else _LOCAL_EMBEDDING_TIMEOUT
        if embeddings.is_on:
            await engine.wait_embedded(timeout=patience)
        return await engine_in_view(engine, view_name).search(query, **filters)

    return invocation.run(search)
