"""How durations are tallied, and calls are laid out over time."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from discovery_engine.store.call_log.tally import Tally
from discovery_engine.store.call_log.timeline import timeline

NOW = 1_700_000_000.0


def tally_of(*calls: tuple[str, float]) -> Tally:
    tally = Tally()
    for outcome, seconds in calls:
        tally.count(outcome, seconds, 0.0, NOW)
    return tally


MOMENTS = st.lists(st.tuples(st.floats(-50.0, 250.0), st.sampled_from(["ok", "tool_error"])))


@given(MOMENTS, st.floats(0.7, 100.0))
def test_every_call_within_a_timeline_is_in_exactly_one_span(
    moments: list[tuple[float, str]], step: float
) -> None:
    counts = [(at, tally_of((outcome, 0.1))) for at, outcome in moments]

    found = timeline(counts, since=0.0, until=200.0, step=step)

    within = [(at, outcome) for at, outcome in moments if 0.0 <= at < 200.0]
    assert sum(span.calls for span in found.spans) == found.total.calls == len(within)
    errors = sum(outcome == "tool_error" for _, outcome in within)
    assert sum(span.errors for span in found.spans) == found.total.errors == errors
    ends = [span.at for span in found.spans[1:]] + [math.inf]
    for span, end in zip(found.spans, ends, strict=True):
        # A call may lie at the seam of two spans within the rounding of a float.
        inner = [at for at, _ in within if span.at + 1e-9 < at < end - 1e-9]
        outer = [at for at, _ in within if span.at - 1e-9 <= at <= end + 1e-9]
        assert len(inner) <= span.calls <= len(outer)


SECONDS = st.lists(st.floats(0.0, 800.0), min_size=1, max_size=60)


@given(SECONDS, SECONDS)
@example([1.4001], [1.5999])
@example([0.0], [141.0, 161.0, 161.0])
def test_quantiles_are_close_and_two_tallies_add_up(one: list[float], other: list[float]) -> None:
    first, second, both = Tally(), Tally(), Tally()
    for tally, durations in ((first, one), (second, other), (both, one + other)):
        for seconds in durations:
            tally.count("ok", seconds, 0.0, NOW)
    first.add(second)

    assert (first.buckets, first.calls) == (both.buckets, both.calls)
    ordered = sorted(one + other)
    for share in (0.5, 0.95):
        exact = ordered[max(0, math.ceil(share * len(ordered)) - 1)]
        found = both.quantile(share)
        assert found is not None
        assert exact * 0.93 - 1e-4 <= found <= exact * 1.07 + 1e-4
