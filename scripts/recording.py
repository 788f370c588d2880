"""Record `discovery init --demo` as a picture whose lines appear one after another.

    python scripts/recording.py

Look at the picture then. A test compares what it shows with what the demo prints.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "demo.svg"
COMMAND = "init --demo"
_COLUMNS = 84
_SECONDS = {"#": 1.5, "$": 0.8, "": 0.06}
"""Before a line appears: a heading, a command, what a command prints."""
_FORM = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<desc>TEXT</desc>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, "SF Mono", Menlo,
  Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
@keyframes appear {{ from {{ opacity: 0; }} }}
@media (prefers-reduced-motion: no-preference) {{
text {{ animation: appear 1ms backwards; }}
TIMES
}}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own form without fonts from elsewhere, and with times."""


def printed(steps: Iterable[Mapping[str, Any]]) -> str:
    """What the demo prints, with a `#` before each heading; `steps` are its form in JSON."""
    blocks = [f"# {step['about']}\n$ {step['command']}\n{step['shown']}" for step in steps]
    return "\n".join([f"$ discovery {COMMAND}\n", *blocks]).rstrip()


def drawn(text: str) -> str:
    """A terminal in which that is printed."""
    styled = Text(text)
    styled.highlight_regex(r"(?m)^#.*", "dim")
    styled.highlight_regex(r"(?m)^\$.*", "bold")
    styled.highlight_regex(r"(?m)^[✓$]", "green")
    styled.highlight_regex(r"(?m)^error:", "red")
    styled.highlight_regex(r"(?m)^note:", "yellow")
    console = Console(record=True, width=_COLUMNS, file=StringIO(), color_system="truecolor")
    console.print(styled)
    seconds = accumulate(_SECONDS.get(line[:1], _SECONDS[""]) for line in text.splitlines())
    times = "\n".join(
        f'[clip-path="url(#demo-line-{number})"] {{{{ animation-delay: {at:.2f}s; }}}}'
        for number, at in enumerate(seconds)
    )
    form = _FORM.replace("TIMES", times).replace("TEXT", html.escape(text).replace("{", "{{"))
    return console.export_svg(
        title="discovery", theme=SVG_EXPORT_THEME, code_format=form, unique_id="demo"
    )


def recorded() -> str:
    """What the picture shows."""
    text = re.search(r"<desc>(.*)</desc>", PICTURE.read_text("utf-8"), re.DOTALL)
    return html.unescape(text[1]) if text else ""


if __name__ == "__main__":
    program = [sys.executable, "-m", "discovery_cli", "--json", *COMMAND.split()]
    done = subprocess.run(program, check=True, stdout=subprocess.PIPE)
    PICTURE.write_text(drawn(printed(json.loads(done.stdout)["steps"])), encoding="utf-8")
