"""Write the scanner's table of confusable letters from the Unicode data that ICU carries.

    python scripts/make_confusables.py [--icu libicui18n.so.72 --suffix _72]

A letter is confusable (a homoglyph) if ICU gives it the skeleton of an ASCII letter (Unicode
Technical Standard 39). The scanner folds case before it looks a letter up, so the table has small
letters only; that of a capital which looks like a Latin capital is among them. What NFKC makes
ASCII anyway is left out. A manifest beside the table names its source.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import string
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

_DATA = Path(__file__).parent.parent / "discovery_engine" / "scanner" / "data"


class Icu:
    """The spoof checker of an installed ICU."""

    def __init__(self, library: str, suffix: str) -> None:
        self._library = ctypes.CDLL(library)
        self._suffix = suffix
        self._status = ctypes.c_int(0)
        opened = self._library[f"uspoof_open{suffix}"]
        opened.restype = ctypes.c_void_p
        self._checker = ctypes.c_void_p(opened(ctypes.byref(self._status)))
        if self._status.value > 0:
            sys.exit(f"ICU: error {self._status.value} from uspoof_open")

    def skeleton(self, text: str) -> str:
        octets, room = text.encode(), ctypes.create_string_buffer(256)
        length = self._function("uspoof_getSkeletonUTF8")(
            self._checker, 0, octets, len(octets), room, len(room), ctypes.byref(self._status)
        )
        return room.raw[:length].decode()

    def unicode_version(self) -> str:
        version = (ctypes.c_uint8 * 4)()
        self._function("u_getUnicodeVersion")(version)
        return f"{version[0]}.{version[1]}"

    def _function(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(self._library, name + self._suffix)
        return function


def table(icu: Icu) -> dict[str, str]:
    """The ASCII letter of each small letter that looks like it."""
    looks = {icu.skeleton(letter): letter for letter in string.ascii_lowercase}
    capitals = {icu.skeleton(letter): letter.lower() for letter in string.ascii_uppercase}
    confusables: dict[str, str] = {}
    for letter in _letters():
        if found := looks.get(icu.skeleton(letter)):
            confusables.setdefault(letter, found)
    for letter in _letters():
        small = letter.lower()
        if letter != small and len(small) == 1 and (found := capitals.get(icu.skeleton(letter))):
            confusables.setdefault(small, found)
    return {letter: ascii_ for letter, ascii_ in confusables.items() if letter == letter.lower()}


def _letters() -> list[str]:
    letters = (chr(point) for point in range(0x80, sys.maxunicode + 1))
    return [
        letter
        for letter in letters
        if unicodedata.category(letter)[0] == "L"
        and not unicodedata.normalize("NFKC", letter).isascii()
    ]


def written(confusables: Mapping[str, str]) -> str:
    by_ascii: defaultdict[str, list[str]] = defaultdict(list)
    for letter, ascii_ in sorted(confusables.items()):
        by_ascii[ascii_].append(letter)
    rows = {ascii_: "".join(by_ascii[ascii_]) for ascii_ in sorted(by_ascii)}
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--icu", default="libicui18n.so.72")
    parser.add_argument("--suffix", default="_72", help="that ICU appends to its functions' names")
    options = parser.parse_args()
    icu = Icu(options.icu, options.suffix)
    confusables = table(icu)
    text = written(confusables)
    (_DATA / "confusables.json").write_text(text, encoding="utf-8")
    manifest = {
        "script": "scripts/make_confusables.py",
        "source": f"the spoof data of {options.icu} (UTS 39)",
        "unicode": icu.unicode_version(),
        "written": datetime.now(UTC).date().isoformat(),
        "letters": len(confusables),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    path = _DATA / "confusables.manifest.json"
    path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(manifest)


if __name__ == "__main__":
    main()
