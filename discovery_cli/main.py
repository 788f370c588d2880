"""The entry point of `discovery`, which handles Ctrl-C before it imports anything else."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from discovery_cli.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from discovery_engine.engine.first_answer import EarlyStart, FirstAnswer


def main() -> None:
    """Run the command of `sys.argv`, and exit with its code."""
    interrupts = Interrupts()
    interrupts.heed()
    # Imported objects are permanent; collecting garbage among them took 3 ms of a start.
    gc.disable()
    # The system frees all memory at once; Python would traverse all of it first.
    atexit.register(gc.freeze)
    _open_closed_streams()
    first, early = _answer_early(sys.argv[1:])
    _load_msgspec()
    from discovery_cli.invocation import Invocation
    from discovery_cli.program import cli

    cli.main(obj=Invocation(interrupts=interrupts, first=first, early=early))


def _load_msgspec() -> None:
    """Import msgspec without `typing_extensions`, in place of which it takes `typing`.

    That module takes a third of the time of importing click, and `typing` has the same since 3.11.
    """
    if "msgspec" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import msgspec  # noqa: F401

        del sys.modules["typing_extensions"]


def _answer_early(arguments: list[str]) -> tuple[FirstAnswer | None, EarlyStart | None]:
    """Answer the first request of a client of `serve` from memory, before the engine is loaded.

    What is remembered belongs to this very command line, so it needs no parsing here.
    """
    if "serve" not in arguments:
        return None, None
    from discovery_engine._util.version import __version__
    from discovery_engine.config.files.data_folder import data_folder
    from discovery_engine.engine.first_answer import FirstAnswer

    data = data_folder(_data_dir(arguments), os.environ)
    first = FirstAnswer(data, arguments, os.environ, __version__)
    return first, first.send(0, 1)


def _data_dir(arguments: list[str]) -> str | None:
    """The value of `--data-dir`, which the parser reads in the same way."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name == "--data-dir":
            return value if equals else following
    return None


def _open_closed_streams() -> None:
    """Open standard streams that the shell has closed, before another file gets their descriptors.

    A registry on descriptor 1 would be written to by whatever prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for the whole run
