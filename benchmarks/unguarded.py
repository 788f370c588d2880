"""The engine with a guard switched off: the baseline of what that guard keeps.

    python -m benchmarks.unguarded unredacted list --status
    python -m benchmarks.unguarded uncleaned list --status

runs the command `discovery` with nothing redacted, or with the texts of strangers as they came.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from discovery_cli.main import main
from discovery_engine._util import text
from discovery_engine.secrets.known_secrets import KnownSecrets
from discovery_engine.secrets.redactor import Redactor


@contextmanager
def unredacted() -> Iterator[None]:
    """Secrets pass for as long as the block runs."""
    with (
        patch.object(Redactor, "redact", lambda _, written: written),
        patch.object(KnownSecrets, "redact_log", lambda _, written: written),
    ):
        yield


@contextmanager
def uncleaned() -> Iterator[None]:
    """Texts of strangers are shown as they came for as long as the block runs."""
    as_they_came = {
        text.clean: lambda text, *, newlines=True: text,  # noqa: ARG005
        text.one_line: lambda text: text,
        text.quoted: lambda text: text,
        text.named: lambda name, *, before="": before + name,
        text.block: lambda text, *, before="": text.split("\n"),  # noqa: ARG005
        text.visible: lambda text: text,
        text.escaped: lambda document: document,
    }
    kept = {function: function.__code__ for function in as_they_came}
    # Modules import these functions by name, so that their code is what has to be exchanged.
    for function, other in as_they_came.items():
        function.__code__ = other.__code__
    try:
        yield
    finally:
        for function, code in kept.items():
            function.__code__ = code


GUARDS = {guard.__name__: guard for guard in (unredacted, uncleaned)}


if __name__ == "__main__":
    with GUARDS[sys.argv.pop(1)]():
        main()
