"""The strict reader refuses everything Python's JSON would let through."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise._util.canonical import MAX_DOCUMENT_BYTES, StrictJSONError, canonical_json, strict_json

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(documents)
def test_round_trip(document: object) -> None:
    assert strict_json(canonical_json(document)) == document


@given(st.dictionaries(st.text(), st.integers()))
def test_key_order_does_not_matter(document: dict[str, int]) -> None:
    assert canonical_json(document) == canonical_json(dict(reversed(document.items())))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "Infinity"),
        (b"[1e999]", "too large"),
        (b"[-1e999]", "too large"),
        (b"[" * 100_000, "deep"),
        (b'{"a":' * 100_000, "deep"),
        (b"1" * 10_000, "valid JSON"),
        (b'{"a": 1', "valid JSON"),
        (b"", "valid JSON"),
        (b"\xff\xfe{\x00}", "UTF-8"),
        (b"\xef\xbb\xbf{}", "valid JSON"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), "bytes"),
    ],
)
def test_refused(data: bytes, match: str) -> None:
    with pytest.raises(StrictJSONError, match=match):
        strict_json(data)


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_raise_the_one_error(data: bytes) -> None:
    try:
        strict_json(data)
    except StrictJSONError:
        return
    json.loads(data)


def test_a_whole_number_may_be_the_integer_that_it_is() -> None:
    data = b"[1.0, -2.0, 1e3, 1.5, 0.0, -0.0, 1e300, 9007199254740991.0, 9007199254740992.0, 1]"
    read = strict_json(data, one_number_type=True)
    assert read == strict_json(data)
    assert [type(number) for number in strict_json(data)] == [float] * 9 + [int]
    assert [type(number) for number in read] == [int, int, int, float, int, int, float, int, float, int]


def test_not_a_number_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})
