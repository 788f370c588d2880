"""Resolves references: from the environment, files, and the output of commands.

`secret_store` adds its own.

The one rule: a reference is resolved in a single pass. What a resolver returns is a value, and is
never read as a reference again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from discovery_engine._util.files import read_regular
from discovery_engine.secrets.references import Reference, UnsetReference, split

if TYPE_CHECKING:
    from discovery_engine.secrets.command_outputs import CommandOutputs

STORE_KEYS = "DISCOVERY_SECRET"
"""How the names of variables begin that have the key of the secret store."""
_FILE_LIMIT = 64 * 1024  # bytes; no key or token comes near


class SecretResolver(Protocol):
    """Gives references their values.

    It is called from threads and from the event loop: one that has to ask a service keeps values
    at hand. A value may be another one at the next call.
    """

    def value(self, reference: Reference, *, base_dir: str | None) -> str:
        """The value of one reference; a relative path starts at `base_dir`, if there is one.

        Raises:
            UnsetReference: If it has none.
        """

    def run(self, reference: Reference, *, base_dir: str | None) -> None:
        """Run a command, in `base_dir`; what it writes is its value until it is run again.

        It takes seconds. If it fails there is no value, and the reason is that of `value`.
        """


class EnvironmentResolver:
    """Variables of an environment, files and commands; without a store, no secret has a value."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def value(self, reference: Reference, *, base_dir: str | None) -> str:
        if reference.kind == "file":
            return _file_content(reference.name, self._environ, base_dir)
        if reference.kind == "command":
            return self._outputs.value(reference, base_dir)
        if reference.kind == "secret":
            raise UnsetReference(reference.address, "is not available here")
        if reference.name.startswith(STORE_KEYS):
            raise UnsetReference(reference.name, "is for the secret store alone")
        value = self._environ.get(reference.name)
        if reference.default is not None:
            return value or reference.default
        if value is None:
            raise UnsetReference(reference.name, "is not set")
        return value

    def run(self, reference: Reference, *, base_dir: str | None) -> None:
        self._outputs.run(reference, base_dir)

    @cached_property
    def _outputs(self) -> CommandOutputs:
        # Few entries have a command, and every start of the command line comes by here.
        from discovery_engine.secrets.command_outputs import CommandOutputs  # noqa: PLC0415

        return CommandOutputs(self._environ)


def resolve(
    text: str,
    secrets: SecretResolver,
    *,
    base_dir: str | None = None,
    server: str = "",
    has_commands: bool = False,
) -> str:
    """The text with a value in place of every reference.

    Args:
        text: As it is written in a configuration.
        secrets: What gives values.
        base_dir: Where a relative path of `${file:…}` starts; the working folder if None.
        server: Whose entry the text stands in: a secret that is kept for a server has a value
            in its own entry only.
        has_commands: Whether a command may stand there. None is run here: see `SecretResolver.run`.

    Raises:
        MalformedReferenceError: If a `${` starts no reference.
        UnsetReference: If a reference has no value.
    """
    parts = split(text)
    if not has_commands:
        _refuse_commands(parts)
    return "".join(
        part if isinstance(part, str) else _value(part, secrets, base_dir, server) for part in parts
    )


def has_value(
    name: str, secrets: SecretResolver, *, base_dir: str | None = None, server: str = ""
) -> bool:
    """Return whether `name`, a `Reference.address`, has a value now; see `resolve`."""
    try:
        resolve(f"${{{name}}}", secrets, base_dir=base_dir, server=server)
    except ValueError:
        return False
    return True


def _refuse_commands(parts: Iterable[str | Reference]) -> None:
    for part in parts:
        if isinstance(part, Reference) and part.kind == "command":
            reason = "runs for variables, headers and oauth of a server only"
            raise UnsetReference(part.redacted()[2:-1], reason)


def _value(reference: Reference, secrets: SecretResolver, base_dir: str | None, server: str) -> str:
    if reference.owner not in ("", server):
        raise UnsetReference(reference.address, f"is kept for {reference.owner} alone")
    return secrets.value(reference, base_dir=base_dir)


def _file_content(written: str, environ: Mapping[str, str], base_dir: str | None) -> str:
    name = f"file:{written}"
    try:
        path = Path(base_dir or ".") / _expand_home(written, environ)
        content = read_regular(path, limit=_FILE_LIMIT)
    except OSError as error:
        raise UnsetReference(name, f"cannot be read: {error.strerror}") from error
    if b"\0" in content:
        raise UnsetReference(name, "is no text")
    try:
        text = content.decode()
    except UnicodeDecodeError:  # its message would show a byte of the secret
        raise UnsetReference(name, "is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _expand_home(path: str, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return f"{home}{path[1:]}" if home and path.startswith("~/") else path
