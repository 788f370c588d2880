"""What is sent in place of arguments fits the schema, and what does not fit has a mistake."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.tools.conversion import Conversion
from discovery_engine.tools.mistakes import mistakes_of
from discovery_engine.tools.subschemas import Subschemas
from tests.catalogs import JSONObject

names = st.sampled_from(["a", "b", "a_b"])
texts = st.sampled_from(["", "1", "true", "null", '["1"]', '{"a": "1"}'])
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
leaves: st.SearchStrategy[JSONObject] = st.one_of(
    st.sampled_from(["object", "array", "string", "integer", "boolean"]).map(lambda t: {"type": t}),
    values.map(lambda value: {"const": value}),
    st.lists(names, min_size=1, max_size=2, unique=True).map(lambda listed: {"required": listed}),
    st.just({"$ref": "#/$defs/a~1b"}),
)


def applying(inner: st.SearchStrategy[JSONObject]) -> st.SearchStrategy[JSONObject]:
    branches = st.lists(inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(names, inner, min_size=1, max_size=3),
        "additionalProperties": inner | st.booleans(),
        "items": inner,
        "not": inner,
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), branches),
    }
    each = [st.tuples(st.just(name), value) for name, value in keywords.items()]
    return st.lists(st.one_of(each), min_size=1, max_size=3).map(dict)


@given(applying(st.recursive(leaves, applying, max_leaves=4)), leaves, values)
def test_a_conversion_fits_and_a_mistake_is_named_where_there_is_none(
    schema: JSONObject, definition: JSONObject, value: Any
) -> None:
    definitions = {"a/b": {key: part for key, part in definition.items() if key != "$ref"}}
    subschemas = Subschemas({"properties": {"v": schema}, "$defs": definitions})
    arguments = {"v": value}
    errors = list(subschemas.whole.iter_errors(arguments))

    fitting = Conversion(subschemas).fitting(arguments, errors)

    assert fitting is None or subschemas.whole.is_valid(fitting)
    assert bool(errors) == bool(list(mistakes_of(errors, subschemas)))
