"""Headers that mirror the body: accepted and refused as by the SDK."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    validate_mcp_param_headers,
    x_mcp_header_map,
)

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import Request
from discovery_server.http.mirrored_headers import (
    decoded,
    mirrored_parameters,
    mismatch,
    parameter_mismatch,
)
from discovery_server.http.request import Headers
from tests.rows import rows
from tests.unit.server.wire import MODERN

pytestmark = pytest.mark.requirement("SRV-27")

VERSIONS = ["2026-07-28", "2025-11-25"]
METHODS = ["tools/call", "resources/read", "prompts/get", "tools/list", "x"]
NAMES = [
    "a",
    "ä",
    " a",
    "=?base64?YQ==?=",
    "=?base64?YR==?=",
    "=?base64?%?=",
    "",
    "=?base64?/w==?=",
]


def headers_of(pairs: list[tuple[str, str]]) -> Headers:
    return Headers({"headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in pairs]})


@given(st.one_of(st.text(), st.sampled_from(NAMES), st.text().map(encode_header_value)))
def test_a_value_in_base64_is_decoded_as_by_the_sdk(value: str) -> None:
    assert decoded(value) == decode_header_value(value)


OPTIONAL_NAME = st.one_of(st.none(), st.sampled_from(NAMES))


@given(
    st.sampled_from(VERSIONS),
    st.sampled_from(METHODS),
    OPTIONAL_NAME,
    st.sampled_from([None, *VERSIONS]),
    st.sampled_from([None, *METHODS]),
    OPTIONAL_NAME,
)
def test_headers_are_compared_with_the_body_as_by_the_sdk(
    version: str,
    method: str,
    name: str | None,
    version_header: str | None,
    method_header: str | None,
    name_header: str | None,
) -> None:
    meta = {**MODERN, "io.modelcontextprotocol/protocolVersion": version}
    params: JSONObject = {"_meta": meta}
    if name is not None:
        params |= {"name": name, "uri": name}
    values = {
        "mcp-protocol-version": version_header,
        "mcp-method": method_header,
        "mcp-name": name_header and name_header.encode().decode("latin-1"),
    }
    sent = {key: value for key, value in values.items() if value is not None}

    ours = mismatch(headers_of(list(sent.items())), Request(1, method, params))
    theirs = classify_inbound_request({"method": method, "params": params}, headers=sent)

    is_refused = isinstance(theirs, InboundLadderRejection) and theirs.code == -32020
    assert (ours is not None and ours.code == -32020) == is_refused


@rows("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_a_header_that_is_sent_twice_is_refused(name: str) -> None:
    sent = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "a")]
    request = Request(1, "tools/call", {"name": "a", "_meta": MODERN})

    assert mismatch(headers_of(sent), request) is None
    refused = mismatch(headers_of([*sent, (name, dict(sent)[name])]), request)

    assert refused is not None
    assert refused.message == f"Header mismatch: {name} was sent more than once"


KEYWORD = "x-mcp-header"
HEADERS = st.sampled_from(["Region", "region", "Tenant", "a b", "", 5, None])
LEAF: Any = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean", "number", ["string"]])},
    optional={KEYWORD: HEADERS},
)
SCHEMAS = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
        ),
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=2)}),
        st.fixed_dictionaries({"$defs": st.dictionaries(st.sampled_from("ab"), inner)}),
        st.fixed_dictionaries({"default": inner}),
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_properties_of_a_schema_are_mirrored_as_by_the_sdk(schema: JSONObject) -> None:
    expected = {} if find_invalid_x_mcp_header(schema) else x_mcp_header_map(schema)

    assert {one.path: one.header for one in mirrored_parameters(schema)} == expected


SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "region": {"type": "string", KEYWORD: "Region"},
        "count": {"type": "integer", KEYWORD: "Count"},
        "dry": {"type": "boolean", KEYWORD: "Dry"},
        "deep": {"type": "object", "properties": {"x": {"type": "string", KEYWORD: "X"}}},
    },
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 50),
    st.sampled_from([2**70, 42.0, 0.5, 1e300]),
    st.sampled_from(["eu", "ä", "42", "true", " x", ""]),
    st.just([1]),
)
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"region": VALUES, "count": VALUES, "dry": VALUES, "deep": st.just({"x": "y"})}
)
VALUE_HEADERS = st.dictionaries(
    st.sampled_from(["Mcp-Param-Region", "mcp-param-count", "Mcp-Param-Dry", "Mcp-Param-X"]),
    st.sampled_from(
        ["eu", "=?base64?w6Q=?=", "42", "42.0", "42.5", "1e3", "true", "True", "y", "", "0" * 5000]
    ),
)


@given(ARGUMENTS, st.one_of(VALUE_HEADERS, st.none()))
def test_arguments_are_compared_with_their_headers_as_by_the_sdk(
    arguments: JSONObject, sent: dict[str, str] | None
) -> None:
    if sent is None:  # those of an honest client
        sent = mcp_param_headers(x_mcp_header_map(SCHEMA), arguments)

    mirrored = mirrored_parameters(SCHEMA)
    ours = parameter_mismatch(headers_of(list(sent.items())), mirrored, {"arguments": arguments})
    theirs = validate_mcp_param_headers(SCHEMA, arguments, sent)

    assert (ours is None) == (theirs is None), (ours and ours.message, theirs)
