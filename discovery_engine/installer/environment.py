"""The environment variables of a server: which names an entry may give, and their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine._util.text import quoted
from discovery_engine.errors import InstallRefusedError
from discovery_engine.upstream.identity import selects_code

if TYPE_CHECKING:
    from discovery_engine.installer.input_values import InputValues
    from discovery_engine.marketplace.entry import Input

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_NEVER = re.compile(
    r"(LD|DYLD|DISCOVERY|DOCKER|DOTNET|BASH|MALLOC)_.*|PYTHON.*|NODE_(?!ENV$).*|PATH|PATHEXT"
    r"|HOME|SHELL|TMP|TEMP|TMPDIR|USERPROFILE|COMSPEC|SYSTEMROOT|XDG_.*|IFS|ENV|PROMPT_COMMAND"
    r"|(RUBY|PERL|PERL5)(OPT|LIB|SHELL)|_?JAVA_(TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH"
    r"|GIT_(SSH|EXEC|CONFIG|ASKPASS|PAGER|EDITOR|TEMPLATE|EXTERNAL|PROXY).*|SSH_ASKPASS|EDITOR"
    r"|PAGER|VISUAL|BROWSER|LESSOPEN|NPM_.*|UV_.*|PIP_.*|VIRTUAL_ENV|CONDA_.*",
    re.IGNORECASE,
)
"""Names that decide what is run, loaded or read, wherever the value comes from."""
_OWNERS_ALONE = re.compile(
    r".*_PROXY|SSL_.*|CURL_.*|REQUESTS_CA_BUNDLE|AWS_CA_BUNDLE|GRPC_.*", re.IGNORECASE
)
"""Names that decide with whom a server speaks: only their owner gives a value."""


class ServerEnvironment(NamedTuple):
    """The variables of an entry."""

    variables: dict[str, str]
    warnings: tuple[str, ...]
    """One for each variable that is left out."""


def environment(inputs: Iterable[Input], values: InputValues) -> ServerEnvironment:
    """The variables of a server; one that is optional, and may not be set, is left out.

    Raises:
        InstallRefusedError: If the entry sets or requires one that it may not.
    """
    found: dict[str, str] = {}
    left_out: list[str] = []
    for one in inputs:
        if not _NAME.fullmatch(one.name):
            raise InstallRefusedError(f"{quoted(one.name)} is no name for an environment variable")
        if reason := _refusal(one):
            if one.is_required or one.value:
                raise InstallRefusedError(
                    f"the entry sets the variable {one.name}, which {reason}",
                    hint="if you rely on its publisher, write an entry by hand: `discovery add`",
                )
            left_out.append(f"the variable {one.name} is left out: it {reason}")
            continue
        if (text := values.text(one)) is not None:
            found[one.name] = text
    return ServerEnvironment(found, tuple(left_out))


def _refusal(one: Input) -> str:
    if _NEVER.fullmatch(one.name) or (
        selects_code(one.name) and not _OWNERS_ALONE.fullmatch(one.name)
    ):
        return "decides what is run or loaded"
    if _OWNERS_ALONE.fullmatch(one.name) and (one.value or one.default):
        return "decides with whom the server speaks"
    return ""
