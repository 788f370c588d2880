"""What a sentence does, told by which families of words follow each other in it.

A signal is given if one of its chains is there: words of these families, in this order, each within
a few words of the one before. In languages other than English the order is free, for verbs and
negations stand elsewhere there. A signal may have a subject: to speak of passwords is one thing in
a tool that is about passwords, and another in one about the weather. How much a signal weighs is
fitted (`scripts/fit_scanner.py`), not chosen here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from discovery_engine.scanner.families import Family
from discovery_engine.scanner.findings import FindingKind
from discovery_engine.scanner.sentences import Sentence

F = Family
_GAP = 5  # words from one of a chain to the next
_FAR = 1000

_INSTRUCTION = FindingKind.INSTRUCTION
_CROSS_SERVER = FindingKind.CROSS_SERVER
_EXFILTRATION = FindingKind.EXFILTRATION


class Link(NamedTuple):
    """A word of one of these families, that has all of those, within some words of the last."""

    any: int
    all: int = 0
    gap: int = _GAP


_Chain: TypeAlias = tuple[Link, ...]


class Signal(NamedTuple):
    name: str
    kind: FindingKind
    says: str
    """What a person reads: "it ..."."""
    chains: tuple[_Chain, ...]
    subject: int = 0
    """The families of words that make it plain talk in a tool whose own subject they are."""
    is_unmistakable: bool = False
    """Whether no honest tool can be imagined that gives it: it is severe by itself."""


def _chain(*families: int | tuple[int, int], gap: int = _GAP) -> _Chain:
    return tuple(
        Link(one[0], one[1], gap) if isinstance(one, tuple) else Link(one, 0, gap)
        for one in families
    )


def _do(family: int) -> tuple[int, int]:
    """A verb of a family in the imperative."""
    return (family, F.DO)


_PERSONAL = F.SECRET | F.TALK | F.PRIVATE | F.PATH
_ACT = F.GIVE | F.TAKE | F.USE | F.DESTROY | F.CHANGE

SIGNALS = (
    # Secrecy
    Signal("secrecy", _INSTRUCTION, "it asks to keep something from the user", (
        (Link(F.NOT), Link(F.TELL, gap=3), Link(F.USER)),
        _chain(F.USER, F.MUST, F.NOT, F.KNOW | F.TELL, gap=3),
        _chain(F.USER, F.NOT, F.MUST, F.KNOW | F.TELL, gap=3),
        _chain(F.NOT, F.USER, F.KNOW | F.TELL),
        _chain(F.HIDE, F.USER),
        _chain(_do(F.OMIT), F.USER, gap=6),
    ), F.USER),
    Signal("silence", _INSTRUCTION, "it asks not to speak of something", (
        _chain(F.NOT, _do(F.TELL), gap=3),
        _chain(F.NOT, F.TELL, F.THIS),
        _chain(F.NOT, F.TELL, F.REPLY),
        _chain(_do(F.OMIT), F.REPLY, gap=8),
        _chain(_do(F.HIDE)),
        _chain(_do(F.OMIT), F.HIDE),
    ), F.TELL),
    Signal("stealth", _INSTRUCTION, "it wants something done unnoticed", (
        _chain(F.HIDE, _do(_ACT), gap=3),
        _chain(_do(_ACT), F.HIDE, gap=14),
    ), F.HIDE),
    Signal("no_consent", _INSTRUCTION, "it wants no confirmation asked for", (
        _chain(F.NOT, F.ASK, gap=3),
        _chain(F.USER, F.EXCUSE),
        _chain(F.EXCUSE, F.USER),
        _chain(_do(F.DROP), F.ASK),
        _chain(F.ASK, F.NOT, F.MUST),
    ), F.ASK),
    Signal("claimed_consent", _INSTRUCTION, "it claims that the user agreed", (
        _chain(F.USER, F.PERMIT),
        _chain(F.PERMIT, F.USER, gap=4),
        _chain(F.YOU, F.PERMIT),
    )),
    # Rules and roles
    Signal("drops_instructions", _INSTRUCTION, "it tells a model to drop its instructions", (
        _chain(_do(F.FORGET), F.EARLIER, F.INSTRUCTION, gap=3),
    ), is_unmistakable=True),
    Signal("drops_rules", _INSTRUCTION, "it sets aside the rules given to the model", (
        _chain(F.DROP, F.EARLIER | F.YOU, F.RULES),
        _chain(F.DROP, F.RULES, F.EARLIER | F.YOU),
        _chain(F.EARLIER | F.YOU, F.RULES, F.DROP | F.NOT),
        _chain(F.NOT, F.OBEY, F.RULES),
        _chain(F.DROP, F.WHOLE, F.EARLIER | F.YOU),
    ), F.RULES),
    Signal("rules", _INSTRUCTION, "it speaks of rules as if they were off", (
        _chain(F.DROP, F.RULES),
        _chain(F.RULES, F.DROP | F.NOT, gap=4),
    ), F.RULES),
    Signal("your_rules", _INSTRUCTION, "it speaks of the model's own instructions", (
        _chain(F.YOU, F.RULES),
        _chain(F.MODEL, F.RULES),
    ), F.RULES),
    Signal("over_user", _INSTRUCTION, "it puts itself above the user", (
        _chain(F.REGARDLESS, F.USER),
        _chain(F.DROP, F.USER),
        _chain(F.USER, F.REGARDLESS | F.DROP),
        _chain(F.REGARDLESS, F.ASK),
    )),
    Signal("new_role", _INSTRUCTION, "it gives the model another role", (
        _chain(F.YOU, F.ROLE),
        _chain(F.OBEY, F.ROLE),
        _chain(F.FUTURE, F.YOU | F.MUST),
    ), F.ROLE),
    Signal("authority", _INSTRUCTION, "it claims an authority that a tool does not have", (
        _chain(F.AUTHORITY, F.MUST | F.PERMIT | F.OBEY | F.RULES),
        _chain(F.MUST | F.PERMIT | F.OBEY | F.RULES, F.AUTHORITY),
        _chain(F.AUTHORITY, F.YOU, gap=3),
        _chain(F.YOU, F.AUTHORITY, gap=3),
    ), F.AUTHORITY),
    Signal("obeys_text", _INSTRUCTION, "it makes text from elsewhere into orders", (
        _chain(F.RULES, F.FOUND, F.OBEY),
        _chain(F.OBEY, F.RULES, F.FOUND),
        _chain(F.FOUND, F.RULES, F.OBEY),
        _chain(_do(F.OBEY), F.RULES),
        _chain(_do(F.OBEY), F.REGARDLESS | F.WHOLE),
        _chain(F.FOUND | F.RULES, F.MUST, F.OBEY, gap=8),
    )),
    Signal("deceives", _INSTRUCTION, "it asks the model to deceive", (
        _chain(_do(F.DECEIVE)),
        _chain(F.DECEIVE, F.USER),
        _chain(_do(F.TELL), F.DECEIVE, gap=8),
        _chain(F.BROKEN, F.TELL, F.DECEIVE | F.OUTCOME, gap=8),
        _chain(_do(F.TELL), F.USER, F.OUTCOME, gap=7),
    ), F.DECEIVE),
    Signal("dictates", _INSTRUCTION, "it dictates what the user is told", (
        _chain(F.USER, F.ASK, F.TELL, gap=8),
        _chain(F.WHEN, F.USER, _do(F.TELL), gap=8),
        _chain(_do(F.PREFER)),
    ), F.USER | F.TELL),
    Signal("speaks", _INSTRUCTION, "it says what the user is to be told", (
        _chain(_do(F.TELL), F.USER, gap=3),
    ), F.TELL),
    # Who is addressed
    Signal("model", _INSTRUCTION, "it speaks to the model", (
        _chain(F.MODEL, F.MUST),
        _chain(F.MODEL, (F.VERB, F.DO)),
        _chain(F.LABEL, F.MODEL),
        _chain(F.MUST, F.MODEL),
        _chain(F.YOU, F.MODEL),
    ), F.MODEL),
    Signal("label", _INSTRUCTION, "it carries the marks of a prompt", (
        _chain(F.LABEL),
    )),
    Signal("imperative", _INSTRUCTION, "it gives orders", (
        _chain((F.VERB, F.DO)),
    )),
    Signal("must", _INSTRUCTION, "it insists", (
        _chain(F.MUST, F.MUST),
        _chain(F.MUST, (F.VERB, F.DO)),
        _chain(F.YOU, F.MUST),
    )),
    Signal("lasting", _INSTRUCTION, "it wants to be obeyed from then on", (
        _chain(F.FUTURE, _ACT | F.OBEY),
        _chain(_ACT | F.OBEY, F.FUTURE),
    )),
    Signal("each_time", _INSTRUCTION, "it ties an order to what happens elsewhere", (
        _chain(F.BEFORE | F.WHEN, _do(_ACT), gap=12),
    )),
    Signal("acts", _INSTRUCTION, "it has something done that cannot be undone", (
        _chain(_do(F.DESTROY)),
    ), F.DESTROY),
    # Other tools
    Signal("other_tools", _CROSS_SERVER, "it speaks of other tools", (
        _chain(F.OTHER, F.TOOL, gap=3),
    ), F.TOOL),
    Signal("over_tools", _CROSS_SERVER, "it wants to be used before or instead of other tools", (
        _chain(F.NOT | F.DROP, F.USE, F.OTHER),
        _chain(F.NOT, F.OTHER, F.TOOL),
        _chain(F.PREFER | F.MUST, F.THIS, F.OTHER, gap=7),
        _chain(F.USE, F.THIS, F.OTHER, gap=7),
        _chain(F.THIS, F.TOOL, F.OTHER, gap=7),
        _chain(F.BEFORE, F.OTHER, F.TOOL),
        _chain(F.BEFORE, F.WHOLE, F.TOOL | F.USE | F.REPLY),
        _chain(F.OTHER, F.TOOL, F.PREFER | F.DROP | F.BROKEN | F.NOT),
    ), F.TOOL),
    Signal("hooks_tools", _CROSS_SERVER, "it gives orders about other tools", (
        _chain(F.WHEN | F.BEFORE, F.OTHER, F.TOOL),
        _chain(F.MUST, F.OTHER, F.TOOL),
        _chain((F.VERB, F.DO), F.OTHER, F.TOOL, gap=8),
    ), F.TOOL),
    Signal("names_tool", _CROSS_SERVER, "it names a tool to be called", (
        _chain(F.USE, F.NAME, gap=3),
        _chain(F.NAME, F.TOOL, gap=2),
        _chain(F.TOOL, F.NAME, gap=2),
    ), F.TOOL),
    # Collecting
    Signal("conversation", _EXFILTRATION, "it asks for the conversation", (
        _chain(F.WHOLE | F.YOU | F.USER | F.AUTHORITY, F.TALK, gap=4),
        _chain(F.TALK, F.TALK, gap=2),
        _chain(_do(F.GIVE), F.TALK, gap=9),
        _chain(F.TALK, F.MUST, F.GIVE),
        _chain(_do(F.TELL), F.TALK),
    ), F.TALK),
    Signal("secrets", _EXFILTRATION, "it asks for credentials", (
        _chain(_do(F.GIVE | F.TAKE), F.SECRET, gap=8),
        _chain(F.WHOLE | F.YOU | F.USER, F.SECRET, gap=4),
        _chain(F.SECRET, F.MUST, F.GIVE),
        _chain(F.SECRET, F.SECRET, gap=4),
    ), F.SECRET),
    Signal("private", _EXFILTRATION, "it asks for what is private to the user", (
        _chain(_do(F.GIVE | F.TAKE), F.USER | F.WHOLE | F.YOU, F.PRIVATE),
        _chain(F.USER | F.YOU, F.PRIVATE, F.GIVE),
        _chain(F.GIVE, F.USER, F.PRIVATE),
    ), F.PRIVATE),
    Signal("secret_file", _EXFILTRATION, "it names a file that holds secrets", (
        _chain(F.PATH),
    ), F.SECRET),
    Signal("takes_secret_file", _EXFILTRATION, "it asks for a file that holds secrets", (
        _chain(_do(F.TAKE | F.GIVE), F.PATH, gap=7),
        _chain(F.MUST, F.TAKE | F.GIVE, F.PATH),
        _chain(F.PATH, F.GIVE, gap=9),
    ), F.SECRET),
    Signal("fills_argument", _EXFILTRATION, "it wants something foreign in an argument", (
        _chain(_do(F.GIVE), F.SLOT | F.NAME, gap=14),
        _chain(_PERSONAL, F.GIVE | F.MUST, F.SLOT | F.NAME, gap=8),
        _chain(F.SLOT, F.GIVE, _PERSONAL, gap=8),
    ), F.SLOT),
    Signal("personal_argument", _EXFILTRATION, "it wants private text in an argument", (
        _chain(F.GIVE, _PERSONAL, F.SLOT | F.NAME, gap=9),
        _chain(_PERSONAL, F.GIVE, F.SLOT | F.NAME, gap=9),
        _chain(F.SLOT, F.MUST | F.GIVE, _PERSONAL, gap=8),
    ), F.TALK | F.SECRET),
    Signal("takes_and_gives", _EXFILTRATION, "it has something read and passed on", (
        _chain(_do(F.TAKE), F.GIVE, gap=14),
    ), F.TAKE),
    Signal("outside", _EXFILTRATION, "it names a destination outside", (
        _chain(_do(F.GIVE), F.ADDRESS, gap=14),
        _chain(F.MUST, F.GIVE, F.ADDRESS, gap=4),
    ), F.ADDRESS | F.GIVE),
    Signal("address", _EXFILTRATION, "it holds an address", (
        _chain(F.ADDRESS),
    ), F.ADDRESS),
    Signal("to_us", _EXFILTRATION, "it wants something sent to its maker", (
        _chain(F.GIVE, F.US, gap=10),
        _chain(F.US, F.TOOL | F.MUST | F.PREFER, gap=4),
    )),
    Signal("pretext", _EXFILTRATION, "it gives a pretext", (
        _chain(F.PRETEXT, _do(F.GIVE | F.TAKE), gap=12),
        _chain(_do(F.GIVE | F.TAKE), F.PRETEXT, gap=14),
    )),
    Signal("threat", _INSTRUCTION, "it says what fails otherwise", (
        _chain(F.MUST | F.GIVE | F.USE, F.BROKEN, gap=14),
    )),
    Signal("diverts", _EXFILTRATION, "it changes where money or messages go", (
        _chain(F.CHANGE, F.MONEY),
        _chain(F.MONEY, F.CHANGE | F.MUST),
        _chain(F.MONEY, F.ADDRESS, gap=8),
    ), F.MONEY),
    Signal("runs", _INSTRUCTION, "it has a command run", (
        _chain(F.USE | F.OBEY, F.COMMAND),
        _chain(F.COMMAND, F.ADDRESS),
    ), F.COMMAND),
)  # fmt: skip


_COMMON = F.ENGLISH | F.AND


def signals_of(sentence: Sentence) -> Iterator[int]:
    """The numbers of the signals that a sentence gives."""
    possible = _possible(sentence.families & ~_COMMON)
    if not possible:
        return
    marked = [(at, word) for at, word in enumerate(sentence.words) if word & ~_COMMON]
    for number, chains in possible:
        for chain in chains:
            if _follows(chain, marked) or (not sentence.is_english and _stands(chain, marked)):
                yield number
                break


@lru_cache(maxsize=20_000)
def _possible(families: int) -> tuple[tuple[int, tuple[_Chain, ...]], ...]:
    """The signals, and their chains, that words of these families may give."""
    possible = []
    for number, signal in enumerate(SIGNALS):
        if chains := tuple(chain for chain in signal.chains if _fits(chain, families)):
            possible.append((number, chains))
    return tuple(possible)


def _fits(chain: _Chain, families: int) -> bool:
    return all(link.any & families and link.all & families == link.all for link in chain)


def _follows(chain: _Chain, marked: list[tuple[int, int]]) -> bool:
    """Whether words of a chain follow each other; the latest place of each link is enough."""
    places = [-_FAR] * len(chain)
    last = len(chain) - 1
    links = [(level, *chain[level]) for level in range(last, -1, -1)]
    for at, word in marked:
        for level, any_of, all_of, gap in links:
            if not word & any_of or word & all_of != all_of:
                continue
            if level == 0 or at - places[level - 1] <= gap:
                if level == last:
                    return True
                places[level] = at
    return False


def _stands(chain: _Chain, marked: list[tuple[int, int]]) -> bool:
    """Whether words of a chain stand near each other in any order, each word for one link."""
    if len(chain) == 1:
        return False
    span = max(link.gap for link in chain) + len(chain)
    places = [-_FAR] * len(chain)
    for at, word in marked:
        fitting = [level for level, link in enumerate(chain) if word & link.any]
        if not fitting:
            continue
        places[min(fitting, key=places.__getitem__)] = at
        if at - min(places) <= span:
            return True
    return False
