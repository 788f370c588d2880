"""An entry with `openapi`, a service without an MCP server, or with `skills`, a folder of skills.

Such an entry starts a program, which serves the operations or the skills, so that rules, approvals,
limits and sandboxes hold for it as for any other program. The address and the headers of a service
may hold secrets, so they are variables of that program, not arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from discovery_engine._util.json import JSONObject
from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.config.settings import StdioTransport

URL_VARIABLE = "OPENAPI_URL"
HEADER_VARIABLE = "OPENAPI_HEADER_"
"""Before the name of a header."""

LOST = "discovery/lost"
"""The member of a tool's `_meta` with the references of its operation that lead nowhere."""

# With -P no file of the working folder is imported in place of a module.
_ARGS = ("-P", "-m", "discovery_engine.upstream.openapi_server")
_SKILLS_ARGS = ("-P", "-m", "discovery_engine.upstream.skills_server")


def openapi_transport(
    document: str,
    url: str,
    headers: Mapping[str, str],
    sandbox: SandboxSettings | None = None,
    *,
    folder: Path | None = None,
) -> StdioTransport:
    """The program that serves a document's operations.

    Args:
        document: An address, or a path, which is relative to `folder`.
        url: The address of the service; empty for the one that the document names.
        headers: Sent with each request of an operation.
        sandbox: Confines the program.
        folder: The folder of the configuration.
    """
    if folder and not document.startswith(("http://", "https://", "${")):
        document = str(folder / Path(document).expanduser())
    env = {URL_VARIABLE: url} if url else {}
    env |= {HEADER_VARIABLE + name: value for name, value in headers.items()}
    return StdioTransport(sys.executable, (*_ARGS, document), env, sandbox=sandbox)


def skills_transport(
    skills: str, sandbox: SandboxSettings | None = None, *, folder: Path | None = None
) -> StdioTransport:
    """The program that serves a folder of skills, a path relative to `folder`."""
    if folder and not skills.startswith("${"):
        skills = str(folder / Path(skills).expanduser())
    return StdioTransport(sys.executable, (*_SKILLS_ARGS, skills), sandbox=sandbox)


def needs_extra(args: Sequence[str]) -> str:
    """Return the key of an entry whose program needs the extra `openapi`; empty for others."""
    if serves_document(args):
        return "openapi"
    return "skills" if tuple(args[:-1]) == _SKILLS_ARGS else ""


def serves_document(args: Sequence[str]) -> bool:
    """Return True if a program with these arguments serves the operations of a document."""
    return tuple(args[:-1]) == _ARGS


def portable_words(program: StdioTransport) -> Sequence[str]:
    """Return the command line of a program, without the path of this Python if it is ours."""
    extra = needs_extra(program.args) and "mcp-discovery-engine[openapi]"
    return (*(("uvx", "--from", extra, "python") if extra else (program.command,)), *program.args)


def openapi_form(form: JSONObject) -> JSONObject:
    """Return the form of a transport; that of a document's program has `openapi` for its command.

    The opposite of `openapi_transport`.
    """
    args = form.get("args", [])
    if needs_extra(args) == "skills":
        return {"skills": args[-1], **{k: v for k, v in form.items() if k == "sandbox"}}
    if not serves_document(args):
        return form
    env = dict(form.get("env", {}))
    url = env.pop(URL_VARIABLE, "")
    headers = {name.removeprefix(HEADER_VARIABLE): value for name, value in env.items()}
    sandbox = {"sandbox": form["sandbox"]} if "sandbox" in form else {}
    written = {"openapi": args[-1], "url": url, "headers": headers}
    return {key: value for key, value in written.items() if value} | sandbox


def started_form(form: JSONObject) -> JSONObject:
    """Return the form of an entry; one that has `openapi` has the command of its program for it."""
    if "skills" in form:
        rest = {key: value for key, value in form.items() if key != "skills"}
        program = skills_transport(form["skills"])
        return {"command": program.command, "args": program.args, **rest}
    if "openapi" not in form:
        return form
    rest = dict(form)
    url, headers = rest.pop("url", ""), rest.pop("headers", {})
    program = openapi_transport(rest.pop("openapi"), url, headers)
    return {"command": program.command, "args": program.args, "env": program.env, **rest}
