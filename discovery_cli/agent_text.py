"""`--max-tokens`: the answer that an agent gets, for people who want to see it and for agents."""

from __future__ import annotations

import click

from discovery_cli.output import Output
from discovery_engine._util.json import JSONObject

MIN_TOKENS = 50

max_tokens_option = click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=MIN_TOKENS),
    help="Print the answer for agents, in at most N tokens (estimated).",
)


def show_result(output: Output, result: JSONObject, form: JSONObject) -> None:
    """Write the text of a meta-tool's result; in JSON beside `form`."""
    text: str = result["content"][0]["text"]
    if output.as_json:
        tokens = result["_meta"]["discovery/answer"]["tokens"]
        output.answer({**form, "text": text, "tokens": tokens})
    else:
        output.text(text)
