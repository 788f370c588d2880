"""Fuzz framing and the edge decoder, guided by what the inputs reach, against a slow model.

    pip install atheris
    python fuzz/frames.py -runs=1000000 [-seed=1] [CORPUS]

Ends with an error, and the input, at the first crash, hang or disagreement.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
with atheris.instrument_imports(include=["json", "discovery_engine.rpc"]):
    from fuzz.agreement import check

SEEDS = [
    b'\x00{"jsonrpc":"2.0","id":1,"result":{"x":"\\ud83d"}}\n',
    b'\x00{"jsonrpc":"2.0","id":"a","error":{"code":1e999}}\n\n[NaN]\n',
    b'\x01\xef\xbb\xbf{"result":"' + b"x" * 80 + b'","id":7}\nnext',
]
HANG = 1  # second


def one(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)
    limit = (16, 64, 4096)[provider.ConsumeIntInRange(0, 2)]
    cuts = provider.ConsumeBytes(provider.ConsumeIntInRange(0, 8))
    check(provider.ConsumeBytes(sys.maxsize), cuts, limit)


def main() -> None:
    options = [*sys.argv, f"-timeout={HANG}", "-max_len=4096", "-print_final_stats=1"]
    for seed in SEEDS:
        one(seed)
    atheris.Setup(options, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
