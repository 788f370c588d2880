"""Loaded by Python at its start, where this folder is in PYTHONPATH: a clock that is wrong.

`SKEWED_CLOCK` is by how many seconds. Only what a machine's clock shows is wrong: `time.monotonic`
goes on as it does on a machine whose clock was set.
"""

import os
import time

_SKEW = float(os.environ.get("SKEWED_CLOCK", "0"))
_true_time, _true_time_ns = time.time, time.time_ns


def _time() -> float:
    return _true_time() + _SKEW


def _time_ns() -> int:
    return _true_time_ns() + int(_SKEW * 1e9)


time.time, time.time_ns = _time, _time_ns
