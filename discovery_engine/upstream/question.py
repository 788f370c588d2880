"""A question of a server to the user of its caller: what it wants, and what its texts are.

Everything in a question is the server's: it is passed on as data, with the server's name and the
scanner's findings beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import quoted
from discovery_engine.rpc.client import ELICIT, LIST_ROOTS, QUESTIONS, SAMPLE, explicit
from discovery_engine.rpc.incremental_json import ParseSteps
from discovery_engine.rpc.protocol import ASKING_SERVER, FINDINGS
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.trust import scanner

_NAMES = {ELICIT: "elicitation", SAMPLE: "sampling", LIST_ROOTS: "roots"}
"""The capability of a client that each method needs."""
_VALUES = 4096  # of a question
_CHARACTERS = 64 * 1024  # of a form; no person reads a longer one
_CHARACTERS_OF_SAMPLE = 2 * 1024 * 1024  # a conversation may have images
_MOST_CHARACTERS = {ELICIT: _CHARACTERS, SAMPLE: _CHARACTERS_OF_SAMPLE, LIST_ROOTS: _CHARACTERS}
_SCANNED = 16 * 1024  # characters
_PIECE = 1024  # characters that are scanned at a time: at most about 1 ms
_OVERLAP = 200  # characters of a sentence that is not missed where two pieces meet
_QUOTED = 200  # characters


class Question(Struct, frozen=True):
    """A request of a server for its caller's client."""

    method: str
    params: JSONObject

    @classmethod
    def from_json(cls, request: JSONValue) -> Question | None:
        """A member of `inputRequests`; None if it is not one."""
        match request:
            case {"method": str(method), **rest} if method in QUESTIONS:
                params = rest.get("params")
                return cls(method, params if isinstance(params, dict) else {})
            case _:
                return None

    @property
    def mode(self) -> str:
        """The mode of an elicitation: `form`, `url`, or any other that the server wrote."""
        return str(self.params.get("mode", "form"))

    @property
    def summary(self) -> str:
        """The request in one line, for an error, with the server's words in quotes."""
        match self.method:
            case "elicitation/create":
                message = self.params.get("message")
                text = message if isinstance(message, str) else ""
                what = "an address to open" if self.mode == "url" else "input from its user"
                return f"{what}: {quoted(text[:_QUOTED])}" if text else what
            case "sampling/createMessage":
                return "a text of the client's language model"
            case _:
                return "the folders (roots) that it may use"

    def missing(self, capabilities: Mapping[str, JSONObject]) -> str | None:
        """The capability that a client would need to declare; None if it declares it."""
        name = _NAMES[self.method]
        declared = capabilities.get(name)
        if not isinstance(declared, dict):
            return name
        if self.method == ELICIT:
            modes = explicit(name, declared)
            return None if isinstance(modes.get(self.mode), dict) else f"{name}.{self.mode}"
        if self.method == SAMPLE and "tools" in self.params:
            return None if isinstance(declared.get("tools"), dict) else f"{name}.tools"
        return None

    @property
    def is_too_large(self) -> bool:
        """True if it is more than a person would read, or than a model should be asked."""
        return _exceeds(self.params, _MOST_CHARACTERS[self.method])

    async def annotated(self, server: str, scheduler: FairScheduler) -> JSONObject:
        """The params with the server's name, and the scanner's findings, in their `_meta`.

        They are scanned in steps, between which other tasks run.
        """
        return await scheduler.run(self.annotation_steps(server), size=0)

    def annotation_steps(self, server: str) -> ParseSteps[JSONObject]:
        """The steps of `annotated`."""
        meta = self.params.get("_meta")
        marks: JSONObject = {ASKING_SERVER: server}
        if findings := (yield from self._findings()):
            marks[FINDINGS] = findings
        return self.params | {"_meta": (meta if isinstance(meta, dict) else {}) | marks}

    def _findings(self) -> ParseSteps[list[JSONObject]]:
        rest = _SCANNED
        findings: list[JSONObject] = []
        for where, text in _texts(self.params, self.method):
            if rest <= 0:
                break
            beginning = text[:rest]
            rest -= len(beginning)
            for start in range(0, max(len(beginning) - _OVERLAP, 1), _PIECE - _OVERLAP):
                piece = beginning[start : start + _PIECE]
                alarms = scanner.alarms(scanner.scan_text(piece, where=where))
                reports = [finding.to_json() for finding in alarms]
                findings += [report for report in reports if report not in findings]
                yield
        return findings


def _texts(params: JSONObject, method: str) -> Iterator[tuple[str, str]]:
    """The texts that a person or a model is to read, by place."""
    parts = {ELICIT: ("message", "requestedSchema"), SAMPLE: ("systemPrompt", "messages")}.get(
        method, ()
    )
    for part in parts:
        yield from _strings(params.get(part), part)


def _strings(value: JSONValue, place: str) -> Iterator[tuple[str, str]]:
    todo = [(place, value)]
    for _ in range(_VALUES):
        if not todo:
            return
        where, node = todo.pop()
        match node:
            case str():
                yield where, node
            case dict():
                todo += [(f"{where}.{key}", item) for key, item in reversed(node.items())]
            case list():
                todo += [
                    (f"{where}.{number}", item) for number, item in reversed([*enumerate(node)])
                ]


def _exceeds(params: JSONObject, most: int) -> bool:
    """Return whether there are too many values for a question, or more than `most` characters."""
    characters, values = 0, 0
    rest: list[JSONValue] = [params]
    while rest:
        match node := rest.pop():
            case str():
                characters += len(node)
            case dict():
                characters += sum(map(len, node))
                rest += node.values()
            case list():
                rest += node
        values += 1
        if values + len(rest) > _VALUES or characters > most:
            return True
    return False
