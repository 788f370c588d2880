from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from discovery_engine import errors
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import (
    ConfigurationError,
    DisabledError,
    DiscoveryError,
    FailureKind,
    InputRequiredError,
    InputTooLongError,
    InstallBusyError,
    InstallFailedError,
    InstallRefusedError,
    InvalidArgumentsError,
    InvalidInputError,
    InvalidPackageNameError,
    InvalidSecretError,
    LoginError,
    MarketplaceCursorError,
    MarketplaceEntryAmbiguousError,
    MarketplaceEntryNotFoundError,
    MarketplaceSourceNotFoundError,
    MissingInputsError,
    MissingValue,
    NeedsAuthError,
    NeedsConfigError,
    NotFoundError,
    NotInstalledError,
    OfferingDisabledError,
    OutcomeUnknownError,
    PackageChangedError,
    PackageManagerError,
    PackageNotFoundError,
    PlanChangedError,
    ProgramMissingError,
    PromptAmbiguousError,
    PromptDisabledError,
    PromptNotFoundError,
    RateLimitedError,
    RegistryError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    ResourceAmbiguousError,
    ResourceDisabledError,
    ResourceNotFoundError,
    SecretStoreError,
    ServerDisabledError,
    ServerNotFoundError,
    ServerStartingError,
    TaskNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    UnavailableError,
    UntrustedServerError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
    ViewNotFoundError,
    WebhookNotFoundError,
)
from tests.factories import make_problem
from tests.rows import rows

CAUGHT_ONLY = {DiscoveryError, NotFoundError, DisabledError, UpstreamError, OfferingDisabledError}

MISSING = MissingValue("env.TOKEN", "TOKEN", "${TOKEN} is not set")
STORED = MissingValue("headers.Key", "secret:KEY", "${secret:KEY} is not stored")
REFERRED = MissingValue("args.0", "file:/key", "its file is gone")

# One of each, with what an agent reads of it.
ERRORS = [
    (
        ServerNotFoundError("gihub", ["github"]),
        "server 'gihub' is not configured",
        "did you mean 'github'?; list_mcp_servers names them all",
    ),
    (
        InputRequiredError(
            "github", "a confirmation", "its client cannot be asked", hint="give all arguments"
        ),
        "server 'github' wants a confirmation, but its client cannot be asked",
        "give all arguments",
    ),
    (
        WebhookNotFoundError("op", ["ops"]),
        "no webhook 'op' is configured",
        "did you mean 'ops'?; `webhooks:` has their names",
    ),
    (
        ViewNotFoundError("revew", ["review"]),
        "the configuration has no view 'revew'",
        "did you mean 'review'?; `views:` has their names",
    ),
    (
        TaskNotFoundError(),
        "no task of this client has this id",
        "check what it has done, then call again",
    ),
    (
        ToolNotFoundError("github", "x", ["y", "z"]),
        "server 'github' has no tool 'x'",
        "did you mean 'y' or 'z'?; list_tools names a server's tools",
    ),
    (
        ToolNotFoundError(None, "x"),
        "no server has a tool 'x'",
        "list_tools names a server's tools",
    ),
    (
        RateLimitedError("server 'github'", 60, 2.34, "github"),
        "server 'github' takes at most 60 calls a minute; nothing was sent",
        "try again in 2.4 s",
    ),
    (
        ToolAmbiguousError("x", ["a:x", "b:x"]),
        "several servers have a tool 'x'",
        "did you mean 'a:x' or 'b:x'?",
    ),
    (
        ResourceNotFoundError("x:/1", ["x:/2"], server="docs"),
        "server 'docs' has no resource 'x:/1'",
        "did you mean 'x:/2'?; `resources/list` and `discovery resources` name them",
    ),
    (
        ResourceAmbiguousError("x:/1", ["x:/2", "x:/3"]),
        "several servers may have a resource 'x:/1'",
        "did you mean 'x:/2' or 'x:/3'?",
    ),
    (
        PromptNotFoundError("revew", ["review"]),
        "no server has a prompt 'revew'",
        "did you mean 'review'?; `prompts/list` and `discovery prompts` name them",
    ),
    (
        PromptAmbiguousError("x", ["a:x", "b:x"]),
        "several servers have a prompt 'x'",
        "did you mean 'a:x' or 'b:x'?",
    ),
    (
        ResourceDisabledError("docs", "x:/1", "a rule of the owner"),
        "resource 'x:/1' of server 'docs' is disabled: a rule of the owner",
        "the owner of the configuration decides this; use another one",
    ),
    (
        PromptDisabledError("docs", "x", "a change", command="discovery review docs"),
        "prompt 'x' of server 'docs' is disabled: a change",
        "its owner can look at it with `discovery review docs`; use another one until then",
    ),
    (
        ServerDisabledError("github", "enabled: false"),
        "server 'github' is disabled: enabled: false",
        "",
    ),
    (
        ToolDisabledError("github", "x", "rule 2"),
        "tool 'github:x' is disabled: rule 2",
        "the owner of the configuration decides this; use another tool",
    ),
    (
        InputTooLongError("the query", "9,000 characters", "8,192 bytes", hint="say less"),
        "the query is too long: 9,000 characters, at most 8,192 bytes",
        "say less",
    ),
    (
        InvalidArgumentsError("s", "x", ["n is missing", "m is unknown"], "x(n: integer)"),
        "arguments of 's:x' do not fit: n is missing; m is unknown",
        "it takes x(n: integer)",
    ),
    (
        InvalidSecretError.name(),
        "that is no name of a secret",
        (
            "it has letters, digits, '_', '.' and '-', and may have a server before it: "
            "GITHUB_TOKEN, github/TOKEN"
        ),
    ),
    (
        InvalidPackageNameError("'-c' is no name of an npm package", hint="type it by hand"),
        "'-c' is no name of an npm package",
        "type it by hand",
    ),
    (
        MarketplaceEntryNotFoundError("fils", ["acme/files"]),
        "no source of the marketplace has 'fils'",
        "did you mean 'acme/files'?; `discovery marketplace search` finds names",
    ),
    (
        MarketplaceEntryAmbiguousError("files", ["official:files", "npm:files"]),
        "several servers are called 'files'",
        "did you mean 'official:files' or 'npm:files'?",
    ),
    (
        MarketplaceSourceNotFoundError("offical", ["official"]),
        "the marketplace has no source 'offical'",
        "did you mean 'official'?; `discovery marketplace sources` names them all",
    ),
    (
        MarketplaceCursorError(),
        "the cursor is of no page of the marketplace",
        "take the one of the page before, or begin without one",
    ),
    (
        PackageNotFoundError("npm has no package 'fetsh'", ["fetch"]),
        "npm has no package 'fetsh'",
        "did you mean 'fetch'?",
    ),
    (
        PackageManagerError("npm did not finish within 15 s", hint="try again later"),
        "npm did not finish within 15 s",
        "try again later",
    ),
    (
        ProgramMissingError("npm", purpose="to look up npm packages", hint="install Node.js"),
        "npm is not on the PATH; it is needed to look up npm packages",
        "install Node.js",
    ),
    (
        InstallRefusedError("the entry gives npx the option '-c'", hint="write an entry by hand"),
        "the entry gives npx the option '-c'",
        "write an entry by hand",
    ),
    (
        InvalidInputError("MODE must be one of 'a', 'b'"),
        "MODE must be one of 'a', 'b'",
        "",
    ),
    (
        MissingInputsError("files", ["KEY", "FOLDER"], ["KEY"]),
        "server 'files' requires KEY, FOLDER",
        "repeat the command with --with FOLDER=… --secret KEY",
    ),
    (
        PackageChangedError("files@1.0.0", "sha512-a", "sha512-b"),
        "files@1.0.0 has other content than when it was pinned: sha512-b, not sha512-a",
        "do not use it; ask its publisher. A version that was published is not supposed to change",
    ),
    (
        PlanChangedError("installing 'files'"),
        "installing 'files' would now change something else than what was shown",
        "look at the plan again, and accept its digest",
    ),
    (
        InstallFailedError("files@1.0.0 cannot be installed", hint="free some space"),
        "files@1.0.0 cannot be installed",
        "free some space",
    ),
    (
        InstallBusyError(),
        "another process is installing a server",
        "wait for it to end, then try again",
    ),
    (
        NotInstalledError("server 'a' was not installed from the marketplace", ["b"]),
        "server 'a' was not installed from the marketplace",
        "did you mean 'b'?; `discovery list --installed` names those that were installed",
    ),
    (
        NeedsConfigError("a", [STORED, MISSING], Origin("/d.yaml", 3, 5)),
        (
            "server 'a' is unavailable: headers.Key: ${secret:KEY} is not stored; "
            "env.TOKEN: ${TOKEN} is not set"
        ),
        "`discovery secrets set` asks for them; or `export TOKEN=…` where discovery is started",
    ),
    (
        UnavailableError("github", FailureKind.REFUSED, "nobody listens", hint="start it"),
        "server 'github' is unavailable: nobody listens",
        "start it",
    ),
    (
        NeedsConfigError("github", [MISSING, REFERRED], Origin("/d.yaml", 3, 5)),
        "server 'github' is unavailable: env.TOKEN: ${TOKEN} is not set; args.0: its file is gone",
        "`discovery secrets set` asks for it; or `export TOKEN=…` where discovery is started",
    ),
    (
        NeedsAuthError("github", "it answered 401"),
        "server 'github' is unavailable: it answered 401",
        "check the credentials in headers of server 'github'",
    ),
    (
        ToolWithheldError("github", "x", "a change", command="discovery review github"),
        "tool 'github:x' is disabled: a change",
        "its owner can look at it with `discovery review github`; use another tool until then",
    ),
    (
        UntrustedServerError("github", "untrusted", "see /d.yaml:1:1"),
        "server 'github' is unavailable: the owner has not approved it yet",
        "`discovery trust` shows what would be started and asks for approval",
    ),
    (
        UntrustedServerError("github", "altered", "args of its entry changed"),
        "server 'github' is unavailable: what would be started now is not what was approved",
        "`discovery trust` shows what would be started and asks for approval",
    ),
    (
        UntrustedServerError("github", "unpinned"),
        "server 'github' is unavailable: the lock file does not pin it as its entry is now",
        "`discovery lock --check` shows its owner the difference",
    ),
    (
        ServerStartingError("github", 12.9),
        "server 'github' is starting, 12 s: its tools are not known yet",
        "it goes on starting; try again in a few seconds",
    ),
    (
        ServerStartingError("github", None),
        "server 'github' is starting: its tools are not known yet",
        "it goes on starting; try again in a few seconds",
    ),
    (
        UpstreamTimeoutError("github", "'x'", 2.50),
        "server 'github' did not finish 'x' within 2.5 s",
        "raise `timeouts` of server 'github' if this is expected",
    ),
    (
        OutcomeUnknownError("github", "x", "lost"),
        "server 'github' went away during 'x' (lost): whether the work was done is unknown",
        "check the effect before calling again; it was not sent a second time",
    ),
    (
        UpstreamProtocolError("github", "no", -32603),
        "server 'github' answered error -32603: \"no\"",
        "",
    ),
    (
        UpstreamProtocolError("github", "no", 0),
        "server 'github' answered an error: \"no\"",
        "",
    ),
    (
        UpstreamProtocolError("github", "it is null"),
        "server 'github' sent an unusable answer: it is null",
        "",
    ),
    (RegistryError("it is locked", hint="wait"), "it is locked", "wait"),
    (RegistryUnavailableError("it is gone", hint="wait"), "it is gone", "wait"),
    (RegistryTimeoutError("it is slow", hint="again"), "it is slow", "again"),
    (
        LoginError("files", "it was refused", hint="again"),
        "the login to server 'files' failed: it was refused",
        "again",
    ),
    (SecretStoreError.of_file("f", "is gone", hint="wait"), "f is gone", "wait"),
]


def family(error: type[DiscoveryError]) -> Iterator[type[DiscoveryError]]:
    yield error
    for child in error.__subclasses__():
        yield from family(child)


def raised_here() -> list[type[DiscoveryError]]:
    return [error for error in of_package() if error not in CAUGHT_ONLY]


def of_package() -> list[type[DiscoveryError]]:
    package = f"{errors.__name__}."
    return [e for e in family(DiscoveryError) if e.__module__.startswith(package)]


def test_the_package_draws_the_tree_of_its_errors() -> None:
    lines = re.findall(r"^    ([│├└─ ]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    branch = ["Exception"]
    drawn = {}
    for stem, name in lines:
        branch = [*branch[: 1 + len(stem) // 4], name]
        drawn[name] = branch[-2]

    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in of_package()}


@pytest.mark.requirement("ERR-1")
def test_the_code_of_every_error_is_its_own() -> None:
    codes = [error.code for error in raised_here()]

    assert len(codes) == len(set(codes))


@rows(
    ("error", "message", "hint"),
    [pytest.param(*row, id=f"{type(row[0]).__name__}-{i}") for i, row in enumerate(ERRORS)],
)
def test_an_error_says_what_is_wrong_and_what_to_do(
    error: DiscoveryError, message: str, hint: str
) -> None:
    assert (str(error), error.message, error.hint) == (message, message, hint)


def test_every_error_has_its_words_checked_here() -> None:
    shown = {type(error) for error, _, _ in ERRORS}

    assert shown == set(raised_here()) - {ConfigurationError}


@pytest.mark.requirement("ERR-2")
@rows(
    ("error", "facts"),
    [
        pytest.param(
            ServerNotFoundError("x", ["y"]), {"server": "x", "nearest": ("y",)}, id="server"
        ),
        pytest.param(
            ToolNotFoundError("s", "x", ["y"]),
            {"server": "s", "tool": "x", "nearest": ("y",)},
            id="tool",
        ),
        pytest.param(
            ToolAmbiguousError("x", ["a:x"]), {"tool": "x", "nearest": ("a:x",)}, id="ambiguous"
        ),
        pytest.param(
            InvalidArgumentsError("s", "x", ["m"], "x()"),
            {"tool": "x", "mistakes": ("m",), "signature": "x()"},
            id="arguments",
        ),
        pytest.param(ToolDisabledError("s", "x", "r"), {"server": "s", "tool": "x"}, id="disabled"),
        pytest.param(
            UnavailableError("s", FailureKind.EXITED, "r", stderr="boom"),
            {"server": "s", "kind": "exited", "reason": "r", "stderr": "boom"},
            id="unavailable",
        ),
        pytest.param(
            NeedsConfigError("s", [MISSING, REFERRED], Origin("/d.yaml", 3, 5)),
            {
                "server": "s",
                "kind": "needs_config",
                "missing": (MISSING, REFERRED),
                "detail": "${file:/key}; see /d.yaml:3:5",
            },
            id="needs config",
        ),
        pytest.param(NeedsAuthError("s", "r"), {"server": "s", "kind": "auth"}, id="needs auth"),
        pytest.param(
            UpstreamTimeoutError("s", "w", 3.0), {"server": "s", "seconds": 3.0}, id="timeout"
        ),
        pytest.param(
            UpstreamProtocolError("s", "m", -32603),
            {"server": "s", "rpc_code": -32603},
            id="protocol",
        ),
    ],
)
def test_an_error_keeps_its_facts(error: DiscoveryError, facts: dict[str, object]) -> None:
    assert {name: getattr(error, name) for name in facts} == facts


def test_a_configuration_error_reports_every_problem_on_its_own_line() -> None:
    one = make_problem(Origin("a.yaml", 3, 5), "servers.x", "is empty", "give it a command")
    other = make_problem(Origin("a.yaml"), "", "is not YAML")

    error = ConfigurationError([one, other])

    assert error.problems == (one, other)
    assert str(error).splitlines() == [
        "a.yaml:3:5: servers.x: is empty [CONFIG_INVALID_VALUE] (give it a command)",
        "a.yaml: is not YAML [CONFIG_INVALID_VALUE]",
    ]


@pytest.mark.requirement("HEA-18")
@rows("kind", FailureKind)
def test_every_kind_of_failure_has_a_next_step_that_does_not_try_the_same_again(
    kind: FailureKind,
) -> None:
    error = UnavailableError("git", kind, "it failed")

    assert error.hint
    assert "discovery refresh" not in error.hint
    assert "{" not in error.hint
