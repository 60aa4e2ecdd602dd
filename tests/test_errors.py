"""Errors are one line that names what to do."""

from holdfast.errors import LONGEST, HoldfastError, LedgerError, unknown


def test_messages_are_one_line_of_bounded_length():
    error = HoldfastError("expected a number;\n  got\r\nnothing\x85\u2028 " + 5000 * "x" + "; delete it")
    assert str(error).startswith("expected a number; got nothing ")
    assert str(error).endswith("xxx; delete it")
    assert len(str(error).splitlines()) == 1
    assert LONGEST - 10 < len(str(error)) <= LONGEST


def test_short_messages_stay_as_they_are():
    assert str(HoldfastError()) == ""
    assert str(LedgerError("a: expected  b; got c")) == "a: expected  b; got c"


def test_the_nearest_name_is_suggested():
    assert unknown("stepz", ["loss", "steps"]) == "unknown name 'stepz'; known: loss, steps. Did you mean 'steps'?"
