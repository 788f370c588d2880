"""How every command is used, rightly and by mistake, and with which code each use ends.

Right uses are run in this order, in one home. `{home}` is its folder.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandLine(NamedTuple):
    right: str
    code: int
    wrong: str
    """The rest of the words of a mistake, after the name of the command."""
    wrong_code: int = 2


COMMAND_LINES: dict[str, CommandLine] = {
    "completion": CommandLine("bash", 0, "basic"),
    "init": CommandLine("--dry-run", 0, "--from nobody"),
    "connect": CommandLine("", 0, "nobody"),
    "config path": CommandLine("", 0, "x"),
    "config show": CommandLine("", 0, "x"),
    "config sources": CommandLine("", 0, "x"),
    "config schema": CommandLine("", 0, "x"),
    "config check": CommandLine("", 0, "--config {home}/none.yaml"),
    "config export": CommandLine("--format codex", 0, "--format nobody"),
    "config reload": CommandLine("", 0, "x"),
    "refresh": CommandLine("", 0, "nobody"),
    "list": CommandLine("", 0, "--status asleep"),
    "search": CommandLine("repeat a text", 0, "--server nobody repeat"),
    "tools": CommandLine("tiny", 0, "nobody"),
    "inspect": CommandLine("tiny echo", 0, "tiny shout"),
    "execute": CommandLine('tiny echo --args \'{{"text": "hello"}}\'', 0, "tiny echo --args ["),
    "resources": CommandLine("file:///notes", 0, "file:///nothing"),
    "prompts": CommandLine("greet", 0, "scold"),
    "why": CommandLine("tiny echo", 0, "tiny shout"),
    "tune tokens": CommandLine("", 0, "--view nobody"),
    "tune lint": CommandLine("", 0, "x"),
    "tune plan": CommandLine("", 0, "{home}/none.yaml"),
    "tune eval": CommandLine("{home}/queries.yaml", 0, "{home}/none.yaml"),
    "health": CommandLine("", 0, "nobody"),
    "doctor": CommandLine("", 0, "x"),
    "logs": CommandLine("", 0, "--since yesterdayish"),
    "metrics": CommandLine("", 0, "nobody"),
    "review servers": CommandLine("tiny", 0, "nobody"),
    "review": CommandLine("", 0, "nobody"),
    "review tools": CommandLine("", 0, "nobody"),
    "review requests": CommandLine("", 0, "x"),
    "review accept": CommandLine("1", 2, ""),
    "review decline": CommandLine("1", 2, ""),
    "config lock": CommandLine("", 0, "x"),
    "tune calibrate": CommandLine("", 0, "{home}/none.yaml"),
    "tune enrich": CommandLine("--forget", 0, "--tool shout"),
    "registry reindex": CommandLine("", 0, "x"),
    "registry clear": CommandLine("tiny", 0, "nobody"),
    "registry info": CommandLine("", 0, "x"),
    "registry check": CommandLine("", 0, "x"),
    "registry migrate": CommandLine("", 0, "x"),
    "registry rules": CommandLine("", 0, "x"),
    "registry copy": CommandLine("--to sqlite:///{home}/copy.db", 0, "--to nowhere:", 1),
    "secrets set": CommandLine("KEY", 0, "'no name'"),
    "secrets list": CommandLine("", 0, "x"),
    "secrets rotate-key": CommandLine("", 0, "x"),
    "secrets remove": CommandLine("KEY --yes", 0, "NONE"),
    "login": CommandLine("tiny", 6, "nobody"),
    "token create": CommandLine("--name laptop", 0, "--expires never-ever"),
    "token link": CommandLine("", 2, "x"),
    "token list": CommandLine("", 0, "x"),
    "token revoke": CommandLine("laptop", 0, "nothing"),
    "tune model show": CommandLine("", 0, "x"),
    "tune model install": CommandLine("", 1, "x"),
    "tune model remove": CommandLine("", 0, "x"),
    "serve": CommandLine("", 0, "--http nowhere"),
    "fleet worker": CommandLine("--once", 0, "--slots none"),
    "fleet status": CommandLine("", 0, "x"),
    "fleet refresh": CommandLine("tiny", 0, "nobody"),
    "fleet retry": CommandLine("tiny", 0, "nobody"),
    "webhooks list": CommandLine("", 0, "x"),
    "webhooks retry": CommandLine("--all-dead", 0, "nobody"),
    "webhooks test": CommandLine("nobody", 2, ""),
    "marketplace sources": CommandLine("", 0, "x"),
    "marketplace sync": CommandLine("", 0, "nobody"),
    "marketplace search": CommandLine("documents", 0, "--source nobody x"),
    "marketplace show": CommandLine("acme-docs", 0, "nobody"),
    "marketplace install": CommandLine("acme-docs --yes", 0, "nobody"),
    "marketplace update": CommandLine("--check", 0, "nobody"),
    "marketplace rollback": CommandLine("acme-docs --yes", 2, "nobody"),
    "add": CommandLine("second --yes -- python3 {home}/none.py", 0, "second"),
    "disable": CommandLine("second", 0, "nobody"),
    "enable": CommandLine("second", 0, "nobody"),
    "remove": CommandLine("second --yes", 0, "nobody"),
    "config import": CommandLine("--dry-run", 0, "--from nobody"),
    "config sync": CommandLine("{home}/setup.yaml --dry-run", 0, ""),
}
