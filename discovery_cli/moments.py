"""Moments as people write them: how long from now or ago, or a date."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([smhdw])")


def duration_or_date(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | datetime | None:
    """Seconds, or a date; a callback of options."""
    if text is None:
        return None
    if match := _DURATION.fullmatch(text):
        return float(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is neither a duration like 90m, 12h, 30d or 4w nor a date"
        raise click.BadParameter(message, context, parameter) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def past(moment: float | datetime | None, now: float) -> float | None:
    """The Unix time of a date, or of so many seconds ago; None for None."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    return None if moment is None else now - moment
