"""Checks that run out of memory go on with smaller batches to the same rows, images and points, to the bit."""

import numpy as np
import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import APGD, EOT, PGD, AutoAttack, HopSkipJump, Square, Transferred
from holdfast.certify import GaussianSmoothing, Margin, SmoothedMargin
from holdfast.corruptions import Clean, GaussianNoise
from holdfast.data import Split
from holdfast.errors import ModelError
from holdfast.evaluation import Subject, evaluations
from holdfast.halving import BatchSize, Halved
from holdfast.recipe import EvaluateRecipe
from holdfast.results import Ledger
from holdfast.threat import L2, Linf
from tests import zoo
from tests.cramped import ERRORS, Cramped, on_a_gpu

COUNT, MOST = 24, 3
SMOOTHING = {"sigma": 0.2, "n": 150, "n0": 20, "alpha": 0.05}
CHECKS = {
    "clean": Clean(),
    "noise": GaussianNoise(0.2),
    "pgd": PGD(threat=Linf(0.1), steps=5, restarts=2),
    "apgd": APGD(threat=L2(0.3), steps=6),
    "square": Square(threat=Linf(0.1), queries=20),
    "hopskipjump": HopSkipJump(threat=L2(1.0), steps=1, starts=2),
    "autoattack": AutoAttack(threat=Linf(0.06), steps=5, targets=2, queries=20),
    "margin": Margin(constant=3.0),
    "smoothing": GaussianSmoothing(**SMOOTHING),
    "smoothed_margin": SmoothedMargin(**SMOOTHING, constant=3.0),
}


def data(count=COUNT):
    model, x = zoo.smooth(), zoo.images(count)
    return Split(x, model(x).argmax(1), torch.arange(count))


def run(path, check, model, **how):
    """Rows without times, images of the gallery, points, and the blocks of an evaluation."""
    fields = {"block": 16, "batch_size": 8, "gallery": 6, **how}
    blocks = list(
        evaluations(
            Subject(model, hash="h"), data(), [check], how=EvaluateRecipe(**fields), ledger=Ledger(path),
            gallery=path / "gallery", points=path / "points",
        )
    )  # fmt: skip
    timeless = pl.col("steps").list.eval(pl.struct(pl.element().struct.field("step", "broke", "queries")))
    rows = Ledger(path).read().drop("seconds").with_columns(timeless).sort("example")
    pictures = [dict(np.load(file)) for file in sorted((path / "gallery").glob("*.npz"))]
    points = {file.name: np.load(file) for file in sorted((path / "points").glob("*.npy"))}
    return rows, pictures, points, blocks


def same(one, other):
    """Whether rows, images and points of two evaluations agree to the bit."""
    assert one[0].equals(other[0])
    assert [part.keys() for part in one[1]] == [part.keys() for part in other[1]]
    for left, right in zip(one[1], other[1], strict=True):
        assert all(np.array_equal(left[name], right[name]) for name in left)
    assert one[2].keys() == other[2].keys()
    assert all(np.array_equal(one[2][name], other[2][name]) for name in one[2])


@pytest.mark.parametrize("name", CHECKS)
def test_rows_images_and_points_are_those_of_an_undisturbed_run(tmp_path, name):
    undisturbed, cramped = Cramped(zoo.smooth()), Cramped(zoo.smooth(), MOST)
    expected = run(tmp_path / "plenty", CHECKS[name], undisturbed)
    results = run(tmp_path / "cramped", CHECKS[name], cramped)
    same(results, expected)
    halved = [block.halved for block in results[3] if block.halved]
    assert len(halved) == 1, "said once, though every block would have run out of memory again"
    assert halved[0].after <= MOST
    assert not any(block.halved for block in expected[3])
    assert [block.done for block in results[3]][-1] == [block.done for block in expected[3]][-1]


@pytest.mark.parametrize("fail", ERRORS.values(), ids=ERRORS)
def test_every_kind_of_error_is_known(tmp_path, fail):
    expected = run(tmp_path / "plenty", CHECKS["autoattack"], Cramped(zoo.smooth()))
    same(run(tmp_path / "cramped", CHECKS["autoattack"], Cramped(zoo.smooth(), MOST, fail)), expected)


class Late(Cramped):
    """Has room for one image less at every further failure, first in the middle of an attack."""

    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        self.most = None if self.calls < 7 else 4 if self.calls < 60 else 2
        return super().forward(x)


@pytest.mark.parametrize("name", ["pgd", "autoattack", "smoothing"])
def test_memory_that_runs_out_in_the_middle_of_an_attack_doubles_no_query(tmp_path, name):
    late = Late(zoo.smooth())
    expected = run(tmp_path / "plenty", CHECKS[name], Cramped(zoo.smooth()))
    same(run(tmp_path / "late", CHECKS[name], late), expected)
    assert late.failures > 1


def test_a_transferred_attack_whose_source_does_not_fit(tmp_path):
    sources = Cramped(zoo.smooth(seed=1)), Cramped(zoo.smooth(seed=1), 2, on_a_gpu)
    attack = PGD(threat=Linf(0.1), steps=3)
    one, other = (Transferred(attack=attack, source=source) for source in sources)
    expected = run(tmp_path / "plenty", one, Cramped(zoo.smooth()))
    same(run(tmp_path / "cramped", other, Cramped(zoo.smooth())), expected)
    assert sources[1].failures


def test_several_checks_share_what_fits():
    cramped = Cramped(zoo.smooth(), MOST)
    checks = [Clean(), *(CHECKS[name] for name in ("pgd", "square", "autoattack", "smoothing"))]
    blocks = list(evaluations(Subject(cramped), data(), checks, how=EvaluateRecipe(batch_size=8)))
    assert [block.halved for block in blocks if block.halved] == [Halved(8, 2)]
    assert cramped.failures == 2


def test_two_networks_of_a_command_share_what_fits():
    batch_size, networks = BatchSize(8), [Cramped(zoo.smooth(), MOST) for _ in range(2)]
    for network in networks:
        list(evaluations(Subject(network), data(), [Clean()], batch_size=batch_size))
    assert [network.failures for network in networks] == [2, 0]


def test_a_killed_run_goes_on_to_the_same_rows_though_memory_runs_out_meanwhile(tmp_path):
    check, how = CHECKS["autoattack"], EvaluateRecipe(block=16, batch_size=8)
    expected = run(tmp_path / "plenty", check, Cramped(zoo.smooth()), gallery=0)
    subject, points = Subject(Cramped(zoo.smooth()), hash="h"), tmp_path / "points"
    work = evaluations(subject, data(), [check], how=how, ledger=Ledger(tmp_path), points=points)
    for _ in range(4):
        next(work)
    work.close()
    results = run(tmp_path, check, Cramped(zoo.smooth(), MOST), gallery=0)
    assert results[0].equals(expected[0])


def test_what_no_halving_helps_is_one_line():
    with pytest.raises(ModelError, match=r"out of memory with a single image \(CUDA out of memory"):
        list(evaluations(Subject(Later(zoo.smooth())), data(), [GaussianNoise(0.1)]))


class Later(torch.nn.Module):
    """Takes one image of the try-out, and none afterwards."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x):
        self.calls += 1
        return on_a_gpu() if self.calls > 1 else self.inner(x)


def test_one_line_of_python_notices_nothing():
    x, y = data().x, data().y
    checks = [CHECKS["pgd"], EOT(attack=CHECKS["pgd"], draws=2)]
    expected = holdfast.evaluate(Cramped(zoo.smooth()), x, y, checks, settings=EvaluateRecipe(batch_size=8))
    results = holdfast.evaluate(Cramped(zoo.smooth(), MOST), x, y, checks, settings=EvaluateRecipe(batch_size=8))
    assert results.rows.drop("seconds").equals(expected.rows.drop("seconds"))
