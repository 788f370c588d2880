"""Codes of all errors and diagnostics, with their severity and meaning.

The table is shown in `specs/errors.md`, which `make format` writes from here. A code is never
given another meaning; one that is no longer used is removed, and the change log says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]
"""`error`: something cannot be used. `warning`: the owner should act. `info`: nothing is wrong."""

Row: TypeAlias = tuple[Severity | None, str]
"""Severity and meaning. Without a severity, each diagnostic has its own."""

# By the part that a code is about; the titles are headings of the page.
FAMILIES: Mapping[str, Mapping[str, Row]] = {
    "Requests": {
        "SERVER_NOT_FOUND": ("error", "no server of that name"),
        "VIEW_NOT_FOUND": ("error", "the configuration has no view of that name"),
        "WEBHOOK_NOT_FOUND": ("error", "the configuration has no webhook of that name"),
        "TOOL_NOT_FOUND": ("error", "no tool of that name"),
        "TOOL_AMBIGUOUS": ("error", "several servers have a tool of that name"),
        "RESOURCE_NOT_FOUND": ("error", "no resource has that URI"),
        "RESOURCE_AMBIGUOUS": ("error", "several servers may have a resource of that URI"),
        "PROMPT_NOT_FOUND": ("error", "no prompt of that name"),
        "PROMPT_AMBIGUOUS": ("error", "several servers have a prompt of that name"),
        "INPUT_TOO_LONG": ("error", "a query, a name or a list exceeds its limit"),
        "INVALID_ARGUMENTS": ("error", "the arguments do not fit the tool's schema"),
        "VALIDATION_ERROR": ("error", "the arguments of a meta-tool do not fit"),
        "TOOL_NEEDS_INPUT": (
            "error",
            "a tool asked its user something during a call, and got no answer",
        ),
        "RESULT_NOT_FOUND": (
            "error",
            "no result is kept under this handle for this client; results are kept for an hour",
        ),
        "TASK_NOT_FOUND": (
            "error",
            "the client has no task of that id, or the server has forgotten it",
        ),
        "CALL_CANCELLED": ("error", "a call over the API was cancelled before it had ended"),
        "INVALID_REQUEST": ("error", "a request to the API is not as its description says"),
        "UNAUTHORIZED": (
            "error",
            "a request to the API has no token, an empty one, or one that is not valid",
        ),
        "SCOPE_MISSING": (
            "error",
            "the token of a request to the API has not the scope that is `needed`",
        ),
        "TOKEN_LIMITED": (
            "error",
            "the token is limited to a view, servers or tools, and `/metrics` names all of them",
        ),
        "ORIGIN_REFUSED": (
            "error",
            "`Host` is no name of this gateway, or `Origin` is a page of another site",
        ),
        "PLAN_CHANGED": (
            "error",
            "what was accepted is not what would be done now; nothing was done",
        ),
        "NOT_ALLOWED": (
            "error",
            "an agent asked `registry` for what the owner has not switched on",
        ),
        "REQUEST_REFUSED": (
            "error",
            "a request of an agent is too long, or too many wait for the owner",
        ),
        "REQUEST_NOT_FOUND": ("error", "no request of an agent of that id waits"),
        "PRESET_REFUSED": (
            "error",
            "arguments that are to be kept under a name hold a secret, or are too long",
        ),
        "INVALID_QUERY": ("error", "a `select` or a path is not JMESPath, or takes too much work"),
        "INVALID_SCRIPT": ("error", "the code of `execute_script` is no Python, or too long"),
        "INVALID_STEPS": ("error", "the steps of `execute_steps` cannot be carried out as written"),
        "USAGE_ERROR": (
            "error",
            "a command, an option or an argument of the command line is wrong",
        ),
        "INTERRUPTED": ("error", "the command was interrupted"),
        "UNEXPECTED_ERROR": ("error", "a defect of this program"),
    },
    "Servers": {
        "SERVER_DISABLED": ("info", "switched off in the configuration"),
        "SERVER_UNTRUSTED": ("error", "its owner has not approved its start"),
        "SERVER_EXTENSION_UNKNOWN": (
            "warning",
            "a server declares an extension of the protocol that is not passed on",
        ),
        "SERVER_STARTING": ("info", "the server is still starting; nothing was sent"),
        "RATE_LIMITED": (
            "error",
            "the calls of a minute that are allowed are used up; nothing was sent",
        ),
        "NOT_RECORDED": (
            "error",
            "with `serve --replay`, no recording has this request or its template",
        ),
        "RECORDING_ERROR": ("error", "a folder of recordings cannot be read or written"),
        "SERVER_CONNECTION_ERROR": ("error", "the server cannot be reached"),
        "SERVER_NEEDS_CONFIG": ("error", "a reference has no value, or the entry is invalid"),
        "SERVER_NEEDS_AUTH": ("error", "the server requires a login, or refuses the given one"),
        "LOGIN_FAILED": ("error", "a login failed; nothing was stored"),
        "TOOL_EXECUTION_TIMEOUT": ("error", "the server did not answer in time"),
        "TOOL_OUTCOME_UNKNOWN": (
            "error",
            "the connection was lost during a call, which was not sent again",
        ),
        "TOOL_EXECUTION_ERROR": ("error", "the server answered with a protocol error"),
    },
    "Configuration": {
        "CONFIGURATION_ERROR": (
            "error",
            "the configuration cannot be used; every problem is listed with a code of its own",
        ),
        "CONFIG_UNREADABLE": (
            "error",
            "the file is not there, cannot be read, or is not UTF-8 text",
        ),
        "CONFIG_MISNAMED": ("warning", "a file that is nearly called `discovery.yaml` is not read"),
        "CONFIG_SYNTAX": (
            "error",
            "it is not valid YAML, or uses what is not allowed: anchors, aliases, tags",
        ),
        "CONFIG_DUPLICATE": ("error", "a key or a name is given twice"),
        "CONFIG_UNKNOWN_KEY": ("error", "a key is not known"),
        "CONFIG_MISSING_KEY": ("error", "a required key is missing"),
        "CONFIG_INVALID_VALUE": ("error", "a value has another type, or is not allowed"),
        "CONFIG_NOT_EDITED": ("error", "the file cannot be changed as requested; it is as it was"),
        "CONFIG_EXPOSED": (
            "warning",
            "others may write to the file or its folder, so it is not trusted",
        ),
        "CONFIG_RESTRICTED": ("warning", "a value does not count, because the file is not trusted"),
        "CONFIG_REJECTED": (
            "error",
            "the changed configuration has errors; the last valid one is used",
        ),
        "CONFIG_SWITCHED_OFF": ("warning", "`enabled: false` disables every server"),
        "CONFIG_NO_SERVERS": ("warning", "there is no configuration, or it names no server"),
    },
    "Sources": {
        "SOURCE_UNKNOWN": ("warning", "no such type of source"),
        "SOURCE_UNREADABLE": ("warning", "a client's file, or a part of it, cannot be read"),
        "SOURCE_EMPTY": ("warning", "a source has no file or no servers"),
        "SOURCE_ENTRY_INVALID": (
            "error",
            "an entry of a client's file is not usable; its server is not connected",
        ),
        "SOURCE_ENTRY_NOTE": (
            "warning",
            "something in an entry has another effect here than in the client",
        ),
        "SOURCE_ITSELF": (
            "info",
            "an entry starts or reaches this program itself, and is left out",
        ),
        "SOURCE_DUPLICATE": (
            "warning",
            "an entry describes a server that is known already, and is left out",
        ),
        "SOURCE_RENAMED": (
            "warning",
            "a server has another name here, because its own is taken or not usable",
        ),
    },
    "Rules and overrides": {
        "RULE_UNMATCHED": ("warning", "a rule matches no tool of the catalog"),
        "RULE_SHADOWED": ("warning", "earlier rules decide all that a rule matches"),
        "RULE_CONTRADICTED": (
            "warning",
            "earlier rules decide all that a rule matches, at least one the other way",
        ),
        "RULE_PATTERN_SLOW": (
            "warning",
            "a pattern exceeded its time limit on a name; a deny rule then counts as a match",
        ),
        "OVERRIDE_UNMATCHED": ("warning", "an override matches no tool of the catalog"),
        "OVERRIDE_PATTERN_SLOW": ("warning", "a pattern exceeded its time limit on a name"),
        "OVERRIDE_NAME_TAKEN": (
            "warning",
            "an override gives a name that another tool of the server has; it is not used",
        ),
        "OVERRIDE_ARGUMENT_UNKNOWN": (
            "warning",
            "an override pins an argument that the tool does not take",
        ),
        "OVERRIDE_VALUE_UNSET": ("error", "a reference in a pinned argument has no value"),
        "ENRICH_VALUE_UNSET": ("error", "a reference in `enrich` has no value"),
    },
    "Tools": {
        "TOOL_DISABLED": ("info", "switched off by a rule, which is named"),
        "RESOURCE_DISABLED": (
            "info",
            "switched off by a rule, which is named, or withheld until its owner has reviewed it",
        ),
        "PROMPT_DISABLED": (
            "info",
            "switched off by a rule, which is named, or withheld until its owner has reviewed it",
        ),
        "TOOL_WITHHELD": (
            "warning",
            "withheld until its owner has reviewed its current definition",
        ),
        "TOOL_UNUSABLE": (
            "error",
            "a server lists what cannot be used (without a name, too large); it is left out",
        ),
        "TOOL_SCHEMA_COSTLY": (
            "warning",
            "a schema is too costly to check; arguments may be sent unchecked",
        ),
        "DEFINITION_INVALID": (
            "info",
            "members of a definition are not valid by the protocol; clients get it without them",
        ),
        "TOOL_CONFUSABLE": ("info", "several tools can hardly be distinguished"),
        "TOOL_NAME_CROWDED": ("info", "more tools have the same name than an answer shows"),
        "TOOL_UNDESCRIBED": ("info", "the description is empty, or says no more than the name"),
        "OFFERING_UNDESCRIBED": (
            "info",
            "resources, templates or prompts of a server have no description",
        ),
        "PROMPT_ARGUMENTS_UNDESCRIBED": (
            "info",
            "required arguments of a prompt have no description",
        ),
        "TOOL_UNFINDABLE": ("info", "a search for its own summary does not find the tool"),
        "TOOL_ARGUMENTS_UNDESCRIBED": ("info", "required arguments have no description"),
        "TOOL_SCHEMA_LARGE": (
            "info",
            "the schema takes many tokens whenever the tool is inspected",
        ),
    },
    "Texts of servers": {
        "TEXT_HIDDEN": (None, "invisible characters, or such that control a terminal"),
        "TEXT_INSTRUCTION": (
            None,
            "instructions to a model, against the user or without their knowledge",
        ),
        "TEXT_CROSS_SERVER": (None, "instructions about the tools of another server"),
        "TEXT_PAYLOAD": (None, "encoded text that decodes to a command or to one of the others"),
        "TEXT_EXFILTRATION": (None, "a request for files, secrets or conversations"),
        "TEXT_SECRET": (None, "a credential in plain text"),
        "TEXT_LOOKALIKE": (None, "a name that resembles a tool of another server"),
    },
    "Answers": {
        "ANSWER_FILTERED": (
            "info",
            "tools fit, but not within the requested server, tags or relevance",
        ),
        "ANSWER_NO_MATCH": ("info", "no tool fits"),
        "ANSWER_INCOMPLETE": (
            "warning",
            "some tools are not known, or not indexed yet, so one that fits may be missing",
        ),
        "ANSWER_UNKNOWN": ("warning", "no tool of the servers in question is known yet"),
        "ANSWER_NO_TOOLS": ("info", "no server in question has an enabled tool"),
        "ENRICHMENT_ERROR": (
            "error",
            "the language model that writes typical requests cannot be used",
        ),
        "EMBEDDING_ERROR": (
            "warning",
            "search by meaning is configured and failed; words alone were used",
        ),
        "RERANKER_ERROR": (
            "warning",
            "the reranker cannot be used; tools are in the order that the search found",
        ),
        "MODEL_ERROR": ("error", "the model for search by meaning cannot be installed or removed"),
        "MODEL_MISSING": (
            "error",
            "`provider: discovery` is configured, and no model is installed",
        ),
        "CALIBRATION_STALE": (
            "warning",
            "what `discovery tune calibrate` fitted no longer suits the tools or the search",
        ),
        "EXTRA_MISSING": (
            "error",
            "a library is not installed that only an extra of the package brings",
        ),
        "SANDBOX_UNAVAILABLE": (
            "warning",
            "`sandbox: auto` found nothing to confine programs with, so they run without",
        ),
    },
    "Marketplace": {
        "MARKETPLACE_ENTRY_NOT_FOUND": ("error", "no source of the marketplace has that name"),
        "MARKETPLACE_ENTRY_AMBIGUOUS": (
            "error",
            "several servers of the marketplace have that name; they are named with their source",
        ),
        "MARKETPLACE_SOURCE_NOT_FOUND": ("error", "no source of the marketplace is called that"),
        "MARKETPLACE_CURSOR_INVALID": ("error", "a cursor is of no page of results"),
        "MARKETPLACE_NO_SOURCES": (
            "warning",
            "`marketplace.sources` is empty, or all of it is disabled, so that nothing is found",
        ),
        "MARKETPLACE_SOURCE_UNAVAILABLE": (
            "warning",
            "a source of the marketplace cannot be asked; what was copied before is used",
        ),
        "MARKETPLACE_SOURCE_INVALID": (
            "warning",
            "a source answers with what is no marketplace; what was copied before is used",
        ),
        "MARKETPLACE_LIST_INVALID": (
            "warning",
            "a list of the owner has a mistake; the entry it is in is left out",
        ),
        "MARKETPLACE_ENTRIES_LEFT_OUT": (
            "info",
            "entries of a source cannot be read; all others are used",
        ),
        "MARKETPLACE_COPY_INCOMPLETE": (
            "warning",
            "a source was not copied, or not to its end; the rest of it is not found",
        ),
        "MARKETPLACE_STORE_FAILED": (
            "warning",
            "the copy of a source cannot be written; what was copied before is used",
        ),
        "OFFER_LOOKALIKE": (
            "warning",
            "the name of a package may be mistaken for a well-known one, which is named",
        ),
        "OFFER_NEW": ("warning", "the server, or this version of it, was published only lately"),
        "OFFER_DEPRECATED": ("warning", "its publisher has deprecated or withdrawn it"),
        "OFFER_NO_REPOSITORY": ("warning", "it names no repository, so its source cannot be read"),
        "OFFER_UNREVIEWED": ("info", "no source that lists it has reviewed it"),
        "OFFER_REFUSED": ("warning", "one of its packages or addresses cannot be used"),
        "OFFER_UNRELATED": (
            "warning",
            "nothing in the name and description of a package says that it is an MCP server",
        ),
        "OFFER_MISSING": (
            "warning",
            "a package manager knows no such package, or no such version of it",
        ),
        "OFFER_OTHER_REPOSITORY": ("warning", "a package names another repository than the entry"),
        "OFFER_OTHER_REGISTRY": (
            "warning",
            "a package is meant to come from another registry than your package manager asks",
        ),
    },
    "Packages": {
        "PACKAGE_NAME_INVALID": (
            "error",
            "no package can have that name or version; foreign letters are shown as code points",
        ),
        "PACKAGE_NOT_FOUND": (
            "error",
            "the package manager knows no such package, or no such version of it",
        ),
        "PACKAGE_MANAGER_FAILED": (
            "error",
            "npm, pip or uv failed, took too long, or returned what cannot be read",
        ),
        "PROGRAM_MISSING": ("error", "a program that is needed is not on the PATH"),
        "INSTALL_REFUSED": (
            "error",
            "what an entry of the marketplace asks for is unsafe, or cannot be run here",
        ),
        "INSTALL_INPUT_INVALID": (
            "error",
            "a value for an installation does not fit, or nothing asks for it",
        ),
        "INSTALL_INPUT_MISSING": ("error", "values that a server requires were not given"),
        "INSTALL_FAILED": (
            "error",
            "a package could not be fetched, unpacked or prepared; nothing was installed",
        ),
        "INSTALL_BUSY": ("error", "another process, or another request, is installing a server"),
        "PACKAGE_CHANGED": ("error", "a version of a package has other content than before"),
        "NOT_INSTALLED": (
            "error",
            "the server was not installed from the marketplace, or has no earlier version",
        ),
    },
    "Registry and lock file": {
        "SECRET_STORE_ERROR": ("error", "stored secrets cannot be read, decrypted or written"),
        "INVALID_SECRET": ("error", "no secret can be stored under that name, or with that value"),
        "REGISTRY_ERROR": ("error", "the registry cannot be read or written"),
        "REGISTRY_UNAVAILABLE": (
            "error",
            "the database of the registry does not answer; the last known catalog is in use",
        ),
        "REGISTRY_TIMEOUT": (
            "error",
            "one operation of the database of the registry took too long; others may work",
        ),
        "REGISTRY_ADVICE": (
            "warning",
            "the database of the registry works, but could be set up better",
        ),
        "CALL_LOG_ERROR": (
            "error",
            "the call log cannot be read or written; calls go on without it",
        ),
        "CALL_LOG_LOSSES": ("warning", "entries of the call log could not be written"),
        "DATA_EXPOSED": (
            "error",
            "others may write to the data folder, and so replace approvals, tokens and secrets",
        ),
        "REGISTRY_EXPOSED": ("error", "other users can read the registry"),
        "REGISTRY_LOST": (
            "error",
            "earlier decisions of the owner were lost; unaccepted tools are withheld",
        ),
        "REGISTRY_EMPTY": ("warning", "no server was listed yet"),
        "REGISTRY_OUTDATED": ("warning", "the known tools are older than `cache.ttl`"),
        "LOCK_UNUSABLE": ("error", "the lock file cannot be read, written or checked"),
        "LOCK_ADDED": ("warning", "a server or tool is not in the lock file"),
        "LOCK_REMOVED": ("warning", "a server or tool of the lock file is no longer there"),
        "LOCK_CHANGED": ("warning", "a server or tool differs from the lock file"),
    },
    "Set-up": {
        "CHECK_PASSED": ("info", "a check of `discovery doctor` found nothing to do"),
        "PYTHON_UNSUPPORTED": ("error", "this Python is too old"),
        "SECRET_VISIBLE": (
            "warning",
            "a stored secret stands in an argument, which other programs of this machine can see",
        ),
        "CLIENTS_UNUSED": ("info", "files of other clients are there and not used"),
        "WEBHOOK_UNUSABLE": (
            "error",
            "nothing can be sent to a webhook: its secret or address has no value that can be used",
        ),
        "WEBHOOK_UNDELIVERED": (
            "error",
            "a webhook did not take events for days, or its receiver said that it is gone",
        ),
        "WEBHOOK_FAILING": (
            "warning",
            "a webhook does not take events at the moment; they are sent again",
        ),
        "SERVERS_GIVEN_UP": ("error", "workers list a server no more, as it failed for days"),
        "REFRESHES_OVERDUE": (
            "warning",
            "servers are due to be listed, and no worker takes them, or too few do",
        ),
        "CLOCK_WRONG": ("warning", "the clock of this machine is not that of the registry"),
        "PRINCIPAL_WITHOUT_TOKEN": (
            "warning",
            "something is reserved for a team or user for whom no access token stands",
        ),
    },
    "Serving and evaluating": {
        "SERVE_TOKEN_INVALID": (
            "error",
            "the bearer token cannot be used, or its file is not private",
        ),
        "SERVE_NAME_INVALID": ("error", "the name of the gateway cannot be part of a header"),
        "SERVE_TLS_INVALID": (
            "error",
            "the certificate or its key is missing, expired, of another kind or of another one",
        ),
        "PAGE_NOT_SERVED": ("error", "no gateway with a page was started with the data folder"),
        "TOKEN_NOT_FOUND": ("error", "no access token of that id or name"),
        "SERVE_UNPROTECTED": (
            "error",
            "the address could be reached by others without protection; nothing is served",
        ),
        "SERVE_ADDRESS_UNAVAILABLE": ("error", "the address or port is not available"),
        "QUERY_FILE_EMPTY": ("error", "a file of queries has no query"),
        "QUERY_UNANSWERABLE": ("error", "a query expects a tool that no agent can find"),
        "BASELINE_INVALID": ("error", "a saved evaluation cannot be read"),
    },
}

CODES: Mapping[str, Row] = {
    code: row for family in FAMILIES.values() for code, row in family.items()
}


def cure_of(code: str) -> str:
    """Return what a user should do about a code."""
    import tomllib  # noqa: PLC0415 - only `discovery why CODE` needs it

    file = Path(__file__).with_name("cures.toml")
    return str(tomllib.loads(file.read_text("utf-8"))[code])


def severity_of(code: str) -> Severity:
    severity = CODES[code][0]
    if severity is None:
        raise LookupError(f"each diagnostic {code!r} has a severity of its own")
    return severity
