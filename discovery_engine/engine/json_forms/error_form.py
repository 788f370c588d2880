"""Errors: a stable code, what happened, the next step, and what their kind adds."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from discovery_engine.errors import (
    ConfigurationError,
    DisabledError,
    DiscoveryError,
    InvalidArgumentsError,
    MissingInputsError,
    NotFoundError,
    OfferingDisabledError,
    PromptAmbiguousError,
    PromptDisabledError,
    PromptNotFoundError,
    ResourceAmbiguousError,
    ResourceDisabledError,
    ResourceNotFoundError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    UnavailableError,
    ViewNotFoundError,
)

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.errors import Diagnostic


def error_form(error: DiscoveryError) -> JSONObject:
    form: JSONObject = {"code": error.code, "message": error.message, "hint": next_step(error)}
    match error:
        case ConfigurationError():
            form["problems"] = [problem_form(problem) for problem in error.problems]
        case NotFoundError():
            form["nearest"] = list(error.nearest)
        case InvalidArgumentsError():
            form |= {"mistakes": list(error.mistakes), "signature": error.signature}
        case MissingInputsError():
            form["missing"] = list(error.names)
        case UnavailableError():
            form |= {"kind": str(error.kind), "stderr": error.stderr}
    names = {"server": error.server, "tool": error.tool}
    named = {key: name for key, name in names.items() if name is not None}
    return form | {"detail": error.detail} | named


def problem_form(problem: Diagnostic) -> JSONObject:
    return problem.to_json() | {"path": problem.subject, "file": problem.origin.file}


def next_step(error: DiscoveryError) -> str:
    """Return the next step for the owner, as commands of this program where one helps."""
    match error:
        case NotFoundError():
            return _way_to_names(error)
        case DisabledError():
            return _way_to_reason(error)
    return error.hint


def _way_to_reason(error: DisabledError) -> str:
    match error:
        case ToolWithheldError(command=command):
            return f"`{command}` shows its definition now"
        case OfferingDisabledError(command=str() as command) if command:
            return f"`{command}` shows its definition now"
        case ToolDisabledError():
            return f"`discovery why {error.server}:{error.tool}` shows what each rule did"
        case ResourceDisabledError():
            return f"`discovery why --resource {shlex.quote(str(error.tool))}` shows what decides"
        case PromptDisabledError():
            name = shlex.quote(f"{error.server}:{error.tool}")
            return f"`discovery why --prompt {name}` shows what each rule did"
    return error.hint


def _way_to_names(error: NotFoundError) -> str:
    match error:
        case ToolAmbiguousError() | ResourceAmbiguousError() | PromptAmbiguousError():
            return f"name one of them: {', '.join(error.nearest)}"
        case ResourceNotFoundError():
            advice = "`discovery resources` shows what can be read"
        case PromptNotFoundError():
            advice = "`discovery prompts` shows them"
        case ServerNotFoundError():
            advice = "`discovery list` shows all servers"
        case ViewNotFoundError():
            advice = "the names are under `views` in discovery.yaml"
        case ToolNotFoundError(server=str() as server):
            advice = f"`discovery tools {server}` lists its tools"
        case ToolNotFoundError():
            advice = "`discovery search` finds tools by words"
        case _:  # written for the owner, with the nearest
            return error.hint
    return with_nearest(error, advice)


def with_nearest(error: NotFoundError, advice: str) -> str:
    """A next step after the nearest names, if there are any."""
    if not error.nearest:
        return advice
    return f"did you mean {' or '.join(map(repr, error.nearest))}? {advice}"
