"""What `metrics.jsonl` says is read as it was written, or named."""

import pytest

from holdfast.errors import CheckpointError
from holdfast.training import Epoch
from holdfast.training.records import line, read
from tests.tampering import put

EPOCH = line(Epoch(1, 3, 0.1, {"total": 1.0}, None, True, 0.5))


def test_epochs_come_back(tmp_path):
    put(tmp_path / "metrics.jsonl", 2 * EPOCH)
    assert [epoch["step"] for epoch in read(tmp_path / "metrics.jsonl")] == [3, 3]
    assert list(read(tmp_path / "nothing")) == []


@pytest.mark.parametrize("bad", [b'{"epoch": "\xff"}', b"{", b"[1]", b"[" * 100_000, b"\x00"])
def test_a_line_that_is_no_epoch_is_named(tmp_path, bad):
    put(tmp_path / "metrics.jsonl", EPOCH + bad + b"\n")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl, line 2: expected an epoch as JSON; start over"):
        list(read(tmp_path / "metrics.jsonl"))
