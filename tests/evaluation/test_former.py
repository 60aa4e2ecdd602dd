"""Results of an older version of a check are not mixed with new ones."""

import polars as pl
import pytest
import torch

from holdfast.corruptions import Clean, DownUp
from holdfast.data import Split
from holdfast.errors import LedgerError
from holdfast.evaluation import Subject, evaluations
from holdfast.results import Ledger
from tests import zoo


def run(ledger, checks, weights="best"):
    split = Split(zoo.images(6, (1, 4, 4), dtype=torch.float32), zoo.labels(6, 5), torch.arange(6))
    return list(evaluations(Subject(zoo.linear(5).float(), hash="h", weights=weights), split, checks, ledger=ledger))


def with_former_params(ledger):
    """A ledger as the version wrote it in which `down_up` had one field."""
    for part in ledger.parts():
        rows = ledger.part(part.stem)
        if rows["method"][0] == "down_up":
            part.unlink()
            ledger.append("best-0123456789abcdef-000000", rows.with_columns(params=pl.lit('{"factor": 3.0}')))


def test_other_fields_under_the_same_label_are_refused_with_the_remedy(tmp_path):
    ledger = Ledger(tmp_path)
    run(ledger, [Clean(), DownUp()])
    run(ledger, [Clean(), DownUp()])
    with_former_params(ledger)
    message = r"holds results of 'down_up' with other fields .*\{\"factor\": 3\.0\}.*evaluate RUN --fresh"
    with pytest.raises(LedgerError, match=message):
        run(ledger, [Clean(), DownUp()])
    assert len(ledger.read()) == 12


def test_other_checks_and_other_weights_are_left_alone(tmp_path):
    ledger = Ledger(tmp_path)
    run(ledger, [Clean(), DownUp()])
    with_former_params(ledger)
    run(ledger, [Clean(), DownUp(factor=2)])
    run(ledger, [DownUp()], weights="last")
    assert len(ledger.read()) == 24
