"""Completions of templates, without the values that lead to what may not be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.errors import DiscoveryError
from discovery_engine.view.uri_templates import expanded

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.tools.offering import Offering
    from discovery_engine.view.view import View


def visible_values(
    view: View, template: Offering, params: JSONObject, result: JSONObject
) -> JSONObject:
    """A result of `completion/complete`; the same one if all of its values may be seen.

    A value is judged if the others that the template needs are in the request; else it stays.
    """
    completion = result["completion"]
    values = completion["values"]
    argument = params["argument"]["name"]
    context = params.get("context")
    arguments = context.get("arguments") if isinstance(context, dict) else None
    other_arguments = arguments if isinstance(arguments, dict) else {}
    remainder = [
        value
        for value in values
        if _is_visible(view, template, {**other_arguments, argument: value})
    ]
    hidden = len(values) - len(remainder)
    if not hidden:
        return result
    answer: JSONObject = {**completion, "values": remainder}
    if "total" in completion:
        answer["total"] = max(completion["total"] - hidden, len(remainder))
    return {**result, "completion": answer}


def _is_visible(view: View, template: Offering, values: JSONObject) -> bool:
    uri = expanded(template.identifier, values)
    if uri is None:
        return True
    try:
        return bool(view.resource(template.server, uri))
    except DiscoveryError:
        return False
