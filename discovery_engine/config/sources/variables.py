"""Translates variables of clients to ours: `${NAME}`, `${NAME:-default}`, `${file:path}`.

A syntax that the client does not expand is literal text, and is escaped. Variables are not
resolved. The result is always well-formed for `secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DEFAULT = r"(?::-(?:(?!\$\{)[^}])*)?"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]+")
_PROMPT_LENGTH = 80

_SYNTAXES: dict[str, str] = {
    "escape": r"\$\$\{",  # ours, for literal text
    "brace": rf"\$\{{{_NAME}{_DEFAULT}\}}",
    "env": rf"\$\{{env:{_NAME}{_DEFAULT}\}}",
    "file": r"\$\{file:[^}$]+\}",
    "input": r"\$\{input:[^}$]+\}",
    "curly_env": rf"\{{env:{_NAME}\}}",
    "curly_file": r"\{file:[^{}$]+\}",
    "secrets": rf"\$\{{\{{\s*(?:secrets|inputs)\.{_NAME}\s*\}}\}}",
    "bare": rf"\${_NAME}",
    "percent": rf"%{_NAME}%",
    "dollar_env": rf"\$env:{_NAME}",
    "colon": r"\$\{[A-Z_][A-Z0-9_]*:(?![?+=])[^}$]*\}",  # these are of a shell
}
_LITERAL = r"\$\{(?:[\w:. /?+=-]{1,64}\})?"
_ENV_ONLY = frozenset({"percent"})  # elsewhere `%AB%` is a quoted address


class VariableSyntax(Struct, dict=True):
    """A client's syntax of variables, for one of its files."""

    label: str
    syntaxes: tuple[str, ...]
    known: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()
    """The folder that relative paths of file references start at."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The client's prompts, by input id."""
    asked: dict[str, str] = field(default_factory=dict)
    """The prompts found in texts so far, by the variable that replaces each."""
    notes: list[str] = field(default_factory=list)
    """Warnings for the owner, collected from texts so far."""

    def translate(self, text: str, *, in_env: bool = False) -> str:
        """Return the text in our syntax; `in_env` if it is an environment variable's value."""
        return (self._in_env if in_env else self._anywhere).sub(self._replacement, text)

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return self._compiled(without=_ENV_ONLY)

    @cached_property
    def _in_env(self) -> re.Pattern[str]:
        return self._compiled(without=frozenset())

    def _compiled(self, without: frozenset[str]) -> re.Pattern[str]:
        names = "|".join(map(re.escape, self.known))
        groups = [rf"(?P<known>\$\{{(?:{names})\}})"] if names else []
        # Our syntax cannot express a `$` right before a reference, so that stays literal.
        groups += [
            rf"(?P<{name}>(?<!\$){pattern})"
            for name, pattern in _SYNTAXES.items()
            if name in self.syntaxes and name not in without
        ]
        return re.compile("|".join((*groups, _LITERAL)), re.ASCII)

    def _replacement(self, match: re.Match[str]) -> str:  # noqa: PLR0911 - one for each syntax
        token = match[0]
        match match.lastgroup:
            case "known":
                return escape(self.known[token[2:-1]])
            case "escape" | "brace":
                return token
            case "env" | "curly_env":
                return "${" + token.partition(":")[2]
            case "dollar_env":
                return "${" + token.partition(":")[2] + "}"
            case "colon":
                return token.replace(":", ":-", 1)
            case "secrets":
                return "${" + token[3:-2].partition(".")[2].strip() + "}"
            case "bare" | "percent":
                return "${" + token.strip("$%") + "}"
            case "file" | "curly_file":
                return self._file(token)
            case "input":
                return self._input(token)
            case _:
                return self._literal(token)

    def _file(self, token: str) -> str:
        raw_path = token.partition(":")[2][:-1].strip()
        path = raw_path if raw_path.startswith("~/") else str(self.folder / raw_path)
        return self._literal(token) if set("${}") & set(path) else f"${{file:{path}}}"

    def _input(self, token: str) -> str:
        input_id = token[len("${input:") : -1]
        variable = "INPUT_" + _NOT_IN_A_NAME.sub("_", input_id).strip("_").upper()
        purpose = ""
        if prompt := self.prompts.get(input_id, "")[:_PROMPT_LENGTH]:
            self.asked[variable] = prompt
            purpose = f" for {prompt!r}"
        self.notes.append(
            f"{self.label} asks{purpose} (input {input_id!r}): set ${variable} instead"
        )
        return f"${{{variable}}}"

    def _literal(self, token: str) -> str:
        if token.endswith("}"):
            self.notes.append(f"{self.label} does not expand {token!r}: it is kept as text")
        return escape(token)


def escape(text: str) -> str:
    """Return the text with references escaped, so that it stays literal."""
    return text.replace("${", "$${")
