"""Output of the command line: data to stdout, messages to stderr.

Text of servers and files is cleaned before it reaches a terminal. Escape sequences are only written
to a terminal that wants colours.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.runner import runner
from discovery_engine._util.text import clean, columns_of, one_line

SCHEMA_VERSION = 1

Style = Literal["good", "bad", "faint", "strong", "plain"]
_STYLES: Mapping[Style, Mapping[str, object]] = {
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "faint": {"dim": True},
    "strong": {"bold": True},
    "plain": {},
}

_ASCII = str.maketrans(
    {"…": "...", "\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'", "•": "*"}
)
_MARKS = ("✓", "✗", "…")
_COMMAND = lazy_pattern(r"(?:^|`|(?<=hint: )|(?<=next: ))discovery (?=[a-z])")
_GAP = "  "
_USUAL_WIDTH = 80
_NARROWEST = 20  # columns for the last cell of a row, however narrow the terminal


class Cell(Struct, frozen=True):
    text: str
    style: Style = "plain"
    to_the_right: bool = False
    """True to align it right, as numbers are."""
    is_summary: bool = False
    """True if it may be cut to the terminal, because another command shows all of it."""


class Output(Struct, frozen=True):
    """The output of one run, set up for its streams and the environment."""

    as_json: bool = False
    is_terminal: bool = False
    has_colour: bool = False
    has_unicode: bool = True
    width: int = _USUAL_WIDTH
    warnings: Collection[str] = ()
    """The warnings for the JSON answer; more may be added until it is written."""
    options: str = ""
    """The options of the run's configuration, for commands in messages."""

    @classmethod
    def of_streams(
        cls,
        environ: Mapping[str, str],
        *,
        as_json: bool,
        warnings: Collection[str] = (),
        options: str = "",
    ) -> Output:
        is_terminal = sys.stdout.isatty()
        return cls(
            as_json=as_json,
            is_terminal=is_terminal,
            has_colour=is_terminal and allows_escapes(environ),
            has_unicode=_can_write("".join(_MARKS), sys.stdout),
            width=_width(environ) if is_terminal else _USUAL_WIDTH,
            warnings=warnings,
            options=options,
        )

    def answer(self, form: JSONObject) -> None:
        """Write the single JSON document of a run."""
        form = with_warnings(form, self.warnings)
        self.write(json_text(form, indent=2 if self.is_terminal else None) + "\n")

    def report(self, form: JSONObject, words: str) -> None:
        """Write the outcome of a change: the form as JSON, or else the words to stderr."""
        if self.as_json:
            self.answer(form)
        self.say(words)

    def write(self, text: str) -> None:
        """Write data unchanged; a closed pipe ends the run without an error."""
        try:
            sys.stdout.write(text)
        except BrokenPipeError:
            silence(sys.stdout)
            raise click.exceptions.Exit(0) from None

    def line(self, text: str = "", style: Style = "plain") -> None:
        """Write one line of data; line breaks in `text` are escaped."""
        self.write(self._styled(self._writable(text, newlines=False), style) + "\n")

    def text(self, text: str) -> None:
        """Write a document of several lines, such as the answer of a tool."""
        self.write(self._writable(text) + "\n")

    def table(
        self,
        rows: Sequence[Sequence[Cell | str]],
        *,
        indent: int = 0,
        least_widths: Sequence[int] = (),
    ) -> None:
        """Write rows in aligned columns; only the last column is wrapped or cut to the terminal.

        `least_widths`, of the first columns, align several tables with each other.
        """
        cells = [[self._cell(cell) for cell in row] for row in rows]
        columns = max(map(len, cells), default=0)
        widths = [
            max(columns_of(row[i].text) for row in cells if i < len(row)) for i in range(columns)
        ]
        for i, least in enumerate(least_widths):
            widths[i] = max(widths[i], least)
        for row in cells:
            self.write(" " * indent + self._row(row, widths, indent) + "\n")

    def say(self, words: str) -> None:
        """Write a line for a person to stderr; no-op with JSON."""
        if not self.as_json:
            sys.stderr.write(self._writable(self.hint(words), newlines=False) + "\n")

    def hint(self, words: str) -> str:
        """Return the words, with the run's options in the commands of this program."""
        return with_options(words, self.options)

    def mark(self, *, good: bool) -> Cell:
        if self.has_unicode:
            return Cell("✓", "good") if good else Cell("✗", "bad")
        return Cell("+", "good") if good else Cell("x", "bad")

    def open_mark(self) -> Cell:
        """Return the mark for an unknown state."""
        return Cell("…" if self.has_unicode else ".", "faint")

    def _cell(self, cell: Cell | str) -> Cell:
        table_cell = Cell(cell) if isinstance(cell, str) else cell
        # Most answers have nothing else beyond ASCII, and `clean` takes 3 ms for the first that is.
        if self.has_unicode and table_cell.text in _MARKS:
            return table_cell
        return replace(table_cell, text=self._writable(one_line(table_cell.text)))

    def _row(self, row: Sequence[Cell], widths: Sequence[int], indent: int) -> str:
        *front, last = row
        padded = [self._padded(cell, width) for cell, width in zip(front, widths, strict=False)]
        before = indent + sum(width + len(_GAP) for width in widths[: len(front)])
        first, *others = [self._styled(line, last.style) for line in self._lines(last, before)]
        rest = [f"\n{' ' * before}{line}" for line in others]
        return _GAP.join([*padded, first]).rstrip() + "".join(rest)

    def _lines(self, cell: Cell, before: int) -> list[str]:
        """Return the lines of a row's last cell, which starts `before` columns from the left."""
        if not self.is_terminal:
            return [cell.text]
        space = max(self.width - before, _NARROWEST)
        if cell.is_summary:
            return [shortened(cell.text, space, self._ellipsis)]
        return wrapped(cell.text, space)

    def _padded(self, cell: Cell, width: int) -> str:
        text, padding = (
            self._styled(cell.text, cell.style),
            " " * (width - columns_of(cell.text)),
        )
        return padding + text if cell.to_the_right else text + padding

    @property
    def _ellipsis(self) -> str:
        return "…" if self.has_unicode else "..."

    def _writable(self, text: str, *, newlines: bool = True) -> str:
        text = clean(text, newlines=newlines)
        return text if self.has_unicode else text.translate(_ASCII)

    def _styled(self, text: str, style: Style) -> str:
        if not self.has_colour or style == "plain":
            return text
        return click.style(text, **_STYLES[style])  # type: ignore[arg-type]


def silence(stream: TextIO) -> None:
    """Discard buffered output, so that Python's final flush raises no error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def with_warnings(form: JSONObject, warnings: Iterable[str]) -> JSONObject:
    """Return the form with a member `warnings`, if there are any."""
    texts = [clean(warning) for warning in warnings]
    return {**form, "warnings": texts} if texts else form


def with_options(words: str, options: str) -> str:
    """Add options to each command of this program, which is named as it was started."""
    program = " ".join(runner())
    if not (program or options):
        return words
    command = f"{program or 'discovery'} {options}".strip()
    return _COMMAND.sub(lambda match: match[0].replace("discovery", command), words)


def json_text(form: JSONObject, *, indent: int | None = None) -> str:
    """Return a JSON document, `schema_version` first.

    Everything beyond ASCII is escaped: it is valid in any locale, and controls no terminal.
    """
    return json.dumps({"schema_version": SCHEMA_VERSION, **form}, indent=indent)


def allows_escapes(environ: Mapping[str, str]) -> bool:
    """Return whether colours and cursor movements may be written to a terminal."""
    return not (
        environ.get("NO_COLOR") or environ.get("CI") or environ.get("TERM") in ("dumb", "unknown")
    )


def shortened(text: str, width: int, ellipsis: str) -> str:
    """Return `text` cut to `width` columns, including the ellipsis."""
    if columns_of(text) <= width:
        return text
    space = width - len(ellipsis)
    length = 0
    for character in text:
        space -= columns_of(character)
        if space < 0:
            break
        length += 1
    return text[:length].rstrip() + ellipsis


def wrapped(text: str, width: int) -> list[str]:
    """Return `text` in lines of `width` columns; a longer word gets a line of its own."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and columns_of(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _width(environ: Mapping[str, str]) -> int:
    # Importing shutil for this would take longer than the rest of this module.
    if (columns := environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def _can_write(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


MIN_TOKENS = 50

max_tokens_option = click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=MIN_TOKENS),
    help="Print the answer for agents, in at most N tokens (estimated).",
)


def show_result(output: Output, result: JSONObject, form: JSONObject) -> None:
    """Write the text of a meta-tool's result; as JSON, add it to `form`."""
    text: str = result["content"][0]["text"]
    if output.as_json:
        tokens = result["_meta"]["discovery/answer"]["tokens"]
        output.answer({**form, "text": text, "tokens": tokens})
    else:
        output.text(text)


def replace_file(path: Path, text: str) -> None:
    """Replace the content of a file atomically; only its owner can read a new one.

    Raises:
        UnwritableFileError: If it cannot be written; it is unchanged then.
    """
    # `tempfile` takes 3 ms, and every command loads this module for its error.
    from discovery_engine._util import files

    with writing(path):
        files.replace_file(path, text)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError of the block, which writes a file.

    Raises:
        UnwritableFileError: If it cannot be written; names the file.
    """
    try:
        yield
    except OSError as error:
        raise UnwritableFileError(path, error) from error


class UnwritableFileError(click.UsageError):
    """A file that a command cannot write, with the system's reason."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")
        self.hint = _hint(path, error)


def _hint(path: Path, error: OSError) -> str:
    folder = str(path.parent.absolute())
    match error:
        case FileNotFoundError():
            return f"create its folder first: mkdir -p {shlex.quote(folder)}"
        case NotADirectoryError() | FileExistsError():
            return f"{folder} is no folder; name another file"
        case PermissionError():
            return f"name a file in a folder that you may write, or change the rights of {folder}"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return "free space on its disk, or name a file on another one"
        case OSError(errno=errno.EROFS):
            return "its disk is read-only; name a file on another one"
    return "name another file"
