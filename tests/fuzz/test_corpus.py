"""Files that once broke a reader: each is read now, or refused in one line."""

import pytest

from holdfast.budget import VARIABLE
from tests.fuzz.corpus_files import FILES
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import executed, limited_memory, prepared


@pytest.fixture(scope="module", params=sorted(FILES))
def target(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patched:
        for name in (VARIABLE, "RUST_BACKTRACE"):
            patched.setenv(name, "1")  # so that what fuzzing sets is taken back afterwards
        prepared(TARGETS[request.param], place)
        with limited_memory():
            yield request.param, place


@pytest.mark.filterwarnings("ignore")
def test_what_broke_a_reader_is_read_or_refused_in_one_line(target):
    name, place = target
    outcomes = {file.name: executed(TARGETS[name], place, file.read_bytes()) for file in FILES[name]}
    assert {file: outcome.detail for file, outcome in outcomes.items() if outcome.broken} == {}
