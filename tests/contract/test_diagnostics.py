"""Codes of diagnostics are produced; `scripts/bookkeeping.py` finds a code that no test has."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from discovery_engine.call_log.log_tables import Loss
from discovery_engine.catalog import DroppedTool
from discovery_engine.config.editing.edit import remove_server
from discovery_engine.config.files.data_folder import exposed_data
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.settings import LogSettings, Settings, Source, StdioTransport
from discovery_engine.config.sources import ClientFile, read_source
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.diagnostics.codes import CODES
from discovery_engine.doctor import checks
from discovery_engine.errors import ConfigurationError, RegistryError
from discovery_engine.evaluation.baseline import read_baseline
from discovery_engine.evaluation.queries import read_queries
from discovery_engine.evaluation.text_lint import lint_texts
from discovery_engine.extras import extra_missing
from discovery_engine.marketplace.entry import MarketplaceEntry, PackageOffer, RefusedOffer
from discovery_engine.marketplace.entry_warnings import entry_warnings
from discovery_engine.overrides.applying import Overrides
from discovery_engine.overrides.override import Override
from discovery_engine.overrides.override_lint import lint_overrides
from discovery_engine.overrides.pinning import pinned_values
from discovery_engine.owner.configured_webhooks import WebhookReport
from discovery_engine.registry.postgres.database_state import DatabaseState
from discovery_engine.rules import Rule, ToolRules, Verdict, lint_rules
from discovery_engine.rules.regexes import TimeLimit
from discovery_engine.runtime.health import health
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName, Tool, ToolName
from discovery_engine.trust.lockfile import Lock, deviations, load_lock, lock_of_parts
from discovery_engine.upstream.stdio.sandbox.choice import Choice
from discovery_engine.upstream.stdio.sandbox.means import MeansState
from discovery_engine.view import notices
from discovery_engine.view.view import View
from discovery_engine.webhooks.delivery import WebhookState
from discovery_server.gateway_name import gateway_name
from discovery_server.http.guard import Endpoint, require_allowed
from discovery_server.http.http_server import listen
from discovery_server.http.tls_files import Tls, TlsFiles
from discovery_server.tokens import parse_tokens
from tests.factories import make_catalog, make_entry, make_part, make_server, make_settings
from tests.factories import make_tool as tool
from tests.rows import rows
from tests.unit.cli.backends import view_of

pytestmark = pytest.mark.requirement("ERR-4")

Producer: TypeAlias = Callable[[Path], Iterable[Diagnostic]]

ROOT = Path(__file__).parents[2]
NOW = 10_000.0
SLOW = ("/(a|aa)+$/",)
SLOW_NAME = "a" * 50 + "!"
AT_ONCE = TimeLimit(search=0.002, total=0.02)
OPS = WebhookReport("ops", "https://h/", (), (), True, WebhookState("ops"))
ARGUED = make_server("a", transport=StdioTransport("x", ("--token", "${secret:TOKEN}")))
WHOLE = make_part("git", make_entry("log", "git", description="Show the commits."), listed_at=NOW)


def problems(work: Callable[[], object]) -> Iterable[Diagnostic]:
    with pytest.raises(ConfigurationError) as caught:
        work()
    return caught.value.problems


def loaded(text: str) -> Producer:
    def produce(folder: Path) -> Iterable[Diagnostic]:
        (folder / "discovery.yaml").write_text(text, "utf-8")
        return problems(lambda: load_settings(folder / "discovery.yaml"))

    return produce


def misnamed(folder: Path) -> Iterable[Diagnostic]:
    (folder / "discovery.yml").write_text("servers: {}\n", "utf-8")
    return load_settings(environ={}, cwd=folder, home=folder).warnings


def exposed(folder: Path) -> Iterable[Diagnostic]:
    (folder / "discovery.yaml").write_text("server: {maxSessions: 9000}\n", "utf-8")
    (folder / "discovery.yaml").chmod(0o666)
    return load_settings(folder / "discovery.yaml").warnings


def exposed_folder(folder: Path) -> Iterable[Diagnostic]:
    folder.chmod(0o777)
    return filter(None, [exposed_data(str(folder))])


def offered(_: Path) -> Iterable[Diagnostic]:
    entry = MarketplaceEntry(
        id="a",
        name="serve-time",
        version="1.0.0",
        published_at="1970-01-01T02:00:00Z",
        status="deprecated",
        packages=(
            PackageOffer("pypi", "serve-time", registry_url="https://x.example"),
            PackageOffer("pypi", "mcp-server-tine"),
        ),
        refused=(RefusedOffer("npm", "a", "it has no program"),),
    )
    return entry_warnings(entry, now=NOW)


def no_such_server(folder: Path) -> Iterable[Diagnostic]:
    (folder / "discovery.yaml").write_text("servers: {}\n", "utf-8")
    return problems(lambda: remove_server(folder / "discovery.yaml", "git"))


def source(content: str, kind: str = "cursor") -> Producer:
    """The settings with a client's file as a source, beside a server of the owner's own."""

    def produce(folder: Path) -> Iterable[Diagnostic]:
        file = folder / "client.json"
        file.write_text(content, "utf-8")
        own = {"git": {"command": "git-mcp"}, "taken": {"command": "x"}}
        form = {"servers": own, "sources": [{"type": kind, "path": str(file)}]}
        (folder / "discovery.yaml").write_text(json.dumps(form), "utf-8")
        settings = load_settings(folder / "discovery.yaml")
        broken = [server.problem for server in settings.servers if server.problem]
        return (*settings.warnings, *broken)

    return produce


def unknown_source(folder: Path) -> Iterable[Diagnostic]:
    places = {"home": folder, "cwd": folder, "platform": sys.platform}
    return read_source(Source("curser"), environ={}, **places).warnings


def slow_rule(_: Path) -> Iterable[Diagnostic]:
    rules = ToolRules([Rule(SLOW, enabled=False)], limit=AT_ONCE)
    rules.verdicts([tool(SLOW_NAME)], Verdict())
    return rules.problems


def overridden(override: Override, *names: str) -> Producer:
    def produce(_: Path) -> Iterable[Diagnostic]:
        overrides = Overrides([override], limit=AT_ONCE)
        overrides.applied([tool(name) for name in names])
        return overrides.problems

    return produce


def unset_value(_: Path) -> Iterable[Diagnostic]:
    override = Override(("log",), arguments={"owner": "${UNSET_X}"}, origin=Origin("f"))
    [pinned] = Overrides([override]).applied([tool("log")])
    return problems(lambda: pinned_values(pinned, [override], EnvironmentResolver({})))


def poisoned(_: Path) -> Iterable[Diagnostic]:
    return findings()


@cache
def findings() -> Iterable[Diagnostic]:
    """Of the tools that the scanner was developed with, beside one that borrows another's name."""
    file = ROOT / "tests/contract/scanner_development/poisoned.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    tools = [
        Tool.from_mcp(ServerName("git"), {**row["tool"], "name": f"tool_{number}"})
        for number, row in enumerate(rows)
    ]
    real = make_part("files", make_entry("read_file", "files"))
    alike = make_part("other", make_entry("r\u0435ad_file", "other"))  # with a Cyrillic letter
    settings = make_settings("git", "files", "other")
    return lint_texts(view_of(settings, make_part("git", *tools), real, alike))


def searched(settings: Settings, *parts: object, query: str = "zebra", **limits: str) -> Producer:
    return lambda _: view_of(settings, *parts).search(query, **limits).notices  # type: ignore[arg-type]


def general(view: View) -> Producer:
    return lambda _: view.general_notices()


def lock_differences(_: Path) -> Iterable[Diagnostic]:
    def lock(*names: str, description: str) -> Lock:
        entries = [make_entry(name, "git", description=description) for name in names]
        return lock_of_parts([make_server("git")], make_catalog(make_part("git", *entries)))

    return deviations(lock("old", "same", description="a"), lock("new", "same", description="b"))


def checked(settings: Settings, *parts: object) -> Producer:
    def produce(_: Path) -> Iterable[Diagnostic]:
        view = view_of(settings, *parts)  # type: ignore[arg-type]
        [report] = health(view, now=NOW)
        return [checks.server(settings.servers[0], report, lambda _: None)]

    return produce


def queries(text: str) -> Producer:
    view = view_of(make_settings("git"), WHOLE)
    return lambda _: problems(lambda: read_queries(text.encode(), file="q.yaml", view=view))


def failing_webhook(**counts: int) -> WebhookReport:
    return replace(OPS, state=WebhookState("ops", failure="HTTP 500", **counts))


def taken_port(_: Path) -> Iterable[Diagnostic]:
    with listen(Endpoint(host="127.0.0.1", port=0)) as listener:
        port = listener.getsockname()[1]
        return problems(lambda: listen(Endpoint(host="127.0.0.1", port=port)))


DATABASE_OF_A_SUPERUSER = DatabaseState("18.0", 1, False, False, False, True, "", True, 1, 2, 3, 4)
PRODUCERS: dict[str, Producer] = {
    "CONFIG_UNREADABLE": lambda folder: problems(lambda: load_settings(folder / "none.yaml")),
    "CONFIG_MISNAMED": misnamed,
    "CONFIG_SYNTAX": loaded("servers: [\n"),
    "CONFIG_DUPLICATE": loaded("cache: {}\ncache: {}\n"),
    "CONFIG_UNKNOWN_KEY": loaded("severs: {}\n"),
    "CONFIG_MISSING_KEY": loaded("sources: [{path: x}]\n"),
    "CONFIG_INVALID_VALUE": loaded("enabled: 3\n"),
    "CONFIG_NOT_EDITED": no_such_server,
    "CONFIG_EXPOSED": exposed,
    "CONFIG_RESTRICTED": exposed,
    "CONFIG_SWITCHED_OFF": general(view_of(make_settings(enabled=False))),
    "CONFIG_NO_SERVERS": general(view_of(make_settings())),
    "CONFIG_REJECTED": general(
        view_of(
            make_settings("git"),
            rejection=notices.Rejection((Diagnostic("CONFIG_SYNTAX", "wrong"),), NOW),
        )
    ),
    "SOURCE_UNKNOWN": unknown_source,
    "SOURCE_UNREADABLE": source("{"),
    "SOURCE_EMPTY": source("{}"),
    "SOURCE_ENTRY_INVALID": source('{"mcpServers": {"a": {"args": ["x"]}}}'),
    "SOURCE_ENTRY_NOTE": source('{"mcpServers": {"a": {"command": "x", "envFile": ".env"}}}'),
    "SOURCE_ITSELF": source('{"mcpServers": {"a": {"command": "discovery", "args": ["serve"]}}}'),
    "SOURCE_DUPLICATE": source('{"mcpServers": {"a": {"command": "git-mcp"}}}'),
    "SOURCE_RENAMED": source('{"mcpServers": {"taken": {"command": "y"}}}'),
    "RULE_UNMATCHED": lambda _: lint_rules([Rule(("none",), enabled=False)], [tool()]),
    "RULE_SHADOWED": lambda _: lint_rules([Rule(enabled=False)] * 2, [tool()]),
    "RULE_CONTRADICTED": lambda _: lint_rules([Rule(enabled=False), Rule(enabled=True)], [tool()]),
    "RULE_PATTERN_SLOW": slow_rule,
    "OVERRIDE_UNMATCHED": lambda _: lint_overrides([Override(("none",))], [tool()]),
    "OVERRIDE_PATTERN_SLOW": overridden(Override(SLOW, description="New."), SLOW_NAME),
    "OVERRIDE_NAME_TAKEN": overridden(Override(("a",), name=ToolName("b")), "a", "b"),
    "OVERRIDE_ARGUMENT_UNKNOWN": overridden(Override(("a",), arguments={"ower": 1}), "a"),
    "OVERRIDE_VALUE_UNSET": unset_value,
    "TEXT_HIDDEN": poisoned,
    "TEXT_INSTRUCTION": poisoned,
    "TEXT_CROSS_SERVER": poisoned,
    "TEXT_PAYLOAD": poisoned,
    "TEXT_EXFILTRATION": poisoned,
    "TEXT_SECRET": poisoned,
    "TEXT_LOOKALIKE": poisoned,
    "OFFER_LOOKALIKE": offered,
    "OFFER_NEW": offered,
    "OFFER_DEPRECATED": offered,
    "OFFER_NO_REPOSITORY": offered,
    "OFFER_UNREVIEWED": offered,
    "OFFER_UNRELATED": offered,
    "OFFER_REFUSED": offered,
    "OFFER_OTHER_REGISTRY": offered,
    "TOOL_UNUSABLE": checked(
        make_settings("git"),
        make_part("git", dropped=(DroppedTool("odd", "it has no schema"),), listed_at=NOW),
    ),
    "SERVER_DISABLED": checked(make_settings(make_server("git", enabled=False))),
    "CHECK_PASSED": checked(make_settings("git"), WHOLE),
    "CALL_LOG_LOSSES": lambda _: [
        checks.call_log(LogSettings(), 1, None, [Loss(1.0, 3, "the disk is full")])
    ],
    "PYTHON_UNSUPPORTED": lambda _: [checks.runtime((3, 10, 0), "3")],
    "SECRET_VISIBLE": lambda _: checks.visible_secrets([ARGUED]),
    "CLIENTS_UNUSED": lambda _: [checks.clients([ClientFile("a", "A", "/f", "user")], [])],
    "PRINCIPAL_WITHOUT_TOKEN": lambda _: [checks.reserved(frozenset({"team:a"}), frozenset())],
    "WEBHOOK_UNUSABLE": lambda _: [checks.webhook(replace(OPS, problem="${KEY} is not set"))],
    "WEBHOOK_UNDELIVERED": lambda _: [checks.webhook(failing_webhook(dead=2))],
    "WEBHOOK_FAILING": lambda _: [checks.webhook(failing_webhook(pending=1))],
    "ANSWER_NO_MATCH": searched(make_settings("git"), WHOLE),
    "ANSWER_FILTERED": searched(
        make_settings("git", "b"),
        WHOLE,
        make_part("b", make_entry("ping", "b", description="Knock.")),
        query="show the commits",
        server="b",
    ),
    "ANSWER_NO_TOOLS": searched(make_settings("git"), make_part("git", listed_at=NOW)),
    "ANSWER_UNKNOWN": searched(make_settings("git")),
    "ANSWER_INCOMPLETE": searched(make_settings("git", "b"), WHOLE),
    "SERVER_STARTING": searched(make_settings("git", "b"), WHOLE),
    "EMBEDDING_ERROR": lambda _: [notices.by_words("the model is not there")],
    "MODEL_MISSING": lambda _: [checks.model(None, is_used=True)],
    "EXTRA_MISSING": lambda _: [extra_missing("onnx", "search by meaning", "numpy")],
    "REGISTRY_ERROR": lambda p: [checks.registry(p, None, RegistryError("it is locked"))],
    "REGISTRY_ADVICE": lambda _: [
        checks.database("postgresql://h/db", DATABASE_OF_A_SUPERUSER, None)
    ],
    "SANDBOX_UNAVAILABLE": lambda _: [
        checks.sandboxes(
            [MeansState("landlock", problem="needs Linux", hint="none")],
            {"git": Choice("none")},
        )
    ],
    "DATA_EXPOSED": exposed_folder,
    "REGISTRY_EXPOSED": lambda p: [checks.registry(p, 0o100644, None)],
    "REGISTRY_LOST": general(view_of(make_settings("git"), lost_at=NOW)),
    "REGISTRY_UNAVAILABLE": general(
        view_of(make_settings("git"), outage=notices.RegistryOutage(NOW, 1, 0))
    ),
    "REGISTRY_EMPTY": lambda _: [checks.age(make_catalog(), ttl=1, now=NOW)],
    "REGISTRY_OUTDATED": lambda _: [checks.age(make_catalog(WHOLE), ttl=1, now=NOW + 9)],
    "LOCK_UNUSABLE": lambda _: problems(lambda: load_lock(make_settings("git"))),
    "LOCK_ADDED": lock_differences,
    "LOCK_REMOVED": lock_differences,
    "LOCK_CHANGED": lock_differences,
    "SERVE_TOKEN_INVALID": lambda _: problems(lambda: parse_tokens("short")),
    "SERVE_NAME_INVALID": lambda _: problems(
        lambda: gateway_name({"DISCOVERY_GATEWAY_NAME": "gateway 1"})
    ),
    "SERVE_TLS_INVALID": lambda folder: problems(
        lambda: Tls(TlsFiles(folder / "no.pem", folder / "no.key"), datetime.now(UTC))
    ),
    "SERVE_UNPROTECTED": lambda _: problems(
        lambda: require_allowed(Endpoint(host="0.0.0.0"), has_token=True)
    ),
    "SERVE_ADDRESS_UNAVAILABLE": taken_port,
    "QUERY_FILE_EMPTY": queries(""),
    "QUERY_UNANSWERABLE": queries("queries: [{query: x, tools: ['git:none']}]\n"),
    "BASELINE_INVALID": lambda _: problems(lambda: read_baseline(b"{}", file="b.json")),
}


@rows("code", PRODUCERS)
def test_a_code_is_produced(code: str, tmp_path: Path) -> None:
    produced = [found for found in PRODUCERS[code](tmp_path) if found.code == code]

    assert code in CODES
    assert produced
    for found in produced:
        form = found.to_json()
        assert (form["code"], form["message"]) == (code, found.message)
        assert form["severity"] in ("error", "warning", "info", "danger", "notice")
