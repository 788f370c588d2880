"""Detects orders about tools of other servers, and names that imitate them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from discovery_engine.tools.model import ServerName, Tool, ToolKey
from discovery_engine.tools.offering import Definition
from discovery_engine.trust.scanner.disguises import letters_only

_IDENTIFIER = re.compile(
    r"\b[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)+\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b"
)
_SENTENCE = re.compile(r"[^.!?\n;]+(?:[.!?](?! )[^.!?\n;]*)*")
_ORDER = re.compile(
    r"\b(?:must|always|never|do not|don't|before|after|prior to|when|whenever|any time|each call"
    r"|instead|in its place|rather than|replace|overwritten|deprecated|dangerous|broken|unsafe"
    r"|have to|has to|should|is used|next|if)\b",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"\b(?:call(?:ing|s to)?|us(?:e|ing)|invok(?:e|ing)|before|after|than|when(?:ever)?|if|of"
    r"|tool|to)\s+[`'\"]?$",
    re.IGNORECASE,
)
_AFTER = re.compile(r"[`'\"]?,? (?:tool|function|is|are|must|has|should)\b", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W\d_]+")
_LEAST_WORD = 6  # letters of a word; in a shorter one, a wrong letter often makes another word
_STEM = 5  # letters that must remain without an ending
_SHAPES = (("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"), ("3", "e"), ("5", "s"))


class Neighbours(Struct, frozen=True):
    """The names of all tools, indexed so that one tool is compared with all by look-ups."""

    servers_of: dict[str, set[ServerName]] = field(default_factory=dict)
    """The servers by the exact name."""
    looks: dict[str, set[ToolKey]] = field(default_factory=dict)
    """The tools by the look of their names, in which similar letters are equal."""
    words: dict[str, set[ToolKey]] = field(default_factory=dict)
    """The tools by the words of their names."""

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Neighbours:
        servers: defaultdict[str, set[ServerName]] = defaultdict(set)
        looks: defaultdict[str, set[ToolKey]] = defaultdict(set)
        words: defaultdict[str, set[ToolKey]] = defaultdict(set)
        for tool in tools:
            servers[tool.name].add(tool.server)
            looks[_look(tool.name)].add(tool.key)
            words[_spelling(tool.name)].add(tool.key)
        return cls(dict(servers), dict(looks), dict(words))

    def imitated(self, tool: Definition) -> ToolKey | None:
        """Return the tool of another server that this name imitates; None for equal names."""
        spelling = _spelling(tool.name)
        for key in sorted(self.looks.get(_look(tool.name), ())):
            is_other = key.server != tool.server and _spelling(key.tool) != spelling
            if is_other and _disguise(tool.name) > _disguise(key.tool):
                return key
        return self._misspelt(tool, spelling)

    def _misspelt(self, tool: Definition, spelling: str) -> ToolKey | None:
        """Return another server's tool whose name corrects a misspelling in this one's."""
        if not self.words:
            return None
        for intended in _mended(spelling, tool.description):
            for key in sorted(self.words.get(intended, ())):
                if key.server != tool.server:
                    return key
        return None

    def ordered_about(
        self, tool: Definition, text: str
    ) -> Iterator[tuple[str, ServerName, int, int]]:
        """Yield the tools of other servers that a text orders about: name, server, start, end."""
        if not self.servers_of:
            return
        for sentence in _SENTENCE.finditer(text):
            for identifier in _IDENTIFIER.finditer(sentence[0]):
                servers = self.servers_of.get(identifier[0])
                if (
                    not servers
                    or tool.server in servers
                    or not _is_ordered(sentence[0], identifier)
                ):
                    continue
                if all(identifier[0] != parameter.name for parameter in tool.parameters):
                    yield identifier[0], min(servers), sentence.start(), sentence.end()


def _is_ordered(sentence: str, name: re.Match[str]) -> bool:
    """Return whether a sentence uses the name as that of a tool, and gives an order."""
    before = sentence[max(0, name.start() - 24) : name.start()]
    is_tool = _BEFORE.search(before) or _AFTER.match(sentence, name.end())
    return bool(is_tool and _ORDER.search(sentence))


def _spelling(name: str) -> str:
    """Return a name in snake case: `readFile`, `read-file` and `read_file` are equal."""
    return re.sub(r"[\W_]+", "_", _CAMEL.sub("_", name)).strip("_").lower()


def _look(name: str) -> str:
    look = letters_only(name)
    for shape, letter in _SHAPES:
        look = look.replace(shape, letter)
    return re.sub(r"[\W_]+", "", look)


def _disguise(name: str) -> int:
    """Return how much a name differs from its look; of two alike, the higher one imitates."""
    foreign = sum(not character.isascii() for character in name)
    digits = sum(character in "0135" for character in name)
    return 100 * foreign + 10 * digits + name.count("rn") + name.count("vv")


def _mended(spelling: str, description: str) -> Iterator[str]:
    """Yield the name with one word as the description spells it, one letter off.

    A word that the description also contains, with any ending, is no misspelling.
    """
    mentioned = {
        word for word in _WORDS.findall(description.lower()) if len(word) >= _LEAST_WORD - 1
    }
    words = spelling.split("_")
    for at, word in enumerate(words):
        if len(word) < _LEAST_WORD or any(
            word.startswith(s) or s.startswith(word) for s in mentioned
        ):
            continue
        for right in (stem for meant in sorted(mentioned) for stem in _stems(meant)):
            if _is_one_slip(word, right):
                yield "_".join([*words[:at], right, *words[at + 1 :]])


def _stems(word: str) -> Iterator[str]:
    yield word
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            yield word.removesuffix(ending)


def _is_one_slip(word: str, right: str) -> bool:
    """Return whether one letter is wrong, missing, added or swapped, apart from endings."""
    if word == right or abs(len(word) - len(right)) > 1:
        return False
    start = 0
    while start < min(len(word), len(right)) and word[start] == right[start]:
        start += 1
    rest, other = word[start:], right[start:]
    if len(rest) == len(other):
        is_swap = rest[:2] == other[1::-1] and rest[2:] == other[2:] and len(rest) > 1
        return is_swap or rest[1:] == other[1:]
    longer, shorter = (rest, other) if len(rest) > len(other) else (other, rest)
    is_ending = not shorter and longer in ("s", "d", "r", "y", "e")
    return longer[1:] == shorter and not is_ending
