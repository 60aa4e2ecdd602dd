import dataclasses

import pytest

from holdfast.analysis.store import Answer, find_answer, read_answers, write_answer
from holdfast.errors import LedgerError
from tests.tampering import put

ANSWER = Answer("sra", "best", "abc", {"eps": [0.0, 0.5]}, {"cells": []})


def test_the_same_question_is_replaced_and_another_is_added(tmp_path):
    assert find_answer(tmp_path, ANSWER) is None
    write_answer(tmp_path, ANSWER)
    newer = dataclasses.replace(ANSWER, result={"cells": [1]})
    write_answer(tmp_path, newer)
    assert read_answers(tmp_path) == [newer]
    assert find_answer(tmp_path, ANSWER) == newer
    write_answer(tmp_path, dataclasses.replace(ANSWER, weights_hash="abd"))
    write_answer(tmp_path, dataclasses.replace(ANSWER, settings={"eps": [0.0]}))
    assert len(read_answers(tmp_path)) == 3


def test_what_holdfast_did_not_write_is_named(tmp_path):
    write_answer(tmp_path, ANSWER)
    put(ANSWER.file(tmp_path), "{}")
    with pytest.raises(LedgerError, match="expected an analysis that holdfast wrote"):
        read_answers(tmp_path)
