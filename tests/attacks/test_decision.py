import pytest
import torch

from holdfast.attacks import Boundary, HopSkipJump, StartingFrom, Targeted
from holdfast.attacks.decision import NOISE, bisect, blocks, first_success, proposals, reached
from holdfast.attacks.minimal import Rows
from holdfast.attacks.search import Aim
from holdfast.attacks.starting import Attempt
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import half_space, half_space_points, images

ATTACKS = {
    "hopskipjump": HopSkipJump(threat=L2(10.0), steps=15, samples=100, starts=5),
    "boundary": Boundary(threat=L2(10.0), steps=600, starts=5),
}
each = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


def bright(z):
    """Class 1 where the mean of 25 values exceeds 0.72, which is 3.8 standard deviations of that of uniform noise."""
    signed = z.flatten(1).mean(1) - 0.72
    return torch.stack([torch.zeros_like(signed), 50 * signed], 1)


def constant(z):
    return torch.tensor([[1.0, 0.0]], dtype=z.dtype).expand(len(z), 2)


def rows_of(model, x, y, target=None):
    return Rows(model, x, Aim.of(margin, y, target), Streams(0, "", len(x)), model(x).detach())


def grey(count, seed=0):
    """Points of class 0 and their true l2 distances to the other half-space; the box is far."""
    x = 0.4 + 0.2 * Streams(seed, "grey", count).uniform(torch.zeros(count, 25, dtype=torch.float64))
    return x, (0.72 - x.mean(1)) * 5


@pytest.fixture
def few_kinds(monkeypatch):
    """Uniform noise alone, none of whose few tries is bright."""
    monkeypatch.setattr("holdfast.attacks.decision.NOISE", NOISE[:1])


@each
@pytest.mark.usefixtures("few_kinds")
def test_an_example_without_a_start_is_noted_as_not_attacked_and_not_returned_as_a_success(attack):
    (x, _), y = grey(4), torch.tensor([0, 1, 0, 0])
    notes = [None] * 4
    z = attack(Attempt(bright, notes), x, y)
    assert torch.equal(z, x)
    assert notes == ["no starting point", None, "no starting point", "no starting point"]  # the second is wrong already


@each
@pytest.mark.usefixtures("few_kinds")
def test_where_nobody_keeps_notes_a_warning_counts_them(attack):
    (x, _), y = grey(4), torch.tensor([0, 1, 0, 0])
    with pytest.warns(RuntimeWarning, match="3 of 3 examples not attacked: no starting point; .* StartingFrom"):
        attack(bright, x, y)


@each
@pytest.mark.usefixtures("few_kinds")
@pytest.mark.parametrize("targeted", [False, True])
def test_from_an_image_of_the_other_class_the_distance_of_the_half_space_is_found(attack, targeted):
    (x, truth), y = grey(6), torch.zeros(6, dtype=torch.int64)
    pool = torch.cat([grey(3, seed=1)[0], torch.full((3, 25), 0.9, dtype=torch.float64)])
    started = StartingFrom(attack=Targeted(attack=attack) if targeted else attack, images=pool)
    z = started(bright, x, y)
    distance = L2(1.0).distance(z, x)
    assert bool((bright(z).argmax(1) == 1).all())
    assert bool((distance >= truth - 1e-9).all())
    assert bool((distance <= 1.1 * truth).all())


def test_other_kinds_of_noise_start_what_uniform_noise_does_not():
    # Class 1 is what is nearly flat: of uniform noise in 64 dimensions nothing is, of flat images everything.
    def flat(z):
        spread = z.flatten(1).std(1)
        return torch.stack([spread, torch.full_like(spread, 0.05)], 1)

    x, y = images(3, shape=(1, 8, 8)), torch.zeros(3, dtype=torch.int64)
    rows = rows_of(flat, x, y)
    start, available = first_success(rows, iter([NOISE[0]] * 20))
    assert not available.any()
    assert torch.equal(start, x)
    start, available = first_success(rows, proposals(L2(1.0), rows, 5))
    assert bool(available.all())
    assert bool(reached(rows, start).all())


def test_noise_stays_in_the_box_and_differs_between_examples():
    x = images(4, shape=(2, 9, 9))
    rows = rows_of(constant, x, torch.zeros(4, dtype=torch.int64))
    for kind in NOISE:
        z = kind(rows)
        assert z.shape == x.shape
        assert bool(((z >= 0) & (z <= 1)).all())
        assert len(torch.unique(z.flatten(1), dim=0)) == 4


@pytest.mark.parametrize("shape", [(3, 2, 9, 7), (3, 12), (3, 2, 12)])
@pytest.mark.parametrize("cells", [1, 4, 100])
def test_blocks_are_as_many_as_asked_along_each_axis(shape, cells):
    noise = Streams(0, "", shape[0]).uniform(torch.zeros(shape))
    coarse = blocks(noise, cells)
    for axis in range(1 if len(shape) == 2 else 2, len(shape)):
        changes = coarse.diff(dim=axis).movedim(axis, 0).flatten(1).any(1)
        assert int(changes.sum()) + 1 == min(cells, shape[axis])
    assert cells < 100 or torch.equal(coarse, noise)


@each
def test_giving_up_costs_the_tries_of_every_kind(attack):
    x, y = images(3), torch.zeros(3, dtype=torch.int64)
    notes, counts = [None] * 3, torch.zeros(3, dtype=torch.int64)
    z = attack(Counted(Attempt(constant, notes), counts), x, y)
    assert torch.equal(z, x)
    assert counts.tolist() == [1 + 5 * len(NOISE)] * 3
    assert notes == ["no starting point"] * 3


@pytest.mark.parametrize("threat", [Linf(1.0), L2(1.0)], ids=str)
def test_bisection_ends_at_the_boundary_on_the_side_of_success(threat):
    model = half_space()
    x, y = half_space_points(model, 6)
    rows = rows_of(model, x, y)
    start, available = first_success(rows, iter([NOISE[0]] * 50))
    assert bool(available.all())
    z = bisect(threat, rows, start, 30)
    assert bool(reached(rows, z).all())
    nearer = threat.project_within(z, x, threat.distance(z, x) * (1 - 1e-5))
    assert not reached(rows, nearer).any()
