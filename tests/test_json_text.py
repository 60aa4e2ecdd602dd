"""JSON from strangers is read, or refused in one line."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.json_text import encodable, parse_json, parse_json_object

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_what_python_writes_comes_back(value):
    assert parse_json(json.dumps(value), exact=True) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), exact=True) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is given twice"),
        ("[" + "9" * 5000 + "]", "of 5000 digits is too large"),
        (str(2**64), "of 20 digits is too large"),
        (str(-(2**64)), "of 21 digits is too large"),
        (b'{"a": "\xff"}', "invalid start byte"),
        ("", "Expecting value"),
        ("{", "Expecting property name"),
    ],
)
def test_what_nobody_can_use_is_one_error(text, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        parse_json(text)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200


def test_numbers_that_are_not_finite_are_read_as_python_writes_them():
    assert parse_json("[Infinity, -Infinity]") == [math.inf, -math.inf]
    assert math.isnan(parse_json("NaN"))


def test_halves_of_characters_become_question_marks_unless_they_name_files():
    text = '{"a\\ud800": ["\\udfff b", {"c": "\\ud83d\\ude00"}]}'
    assert parse_json(text) == {"a?": ["? b", {"c": "\U0001f600"}]}
    assert parse_json(text, exact=True)["a\ud800"][0] == "\udfff b"
    json.dumps(encodable(parse_json(text, exact=True)), ensure_ascii=False).encode()


@pytest.mark.parametrize("text", ["[]", "3", '"a"', "null"])
def test_an_object_is_no_other_value(text):
    with pytest.raises(ValueError, match="expected a JSON object; got"):
        parse_json_object(text)
