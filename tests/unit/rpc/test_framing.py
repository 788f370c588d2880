from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.framing import Framer, Garbage, Overlong


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(ends)]


def test_a_line_that_has_not_ended_is_known_by_its_beginning() -> None:
    framer = Framer(1000)

    seen = []
    for chunk in (b"Welcome\nPass", b"word: ", b"\n", b"x" * 300, b"x" * 1000):
        list(framer.feed(chunk))
        seen.append(framer.unfinished)

    assert seen == ["Pass", "Password:", "", "x" * 200, ""]


def lines_of(chunks: list[bytes], *, limit: int = 1000) -> list[bytes | Overlong]:
    framer = Framer(limit)
    fed = [line for chunk in chunks for line in framer.feed(chunk)]
    return fed + list(framer.finish())


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(min_value=0), max_size=20))
def test_lines_are_the_same_however_the_stream_is_cut(lines: list[bytes], places: list) -> None:
    data = b"\n".join(line.replace(b"\n", b"") for line in lines)

    found = lines_of(cut(data, places))

    assert found == data.split(b"\n")[: len(found)]
    assert b"\n".join(x for x in found if isinstance(x, bytes)).rstrip(b"\n") == data.rstrip(b"\n")


@given(st.integers(min_value=11, max_value=60), st.lists(st.integers(min_value=0), max_size=20))
def test_a_line_over_the_limit_is_dropped_and_the_next_ones_arrive(
    length: int, places: list
) -> None:
    data = b"before\n" + b"x" * length + b"\nafter\n"

    found = lines_of(cut(data, places), limit=10)

    assert [line for line in found if isinstance(line, bytes)] == [b"before", b"after"]
    assert sum(isinstance(line, Overlong) for line in found) == 2


def test_the_edges_of_an_overlong_line_show_whose_answer_it_is() -> None:
    start = lines_of([b'{"jsonrpc":"2.0","id":7,"result":{"x":"', b"x" * 2000])
    end = lines_of([b'{"result":"', b"x" * 2000, b'"},"jsonrpc":"2.0",', b'"id":"seven"}\n'])

    assert [line.request_id for line in start if isinstance(line, Overlong)] == [7, None]
    assert [line.request_id for line in end if isinstance(line, Overlong)] == [None, "seven"]


def test_garbage_keeps_the_first_samples_short() -> None:
    garbage = Garbage()

    for number in range(5):
        garbage.add(b"%d" % number * 1000)

    assert garbage.count == 5
    assert [sample[0] for sample in garbage.samples] == ["0", "1", "2"]
    assert {len(sample) for sample in garbage.samples} == {200}
