"""The reading of English requests: the operation asked for, and whether of many things.

The first words decide: a verb, a question, or neither; words of asking before them are passed over,
as are conditions and what is not to be done. Some words begin questions and orders: `do we have
backups`, `do a backup`. A request of several sentences says what to do in the last one that begins
with a verb.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.search.operations.operation import (
    CHANGING,
    Operation,
    is_plural,
    operation_words,
)
from discovery_engine.search.text.tokenizer import single_edits, words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from discovery_engine.search.text.lexicon import Lexicon

SHOWN = int(Operation.READ | Operation.LIST | Operation.SEARCH)
ASKED = SHOWN | int(Operation.COUNT | Operation.COMPUTE)
_READ = int(Operation.READ)
_LISTED = int(Operation.LIST)
_CREATED = int(Operation.CREATE)
_CHANGED = int(CHANGING)
_MADE = int(Operation.CREATE | Operation.RUN)
_QUESTIONS = frozenset(
    (
        *("what", "whats", "which", "who", "whos", "whose", "wheres", "why"),
        *("how", "is", "are", "does", "did", "has", "was", "were", "any", "am"),
        "will",
    )
)
_DO, _HAVE = "do", "have"  # begin a question before its subject, else an order
_SUBJECTS = frozenset(("i", "we", "you", "u", "they", "there", "any", "anyone", "anybody"))
_STATES = frozenset(("exist", "have", "been"))  # do the pods exist, have the tests been run
_CIRCUMSTANCES = frozenset(("when", "where"))
_INVERTED = frozenset(
    (
        *("s", "is", "are", "was", "were", "am", "do", "does", "did", "will", "would", "can"),
        *("could", "should", "shall", "may", "might", "must", "has", "have", "had"),
    )
)
_OBJECTS = frozenset(("it", "them", "me", "us"))
_COUNTING = "number of"
_POLITE = lazy_pattern(
    r"(?:can|could|would|will) (?:you|u|we|i|someone|somebody)"
    r"(?: (?:please|kindly|just|quickly|maybe))*\s"
    r"|(?:please|pls|plz|kindly|hey|hi|hello|ok|okay|so|now|then|and|also|just|quickly|first"
    r"|finally|next)[,:]?\s"
    r"|i (?:really )?(?:need|want|would like|wanna|have|wish|am trying|am going)(?: you)? to "
    r"(?:be able to )?"
    r"|i['\u2019]?d (?:like|love|want)(?: you)? to "
    r"|(?:we|you) (?:need|want|have|should|must)(?: you)?(?: to)? "
    r"|(?:help|let) (?:me|us)(?: to)? |let['\u2019]?s |go (?:ahead and |and )?"
    r"|make sure (?:to |that )?"
    r"|(?:do not|don['\u2019]?t) (?:forget|hesitate|fail|neglect) to |(?:have|need|want) to "
    r"|do (?:me|us) a favou?r(?: and)?,?\s|why (?:not|don['\u2019]?t (?:you|we)) "
    r"|(?:is it possible to|is there (?:a|any) way to|how (?:can|do|could) i|how to"
    r"|what tool can|a tool (?:to|that can|for)|i(?:['\u2019]| a)m (?:looking|trying) to)\s",
    re.IGNORECASE,
)
_NEED = lazy_pattern(
    r"(?:i|we) (?:need|want|require|['\u2019]?d like|would like|wish) (?!to\b|you\b)"
    r"|(?:give|get|show|tell|send) (?:me|us) ",
    re.IGNORECASE,
)
_PARTICIPLE = ("ed", "ing", "en")
_INFLECTED = (*_PARTICIPLE, "s")
_TERSE = 5  # words
_NEW = frozenset(("a", "an", "some", "another", "new"))
_DETERMINERS = frozenset(
    (
        *("a", "an", "the", "this", "that", "these", "those", "my", "our", "your", "his", "her"),
        *("its", "their", "me", "us", "it", "them", "all", "every"),
    )
)
_PREPOSITIONS = frozenset(("of", "for", "by", "in", "on", "about", "at", "from", "with", "to"))
_BEFORE_VERB = frozenset(
    (
        *("to", "and", "then", "can", "could", "you", "we", "i", "please", "let", "now", "just"),
        *("should", "must"),
    )
)
_MANY = frozenset(
    ("all", "every", "each", "these", "those", "multiple", "many", "several", "both", "list")
)
_SHORTEST_TYPO = 4  # letters
_SENTENCE_END = lazy_pattern(r"(?<=[.!?;:\n])\s+")
_MOST_SENTENCES = 12
_ENGLISH = "en"
_LONG = 200  # characters; such a request asks for several things, and its verb is less certain


_PHRASE_ENDS = _PREPOSITIONS | frozenset(
    (
        *("named", "called", "that", "which", "who", "into", "onto", "as", "than", "via", "using"),
        *("within", "and"),
    )
)


Stem: TypeAlias = "Callable[[str], str]"


class Wish(NamedTuple):
    operations: int
    """An `Operation`, one of several if it is not certain."""
    is_explicit: bool
    """True if a verb or a question says so; otherwise it is a guess."""
    is_of_many: bool | None
    """True if words are in the plural, or `all`; None if that cannot be seen."""


def read_english(intent: str, lexicon: Lexicon, unknown: Container[str]) -> Wish:
    """Read what a request asks for; a verb may have a typo if it is among the `unknown` words."""
    stem, is_stop_word = lexicon.stem, lexicon.is_stop_word
    sentences = _SENTENCE_END.split(intent.strip())[-_MOST_SENTENCES:]
    is_alone = len(sentences) == 1
    operations, is_explicit, many = 0, False, False
    for sentence in reversed(sentences):
        clauses = asking_clauses(sentence, _ENGLISH)
        request = _stripped(clauses)
        need = _NEED.match(request)
        said = words(request[need.end() :] if need else request)
        if not said:
            continue
        if need:
            meaning, is_clear = _wished(said, stem)
        elif _is_question(said, stem, has_mark=request == clauses and request.endswith("?")):
            meaning, is_clear = ASKED, True
        else:
            meaning, is_clear = _ordered(said, stem, unknown, is_alone=is_alone)
        if not operations or (is_clear and not is_explicit):
            operations, is_explicit = meaning, is_clear
            many = any(w in _MANY or (is_plural(w) and not is_stop_word(w)) for w in said)
        if is_clear or need:
            break
    if many and operations == _READ:
        operations |= _LISTED
    return Wish(operations, is_explicit and is_alone and len(intent) < _LONG, many)


def object_of(request: str, stem: Stem) -> str:
    """Return the noun that follows an order's verb: `board` in `delete the old board of Trello`.

    Empty if the request does not begin with a verb, or has no noun.
    """
    said = words(_stripped(request).partition(",")[0])
    is_order = bool(said) and stem(said[0]) in operation_words().verbs
    return "".join(objects(said)[-1:]) if is_order else ""


def objects(said: Sequence[str]) -> list[str]:
    """Return the words behind the first one, a verb, up to a preposition: `old board`."""
    others = [word for word in said[1:] if word.isalpha() and word not in _DETERMINERS]
    start = next((at for at, word in enumerate(others) if word not in _PHRASE_ENDS), len(others))
    return [*takewhile(lambda word: word not in _PHRASE_ENDS, others[start:])]


def _wished(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """Read what follows `show me` or `I want`: `the bill` to see, `a bill` to make, `it locked`."""
    verbs = operation_words().verbs
    done = [w for w in said[1:] if w.endswith(_PARTICIPLE)]
    for word in done:
        if operations := verbs.get(stem(word), 0):
            return operations | SHOWN, False
    return (SHOWN | _CREATED if said[0] in _NEW else SHOWN), False


def _ordered(
    said: Sequence[str], stem: Stem, unknown: Container[str], *, is_alone: bool
) -> tuple[int, bool]:
    """Read a request that is no question, although it may begin like one."""
    first, *others = said
    if first in _CIRCUMSTANCES:
        return ASKED, False
    if others and (first == _DO or (first == _HAVE and others[0] in _NEW)):
        return _done(others, stem)
    if others and first == _HAVE:
        return _had(others, stem)
    return _head(said, stem, unknown, is_alone=is_alone)


def _head(
    said: Sequence[str], stem: Stem, unknown: Container[str], *, is_alone: bool
) -> tuple[int, bool]:
    """Read a request that begins with a verb or with a noun."""
    verbs, nouns, phrases = operation_words()
    first, *others = said
    if len(said) > 1 and (operations := phrases.get((stem(first), stem(said[1])), 0)):
        return operations, True
    is_base = not first.endswith(_PARTICIPLE)
    is_mistyped = first in unknown and bool(others) and others[0] not in _PREPOSITIONS
    guessed = _mistyped(first, stem) if is_mistyped else 0
    if is_base and (operations := verbs.get(stem(first), guessed)):
        return operations, True
    if is_base and others and others[0] in _DETERMINERS:
        return nouns.get(stem(first), _CHANGED), False
    if others and others[0] not in _PREPOSITIONS and (operations := nouns.get(stem(first), 0)):
        return operations | SHOWN, False
    inner = 0
    for before, word in pairwise(said):
        if before in _BEFORE_VERB or (len(said) <= _TERSE and not word.endswith(_INFLECTED)):
            inner |= verbs.get(stem(word), 0)
    return inner or SHOWN, not inner and is_alone and len(said) <= _TERSE


def _is_question(said: Sequence[str], stem: Stem, *, has_mark: bool) -> bool:
    first, second, third = (*said[:3], "", "")[:3]
    if first in (_DO, _HAVE):
        return (
            second in _SUBJECTS
            or not _STATES.isdisjoint(said[2:])
            or (has_mark and second not in _NEW)
        )
    if first in _CIRCUMSTANCES and second not in _INVERTED:  # when the build fails restart it
        verbs = operation_words().verbs
        return not any(verbs.get(stem(word), 0) & _CHANGED for word in said[1:])
    return (
        first in _QUESTIONS
        or first in _CIRCUMSTANCES
        or (first == "don" and second == "t" and third in _SUBJECTS)
        or " ".join(said[:2]) == _COUNTING
    )


def _done(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """Read `do a backup of the database`, `have a look at it`, `do delete it` and the like."""
    verbs, nouns, _ = operation_words()
    thing = [*takewhile(lambda word: word not in _PREPOSITIONS, said)]
    # A verb may follow a plural, which makes it a question: do the tests pass.
    is_certain = said[0] in _NEW or not any(map(is_plural, thing[:-1]))
    if operations := verbs.get(stem(said[0]), 0):
        return operations, is_certain
    for word in reversed(thing):
        if operations := verbs.get(stem(word), 0):
            return operations, is_certain
        if operations := nouns.get(stem(word), 0):
            return operations | _MADE, is_certain
    return _CHANGED, False


def _had(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """Read `have ana review the draft`, `have it deleted` and the like."""
    verbs, nouns, _ = operation_words()
    after_subject = 2 if said[0] in _DETERMINERS - _OBJECTS else 1
    for word, behind in pairwise((*said[after_subject:], "")):
        if operations := verbs.get(stem(word), 0):
            return (operations | SHOWN, False) if word.endswith(_PARTICIPLE) else (operations, True)
        if behind in _DETERMINERS:
            return nouns.get(stem(word), _CHANGED), False
    return ASKED, False


def _mistyped(word: str, stem: Stem) -> int:
    verbs = operation_words().verbs
    if len(word) < _SHORTEST_TYPO:
        return 0
    return max((verbs[w] for w in single_edits(stem(word)) if w in verbs), default=0)


def _stripped(request: str) -> str:
    while True:
        request = request.strip()
        shorter = _POLITE.sub("", request, count=1) if _POLITE.match(request) else request
        if shorter == request:
            return request
        request = shorter


# when the build fails, restart it              restart it
# do not list them, delete the old ones         delete the old ones
# si el servicio se detiene, borra el archivo   borra el archivo
# do not delete the branch                      nothing is asked for
#
# And the parts of a clause that it excludes:
#
# archive the channel without deleting it       without deleting it
# the open issues, not the archived ones        not the archived ones

_MAX_REQUEST_CLAUSES = 16  # clauses; the rest is one
_PUNCTUATION = r"[,;:](?!\d)|[\uff0c\u3001\uff1b\uff1a]|\s[-\u2013\u2014]\s"
_END_OF_SENTENCE = lazy_pattern(r"(?<=[.!?\n])\s+|(?<=[\u3002\uff01\uff1f])")
_MOST_EXCLUDED = lazy_pattern(r"\s*(?:\S+\s+){8}")  # words; what follows asks again, as a rule
_ENDS = " .!\u3002\uff01"
_DETERMINER = r"(?:the|any|anything|my|our|your|its|their|this|that|these|those)\b"
_SUBJECT = r"(?:i|we|you|they)\b"
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|will|would|can|could|should|shall|may|might|must|has|have"
    r"|had)\b"
)


class _Marks(Struct, frozen=True):
    """The patterns of a language that show that a clause, or a part of it, asks for nothing."""

    condition: str
    """A pattern at the beginning; empty where the last verb decides, which is in no condition."""
    negation: str
    """A pattern at the beginning."""
    final_negation: str = ""
    conjunction: str = ""
    """Words that separate clauses, besides punctuation."""
    exclusion: str = ""
    """Words within a clause that exclude what follows."""
    end: str = ""
    """Words that end an exclusion, besides the end of the clause."""
    final_exclusion: str = ""
    """Words within a clause that exclude what precedes."""
    words: str = ""
    """Words of which every negation and exclusion has one; a text with none of them is skipped."""


_MARKS = {
    "en": _Marks(
        r"(?:(?:and|so|also|please|ok|hey)\s)?"
        r"(?:(?:if|whenever|wherever|once|unless|until|while|after|before"
        r"|as (?:soon|long) as|in case|because|since|although|though|assuming|provided"
        r"|given that|instead of|rather than|without|for (?:each|every|any))\b"
        rf"|(?:when|where)\b(?!['\u2019]?s\b|\s+{_AUXILIARY}))",
        r"(?:(?:please|pls|and|so|also|then|(?:can|could|would|will) you|(?:we|you) (?:should|must)"
        r"|(?:i|we) (?:want|need) you to)\s+)*"
        r"(?:(?:do not|don['\u2019]?t|never|no need to)\s"
        rf"(?!{_SUBJECT}|(?:forget|hesitate|fail|neglect) to\b|disturb\b)"
        r"|not\s(?!only|just|yet|sure|limited|necessarily)"
        r"|(?<=you )not\s|(?<=you to )not\s|(?<=should )not\s|(?<=must )not\s|no$)",
        conjunction=r"\s(?:but|then|instead(?! of\b))\s",
        exclusion=rf"\bwithout (?:{_DETERMINER}|\w+ing\b)|\bexcluding\s|\bexcept\s"
        r"|\b(?:other|rather) than\s|\binstead of\s"
        r"|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )(?<!['\u2019]s )(?<!['\u2019]re )"
        rf"\bnot (?:{_DETERMINER}|(?:in|on|from|to|for|by)\b)"
        r"|\b(?:i|we) (?:do not|don['\u2019]?t) (?:want|need) (?!to\s)"
        rf"|\b(?:and|please) (?:do not|don['\u2019]?t|never)\s(?!{_SUBJECT})",
        end=r"\s(?:and|just|only|so|because|since|if|when|while|please"
        r"|(?:i|we)(?: (?:want|need|would)|['\u2019]d))\s",
        words="no not never don't don\u2019t dont without excluding except than instead",
    ),
    "de": _Marks(
        "(?:wenn|falls|sobald|nachdem|bevor|solange|sofern|w\u00e4hrend|weil|statt|anstatt|ohne)\\b",
        r"(?:bitte\s+)?(?:nicht|keine?n?)\s",
        r"^(?!(?:warum|wieso|weshalb|was|wer|wie|wo|wann|welche)\b).*\bnicht(?: +\S+)?$",
        conjunction=r"\s(?:sondern|aber)\s",
        exclusion=r"\bohne\s(?=.*\bzu\b|(?:etwas|d(?:ie|en|as)|diese[nrs]?|meine?[nr]?)\s)"
        r"|\b(?:au(?:\u00df|ss)er|(?:an)?statt|anstelle"
        r"|nicht (?:d(?:ie|en|as|er|em)|in|im|von|aus|an|mit|zu))\s",
        end=r"\sund\s",
    ),
    "nl": _Marks(
        "(?:als|wanneer|zodra|indien|nadat|voordat|terwijl|omdat|zolang|in plaats van|zonder)\\b",
        r"(?:niet|geen)\s",
        r"^(?!(?:waarom|wat|wie|waar|wanneer|hoe|welke?)\b).*\bniet(?: +\S+)?$",
        conjunction=r"\s(?:maar)\s",
        exclusion=r"\bzonder\s(?=.*\bte\b|(?:iets|de|het|die|deze|mijn)\s)"
        r"|\b(?:behalve|in plaats van|niet (?:de|het|die|in|van|uit|op|naar))\s",
        end=r"\sen\s",
    ),
    "es": _Marks(
        "(?:si|cuando|en cuanto|tan pronto como|despu\u00e9s de|antes de|mientras|una vez que"
        "|cada vez que|siempre que|aunque|porque|en vez de|en lugar de|sin)\\b",
        r"(?:por favor\s+)?(?:no|nunca)(?:\s|$)",
        conjunction=r"\s(?:sino|pero)\s",
        exclusion=r"\bsin (?:\w+[aei]r(?:l[aeo]s?)?\b|nada|l[ao]s?\b|el\b)"
        r"|\b(?:excepto|salvo|en vez de|en lugar de|(?:y|pero) no|no (?:l[oa]s?|el|en|de|a))\s",
        end=r"\s[ye]\s",
    ),
    "fr": _Marks(
        "(?:si|s['\u2019]il|quand|lorsque|d\u00e8s que|apr\u00e8s|avant|pendant que|tant que"
        "|chaque fois que|une fois|au lieu de|plut\u00f4t que|sans)\\b|lorsqu['\u2019]",
        r"(?:ne\s|n['\u2019])",
        conjunction=r"\s(?:mais)\s",
        exclusion=r"\bsans (?:\w+(?:er|ir|re)\b|rien|les?\b|la\b|l['\u2019])"
        r"|\b(?:sauf|except\u00e9|hormis|au lieu de|plut\u00f4t que"
        r"|(?:et |mais )?pas (?:les?|la|des?|du|celles|ceux|dans|sur))\s",
        end=r"\set\s",
    ),
    "it": _Marks(
        "(?:se|quando|(?:non )?appena|dopo|prima di|mentre|ogni volta che|finch\u00e9|una volta"
        "|invece di|anzich\u00e9|senza)\\b",
        r"(?:per favore\s+)?(?:non\s|no$)",
        conjunction=r"\s(?:ma|bens\u00ec)\s",
        exclusion=r"\bsenza (?:\w+r(?:e|l[aeio])\b|nulla|niente|i\b|gli\b|l[ea]\b|il\b)"
        r"|\b(?:tranne|eccetto|salvo|invece di|anzich\u00e9|(?:e|ma) non"
        r"|non (?:i|gli|le|il|lo|la|quell[aeio]|in|nel(?:la)?))\s",
        end=r"\se\s",
    ),
    "pt": _Marks(
        "(?:se|quando|assim que|logo que|depois de|antes de|enquanto|sempre que|caso|em vez de"
        "|ao inv\u00e9s de|sem)\\b",
        r"(?:por favor\s+)?n[\u00e3a]o(?:\s|$)",
        conjunction=r"\s(?:mas)\s",
        exclusion=r"\bsem (?:\w+[aei]r\b|nada|[oa]s?\b)"
        r"|\b(?:exceto|salvo|em vez de|ao inv\u00e9s de|(?:e|mas) n[\u00e3a]o"
        r"|n[\u00e3a]o (?:[oa]s?|em|n[oa]s?|de|d[oa]s?))\s",
        end=r"\se\s",
    ),
    "ru": _Marks(
        "(?:если|когда|как только|после|перед|пока|прежде чем|вместо|без|в случае)\\b",
        r"(?:пожалуйста\s+)?(?:не\s|нельзя\s|нет$)",
        conjunction=r"\s(?:\u0430|но)\s",
        exclusion=r"\b(?:без (?=\w+(?:ния|ки)\b)|(?:кроме|вместо|(?:и|ничего) не)\s)",
        end=r"\sи\s",
    ),
    "zh": _Marks(
        "如果|若|假如|要是|当|當|一旦|每当|每當|除非",
        "[请請]?(?:不要|不用|不必|勿|[无無]需|[别別](?![名人的墅]))",
        conjunction="而是",
        exclusion="不要|不用|不必|[无無]需|而不是|不包括|不包含|不含|除了",
    ),
    "ja": _Marks(
        "",
        "",
        "(?:ないで(?:ください|下さい|ね|くれ)?|ずに|ではなく)$",
        final_exclusion="(?:ないで|ずに|ではなく|以外の?|なしで|を除いて)",
    ),
    "ko": _Marks(
        "",
        "",
        r"지 ?(?:마|말)\S*(?: ?(?:줘|주세요|주십시오))?$",
        final_exclusion=r"(?:지 ?(?:말고|않고)|없이|제외하고|빼고| 말고|가? ?아니라)",
    ),
}


class _Grammar(Struct, frozen=True):
    """The patterns of a language, compiled at first use."""

    separator: re.Pattern[str]
    condition: re.Pattern[str]
    negation: re.Pattern[str]
    exclusion: re.Pattern[str]
    end: re.Pattern[str]
    final_exclusion: re.Pattern[str]
    words: frozenset[str]


_NOTHING = r"(?!)"


def _compiled(marks: _Marks) -> _Grammar:
    separators = "|".join(filter(None, (_PUNCTUATION, marks.conjunction)))
    begins = f"^(?:{marks.negation})" if marks.negation else ""
    negations = "|".join(filter(None, (begins, marks.final_negation))) or _NOTHING
    return _Grammar(
        lazy_pattern(separators, re.IGNORECASE),
        lazy_pattern(marks.condition or _NOTHING, re.IGNORECASE),
        lazy_pattern(negations, re.IGNORECASE),
        lazy_pattern(marks.exclusion or _NOTHING, re.IGNORECASE),
        lazy_pattern(marks.end or _NOTHING, re.IGNORECASE),
        lazy_pattern(marks.final_exclusion or _NOTHING),
        frozenset(marks.words.split()),
    )


@cache
def _grammar(code: str) -> _Grammar | None:
    return _compiled(_MARKS[code]) if code in _MARKS else None


def asking_clauses(text: str, code: str) -> str:
    """Return the clauses of a sentence that ask for something; empty if all of it is negated."""
    grammar = _grammar(code)
    if not grammar:
        return text
    clauses = [
        clause.strip(_ENDS)
        for clause in grammar.separator.split(text, maxsplit=_MAX_REQUEST_CLAUSES)
    ]
    affirmed = [clause for clause in clauses if not grammar.negation.search(clause)]
    asking = [clause for clause in affirmed if not grammar.condition.match(clause)]
    if len(asking) == len(clauses):
        return text
    return ", ".join(filter(None, asking)) or (text if len(affirmed) == len(clauses) else "")


def excluded(text: str, code: str) -> list[tuple[int, int]]:
    """The start and end of each part of a request that says what it does not want, in order."""
    grammar = _grammar(code)
    if not grammar or (grammar.words and grammar.words.isdisjoint(text.lower().split())):
        return []
    return [*_excluded(text, grammar)]


def _excluded(text: str, grammar: _Grammar) -> Iterator[tuple[int, int]]:
    for start, end in _clauses(text, grammar):
        clause = text[start:end].strip(_ENDS)
        if grammar.negation.search(clause):
            yield start, end
            continue
        if before := grammar.final_exclusion.search(text, start, end):
            yield start, before.end()
        if after := grammar.exclusion.search(text, start, end):
            stop = grammar.end.search(text, after.end(), end)
            words = _MOST_EXCLUDED.match(text, after.end(), end)
            ends = (stop.start() if stop else end, words.end() if words else end)
            yield after.start(), min(ends)


def _clauses(text: str, grammar: _Grammar) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each clause of several sentences."""
    at = 0
    for sentence in _END_OF_SENTENCE.split(text):
        at = text.index(sentence, at)
        end = at + len(sentence)
        for _ in range(_MAX_REQUEST_CLAUSES):
            if not (separator := grammar.separator.search(text, at, end)):
                break
            yield at, separator.start()
            at = separator.end()
        yield at, end
        at = end
