"""Similarity of networks: known numbers, ranks of candidates, and what they gained as witnesses."""

import math
from dataclasses import replace

import polars as pl
import pytest
import torch

from holdfast.attacks import PGD
from holdfast.errors import LedgerError
from holdfast.frequency import inverse_dct
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.question import Companion
from holdfast.questions.similarity import Similarity, gains
from holdfast.questions.similarity.measurement import Measurement, cosine, divergence, energy_by_band
from holdfast.results.matrices import MatrixData, read_matrix
from holdfast.results.transfers import CLEAN, Transfers, check_name
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.table import Table
from holdfast.threat import Linf
from tests.zoo import images, labels, linear, normed


def test_the_divergence_is_what_alignment_minimises_at_temperature_one():
    source = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
    witness = torch.tensor([[1.0, 1.5, 0.0], [0.5, 2.0, 1.0]], dtype=torch.float64)
    assert float(divergence(source, witness).mean()) == pytest.approx(0.3279591429, abs=1e-9)
    assert divergence(source, source).tolist() == [0, 0]


def test_a_network_is_like_itself():
    model, x, y = normed(), images(5), labels(5, 3)
    measured = Measurement([model], PGD(threat=Linf(0.1), steps=2, until_lost=False), 4).measure(
        model, x, y, rng=Streams(0, "", 5)
    )
    assert measured["divergence"].abs().max() == 0
    assert measured["agreement"].all()
    torch.testing.assert_close(measured["cosine"], torch.ones(5, 1, dtype=torch.float64))
    assert torch.equal(measured["energy"][:, 0], measured["energy"][:, 1])
    torch.testing.assert_close(measured["energy"].sum(2), torch.ones(5, 2, dtype=torch.float64))


def test_cosines_do_not_depend_on_the_size_of_gradients():
    first = torch.tensor([[3.0, 0.0], [1e-200, 1e-200], [0.0, 0.0]], dtype=torch.float64)
    second = torch.tensor([[3.0, 4.0], [-1e-250, -1e-250], [1.0, 0.0]], dtype=torch.float64)
    alike = cosine(first, second)
    assert alike[:2].tolist() == pytest.approx([0.6, -1])
    assert math.isnan(alike[2])


def test_the_energy_of_one_frequency_is_in_its_band():
    coefficients = torch.zeros(3, 1, 4, 4, dtype=torch.float64)
    coefficients[0, 0, 0, 0] = coefficients[1, 0, 3, 3] = 0.5
    assert energy_by_band(inverse_dct(coefficients), 4).round(decimals=9).tolist() == [
        [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]
    ]  # fmt: skip


def answer(gained, cosines=(0.9, 0.5, 0.1)):
    networks = [{"name": f"net{n}", "hash": f"{n}" * 12, "weights": 10**n} for n in range(len(gained))]
    settings = {"others": ["a"], "networks": networks, "gains": gained}
    rows = pl.DataFrame(
        {
            "divergence": [[0.1 * (n + 1) for n in range(len(gained))]] * 4,
            "agreement": [[True] * len(gained)] * 4,
            "cosine": [[*cosines], [*cosines], [*cosines], [float("nan"), *cosines[1:]]],
            "energy": [[[0.5, 0.5]] + [[0.25, 0.75]] * len(gained)] * 4,
        }
    )
    key = AnswerKey(
        question="similarity",
        settings=settings,
        weights="last",
        weights_hash="",
        seed=0,
        examples=4,
        images="",
        block=4,
    )
    return Answer(key, (), rows, "run")


def shown(*of):
    items = list(Similarity.present(Answers(tuple(of))))
    return items, [item for item in items if isinstance(item, Table)]


def test_candidates_are_ranked_and_ranks_compared_with_gains():
    items, (compared, ranked, correlated) = shown(answer([0.05, 0.02, -0.01]))
    assert [name for name, _ in ranked.rows] == ["net0", "net1", "net2"]
    assert [cell.value for cell in ranked.rows[0][1]] == [1, 2, 3, 0.05]
    assert [(name, cells[0].value) for name, cells in correlated.rows] == [
        ("Cosine", pytest.approx(1)), ("Agreement", None), ("Weights", pytest.approx(-1))
    ]  # fmt: skip
    assert compared.rows[0][1][2].note == "without 1 image of gradient zero"
    (chart,) = (item for item in items if isinstance(item, Chart))
    assert [curve.y for curve in chart.curves] == [(-0.25, 0.25)] * 3


def test_without_enough_gains_there_is_a_sentence_in_place_of_a_correlation():
    assert any("`--matrix`" in str(item) for item in shown(answer([None, None, None]))[0])
    assert any("known of 2 of 3 candidates" in str(item) for item in shown(answer([0.1, None, 0.2]))[0])
    assert len(shown(answer([None], (0.3,)))[1]) == 1


def matrix():
    """A source, two networks that were aligned from it, a control, and a target; ten images."""
    names = ["source", "aligned", "again", "control", "target"]
    descended = {"before": "source", "witness_hashes": ["w" * 64], "witnesses": ["w"], "control": ""}
    each = {
        "source": {}, "aligned": descended, "again": descended,
        "control": {**descended, "control": "aligned at rate 0"}, "target": {"source": False},
    }  # fmt: skip
    plain = {"source": True, "target": True, "before": None, "witness_hashes": [], "witnesses": [], "control": ""}
    networks = [{"name": name, "sha256": name[0] * 64, **plain, **each[name]} for name in names]
    right = {"source": 8, "aligned": 6, "again": 4, "control": 0}  # of ten, on the target
    rows = [(name, CLEAN, n, True) for name in names for n in range(10)]
    rows += [
        (name, check_name("mi", source), n, n < count)
        for source, count in right.items()
        for name in names
        for n in range(10)
    ]
    frame = pl.DataFrame(rows, schema=["run", "check", "example", "correct"], orient="row")
    return MatrixData({"networks": networks}, Transfers(frame, names[:4], ["mi"], names))


def test_gains_are_mean_differences_of_the_networks_aligned_with_a_candidate():
    companions = [Companion(linear(2), name, name * 12) for name in ("w", "v")]
    # 0.2 and 0.4 on all targets that are neither of the two: the mean of both runs is 0.3.
    assert gains(matrix(), "s" * 12, companions) == [pytest.approx(0.3), None]
    assert gains(matrix(), "z" * 12, companions) == [None, None]


def test_controls_that_are_missing_are_named_by_their_alignment():
    of = matrix()
    aligned, again, control = of.descendants
    assert of.missing_controls(aligned) == ["trained on", "trained on with label smoothing", "aligned with itself"]
    assert of.missing_controls(again) == of.missing_controls(aligned)
    assert of.missing_controls(control) == []
    smoothed = {**control, "name": "smoothed", "control": "trained on with label smoothing 0.1"}
    more = MatrixData(
        {"networks": [*of.facts["networks"], smoothed]},
        replace(of.transfers, sources=[*of.transfers.sources, "smoothed"]),
    )
    assert more.missing_controls(aligned) == ["trained on", "aligned with itself"]


def test_gains_without_controls_are_marked():
    one = answer([0.05, 0.02, -0.01])
    key = replace(one.key, settings={**one.settings, "missing_controls": ["trained on"]})
    assert any(
        "Sources of the matrix lack controls (trained on)" in str(item) for item in shown(replace(one, key=key))[0]
    )


def test_what_is_no_question_is_refused(tmp_path):
    for fields, problem in (({"others": ("a", "a")}, "each network once"), ({"bands": 0}, "at least 1")):
        with pytest.raises(ValueError, match=problem):
            Similarity(**fields)
    with pytest.raises(ValueError, match="others: expected at least one run"):
        Similarity().prepared(None)
    with pytest.raises(LedgerError, match="expected a finished matrix"):
        read_matrix(tmp_path)
