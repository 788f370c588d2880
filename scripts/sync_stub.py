"""Write the types of `discovery_engine.sync.mirrors`, whose classes are made from the engine's.

python scripts/sync_stub.py
python scripts/sync_stub.py --check    # exits with 1 if it would write something else
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from types import ModuleType

from discovery_engine.agent.agent_tool import AgentTool, ToolCalls
from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.sync.mirrors import PARTS

STUB = Path(__file__).resolve().parent.parent / "discovery_engine" / "sync" / "mirrors.pyi"
_SYNC = {cls.__name__: f"Sync{cls.__name__}" for cls in (*PARTS, Toolset, Engine, ScopedEngine)}
_SYNC["AgentTool"] = "SyncTool"
_PLAIN = {
    "discovery_engine.rpc.messages.OnProgress": "Progress",
    "discovery_engine.agent.meta_arguments.OnProgress": "Progress",
    "discovery_engine.marketplace.installer.installer.OnProgress": "OnStep",
    "discovery_engine.rpc.client.Client": "AnyClient",
    "collections.abc.AsyncIterator": "Iterator",
}
"""The types that the blocking face has in another form."""
_OWN = {
    "OnStep": "discovery_engine.sync.blocking_call",
    "Progress": "discovery_engine.sync.blocking_call",
    "AnyClient": "discovery_engine.sync.sync_client",
    "Iterator": "collections.abc",
    "SyncToolset": "discovery_engine.sync.blocking_engine",
    "SyncEngine": "discovery_engine.sync.blocking_engine",
    "SyncScopedEngine": "discovery_engine.sync.blocking_engine",
}
_SPECIAL = ("toolset", "subscribe", "as_callables")  # which the classes have themselves


def main() -> None:
    stub = _formatted("".join(_lines()))
    if "--check" not in sys.argv:
        STUB.write_text(stub, "utf-8")
    elif not STUB.exists() or STUB.read_text("utf-8") != stub:
        sys.exit(f"{STUB.name} has not the verbs of the engine: run `make format`")


def _lines() -> Iterator[str]:
    imports: dict[str, str] = {"OnLoop": "discovery_engine.sync.blocking_call"}
    classes = [_class(_SYNC[cls.__name__], cls, object, imports) for cls in PARTS]
    classes.append(_class("SyncTool", AgentTool, object, imports))
    classes.append(_class("ToolsetMirror", Toolset, ToolCalls, imports))
    classes.append(_class("ScopedEngineMirror", ScopedEngine, object, imports))
    classes.append(_class("EngineMirror", Engine, ScopedEngine, imports))
    yield "# Written by scripts/sync_stub.py.\n\n"
    for module, named in groupby(sorted(imports, key=lambda n: (imports[n], n)), imports.get):
        yield f"from {module} import {', '.join(named)}\n"
    yield from (f"\n{cls}\n" for cls in classes)


def _class(name: str, cls: type, but: type, imports: dict[str, str]) -> str:
    members = [
        _member(member, inspect.getattr_static(cls, member), cls, imports)
        for member in dir(cls)
        if not member.startswith("_") and not hasattr(but, member) and member not in _SPECIAL
    ]
    return f"class {name}(OnLoop):\n" + "".join(f"{one}\n" for one in members)


def _member(name: str, member: object, cls: type, imports: dict[str, str]) -> str:
    if inspect.ismemberdescriptor(member):  # a field of a struct
        annotation = ast.parse(cls.__annotations__[name], mode="eval").body
        kind = ast.unparse(_type(annotation, sys.modules[cls.__module__], imports))
        return f"    @property\n    def {name}(self) -> {kind}: ..."
    function = member.fget if isinstance(member, property) else getattr(member, "func", member)
    [definition] = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function))).body
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"{name} is no function")
    module = sys.modules[function.__module__]
    arguments = definition.args
    for given in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        given.annotation = given.annotation and _type(given.annotation, module, imports)
    if arguments.vararg and arguments.vararg.annotation:
        arguments.vararg.annotation = _type(arguments.vararg.annotation, module, imports)
    arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
    arguments.kw_defaults = [one and ast.Constant(...) for one in arguments.kw_defaults]
    returned = definition.returns and ast.unparse(_type(definition.returns, module, imports))
    decorator = "" if inspect.isfunction(member) else "    @property\n"
    return f"{decorator}    def {name}({ast.unparse(arguments)}) -> {returned}: ..."


def _type(annotation: ast.expr, module: ModuleType, imports: dict[str, str]) -> ast.expr:
    """The annotation with the types of the blocking face, whose names it adds to the imports."""
    for node in ast.walk(annotation):
        if not isinstance(node, ast.Name):
            continue
        origin = _origins(module).get(node.id, module.__name__)
        node.id = _SYNC.get(node.id) or _PLAIN.get(f"{origin}.{node.id}", node.id)
        is_here = node.id in _SYNC.values() and node.id not in _OWN
        if not is_here and not hasattr(builtins, node.id):
            imports[node.id] = _OWN.get(node.id, origin)
    return annotation


@cache
def _origins(module: ModuleType) -> dict[str, str]:
    """The module of each name that a module imports."""
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    imported = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {one.name: node.module or "" for node in imported for one in node.names}


def _formatted(source: str) -> str:
    for verb in (["check", "--select=I", "--fix", "--quiet"], ["format"]):
        ruff = [Path(sys.executable).with_name("ruff"), *verb, "--stdin-filename", STUB, "-"]
        source = subprocess.run(
            ruff, input=source, capture_output=True, text=True, check=True
        ).stdout
    return source


if __name__ == "__main__":
    main()
