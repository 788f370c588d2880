"""Long requests made of short ones, as agents send them: task descriptions of 60 to 300 words.

Half are several requests of one set in a row: a task of many steps, served by whoever serves one
of them. The other half is one request among sentences that ask for nothing
(`benchmarks/long_requests/frames.txt`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "benchmarks" / "long_requests"
FRAMES, TASKS = FOLDER / "frames.txt", FOLDER / "tasks.jsonl"
LENGTHS = (60, 300)  # words


class Request(NamedTuple):
    text: str
    right: frozenset[tuple[str, str]] = frozenset()
    """Server and name of each tool that serves it."""


def long_requests(short: Sequence[Request], count: int, seed: str) -> Iterator[Request]:
    """`count` long requests, in turn of several short ones and of one in a frame."""
    frames = [f for f in FRAMES.read_text(encoding="utf-8").splitlines() if not f.startswith("#")]
    chance = random.Random(seed)
    for number in range(count if short else 0):
        length = chance.randint(*LENGTHS)
        yield _framed(short, frames, length, chance) if number % 2 else _row(short, length, chance)


def _row(short: Sequence[Request], length: int, chance: random.Random) -> Request:
    chosen: list[Request] = []
    while sum(len(one.text.split()) for one in chosen) < length:
        chosen.append(chance.choice(short))
    return Request(
        " ".join(_sentence(one.text) for one in chosen),
        frozenset[tuple[str, str]]().union(*(one.right for one in chosen)),
    )


def _framed(
    short: Sequence[Request], frames: Sequence[str], length: int, chance: random.Random
) -> Request:
    one = chance.choice(short)
    left = length - len(one.text.split())
    around: list[str] = []
    for frame in chance.sample(frames, len(frames)):
        if left <= 0:
            break
        around.append(frame)
        left -= len(frame.split())
    around.insert(chance.randint(0, len(around)), _sentence(one.text))
    return Request(" ".join(around), one.right)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."
