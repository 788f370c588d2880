"""Every code of an error or a diagnostic: its severity, its meaning, and what to do about it.

The table is shown in `specs/errors.md`, which `make format` writes from here. A code is never
given another meaning; one that is no longer used is removed, and the change log says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from discovery_engine.diagnostics import Severity

Row: TypeAlias = tuple[Severity | None, str, str]
"""Severity, meaning, what to do. Without a severity, each diagnostic has its own."""

# By the part that a code is about; the titles are headings of the page.
FAMILIES: Mapping[str, Mapping[str, Row]] = {
    "Requests": {
        "SERVER_NOT_FOUND": (
            "error",
            "no server of that name; the nearest are named",
            "use one of them, or `discovery list`",
        ),
        "VIEW_NOT_FOUND": (
            "error",
            "the configuration has no view of that name; the nearest are named",
            "use one of them, or add it under `views:`",
        ),
        "WEBHOOK_NOT_FOUND": (
            "error",
            "the configuration has no webhook of that name; the nearest are named",
            "use one of them, or add it under `webhooks:`",
        ),
        "TOOL_NOT_FOUND": (
            "error",
            "no tool of that name; the nearest are named",
            "use one of them, or `discovery search`",
        ),
        "TOOL_AMBIGUOUS": (
            "error",
            "several servers have a tool of that name; they are named",
            "name the server, too: `server:tool`",
        ),
        "RESOURCE_NOT_FOUND": (
            "error",
            "no resource has that URI; the nearest are named",
            "use one of them, or `discovery resources`",
        ),
        "RESOURCE_AMBIGUOUS": (
            "error",
            "several servers may have a resource of that URI; its addresses are named",
            "use one of these",
        ),
        "PROMPT_NOT_FOUND": (
            "error",
            "no prompt of that name; the nearest are named",
            "use one of them, or `discovery prompts`",
        ),
        "PROMPT_AMBIGUOUS": (
            "error",
            "several servers have a prompt of that name; they are named",
            "name the server, too: `server:prompt`",
        ),
        "INPUT_TOO_LONG": (
            "error",
            "a query, a name or a list exceeds its limit; both lengths are given",
            "shorten it",
        ),
        "INVALID_ARGUMENTS": (
            "error",
            "the arguments do not fit the tool's schema; the signature is given",
            "correct the named arguments",
        ),
        "VALIDATION_ERROR": (
            "error",
            "the arguments of a meta-tool do not fit",
            "correct the named arguments",
        ),
        "TOOL_NEEDS_INPUT": (
            "error",
            "a tool asked its user something during a call, and got no answer",
            "pass what it asks for as an argument, or call it where its user can be asked",
        ),
        "RESULT_NOT_FOUND": (
            "error",
            "no result is kept under this handle for this client; results are kept for an hour",
            "call the tool again",
        ),
        "TASK_NOT_FOUND": (
            "error",
            "the client has no task of that id, or the server has forgotten it",
            "check what it has done, then call the tool again",
        ),
        "CALL_CANCELLED": (
            "error",
            "a call over the API was cancelled before it had ended",
            "check what it has done, then call the tool again",
        ),
        "INVALID_REQUEST": (
            "error",
            "a request to the API is not as its description says",
            "`GET /api/openapi.json` describes every route",
        ),
        "UNAUTHORIZED": (
            "error",
            "a request to the API has no token, an empty one, or one that is not valid",
            "send a valid one as `Authorization: Bearer TOKEN`",
        ),
        "SCOPE_MISSING": (
            "error",
            "the token of a request to the API has not the scope that is `needed`",
            "`discovery token create --scope SCOPE` makes one that has it",
        ),
        "TOKEN_LIMITED": (
            "error",
            "the token is limited to a view, servers or tools, and `/metrics` names all of them",
            "use one without limits",
        ),
        "ORIGIN_REFUSED": (
            "error",
            "`Host` is no name of this gateway, or `Origin` is a page of another site",
            "use the address of the gateway; `--allowed-host` adds a name",
        ),
        "PLAN_CHANGED": (
            "error",
            "what was accepted is not what would be done now; nothing was done",
            "look at the plan again, and accept its digest",
        ),
        "NOT_ALLOWED": (
            "error",
            "an agent asked `registry` for what the owner has not switched on",
            "the owner does it, or sets `server.registryTool`",
        ),
        "REQUEST_REFUSED": (
            "error",
            "a request of an agent is too long, or too many wait for the owner",
            "decide what waits: `discovery requests`",
        ),
        "REQUEST_NOT_FOUND": (
            "error",
            "no request of an agent of that id waits; the nearest are named",
            "use one that `discovery requests` lists",
        ),
        "PRESET_REFUSED": (
            "error",
            "arguments that are to be kept under a name hold a secret, or are too long",
            "leave out what the message names",
        ),
        "INVALID_QUERY": (
            "error",
            "a `select` or a path is not JMESPath, or takes too much work",
            "correct it at the given position",
        ),
        "INVALID_STEPS": (
            "error",
            "the steps of `execute_steps` cannot be carried out as written",
            "correct the named step",
        ),
        "USAGE_ERROR": (
            "error",
            "a command, an option or an argument of the command line is wrong",
            "`discovery COMMAND --help` shows the options",
        ),
        "INTERRUPTED": ("error", "the command was interrupted", "run it again"),
        "UNEXPECTED_ERROR": (
            "error",
            "a defect of this program",
            "run it again with `-v` and report the traceback",
        ),
    },
    "Servers": {
        "SERVER_DISABLED": (
            "info",
            "switched off in the configuration; the rule is named",
            "nothing, or change `enabled` or the rule",
        ),
        "SERVER_UNTRUSTED": (
            "error",
            "its owner has not approved its start",
            "`discovery trust`, or `discovery lock --check` with a lock file",
        ),
        "SERVER_STARTING": (
            "info",
            "the server is still starting; nothing was sent",
            "try again in a few seconds; `discovery refresh` waits for it",
        ),
        "RATE_LIMITED": (
            "error",
            "the calls of a minute that are allowed are used up; nothing was sent",
            "try again after the time that is given, or raise `limits.callsPerMinute`",
        ),
        "NOT_RECORDED": (
            "error",
            "with `serve --replay`, no recording has this request or its template",
            "record it with `discovery serve --record DIR`",
        ),
        "RECORDING_ERROR": (
            "error",
            "a folder of recordings cannot be read or written",
            "correct the named file, or record again",
        ),
        "SERVER_CONNECTION_ERROR": (
            "error",
            "the server cannot be reached; the kind of failure is named",
            "follow the hint; `discovery health SERVER` shows its stderr",
        ),
        "SERVER_NEEDS_CONFIG": (
            "error",
            "a reference has no value, or the entry is invalid; the field is named",
            "`export` the named variable, or correct the entry",
        ),
        "SERVER_NEEDS_AUTH": (
            "error",
            "the server requires a login, or refuses the given one",
            "`discovery login SERVER`, or correct the credentials in its `headers`",
        ),
        "LOGIN_FAILED": (
            "error",
            "a login failed; nothing was stored",
            "follow the hint and run `discovery login SERVER` again",
        ),
        "TOOL_EXECUTION_TIMEOUT": (
            "error",
            "the server did not answer in time",
            "raise its `timeouts` if this is expected",
        ),
        "TOOL_OUTCOME_UNKNOWN": (
            "error",
            "the connection was lost during a call, which was not sent again",
            "check the effect before you call again",
        ),
        "TOOL_EXECUTION_ERROR": (
            "error",
            "the server answered with a protocol error",
            "read its message; only its author can correct it",
        ),
    },
    "Configuration": {
        "CONFIGURATION_ERROR": (
            "error",
            "the configuration cannot be used; every problem is listed with a code of its own",
            "correct every listed problem",
        ),
        "CONFIG_UNREADABLE": (
            "error",
            "the file is not there, cannot be read, or is not UTF-8 text",
            "correct the path or the file; `discovery init` writes one",
        ),
        "CONFIG_MISNAMED": (
            "warning",
            "a file that is nearly called `discovery.yaml` is not read",
            "rename it, or name it with `--config`",
        ),
        "CONFIG_SYNTAX": (
            "error",
            "it is not valid YAML, or uses what is not allowed: anchors, aliases, tags",
            "correct the line that is shown",
        ),
        "CONFIG_DUPLICATE": (
            "error",
            "a key or a name is given twice",
            "keep one of the two",
        ),
        "CONFIG_UNKNOWN_KEY": (
            "error",
            "a key is not known; the nearest is named",
            "correct its spelling, or remove it",
        ),
        "CONFIG_MISSING_KEY": ("error", "a required key is missing", "add it"),
        "CONFIG_INVALID_VALUE": (
            "error",
            "a value has another type, or is not allowed",
            "write what the message asks for",
        ),
        "CONFIG_NOT_EDITED": (
            "error",
            "the file cannot be changed as requested; it is as it was",
            "follow the hint and try again",
        ),
        "CONFIG_EXPOSED": (
            "warning",
            "others may write to the file or its folder, so it is not trusted",
            "`chmod go-w` the folder",
        ),
        "CONFIG_RESTRICTED": (
            "warning",
            "a value does not count, because the file is not trusted",
            "name the file with `--config`, or remove the value",
        ),
        "CONFIG_REJECTED": (
            "error",
            "the changed configuration has errors; the last valid one is used",
            "`discovery config validate` lists them",
        ),
        "CONFIG_SWITCHED_OFF": (
            "warning",
            "`enabled: false` disables every server",
            "remove it to use the servers",
        ),
        "CONFIG_NO_SERVERS": (
            "warning",
            "there is no configuration, or it names no server",
            "`discovery init` or `discovery import`",
        ),
    },
    "Sources": {
        "SOURCE_UNKNOWN": ("warning", "no such type of source", "use one that the hint names"),
        "SOURCE_UNREADABLE": (
            "warning",
            "a client's file, or a part of it, cannot be read",
            "correct the file, or remove the source",
        ),
        "SOURCE_EMPTY": (
            "warning",
            "a source has no file or no servers; the places are named",
            "name the file with `path`, or remove the source",
        ),
        "SOURCE_ENTRY_INVALID": (
            "error",
            "an entry of a client's file is not usable; its server is not connected",
            "correct the entry in that file",
        ),
        "SOURCE_ENTRY_NOTE": (
            "warning",
            "something in an entry has another effect here than in the client",
            "nothing, if the effect is acceptable",
        ),
        "SOURCE_ITSELF": (
            "info",
            "an entry starts or reaches this program itself, and is left out",
            "nothing",
        ),
        "SOURCE_DUPLICATE": (
            "warning",
            "an entry describes a server that is known already, and is left out",
            "nothing",
        ),
        "SOURCE_RENAMED": (
            "warning",
            "a server has another name here, because its own is taken or not usable",
            "use the new name; `discovery.yaml` can give it another",
        ),
    },
    "Rules and overrides": {
        "RULE_UNMATCHED": (
            "warning",
            "a rule matches no tool of the catalog",
            "correct its pattern, or remove it",
        ),
        "RULE_SHADOWED": (
            "warning",
            "earlier rules decide all that a rule matches",
            "remove it",
        ),
        "RULE_CONTRADICTED": (
            "warning",
            "earlier rules decide all that a rule matches, at least one the other way",
            "move it before them, or remove it",
        ),
        "RULE_PATTERN_SLOW": (
            "warning",
            "a pattern exceeded its time limit on a name; a deny rule then counts as a match",
            "write it as a glob, or without a repetition inside a repetition",
        ),
        "OVERRIDE_UNMATCHED": (
            "warning",
            "an override matches no tool of the catalog",
            "correct its pattern, or remove it",
        ),
        "OVERRIDE_PATTERN_SLOW": (
            "warning",
            "a pattern exceeded its time limit on a name",
            "write it as a glob, or without a repetition inside a repetition",
        ),
        "OVERRIDE_NAME_TAKEN": (
            "warning",
            "an override gives a name that another tool of the server has; it is not used",
            "choose another name",
        ),
        "OVERRIDE_ARGUMENT_UNKNOWN": (
            "warning",
            "an override pins an argument that the tool does not take",
            "correct the argument's name, or remove it",
        ),
        "OVERRIDE_VALUE_UNSET": (
            "error",
            "a reference in a pinned argument has no value",
            "`export` the named variable",
        ),
        "ENRICH_VALUE_UNSET": (
            "error",
            "a reference in `enrich` has no value",
            "`export` the named variable, then run `discovery enrich` again",
        ),
    },
    "Tools": {
        "TOOL_DISABLED": (
            "info",
            "switched off by a rule, which is named",
            "use another tool; `discovery why` explains it to the owner",
        ),
        "RESOURCE_DISABLED": (
            "info",
            "switched off by a rule, which is named, or withheld until its owner has reviewed it",
            "use another resource; `discovery why` explains it to the owner",
        ),
        "PROMPT_DISABLED": (
            "info",
            "switched off by a rule, which is named, or withheld until its owner has reviewed it",
            "use another prompt; `discovery why` explains it to the owner",
        ),
        "TOOL_WITHHELD": (
            "warning",
            "withheld until its owner has reviewed its current definition",
            "`discovery review`, or `discovery lock --check` with a lock file",
        ),
        "TOOL_UNUSABLE": (
            "error",
            "a server lists what cannot be used (without a name, too large); it is left out",
            "only its author can correct it",
        ),
        "TOOL_SCHEMA_COSTLY": (
            "warning",
            "a schema is too costly to check; arguments may be sent unchecked",
            "only its author can correct it",
        ),
        "DEFINITION_INVALID": (
            "info",
            "members of a definition are not valid by the protocol; clients get it without them",
            "the author of the server can correct them",
        ),
        "TOOL_CONFUSABLE": (
            "info",
            "several tools can hardly be distinguished",
            "override their descriptions, or disable all but one",
        ),
        "TOOL_NAME_CROWDED": (
            "info",
            "more tools have the same name than an answer shows",
            "override their names",
        ),
        "TOOL_UNDESCRIBED": (
            "info",
            "the description is empty, or says no more than the name",
            "override the description",
        ),
        "OFFERING_UNDESCRIBED": (
            "info",
            "resources, templates or prompts of a server have no description",
            "the author of the server can describe them",
        ),
        "PROMPT_ARGUMENTS_UNDESCRIBED": (
            "info",
            "required arguments of a prompt have no description",
            "the author of the server can describe them",
        ),
        "TOOL_UNFINDABLE": (
            "info",
            "a search for its own summary does not find the tool",
            "override the description: begin with what it alone does",
        ),
        "TOOL_ARGUMENTS_UNDESCRIBED": (
            "info",
            "required arguments have no description",
            "override the description: say what they expect",
        ),
        "TOOL_SCHEMA_LARGE": (
            "info",
            "the schema takes many tokens whenever the tool is inspected",
            "override and pin the arguments that never change",
        ),
    },
    "Texts of servers": {
        "TEXT_HIDDEN": (
            None,
            "invisible characters, or such that control a terminal",
            "`discovery review` or `discovery inspect` shows them; disable the tool in doubt",
        ),
        "TEXT_INSTRUCTION": (
            None,
            "instructions to a model, against the user or without their knowledge",
            "read the text; disable the tool in doubt",
        ),
        "TEXT_CROSS_SERVER": (
            None,
            "instructions about the tools of another server",
            "read the text; disable the tool in doubt",
        ),
        "TEXT_PAYLOAD": (
            None,
            "encoded text that decodes to a command or to one of the others",
            "read the text; disable the tool in doubt",
        ),
        "TEXT_EXFILTRATION": (
            None,
            "a request for files, secrets or conversations",
            "read the text; disable the tool in doubt",
        ),
        "TEXT_SECRET": (
            None,
            "a credential in plain text",
            "revoke it, if it is yours",
        ),
        "TEXT_LOOKALIKE": (
            None,
            "a name that resembles a tool of another server",
            "disable the one that you do not trust",
        ),
    },
    "Answers": {
        "ANSWER_FILTERED": (
            "info",
            "tools fit, but not within the requested server or tags",
            "search without the limit",
        ),
        "ANSWER_NO_MATCH": ("info", "no tool fits", "use other words, or list a likely server"),
        "ANSWER_INCOMPLETE": (
            "warning",
            "no known tool fits, and the tools of some servers are not known",
            "ask again in a few seconds",
        ),
        "ANSWER_UNKNOWN": (
            "warning",
            "no tool of the servers in question is known yet",
            "ask again in a few seconds",
        ),
        "ANSWER_NO_TOOLS": ("info", "no server in question has an enabled tool", "nothing"),
        "ENRICHMENT_ERROR": (
            "error",
            "the language model that writes typical requests cannot be used",
            "follow the hint; what was written before is kept",
        ),
        "EMBEDDING_ERROR": (
            "warning",
            "search by meaning is configured and failed; words alone were used",
            "follow the hint",
        ),
        "MODEL_ERROR": (
            "error",
            "the model for search by meaning cannot be installed or removed",
            "follow the hint",
        ),
        "MODEL_MISSING": (
            "error",
            "`provider: discovery` is configured, and no model is installed",
            "`discovery model install`",
        ),
        "EXTRA_MISSING": (
            "error",
            "a library is not installed that only an extra of the package brings",
            "`pip install 'mcp-discovery-engine[EXTRA]'`, with the extra that the hint names",
        ),
        "SANDBOX_UNAVAILABLE": (
            "warning",
            "`sandbox: auto` found nothing to confine programs with, so they run without",
            "`apt install bubblewrap`; or a server that runs in `docker run`",
        ),
    },
    "Marketplace": {
        "MARKETPLACE_ENTRY_NOT_FOUND": (
            "error",
            "no source of the marketplace has that name; the nearest are named",
            "use one of them, or `discovery marketplace search`",
        ),
        "MARKETPLACE_ENTRY_AMBIGUOUS": (
            "error",
            "several servers of the marketplace have that name; they are named with their source",
            "use one of these, such as `official:NAME`",
        ),
        "MARKETPLACE_SOURCE_NOT_FOUND": (
            "error",
            "no source of the marketplace is called that; the nearest are named",
            "use one of them, or `discovery marketplace sources`",
        ),
        "MARKETPLACE_CURSOR_INVALID": (
            "error",
            "a cursor is of no page of results",
            "take the one of the page before, or begin without one",
        ),
        "MARKETPLACE_NO_SOURCES": (
            "warning",
            "`marketplace.sources` is empty, or all of it is disabled, so that nothing is found",
            "leave the key out for the official registry, npm and PyPI, or add a source",
        ),
        "MARKETPLACE_SOURCE_UNAVAILABLE": (
            "warning",
            "a source of the marketplace cannot be asked; what was copied before is used",
            "follow the hint, then `discovery marketplace sync`",
        ),
        "MARKETPLACE_SOURCE_INVALID": (
            "warning",
            "a source answers with what is no marketplace; what was copied before is used",
            "check `url` and `type` of the source",
        ),
        "MARKETPLACE_LIST_INVALID": (
            "warning",
            "a list of the owner has a mistake; the entry it is in is left out",
            "correct it at the given place",
        ),
        "MARKETPLACE_ENTRIES_LEFT_OUT": (
            "info",
            "entries of a source cannot be read; all others are used",
            "tell the owner of the source",
        ),
        "MARKETPLACE_COPY_INCOMPLETE": (
            "warning",
            "a source was not copied, or not to its end; the rest of it is not found",
            "`discovery marketplace sync`, with a network",
        ),
        "MARKETPLACE_STORE_FAILED": (
            "warning",
            "the copy of a source cannot be written; what was copied before is used",
            "free space, or delete `marketplace.db`, which is only a copy",
        ),
        "OFFER_LOOKALIKE": (
            "warning",
            "the name of a package may be mistaken for a well-known one, which is named",
            "check which of the two you mean",
        ),
        "OFFER_NEW": (
            "warning",
            "the server, or this version of it, was published only lately",
            "look at its repository and its publisher, or take an older version",
        ),
        "OFFER_DEPRECATED": (
            "warning",
            "its publisher has deprecated or withdrawn it; the publisher's words are given",
            "look for what its publisher names instead",
        ),
        "OFFER_NO_REPOSITORY": (
            "warning",
            "it names no repository, so its source cannot be read",
            "install it only if you know its publisher",
        ),
        "OFFER_UNREVIEWED": (
            "info",
            "no source that lists it has reviewed it",
            "read its source, or run it in a sandbox",
        ),
        "OFFER_REFUSED": (
            "warning",
            "one of its packages or addresses cannot be used; the reason is given",
            "use another of its offers, or another server",
        ),
        "OFFER_UNRELATED": (
            "warning",
            "nothing in the name and description of a package says that it is an MCP server",
            "check its documentation",
        ),
        "OFFER_MISSING": (
            "warning",
            "a package manager knows no such package, or no such version of it",
            "take another version or another server; it may have been withdrawn",
        ),
        "OFFER_OTHER_REPOSITORY": (
            "warning",
            "a package names another repository than the entry",
            "find out who publishes the package before you install it",
        ),
        "OFFER_OTHER_REGISTRY": (
            "warning",
            "a package is meant to come from another registry than your package manager asks",
            "check the settings of the package manager",
        ),
    },
    "Packages": {
        "PACKAGE_NAME_INVALID": (
            "error",
            "no package can have that name or version; foreign letters are shown as code points",
            "type the name by hand, as the server's own documentation has it",
        ),
        "PACKAGE_NOT_FOUND": (
            "error",
            "the package manager knows no such package, or no such version of it",
            "check the spelling; a version may have been withdrawn",
        ),
        "PACKAGE_MANAGER_FAILED": (
            "error",
            "npm, pip or uv failed, took too long, or returned what cannot be read",
            "try the command of the hint by itself",
        ),
        "PROGRAM_MISSING": (
            "error",
            "a program that is needed is not on the PATH",
            "install it as the hint says",
        ),
        "INSTALL_REFUSED": (
            "error",
            "what an entry of the marketplace asks for is unsafe, or cannot be run here",
            "choose another server, or write an entry by hand: `discovery add`",
        ),
        "INSTALL_INPUT_INVALID": (
            "error",
            "a value for an installation does not fit, or nothing asks for it",
            "correct the named value; `discovery marketplace show NAME` lists them",
        ),
        "INSTALL_INPUT_MISSING": (
            "error",
            "values that a server requires were not given; they are named",
            "give them with `--with` and `--secret`",
        ),
        "INSTALL_FAILED": (
            "error",
            "a package could not be fetched, unpacked or prepared; nothing was installed",
            "follow the hint, then repeat the command",
        ),
        "INSTALL_BUSY": (
            "error",
            "another process, or another request, is installing a server",
            "wait for it to end, then try again",
        ),
        "PACKAGE_CHANGED": (
            "error",
            "a version of a package has other content than before; both hashes are given",
            "do not use it; ask its publisher",
        ),
        "NOT_INSTALLED": (
            "error",
            "the server was not installed from the marketplace, or has no earlier version",
            "`discovery list --installed` names those that were",
        ),
    },
    "Registry and lock file": {
        "SECRET_STORE_ERROR": (
            "error",
            "stored secrets cannot be read, decrypted or written",
            "follow the hint",
        ),
        "INVALID_SECRET": (
            "error",
            "no secret can be stored under that name, or with that value",
            "follow the hint",
        ),
        "REGISTRY_ERROR": (
            "error",
            "the registry cannot be read or written",
            "follow the hint",
        ),
        "REGISTRY_UNAVAILABLE": (
            "error",
            "the database of the registry does not answer; the last known catalog is in use",
            "`discovery registry check` shows why; what may wait is written once it answers",
        ),
        "REGISTRY_TIMEOUT": (
            "error",
            "one operation of the database of the registry took too long; others may work",
            "try again; if many do, raise `registry.timeout` in discovery.yaml",
        ),
        "REGISTRY_ADVICE": (
            "warning",
            "the database of the registry works, but could be set up better",
            "follow the hint; `discovery registry check` shows whether it is done",
        ),
        "CALL_LOG_ERROR": (
            "error",
            "the call log cannot be read or written; calls go on without it",
            "follow the hint",
        ),
        "CALL_LOG_LOSSES": (
            "warning",
            "entries of the call log could not be written",
            "free the disk, or have less logged: `log.calls: metadata`",
        ),
        "DATA_EXPOSED": (
            "error",
            "others may write to the data folder, and so replace approvals, tokens and secrets",
            "`chmod 700` the folder",
        ),
        "REGISTRY_EXPOSED": (
            "error",
            "other users can read the registry",
            "`chmod go-rwx` the file",
        ),
        "REGISTRY_LOST": (
            "error",
            "earlier decisions of the owner were lost; unaccepted tools are withheld",
            "`discovery review` and `discovery trust`",
        ),
        "REGISTRY_EMPTY": (
            "warning",
            "no server was listed yet",
            "`discovery refresh`",
        ),
        "REGISTRY_OUTDATED": (
            "warning",
            "the known tools are older than `cache.ttl`",
            "`discovery refresh`",
        ),
        "LOCK_UNUSABLE": (
            "error",
            "the lock file cannot be read, written or checked",
            "follow the hint; `discovery lock` writes one",
        ),
        "LOCK_ADDED": (
            "warning",
            "a server or tool is not in the lock file",
            "review it, then `discovery lock`",
        ),
        "LOCK_REMOVED": (
            "warning",
            "a server or tool of the lock file is no longer there",
            "review it, then `discovery lock`",
        ),
        "LOCK_CHANGED": (
            "warning",
            "a server or tool differs from the lock file",
            "review it, then `discovery lock`",
        ),
    },
    "Set-up": {
        "CHECK_PASSED": ("info", "a check of `discovery doctor` found nothing to do", "nothing"),
        "PYTHON_UNSUPPORTED": ("error", "this Python is too old", "install a newer one"),
        "SECRET_VISIBLE": (
            "warning",
            "a stored secret stands in an argument, which other programs of this machine can see",
            "put it into `env`, if the program takes it from a variable",
        ),
        "CLIENTS_UNUSED": (
            "info",
            "files of other clients are there and not used",
            "`discovery import` reads them",
        ),
        "WEBHOOK_UNUSABLE": (
            "error",
            "nothing can be sent to a webhook: its secret or address has no value that can be used",
            "give the reference a value",
        ),
        "WEBHOOK_UNDELIVERED": (
            "error",
            "a webhook did not take events for days, or its receiver said that it is gone",
            "mend its receiver, then `discovery webhooks retry NAME`",
        ),
        "WEBHOOK_FAILING": (
            "warning",
            "a webhook does not take events at the moment; they are sent again",
            "`discovery webhooks test NAME` shows the answer",
        ),
        "PRINCIPAL_WITHOUT_TOKEN": (
            "warning",
            "something is reserved for a team or user for whom no access token stands",
            "`discovery token create` with `--team` or `--user` makes one",
        ),
    },
    "Serving and evaluating": {
        "SERVE_TOKEN_INVALID": (
            "error",
            "the bearer token cannot be used, or its file is not private",
            "follow the hint",
        ),
        "SERVE_NAME_INVALID": (
            "error",
            "the name of the gateway cannot be part of a header",
            "use letters, digits, - and _",
        ),
        "SERVE_TLS_INVALID": (
            "error",
            "the certificate or its key is missing, expired, of another kind or of another one",
            "follow the hint",
        ),
        "TOKEN_NOT_FOUND": (
            "error",
            "no access token of that id or name; the nearest are named",
            "use one that `discovery token list` shows",
        ),
        "SERVE_UNPROTECTED": (
            "error",
            "the address could be reached by others without protection; nothing is served",
            "serve loopback, or follow the hint",
        ),
        "SERVE_ADDRESS_UNAVAILABLE": (
            "error",
            "the address or port is not available",
            "choose another",
        ),
        "QUERY_FILE_EMPTY": ("error", "a file of queries has no query", "add one"),
        "QUERY_UNANSWERABLE": (
            "error",
            "a query expects a tool that no agent can find",
            "correct its name, enable it, or refresh its server",
        ),
        "BASELINE_INVALID": (
            "error",
            "a saved evaluation cannot be read",
            "`discovery eval QUERIES --save FILE` writes one",
        ),
    },
}

CODES: Mapping[str, Row] = {
    code: row for family in FAMILIES.values() for code, row in family.items()
}


def severity_of(code: str) -> Severity:
    severity = CODES[code][0]
    if severity is None:
        raise LookupError(f"each diagnostic {code!r} has a severity of its own")
    return severity
