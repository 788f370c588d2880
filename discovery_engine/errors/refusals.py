"""Errors of requests that are refused before any server is contacted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar, Self

from discovery_engine._util.quantities import date_of
from discovery_engine._util.text import one_line
from discovery_engine.errors.diagnostic import Diagnostic, Origin
from discovery_engine.errors.discovery_error import DiscoveryError


class NotFoundError(DiscoveryError):
    code = "NOT_FOUND"

    def __init__(self, message: str, nearest: Sequence[str], *, hint: str = "") -> None:
        self.nearest = tuple(nearest)
        meant = f"did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""
        super().__init__(message, hint="; ".join(filter(None, (meant, hint))))


class PlanChangedError(DiscoveryError):
    """The plan has changed since it was shown; nothing was done."""

    code = "PLAN_CHANGED"

    def __init__(self, subject: str) -> None:
        super().__init__(
            f"{subject} would now change something else than what was shown",
            hint="look at the plan again, and accept its digest",
        )


class ServerNotFoundError(NotFoundError):
    code = "SERVER_NOT_FOUND"
    server: str

    def __init__(self, server: str, nearest: Sequence[str] = ()) -> None:
        self.server = server
        super().__init__(
            f"server {server!r} is not configured", nearest, hint="list_mcp_servers names them all"
        )


class ViewNotFoundError(NotFoundError):
    code = "VIEW_NOT_FOUND"

    def __init__(self, view: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(
            f"the configuration has no view {view!r}",
            nearest,
            hint="the names are under `views` in discovery.yaml",
        )


class WebhookNotFoundError(NotFoundError):
    code = "WEBHOOK_NOT_FOUND"

    def __init__(
        self, webhook: str, nearest: Sequence[str] = (), *, refusal: Diagnostic | None = None
    ) -> None:
        """`refusal` explains why the webhooks in the file are ignored."""
        hint = "the names are under `webhooks` in discovery.yaml"
        if refusal is not None:
            hint = f"{refusal.sentence}; {refusal.hint}"
        super().__init__(f"no webhook {webhook!r} is configured", nearest, hint=hint)


class ToolNotFoundError(NotFoundError):
    code = "TOOL_NOT_FOUND"
    tool: str

    def __init__(
        self,
        server: str | None,
        tool: str,
        nearest: Sequence[str] = (),
        hidden: Sequence[str] = (),
        *,
        hint: str = "list_tools names a server's tools",
        removed_at: float | None = None,
    ) -> None:
        """`hidden` and `removed_at` are for the owner alone.

        Args:
            server: The server that was searched; None for all.
            tool: The name that was not found.
            nearest: Similar names.
            hidden: Similar names of disabled tools, each with the reason.
            hint: The next step.
            removed_at: Unix time in seconds of the first listing without the tool; None if it was
                never listed.
        """
        self.server = server
        self.tool = tool
        place = f"server {server!r} has no tool" if server else "no server has a tool"
        super().__init__(f"{place} {tool!r}", nearest, hint=hint)
        details = [f"near, but disabled: {', '.join(hidden)}"] if hidden else []
        if removed_at is not None:
            details.insert(0, f"its server removed it on {date_of(removed_at)}")
        self.detail = one_line("; ".join(details))


class ToolAmbiguousError(NotFoundError):
    code = "TOOL_AMBIGUOUS"
    tool: str

    def __init__(self, tool: str, candidates: Sequence[str]) -> None:
        self.tool = tool
        super().__init__(f"several servers have a tool {tool!r}", candidates)


class ResourceNotFoundError(NotFoundError):
    code = "RESOURCE_NOT_FOUND"

    def __init__(self, uri: str, nearest: Sequence[str] = (), *, server: str | None = None) -> None:
        self.server = server
        self.tool = uri
        place = f"server {server!r} has" if server else "there is"
        hint = "`resources/list` and `discovery resources` name them"
        super().__init__(f"{place} no resource {uri!r}", nearest, hint=hint)


class ResourceAmbiguousError(NotFoundError):
    code = "RESOURCE_AMBIGUOUS"

    def __init__(self, uri: str, candidates: Sequence[str]) -> None:
        self.tool = uri
        super().__init__(f"several servers may have a resource {uri!r}", candidates)


class PromptNotFoundError(NotFoundError):
    code = "PROMPT_NOT_FOUND"

    def __init__(
        self, name: str, nearest: Sequence[str] = (), *, server: str | None = None
    ) -> None:
        self.server = server
        self.tool = name
        place = f"server {server!r} has" if server else "no server has"
        noun = "no prompt" if server else "a prompt"
        hint = "`prompts/list` and `discovery prompts` name them"
        super().__init__(f"{place} {noun} {name!r}", nearest, hint=hint)


class PromptAmbiguousError(NotFoundError):
    code = "PROMPT_AMBIGUOUS"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.tool = name
        super().__init__(f"several servers have a prompt {name!r}", candidates)


class TaskNotFoundError(NotFoundError):
    """A task does not exist, has expired, or is another client's; the error hides which."""

    code = "TASK_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__(
            "no task of this client has this id", (), hint="check what it has done, then call again"
        )


class DisabledError(DiscoveryError):
    code = "DISABLED"


class ServerDisabledError(DisabledError):
    code = "SERVER_DISABLED"
    server: str

    def __init__(self, server: str, reason: str, detail: str = "") -> None:
        self.server = server
        super().__init__(f"server {server!r} is disabled: {reason}")
        self.detail = one_line(detail)


class ToolDisabledError(DisabledError):
    code = "TOOL_DISABLED"
    server: str
    tool: str

    def __init__(self, server: str, tool: str, reason: str, detail: str = "") -> None:
        self.server = server
        self.tool = tool
        super().__init__(
            f"tool {f'{server}:{tool}'!r} is disabled: {reason}",
            hint="the owner of the configuration decides this; use another tool",
        )
        self.detail = one_line(detail)


class ToolWithheldError(ToolDisabledError):
    code = "TOOL_WITHHELD"

    def __init__(self, server: str, tool: str, reason: str, *, command: str) -> None:
        self.command = command
        """The command with which the owner can review the tool."""
        super().__init__(server, tool, reason)
        advice = f"its owner can look at it with `{command}`; use another tool until then"
        self.hint = one_line(advice)


class OfferingDisabledError(DisabledError):
    """A resource or a prompt is disabled or withheld."""

    noun: ClassVar[str]

    def __init__(
        self, server: str, name: str, reason: str, *, detail: str = "", command: str = ""
    ) -> None:
        """`command` is the one with which the owner can review it, if it is withheld."""
        self.server = server
        self.tool = name
        self.command = command
        hint = "the owner of the configuration decides this; use another one"
        if command:
            hint = f"its owner can look at it with `{command}`; use another one until then"
        super().__init__(
            f"{self.noun} {name!r} of server {server!r} is disabled: {reason}", hint=hint
        )
        self.detail = one_line(detail)


class ResourceDisabledError(OfferingDisabledError):
    code = "RESOURCE_DISABLED"
    noun = "resource"


class FileWithheldError(OfferingDisabledError):
    """A file of a skill that no scanner has cleared; `detail` is its passage, for the owner."""

    code = "RESOURCE_DISABLED"
    noun = "file"

    def __init__(self, server: str, uri: str, reason: str, *, detail: str = "") -> None:
        super().__init__(server, uri, reason, detail=detail)
        shown = shlex.join(["discovery", "resources", server, uri])
        self.hint = one_line(
            f"its owner sees the text with `{shown}`, and may pass all of it with `trust: open`"
        )


class PromptDisabledError(OfferingDisabledError):
    code = "PROMPT_DISABLED"
    noun = "prompt"


class InputTooLongError(DiscoveryError):
    code = "INPUT_TOO_LONG"

    def __init__(self, what: str, size: str, limit: str, *, hint: str) -> None:
        """`what` names the input; `size` and `limit` include their unit."""
        self.size = size
        self.limit = limit
        super().__init__(f"{what} is too long: {size}, at most {limit}", hint=hint)


class InvalidSecretError(DiscoveryError):
    code = "INVALID_SECRET"

    @classmethod
    def name(cls) -> InvalidSecretError:
        """Return the error for an invalid name, without the name: it may be the secret itself."""
        return cls(
            "that is no name of a secret",
            hint="it has letters, digits, '_', '.' and '-', and may have a server before it: "
            "GITHUB_TOKEN, github/TOKEN",
        )


class InvalidArgumentsError(DiscoveryError):
    code = "INVALID_ARGUMENTS"
    server: str
    tool: str

    def __init__(self, server: str, tool: str, mistakes: Sequence[str], signature: str) -> None:
        self.server = server
        self.tool = tool
        self.mistakes = tuple(mistakes)
        self.signature = signature
        super().__init__(
            f"arguments of {f'{server}:{tool}'!r} do not fit: {'; '.join(self.mistakes)}",
            hint=f"it takes {signature}",
        )


class InstallRefusedError(DiscoveryError):
    """An entry is not installed, because it is unsafe or cannot run on this machine."""

    code = "INSTALL_REFUSED"


class InvalidInputError(DiscoveryError):
    """A value for an installation is invalid, or belongs to none of its inputs."""

    code = "INSTALL_INPUT_INVALID"


class MissingInputsError(DiscoveryError):
    """Values that the server requires were not given."""

    code = "INSTALL_INPUT_MISSING"

    def __init__(
        self, server: str, names: Sequence[str], secrets: Sequence[str], *, hint: str = ""
    ) -> None:
        """`names` are all missing inputs; `secrets` are the secret ones among them."""
        self.server = server
        self.names = tuple(names)
        words = [f"--with {name}=…" for name in names if name not in secrets]
        words += (f"--secret {name}" for name in secrets)
        super().__init__(
            f"server {server!r} requires {', '.join(names)}",
            hint=hint or f"repeat the command with {' '.join(words)}",
        )


class PackageChangedError(DiscoveryError):
    """The content of a package has changed under the same version."""

    code = "PACKAGE_CHANGED"

    def __init__(self, package: str, pinned: str, actual: str) -> None:
        self.package = package
        self.pinned = pinned
        self.found = actual
        super().__init__(
            f"{package} has other content than when it was pinned: {actual}, not {pinned}",
            hint="do not use it; ask its publisher. A version that was published is not supposed"
            " to change",
        )


class InstallFailedError(DiscoveryError):
    """A package could not be fetched, unpacked or prepared; nothing was installed."""

    code = "INSTALL_FAILED"


class InstallBusyError(InstallFailedError):
    """Another process, or another request, is installing a server."""

    code = "INSTALL_BUSY"

    def __init__(self) -> None:
        super().__init__(
            "another process is installing a server", hint="wait for it to end, then try again"
        )


class NotInstalledError(NotFoundError):
    """The server was not installed from the marketplace, or has no earlier version."""

    code = "NOT_INSTALLED"

    def __init__(self, message: str, nearest: Sequence[str], *, hint: str = "") -> None:
        hint = hint or "`discovery list --installed` names those that were installed"
        super().__init__(message, nearest, hint=hint)


class ConfigurationError(DiscoveryError):
    """The configuration cannot be used; `problems` lists everything that is wrong with it."""

    code = "CONFIGURATION_ERROR"

    def __init__(self, problems: Sequence[Diagnostic]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.sentence for problem in self.problems))
        self.detail = one_line("; ".join(str(problem.origin) for problem in self.problems))

    @classmethod
    def of_file(cls, code: str, file: object, message: str, hint: str = "") -> Self:
        """Return the error for one problem of a whole file, option or variable, named by `file`."""
        return cls([Diagnostic(code, message, hint, origin=Origin(str(file)))])

    def __str__(self) -> str:
        return "\n".join(one_line(str(problem)) for problem in self.problems)


class SecretStoreError(DiscoveryError):
    code = "SECRET_STORE_ERROR"

    @classmethod
    def of_file(cls, file: object, message: str, *, hint: str = "") -> Self:
        """Return the error whose sentence begins with `file` and continues with `message`."""
        return cls(f"{file} {message}", hint=hint)


class RegistryError(DiscoveryError):
    code = "REGISTRY_ERROR"


class RegistryUnavailableError(RegistryError):
    """The database of the registry does not answer; the operation may succeed later."""

    code = "REGISTRY_UNAVAILABLE"


class RegistryTimeoutError(RegistryUnavailableError):
    """One operation took too long, perhaps waiting for a lock; others may still succeed."""

    code = "REGISTRY_TIMEOUT"


class InvalidPackageNameError(DiscoveryError):
    """A package name or version is invalid; it is passed to no program."""

    code = "PACKAGE_NAME_INVALID"


class PackageNotFoundError(NotFoundError):
    """The package manager knows no such package, no such version, or none that it may use."""

    code = "PACKAGE_NOT_FOUND"

    def __init__(self, message: str, nearest: Sequence[str] = (), *, hint: str = "") -> None:
        super().__init__(message, nearest, hint=hint)


class PackageManagerError(DiscoveryError):
    """The package manager failed, timed out, or returned output that cannot be read."""

    code = "PACKAGE_MANAGER_FAILED"


class ProgramMissingError(PackageManagerError):
    """A program that is needed is not on the PATH."""

    code = "PROGRAM_MISSING"
    program: str

    def __init__(self, program: str, *, purpose: str, hint: str) -> None:
        self.program = program
        super().__init__(f"{program} is not on the PATH; it is needed {purpose}", hint=hint)


class MarketplaceEntryNotFoundError(NotFoundError):
    code = "MARKETPLACE_ENTRY_NOT_FOUND"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        hint = "`discovery marketplace search` finds names"
        super().__init__(f"no source of the marketplace has {name!r}", nearest, hint=hint)


class MarketplaceEntryAmbiguousError(NotFoundError):
    code = "MARKETPLACE_ENTRY_AMBIGUOUS"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        """A name for each server that is not ambiguous."""
        super().__init__(f"several servers are called {name!r}", candidates)


class MarketplaceSourceNotFoundError(NotFoundError):
    code = "MARKETPLACE_SOURCE_NOT_FOUND"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        hint = "`discovery marketplace sources` lists them"
        super().__init__(f"the marketplace has no source {name!r}", nearest, hint=hint)


class MarketplaceCursorError(DiscoveryError):
    code = "MARKETPLACE_CURSOR_INVALID"

    def __init__(self) -> None:
        super().__init__(
            "the cursor is of no page of the marketplace",
            hint="take the one of the page before, or begin without one",
        )
