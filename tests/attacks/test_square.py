import pytest
import torch

from holdfast.attacks import Square
from holdfast.attacks.square import SQUARES, Bumps, Flips, _window, as_planes, bumps
from holdfast.losses import cross_entropy, margin
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import (
    THREAT_KINDS,
    digits,
    digits_cnn,
    half_space,
    half_space_distance,
    half_space_points,
    half_space_points_at,
    images,
    labels,
    linear,
    smooth,
)


def standing(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) == y


def counted(attack, model, x, y, **arguments):
    wrapped = Counted(model, torch.zeros(len(x), dtype=torch.int64))
    return attack(wrapped, x, y, **arguments), wrapped.counts.tolist()


@pytest.mark.parametrize(("kind", "factor"), [("linf", 1.01), ("l2", 1.5), ("l1", 1.5)])
def test_succeeds_when_the_budget_is_clearly_larger_than_the_distance_and_never_when_smaller(kind, factor):
    model, distance = half_space(), 0.03
    x, y = half_space_points_at(model, distance, kind)
    z = Square(threat=THREAT_KINDS[kind](0.99 * distance), queries=300)(model, x, y)
    assert bool(standing(model, z, y).all())
    z = Square(threat=THREAT_KINDS[kind](factor * distance), queries=500)(model, x, y)
    assert not standing(model, z, y).any()


def test_finds_the_best_corner_of_a_half_space():
    model, eps = half_space(), 0.001
    x, y = half_space_points(model, 8)
    y = y[half_space_distance(model, x, "linf") > eps]
    x = x[half_space_distance(model, x, "linf") > eps]
    z = Square(threat=Linf(eps), queries=500)(model, x, y)
    with torch.no_grad():
        gain = margin(model(z), y) - margin(model(x), y)
        torch.testing.assert_close(gain, (2 * eps * model.weight.abs().sum()).expand_as(gain))


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_every_query_is_counted_and_the_lost_cost_nothing_more(kind):
    model, x = linear(3, (1, 5, 5)), images(6, (1, 5, 5))
    y = model(x).argmax(1)
    y[0] = (y[0] + 1) % 3
    z, queries = counted(Square(threat=THREAT_KINDS[kind](1e-3), queries=7, restarts=2), model, x, y)
    assert queries == [1] + [1 + 2 * 7] * 5
    assert torch.equal(z[0], x[0])


def test_a_success_ends_the_search():
    model, x = linear(2), images(20)
    y = model(x).argmax(1)
    z, queries = counted(Square(threat=Linf(1.0), queries=200), model, x, y)
    assert not standing(model, z, y).any()
    assert max(queries) < 100


def test_the_share_of_pixels_follows_the_published_schedule_rescaled():
    attack = Square(threat=Linf(0.1), queries=10_000)
    after = {0: 1, 10: 1, 11: 2, 50: 2, 51: 4, 201: 8, 501: 16, 1001: 32, 2001: 64, 4001: 128, 6001: 256, 8001: 512}
    assert {t: 0.8 / attack._share_at(t) for t in after} == after
    half = Square(threat=Linf(0.1), queries=5000)
    assert {t: 0.8 / half._share_at(t // 2) for t in after if t % 2 == 0} == {
        t: n for t, n in after.items() if t % 2 == 0
    }
    assert 0.8 / half._share_at(4999) == 512


def test_windows_reach_every_place_of_the_image_and_no_further():
    x = torch.zeros(400, 2, 4, 6)
    where = _window(Streams(0, "", 400).uniform(torch.empty(400, 2)), (3, 2), x)
    assert where.shape == (400, 2, 6)
    assert torch.equal(where[:, 0], where[:, 1])
    top, left = where[:, 0, 0] // 6, where[:, 0, 0] % 6
    assert set(zip(top.tolist(), left.tolist(), strict=True)) == {(r, c) for r in range(2) for c in range(5)}
    rows, columns = where[:, 0] // 6 - top[:, None], where[:, 0] % 6 - left[:, None]
    assert rows[7].tolist() == [0, 0, 1, 1, 2, 2]
    assert columns[7].tolist() == [0, 1, 0, 1, 0, 1]
    edge = _window(torch.full((1, 2), 1 - 1e-9, dtype=torch.float64), (3, 2), x[:1])
    assert int(edge.max()) == 4 * 6 - 1


def test_starts_with_vertical_stripes_at_the_edge_of_the_ball():
    x = torch.full((5, 3, 6, 7), 0.5, dtype=torch.float64)
    step = Flips(Linf(0.1)).start(x, Streams(0, "", 5)) - x
    torch.testing.assert_close(step.abs(), torch.full_like(x, 0.1))
    assert torch.equal(step, step[:, :, :1].expand_as(step))
    assert len(step[:, :, 0].reshape(15, 7).unique(dim=0)) > 10


def test_a_flip_changes_one_window_with_one_sign_per_channel_and_its_own_place_per_example():
    x = torch.full((40, 3, 8, 8), 0.5, dtype=torch.float64)
    z = Flips(Linf(0.1)).propose(x.clone(), x, 9 / 64, Streams(0, "", 40))
    changed = (z - x).abs() > 0
    assert torch.equal(changed.sum((1, 2, 3)), torch.full((40,), 27))
    assert len(changed[:, 0].flatten(1).unique(dim=0)) > 15
    for example in z - x:
        for channel in example:
            assert len(channel[channel != 0].sign().unique()) == 1
            assert float(channel.abs().max()) == pytest.approx(0.1)
    assert (z - x).sum((2, 3)).sign().unique(dim=0).shape[0] > 4


def published_bump(height, width, decay):
    """Rings around the centre: every larger box adds the inverse power of its number (the paper's equation 2)."""
    values = torch.zeros(height, width, dtype=torch.float64)
    row, column = height // 2, width // 2
    for ring in range(max(height, width) // 2 + 1):
        box = values[max(row - ring, 0) : row + ring + 1, max(column - ring, 0) : column + ring + 1]
        box += 1 / (ring + 1) ** decay
    return values


@pytest.mark.parametrize(("power", "decay"), [(2, 2), (1, 4)])
@pytest.mark.parametrize("side", [3, 5, 7])
def test_bumps_are_the_published_ones(side, power, decay):
    upright, lying = bumps(side, side, power, decay).view(2, side, side)
    torch.testing.assert_close(upright, lying.T)
    assert float(lying.abs().pow(power).sum()) == pytest.approx(1)
    half = side // 2
    assert bool((lying[:half] > 0).all())
    assert bool((lying[half:] < 0).all())
    for part, height in ((lying[:half], half), (-lying[half:], side - half)):
        expected = published_bump(height, side, decay)
        torch.testing.assert_close(part / part.max(), expected / expected.max())
    sizes = [float(part.abs().pow(power).sum()) for part in (lying[:half], lying[half:])]
    assert sizes[0] == pytest.approx(sizes[1])  # both halves weigh the same


def test_each_norm_has_the_bumps_of_its_paper():
    assert SQUARES[L2](L2(1.0)) == Bumps(L2(1.0), power=2, decay=2, grow=False)
    assert SQUARES[L1](L1(1.0)) == Bumps(L1(1.0), power=1, decay=4, grow=True)


@pytest.mark.parametrize("threat", [L2(0.3), L1(2.0)], ids=str)
def test_bumps_spend_the_whole_budget_when_the_box_is_far(threat):
    moves, rng = SQUARES[type(threat)](threat), Streams(0, "", 10)
    x = torch.full((10, 1, 12, 12), 0.5, dtype=torch.float64)
    z = moves.start(x, rng)
    for _ in range(50):
        torch.testing.assert_close(threat.distance(z, x), torch.full((10,), threat.eps).double(), rtol=1e-5, atol=0)
        z = moves.propose(z, x, 0.05, rng)
    assert isinstance(moves, Bumps)


def test_a_bump_moves_the_budget_of_one_window_to_another():
    threat, x = L2(0.3), torch.full((60, 1, 9, 9), 0.5, dtype=torch.float64)
    moves = SQUARES[L2](threat)
    z = moves.start(x, Streams(0, "", 60))
    after = moves.propose(z, x, 9 / 81, Streams(1, "", 60))
    changed = ((after - z).abs() > 1e-12).flatten(1).sum(1)
    assert bool((changed <= 18).all())  # two windows of nine pixels, and nothing else
    assert bool((changed > 9).any())
    emptied = ((after == x) & (z != x)).flatten(1).sum(1)
    assert bool((emptied > 0).any())


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 6), (2, 3, 4, 6)])
def test_images_of_any_shape_are_planes(shape):
    x = torch.arange(2 * torch.Size(shape).numel()).view(2, *shape)
    planes = as_planes(x)
    assert planes.shape[2:] == (1, *shape)[-2:]
    assert torch.equal(planes.flatten(), x.flatten())


def test_restarts_help_and_keep_the_best():
    model, x = smooth(), images(60)
    y = model(x).argmax(1)
    once = Square(threat=Linf(0.08), queries=5)
    one = once(model, x, y, rng=Streams(0, "", 60))
    four = Square(threat=Linf(0.08), queries=5, restarts=4)(model, x, y, rng=Streams(0, "", 60))
    kept = margin(model(four), y)[standing(model, four, y)] >= margin(model(one), y)[standing(model, four, y)]
    assert bool(kept.all())
    assert int(standing(model, four, y).sum()) < int(standing(model, one, y).sum())


def test_a_target_is_approached_by_the_cross_entropy_and_reached():
    model, x = smooth(), images(20)
    y = model(x).argmax(1)
    target = (y + 1) % 5
    attack = Square(threat=Linf(0.02), queries=30)
    z = attack(model, x, y, target=target)
    explicit = Square(threat=Linf(0.02), queries=30, loss=cross_entropy)(model, x, y, target=target)
    assert torch.equal(z, explicit)
    assert not torch.equal(z, Square(threat=Linf(0.02), queries=30, loss=margin)(model, x, y, target=target))
    far = Square(threat=Linf(0.6), queries=300)(model, x, y, target=target)
    assert int((model(far).argmax(1) == target).sum()) >= 18


@pytest.mark.parametrize(("kind", "eps"), [("Linf", 0.08), ("L2", 0.5), ("L1", 1.5)])
def test_is_as_strong_as_the_reference_implementation(kind, eps):
    reference = pytest.importorskip("pyautoattack.square").SquareAttack
    model, (x, y) = digits_cnn(), digits()
    x, y = x[:200], y[:200]
    z = Square(threat=THREAT_KINDS[kind.lower()](eps), queries=150)(model, x, y)
    with torch.random.fork_rng(devices=[]):
        other = reference(model, norm=kind, n_queries=150, eps=eps, device="cpu").perturb(x, y)
    ours, theirs = (int(standing(model, points, y).sum()) for points in (z, other))
    # Measured over four seeds, 500 images and 600 queries: ours 70.1, 67.6, 63.5 %, theirs 73.7, 71.0, 71.7 %. They
    # never change the last row and column, which matters for 8x8 pixels.
    assert ours <= theirs + 2
    assert ours > 100


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"queries": 0}, "queries and restarts must be at least 1"),
        ({"restarts": 0}, "queries and restarts must be at least 1"),
        ({"share": 0.0}, "share must lie in"),
        ({"share": 1.5}, "share must lie in"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Square(threat=Linf(0.1), **fields)


def test_an_unknown_threat_is_refused_by_name():
    class Wasserstein:
        eps = 0.1

    with pytest.raises(ValueError, match="no windows for wasserstein"):
        Square(threat=Wasserstein())


@pytest.mark.parametrize("shape", [(1, 1, 9), (2, 7, 1), (1, 2, 2)])
@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_thin_and_tiny_images_work(kind, shape):
    model, x = linear(3, shape), images(5, shape)
    z = Square(threat=THREAT_KINDS[kind](0.3), queries=20)(model, x, labels(5, 3))
    assert bool(torch.isfinite(z).all())
    assert bool((THREAT_KINDS[kind](0.3).distance(z, x) <= 0.3 + 1e-9).all())
