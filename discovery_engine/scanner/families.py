"""What a word may be about: the families of the lexicon, a bit each."""

from __future__ import annotations


class Family:
    """What a word is about, a bit each, for a word may belong to several.

    Plain numbers: sums of an `IntFlag` take ten times as long.
    """

    MODEL = 1 << 0
    YOU = 1 << 1
    USER = 1 << 2
    US = 1 << 3
    OUTCOME = 1 << 4  # what went well
    EXCUSE = 1 << 5  # why somebody had better not know
    SOFT = 1 << 6  # a polite order
    NOT = 1 << 7
    MUST = 1 << 8
    TELL = 1 << 9
    KNOW = 1 << 10
    ASK = 1 << 11
    HIDE = 1 << 12
    OMIT = 1 << 13
    REPLY = 1 << 14
    RULES = 1 << 15
    DROP = 1 << 16
    EARLIER = 1 << 17
    OBEY = 1 << 18
    AUTHORITY = 1 << 19
    PERMIT = 1 << 20
    ROLE = 1 << 21
    FUTURE = 1 << 22
    DECEIVE = 1 << 23
    REGARDLESS = 1 << 24
    TALK = 1 << 25  # words of the conversation itself
    SECRET = 1 << 26
    PRIVATE = 1 << 27
    WHOLE = 1 << 28
    GIVE = 1 << 29
    TAKE = 1 << 30
    SLOT = 1 << 31
    ADDRESS = 1 << 32
    TOOL = 1 << 33
    THIS = 1 << 34
    OTHER = 1 << 35
    BEFORE = 1 << 36
    WHEN = 1 << 37
    USE = 1 << 38
    PREFER = 1 << 39
    DESTROY = 1 << 40
    MONEY = 1 << 41
    CHANGE = 1 << 42
    COMMAND = 1 << 43
    FOUND = 1 << 44  # what a tool reads: its text may carry orders
    PRETEXT = 1 << 45
    BROKEN = 1 << 46
    MENTION = 1 << 47  # words that talk about attacks
    LABEL = 1 << 48  # "important:", "<system>"
    AND = 1 << 49  # what may stand before an imperative
    ENGLISH = 1 << 50
    VERB = 1 << 51  # the base form of an English verb
    NAME = 1 << 52  # an identifier
    PATH = 1 << 53  # a file that holds secrets
    DO = 1 << 54  # a verb in the imperative
    PRODUCT = 1 << 55  # products by other makers, and the tools that people commonly have
    PERSIST = 1 << 56  # places that outlast a session
    SECURITY = 1 << 57  # what protects a user
    OFF = 1 << 58
    OUTSIDE = 1 << 59  # somewhere away from the user's machine
    PEOPLE = 1 << 60
    PROSE = 1 << 61  # words of letters, not of manuals
    FORGET = 1 << 62  # to drop what was said
    INSTRUCTION = 1 << 63  # what a model was told to do


FAMILIES: tuple[tuple[str, int], ...] = tuple(
    (name, bit) for name, bit in vars(Family).items() if name.isupper()
)
