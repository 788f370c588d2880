"""Limits that a run must keep, for CI: `recall@5=0.9`, or `recall@5=baseline`."""

from __future__ import annotations

import math

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.evaluation.report import METRICS, Metric, Totals, shown

_BASELINE = "baseline"


class InvalidGateError(ValueError):
    """A limit that cannot be parsed or checked; its text is the reason."""


class Gate(Struct, frozen=True):
    metric: Metric
    limit: float | None
    """The least value if more is better, else the most; None for the baseline's value."""

    @classmethod
    def parse(cls, text: str, *, more_is_better: bool) -> Gate:
        """Read `METRIC=VALUE`.

        Raises:
            InvalidGateError: If it is not that, or the metric counts the other way round.
        """
        name, _, value = text.rpartition("=")
        metric = _metric(name.strip().lower().replace("-", "_"))
        if metric.more_is_better is not more_is_better:
            other = "under" if metric.more_is_better else "over"
            better = "more" if metric.more_is_better else "less"
            raise InvalidGateError(f"of {metric.name} {better} is better; use --fail-{other}")
        return cls(metric, _limit(value.strip()))

    def check(self, totals: Totals, baseline: Totals | None) -> GateResult:
        """Check whether a run keeps the limit.

        Raises:
            InvalidGateError: If the run, or the baseline that is asked for, does not measure it.
        """
        name = self.metric.name
        value = totals[name]
        if value is None:
            raise InvalidGateError(f"these queries do not measure {name}")
        limit = (baseline or {}).get(name) if self.limit is None else self.limit
        if limit is None:
            raise InvalidGateError(f"{name}={_BASELINE} needs a --baseline that measures it")
        held = value >= limit if self.metric.more_is_better else value <= limit
        return GateResult(self.metric, value, limit, held)


class GateResult(Struct, frozen=True):
    metric: Metric
    value: float
    limit: float
    held: bool

    def __str__(self) -> str:
        """Return a sentence such as `recall@5 is 0.850, under 0.900`."""
        side = "under" if self.metric.more_is_better else "over"
        word = f"not {side}" if self.held else side
        value, limit = shown(self.value, self.metric), shown(self.limit, self.metric)
        return f"{self.metric.name} is {value}, {word} {limit}"

    def to_json(self) -> JSONObject:
        return {
            "metric": self.metric.name,
            "value": self.value,
            "limit": self.limit,
            "held": self.held,
        }


def _metric(name: str) -> Metric:
    metrics = {metric.name: metric for metric in METRICS}
    if name not in metrics:
        advice = did_you_mean(name, metrics, otherwise=f"known are {', '.join(metrics)}")
        raise InvalidGateError(f"there is no measure {name!r}; {advice}")
    return metrics[name]


def _limit(text: str) -> float | None:
    if text == _BASELINE:
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise InvalidGateError(f"{text!r} is neither a number nor {_BASELINE!r}")
    return limit
