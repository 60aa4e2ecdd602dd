import dataclasses

import pytest
import torch

from holdfast.corruptions.bar import FUNCTIONS, KINDS, LEVELS, SEVERITIES, Bar, corruption
from holdfast.data.digits import Digits
from holdfast.errors import DataError
from holdfast.rng import Streams
from tests.corruptions.bar.pictures import natural
from tests.corruptions.published import CIFAR_BAR

OUTCOMES = {"circular_motion_blur": 1, "transverse_chromatic_abberation": 3, "pinch_and_twirl": 50}
"""How many results 80 draws have at least: of nothing, orders of three, and nine signs; of the others nearly all."""


def test_levels_are_the_published_ones():
    rows = [line.split(",") for line in CIFAR_BAR.splitlines()]
    assert {kind: list(levels) for kind, levels in LEVELS.items()} == {row[0]: [*map(float, row[1:])] for row in rows}


def test_there_are_ten_kinds_with_rising_levels():
    assert len(KINDS) == 10
    assert set(KINDS) == set(FUNCTIONS) == set(LEVELS)
    for levels in LEVELS.values():
        assert sorted(set(levels)) == list(levels)
        assert len(levels) == len(SEVERITIES)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8), (3, 9, 33), (3, 40, 24)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_images_of_all_sizes_stay_images_and_change(kind, shape):
    for dtype in (torch.float32, torch.float64):
        x = torch.cat((natural(6, shape, dtype=dtype), torch.zeros(1, *shape), torch.ones(1, *shape))).to(dtype)
        for severity in (1, 5):
            z = Bar(kind, severity)(x)
            assert (z.shape, z.dtype, z.device) == (x.shape, x.dtype, x.device)
            assert bool(((z >= 0) & (z <= 1)).all())
        assert bool(((z - x)[:6].abs().amax((1, 2, 3)) > 0.01).any())


@pytest.mark.parametrize("kind", KINDS)
def test_each_severity_hurts_at_least_as_much_as_the_one_before(kind):
    digits = Digits()().test.x[:200].double().reshape(-1, 1, 8, 8)
    for x in (natural(50), natural(50, (1, 28, 28)), digits / digits.max()):
        change = [float((Bar(kind, severity)(x) - x).square().mean()) for severity in SEVERITIES]
        assert sorted(change) == change
        assert change[-1] > 1.1 * change[0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_changes_alike_in_every_batch(kind):
    count, x, change = 15, natural(15), Bar(kind, 4)
    whole = change(x, rng=Streams(1, "b", count))
    assert torch.equal(change(x, rng=Streams(1, "b", count)), whole)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    for rows in (torch.tensor([0]), torch.tensor([14]), *torch.arange(count).split(7), order):
        part = change(x[rows], rng=Streams(1, "b", rows))
        torch.testing.assert_close(part, whole[rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_large_batches_are_worked_off_in_parts(kind, monkeypatch):
    x = natural(7, (3, 16, 16))
    whole = Bar(kind)(x)
    monkeypatch.setattr(corruption, "_CHUNK", 2 * x[0].numel())
    torch.testing.assert_close(Bar(kind)(x), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_every_image_has_its_own_draws_and_every_call_new_ones(kind):
    x, rng = natural(1).expand(40, 3, 32, 32), Streams(0, "d", 40)
    first, second = Bar(kind)(x, rng=rng), Bar(kind)(x, rng=rng)
    outcomes = len(torch.cat((first, second)).unique(dim=0))
    assert outcomes >= OUTCOMES.get(kind, 60)
    assert torch.equal(first, second) == (outcomes == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_precision_changes_the_result_by_rounding_only(kind):
    x = natural(8, dtype=torch.float32)
    torch.testing.assert_close(Bar(kind)(x).double(), Bar(kind)(x.double()), rtol=0, atol=2e-5)
    half = Bar(kind)(x.to(torch.bfloat16))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half, Bar(kind)(x.to(torch.bfloat16).float()).to(torch.bfloat16))


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_stays_empty(kind):
    assert Bar(kind)(torch.zeros(0, 3, 32, 32)).shape == (0, 3, 32, 32)


def test_other_severities_of_an_image_share_their_draws():
    # Lines of the lower severity are still there at the higher one.
    x = torch.zeros(4, 1, 32, 32, dtype=torch.float64)
    assert bool((Bar("lines", 2)(x) <= Bar("lines", 5)(x) + 1e-12).all())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "riple"}, r"kind: unknown name 'riple'; known: blue_noise_sample, .* Did you mean 'ripple'\?"),
        ({"kind": "ripple", "severity": 0}, "severity: expected 1, 2, 3, 4 or 5, got 0"),
        ({"kind": "ripple", "severity": 6}, "severity: expected 1, 2, 3, 4 or 5, got 6"),
        ({"kind": "ripple", "severity": True}, "severity: expected 1, 2, 3, 4 or 5, got True"),
        ({"kind": "ripple", "severity": 2.5}, "severity: expected 1, 2, 3, 4 or 5, got 2.5"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Bar(**fields)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(3, 32, 32), r"expected images \(N, 1 or 3, height, width\), got shape \(3, 32, 32\)"),
        (torch.zeros(1, 2, 32, 32), r"expected images \(N, 1 or 3, height, width\), got shape \(1, 2, 32, 32\)"),
        (torch.zeros(1, 3, 7, 32), "expected sides of at least 8 pixels, got 7x32"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "expected floating-point images in .*, got torch.uint8"),
    ],
)
def test_what_is_no_batch_of_images_is_refused(x, message):
    with pytest.raises(DataError, match=message):
        Bar("ripple")(x)


def test_it_compares_and_copies_as_its_fields():
    assert dataclasses.replace(Bar("ripple"), severity=5) == Bar("ripple", 5)
    assert Bar("ripple").severity == 3
