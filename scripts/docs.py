"""Build the documentation of `docs/` into `site/`.

    python scripts/docs.py [TARGET]

Pages of the reference are written from the program itself, into a copy of `docs/`: they are not
kept in the repository. A link that leads nowhere, and a code without a cure, end the build.
"""

from __future__ import annotations

import ast
import html
import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec

import discovery_engine
from discovery_cli.exit_codes import ExitCode
from discovery_cli.program import cli
from discovery_engine import Engine, Settings
from discovery_engine.agent.budget import estimated_tokens
from discovery_engine.agent.meta_arguments import meta_tools
from discovery_engine.config.model.config_file import json_schema
from discovery_engine.errors.codes import FAMILIES
from discovery_server.api.application import API_PATH, ROUTES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROJECT = ROOT / "zensical.toml"
CURES = ROOT / "discovery_engine" / "errors" / "cures.toml"
CHOICES = re.compile(r" \[([a-z|-]+)\]$")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE_WITH_BAR = re.compile(r"`([^`]*\|[^`]*)`")
_SECTION = re.compile(r"^(?:Args|Raises|Returns|Yields):$")
_EXIT_CODES = {
    ExitCode.OK: "Success.",
    ExitCode.UNEXPECTED: "An unexpected failure.",
    ExitCode.USAGE: "Wrong usage or configuration, an unknown name, or no result.",
    ExitCode.TOOL_FAILED: "The tool ran and failed.",
    ExitCode.DISABLED: "The server or the tool is disabled, or its owner has not approved it.",
    ExitCode.UNREACHABLE: "A server cannot be reached, or did not answer in time.",
    ExitCode.SECRET_MISSING: "A secret or a login is missing.",
    ExitCode.UNHEALTHY: "`doctor` or `health` found problems, `refresh` unusable tools,"
    " `tune eval` a missed limit, or `config lock` a difference.",
    ExitCode.CHANGES: "`tune plan` found that something would change.",
    ExitCode.INTERRUPTED: "Interrupted.",
}


def main(target: Path = ROOT / "site") -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(DOCS, copy / "docs")
        shutil.copy(PROJECT, copy)
        for name, text in reference().items():
            (copy / "docs" / "reference" / f"{name}.md").write_text(text, "utf-8")
        zensical = Path(sys.executable).with_name("zensical")
        build = subprocess.run([zensical, "build", "--strict"], cwd=copy, check=False)
        if build.returncode == 0:
            _add_texts(copy)
            shutil.rmtree(target, ignore_errors=True)
            shutil.move(copy / "site", target)
    return build.returncode


def reference() -> dict[str, str]:
    """Pages by name, each as Markdown."""
    pages = {
        "command-line": ("Command line", _command_line()),
        "configuration": ("Configuration", _configuration()),
        "meta-tools": ("Meta-tools", _meta_tools()),
        "errors": ("Errors", _errors(tomllib.loads(CURES.read_text("utf-8")))),
        "api": ("HTTP API", _api()),
        "library": ("Library", _library()),
    }
    return {name: f"# {title}\n\n" + "\n".join(lines) for name, (title, lines) in pages.items()}


# The command line.


def _command_line() -> Iterator[str]:
    yield "Every command with its options and examples, as `discovery COMMAND --help` has them.\n"
    yield "## Output and exit codes\n"
    yield (
        "Data goes to stdout; messages, progress and logs go to stderr. With `--json`, stdout is"
        " one JSON document, and an error is one on stderr with `code`, `message`, `hint` and"
        " `exit_code`.\n"
    )
    yield from _table(["exit code", "meaning"], [[str(int(c)), _EXIT_CODES[c]] for c in ExitCode])
    for context in contexts(click.Context(cli, info_name="discovery", **cli.context_settings)):
        yield from _command(context)


def contexts(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, and of all that stand below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command and not command.hidden:
                yield from contexts(click.Context(command, info_name=name, parent=context))


def _command(context: click.Context) -> Iterator[str]:
    command, path = context.command, context.command_path
    yield f"{'##' if path.count(' ') < 2 else '###'} {path}\n"  # noqa: PLR2004
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{path} {usage}\n```\n"
    yield from _fenced(inspect.cleandoc(command.help or "").replace("\b\n", ""), "bash")
    records = [r for p in command.params if (r := p.get_help_record(context))]
    rows = [[f"`{CHOICES.sub('', name)}`", _chosen(name) + text] for name, text in records]
    yield from _table(["option", "meaning"], rows)


def _chosen(name: str) -> str:
    choices = CHOICES.search(name)
    return f"{choices[1].replace('|', ', ')}: " if choices else ""


def _fenced(text: str, language: str) -> Iterator[str]:
    """Texts whose examples are indented, with these as blocks of code."""
    for paragraph in re.split(r"\n{2,}", text):
        lines = paragraph.splitlines()
        if lines and all(line.startswith("  ") for line in lines):
            yield f"```{language}\n{inspect.cleandoc(paragraph)}\n```\n"
        else:
            yield paragraph + "\n"


# The configuration.


def _configuration() -> Iterator[str]:
    schema: dict[str, Any] = json_schema()
    yield (
        "Every key of `discovery.yaml`, with its type, its default and an example."
        " `discovery config schema` prints the JSON Schema for editors, and"
        " `discovery config check` names every mistake with its line.\n"
    )
    yield from _keys(schema)
    done: set[str] = set()
    for key, value in schema["properties"].items():
        yield from _section(key, value, schema["$defs"], done)


def _section(
    path: str, schema: Mapping[str, Any], definitions: Mapping[str, Any], done: set[str]
) -> Iterator[str]:
    """The keys of what a key contains, once for each kind of entry."""
    for name, suffix in _contents(schema):
        if name not in done:
            done.add(name)
            definition = definitions[name]
            yield f"## {path}{suffix} {{ #{name.lower()} }}\n"
            yield definition.get("description", "") + "\n"
            if not suffix and (examples := schema.get("examples")):
                yield _example(path, examples[0])
            yield from _keys(definition)
            for key, value in definition.get("properties", {}).items():
                yield from _section(f"{path}{suffix}.{key}", value, definitions, done)


def _contents(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The definitions that a schema refers to, and what stands behind its key for one of them."""
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2], ""
    for part in schema.get("anyOf", ()):
        yield from _contents(part)
    for key, suffix in (("items", "[]"), ("additionalProperties", ".NAME")):
        if isinstance(inner := schema.get(key), dict):
            yield from ((name, suffix + rest) for name, rest in _contents(inner))


def _keys(definition: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    required = definition.get("required", ())
    for key, schema in definition.get("properties", {}).items():
        type_name = _type(schema)
        contents = [name for name, _ in _contents(schema)]
        if contents:
            type_name = f"[{type_name}](#{contents[0].lower()})"
        text = schema.get("description", "")
        examples = schema.get("examples", ())
        if examples and not contents:
            text += f" Example: `{_flow(examples[0])}`"
        default = ", required" if key in required else _default(schema)
        rows.append([f"`{key}`", f"*{type_name}{default}*. {text}"])
    yield from _table(["key", "meaning"], rows)


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return f"list of {_type(items)}" if items else "list"
    names = schema.get("type", "object")
    limits = [
        f"{sign} {schema[key]}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if key in schema
    ]
    name = names if isinstance(names, str) else " or ".join(names)
    return " ".join([name.replace("object", "mapping"), *limits])


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict | list):
        return ""
    return f", default `{_flow(default)}`"


def _flow(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _example(key: str, value: object) -> str:
    text = msgspec.yaml.encode({key: value}).decode()
    return f"```yaml\n{text}```\n"


# What agents see.


def _meta_tools() -> Iterator[str]:
    yield (
        "What an agent sees instead of the tools of all servers: six tools, with the tokens that"
        " their definitions take (estimated, as `discovery tune tokens` estimates them).\n"
    )
    tools = meta_tools(Settings())
    tokens = {
        name: estimated_tokens(
            json.dumps(
                {"name": name, "description": tool.description, "parameters": tool.input_schema}
            )
        )
        for name, tool in tools.items()
    }
    rows = [[f"[`{name}`](#{name})", str(count)] for name, count in tokens.items()]
    yield from _table(["meta-tool", "tokens"], [*rows, ["together", str(sum(tokens.values()))]])
    for name, tool in tools.items():
        yield f"## {name} {{ #{name} }}\n"
        yield tool.description + "\n"
        schema = tool.input_schema
        rows = [
            [
                f"`{key}`" + (" (required)" if key in schema.get("required", ()) else ""),
                _type(value),
                value.get("description", ""),
            ]
            for key, value in schema.get("properties", {}).items()
        ]
        yield from _table(["argument", "type", "meaning"], rows)


# Codes of errors.


def _errors(cures: Mapping[str, str]) -> Iterator[str]:
    codes = {code for family in FAMILIES.values() for code in family}
    if codes != cures.keys():
        names = ", ".join(sorted(codes ^ cures.keys()))
        raise SystemExit(f"{CURES.relative_to(ROOT)} and the table of codes differ: {names}")
    yield (
        "Every code of an error or a notice: what happened, and what to do. The message itself"
        " names the server, the tool or the line, and usually ends with a hint;"
        " `discovery help CODE` prints what stands here.\n"
    )
    for family, rows in FAMILIES.items():
        yield f"## {family}\n"
        for code, (severity, meaning) in rows.items():
            yield f"### {code}\n"
            noted = f" ({severity})" if severity and severity != "error" else ""
            yield f"**Cause**{noted}: {meaning}.\n"
            yield f"**Cure**: {cures[code]}\n"


# The API.


def _api() -> Iterator[str]:
    yield (
        f"The routes below `{API_PATH}` of `discovery serve --http`, with the scope that a token"
        f" needs. `GET {API_PATH}/openapi.json` describes every request and answer.\n"
    )
    rows = [
        [f"`{route.method} {route.path.replace(':path}', '}')}`", route.scope, route.summary]
        for route in sorted(ROUTES, key=lambda route: (route.path, route.method))
    ]
    yield from _table(["route", "scope", "effect"], rows)


# The library.


def _library() -> Iterator[str]:
    yield (
        "What `from discovery_engine import …` gives. Everything else is internal."
        " `discovery_engine.sync` has the same engine without `async`.\n"
    )
    first = ("open_engine", "Engine", "Toolset", "stored_view", "View", "SearchAnswer")
    for name in dict.fromkeys((*first, *discovery_engine.__all__)):
        thing = getattr(discovery_engine, name)
        if inspect.isclass(thing):
            yield from _class(name, thing)
        elif callable(thing):
            yield f"## {name}\n"
            lines = re.sub(r"([(,]) ?(\w+:|\*,)", r"\1\n    \2", f"{name}{_signature(thing)}")
            yield f"```python\n{lines.replace(') ->', chr(10) + ') ->')}\n```\n"
            yield from _docstring(thing)
    owner = {
        name: part
        for name, member in inspect.getmembers_static(Engine, _getter)
        if not name.startswith("_")
        and inspect.isclass(part := _returned(_getter(member)))
        and part.__module__.startswith("discovery_engine.")
        and part.__name__ not in discovery_engine.__all__
    }
    for name, part in owner.items():
        yield from _class(f"engine.{name}", part)


def _getter(member: object) -> Any:
    """The function behind a property; None for any other member."""
    return getattr(member, "fget", None) or getattr(member, "func", None)


def _returned(getter: Any) -> object:
    """The class that a property returns, which its module may import for types alone."""
    hint = str(inspect.signature(getter).return_annotation)
    tree = ast.parse(inspect.getsource(sys.modules[getter.__module__]))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and hint in (name.name for name in node.names):
            return getattr(import_module(str(node.module)), hint)
    return None


def _class(title: str, thing: type) -> Iterator[str]:
    yield f"## {title}\n"
    yield from _docstring(thing)
    rows = list(_fields(thing))
    for name, member in inspect.getmembers(thing):
        if name.startswith("_"):
            continue
        text = inspect.getdoc(_getter(member) or member) or ""
        summary = " ".join(text.partition("\n\n")[0].split())
        if _getter(member):
            rows.append([f"`{name}`", summary])
        elif inspect.isfunction(member) or inspect.ismethod(member):
            awaited = "await " if inspect.iscoroutinefunction(member) else ""
            rows.append([f"`{awaited}{name}` `{_signature(member)}`", summary])
    yield from _table(["member", "meaning"], rows)


def _fields(thing: type) -> Iterator[list[str]]:
    """The fields of a class with their types and the texts below them."""
    (tree,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(tree, ast.ClassDef)
    for node, following in pairwise([*tree.body, ast.Pass()]):
        match node:
            case ast.AnnAssign(target=ast.Name(name), annotation=annotation):
                kind = f"`{ast.unparse(annotation)}`"
            case ast.Assign(targets=[ast.Name(name)]) if issubclass(thing, Enum):
                kind = ""
            case _:
                continue
        if not name.startswith("_"):
            match following:
                case ast.Expr(ast.Constant(str(text))):
                    yield [f"`{name}` {kind}", " ".join(text.split())]
                case _:
                    yield [f"`{name}` {kind}", ""]


class _Plain(str):
    """A text that is shown without quotes in a signature."""

    __slots__ = ()
    __repr__ = str.__str__


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(
            annotation=_Plain(parameter.annotation),
            default=_Plain(f"{parameter.default.__module__}.{parameter.default.__name__}")
            if inspect.isbuiltin(parameter.default)
            else parameter.default,
        )
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    returned = _Plain(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _docstring(thing: object) -> Iterator[str]:
    """A docstring in Markdown: sections such as `Args:` become lists."""
    section = ""
    lines = []
    for line in (inspect.getdoc(thing) or "").splitlines():
        if _SECTION.match(line):
            section = line.strip().rstrip(":")
            lines += ["", f"**{section}**", ""]
        elif section and re.match(r"^    \S", line):
            name, colon, text = line.strip().partition(": ")
            lines.append(f"- `{name}`{colon}{text}" if colon else f"- {name}")
        elif section and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line)
    yield from _fenced("\n".join(lines), "python")


# Markdown.


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    lines = [head, ["---"] * len(head), *rows]
    if len(lines) > 2:  # noqa: PLR2004
        yield "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    """Text in one line; a bar within code, which would end the cell, is HTML."""
    line = " ".join(text.split())
    return CODE_WITH_BAR.sub(lambda code: _html(code[1]), line).replace("|", "\\|")


def _html(code: str) -> str:
    return f"<code>{html.escape(code, quote=False).replace('|', '&#124;')}</code>"


def _add_texts(copy: Path) -> None:
    """Every page as Markdown beside its HTML, and `llms.txt`, which lists them."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for title, pages in _pages(project["nav"]):
        lines += ["", f"## {title}", ""]
        for page in pages:
            text = (copy / "docs" / page).read_text("utf-8")
            heading, _, rest = text.partition("\n")
            summary = " ".join(rest.strip().partition("\n\n")[0].split())
            summary = LINK.sub(r"\1", summary)
            lines.append(f"- [{heading.lstrip('# ')}]({page}): {summary}")
            (copy / "site" / page).parent.mkdir(parents=True, exist_ok=True)
            (copy / "site" / page).write_text(text, "utf-8")
    (copy / "site" / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _pages(nav: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    for entry in nav:
        for title, pages in entry.items():
            yield (
                title,
                [pages] if isinstance(pages, str) else [p for one in pages for p in one.values()],
            )


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
