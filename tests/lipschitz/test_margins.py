"""Differences of two logits: how fast they change, and how far float64 is from exact arithmetic."""

import copy
import itertools
import math
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import OrthogonalDense, lipschitz_bound, margin_bound, margin_growth
from holdfast.lipschitz.margins import MarginBound, exact_network, unchanging
from holdfast.lipschitz.norms import Dense, Diagonal, largest_singular_values
from holdfast.lipschitz.pairs import uniform_factor
from holdfast.lipschitz.precision import in_float64, logits_in_float64
from holdfast.lipschitz.radii import ALPHA, margin_radius
from holdfast.lipschitz.rounding import Rounding
from holdfast.models import build
from holdfast.rng import Streams
from tests.contracts import cheap
from tests.lipschitz.test_bound import ORDERS, SHAPE, Function, conv, hadamard, networks
from tests.zoo import images, normed, seeded, smooth
from tests.zoo import linear as linear_model

DUALS = {"l1": torch.inf, "l2": 2, "linf": 1}
NORMS = list(ORDERS)


def rows_apart(weight, norm):
    return torch.linalg.vector_norm(weight[:, None] - weight, DUALS[norm], dim=2)


def growth(model, x, norm):
    return margin_bound(model, x, norm).growth


def dense(inputs, outputs, seed=0):
    return seeded(lambda: nn.Linear(inputs, outputs), seed).double()


# How fast differences change.


@pytest.mark.parametrize("norm", NORMS)
def test_differences_of_a_linear_network_are_those_of_its_rows(norm):
    model = linear_model(5)
    torch.testing.assert_close(growth(model, images(1), norm), rows_apart(model.weight.detach(), norm))


HEADS = {
    "bias": lambda head, x: head(x.relu()) + torch.arange(4.0),
    "temperature": lambda head, x: head(x.relu()) / 0.25,
    "flattened": lambda head, x: head(x.relu()).flatten(1),
    "log-softmax": lambda head, x: F.log_softmax(head(x.relu()), dim=1),
    "temperature behind": lambda head, x: F.log_softmax(head(x.relu()), dim=1) * -3,
    "opposite": lambda head, x: -head(x.relu()),
    "dropout": lambda head, x: F.dropout(head(x.relu()), training=False).float(),
}
FACTORS = {"temperature": 4, "temperature behind": 3}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", HEADS)
def test_what_comes_after_the_last_layer_leaves_its_rows_known(name, norm):
    model = Function(lambda self, x: HEADS[name](self.head, x), head=dense(6, 4))
    expected = FACTORS.get(name, 1) * rows_apart(model.head.weight.detach(), norm)
    torch.testing.assert_close(growth(model, images(1, (6,)), norm), expected)


def test_rows_count_with_the_layers_merged_into_them():
    first, head = dense(6, 5), dense(5, 4)
    both = nn.Sequential(first, head)
    torch.testing.assert_close(
        growth(both, images(1, (6,)), "l2"), rows_apart(head.weight @ first.weight, "l2").detach()
    )
    apart = nn.Sequential(first, nn.ReLU(), head)
    steepest = torch.linalg.matrix_norm(first.weight, 2).item()
    torch.testing.assert_close(growth(apart, images(1, (6,)), "l2"), steepest * rows_apart(head.weight, "l2").detach())


def test_the_difference_of_a_sum_is_the_sum_of_the_differences():
    one, two = dense(6, 4), dense(6, 4, seed=1)
    model = Function(lambda self, x: torch.add(self.one(x.relu()), self.two(x), alpha=-2) / 3, one=one, two=two)
    expected = (rows_apart(one.weight, "l2") + 2 * rows_apart(two.weight, "l2")) / 3
    torch.testing.assert_close(growth(model, images(1, (6,)), "l2"), expected.detach())


@pytest.mark.parametrize(
    "end",
    [
        lambda self, x: self.head(x).relu(),
        lambda self, x: torch.cat((self.head(x)[:, :2], self.head(x)[:, 2:]), 1),
        lambda self, x: self.head(x) * torch.tensor([1.0, 2, 3, 4], dtype=x.dtype) + x[:, :1],
        lambda self, x: self.head(x[:, None])[:, 0],
        lambda self, x: torch.maximum(self.head(x), self.head(x)),
    ],
)
def test_other_ends_have_the_growth_of_the_constant(end):
    model, x = Function(end, head=dense(6, 4)), images(1, (6,))
    for norm in NORMS:
        constant = lipschitz_bound(model, x, norm=norm).upper
        euclidean = {"l1": 1, "l2": 1, "linf": math.sqrt(6)}[norm] * lipschitz_bound(model, x).upper
        expected = min(ALPHA[norm] * constant, ALPHA["l2"] * euclidean)
        torch.testing.assert_close(growth(model, x, norm), torch.full((4, 4), expected, dtype=torch.float64))


def test_euclidean_rows_count_where_they_say_more():
    x = images(1, (16,))
    model = nn.Sequential(hadamard(), nn.ReLU(), hadamard())
    off = ~torch.eye(16, dtype=torch.bool)
    # Rows differ in half of 16 entries of 1/4: 1/2 in linf, sqrt 2 in l2, 4 in l1; the layer before has norms 4, 1, 4.
    for norm, expected in (("l1", math.sqrt(2)), ("l2", math.sqrt(2)), ("linf", 4 * math.sqrt(2))):
        torch.testing.assert_close(growth(model, x, norm)[off], torch.full((240,), expected, dtype=torch.float64))
    assert growth(hadamard(), x, "l1")[off].tolist() == pytest.approx([0.5] * 240)


def test_one_factor_for_all_is_not_mistaken():
    assert uniform_factor(Diagonal(torch.tensor([[-2.0]]))) == 2
    assert uniform_factor(Diagonal(torch.tensor([2.0, 2.0, 1.0]))) is None
    assert uniform_factor(Dense(torch.ones(1, 1))) is None


@given(networks(), st.sampled_from(NORMS), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_no_difference_changes_faster_and_none_is_looser_than_the_constant(model, norm, seed):
    x = images(4, SHAPE, seed=seed)
    rates = growth(model, x, norm)
    assert bool((rates <= ALPHA[norm] * lipschitz_bound(model, x, norm=norm).upper * (1 + 1e-12)).all())
    for scale in (1e-3, 1.0):
        z = x + scale * Streams(seed, "pairs", len(x)).normal(x)
        with torch.no_grad():
            moved = model(z) - model(x)
        changes = (moved[:, :, None] - moved[:, None]).abs()
        distance = torch.linalg.vector_norm((z - x).flatten(1), ORDERS[norm], dim=1)
        assert bool((changes <= rates * distance[:, None, None] * (1 + 1e-9) + 1e-12).all())


def test_what_holds_in_l2_holds_in_linf_by_a_factor_that_is_rounded_up():
    head, x = dense(16, 3), images(1, (16,))
    with torch.no_grad():
        head.weight.copy_(torch.eye(3, 16))
    model = nn.Sequential(hadamard(), nn.ReLU(), head)  # a product of norms of 4 * 2 in linf, 1 * sqrt(2) in l2
    factor = Fraction(float(growth(model, x, "linf")[0, 1])) / Fraction(float(growth(model, x, "l2")[0, 1]))
    assert 16 <= factor**2 < 16.001


def test_the_growth_of_margins_is_that_of_the_fastest_pair():
    model = linear_model(5)
    assert margin_growth(model, images(1), "l2") == pytest.approx(float(rows_apart(model.weight.detach(), "l2").amax()))
    with pytest.raises(ValueError, match="margin_growth: norm: unknown name 'l0'"):
        margin_growth(model, images(1), "l0")
    with pytest.raises(ValueError, match="margin_bound: norm: unknown name 'l0'"):
        margin_bound(model, images(1), "l0")
    with pytest.raises(ModelError, match=r"two classes or more; got shape \(N, 1\)"):
        margin_bound(linear_model(1), images(1), "l2")
    with pytest.raises(ModelError, match=r"two classes or more; got shape \(N, 1, 4, 4\)"):
        margin_bound(nn.Identity(), images(1), "l2")


# Radii by pairs.


def test_radii_are_the_smallest_over_the_pairs():
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.9]])
    rates = torch.tensor([[0.0, 4.0, 1.0], [4.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    radius, prediction = margin_radius(logits, rates)
    assert radius.tolist() == pytest.approx([0.5, 0.0, 0.1], rel=1e-6)
    assert prediction.tolist() == [0, 1, 0]
    assert radius[0] < 0.5, "rounded up"
    less, _ = margin_radius(logits, rates, torch.tensor([1.0, 1.0, 0.05]))
    assert less.tolist() == pytest.approx([0.25, 0.0, 0.05], rel=1e-5)
    forever, _ = margin_radius(logits, 0.0)
    assert forever.tolist() == [math.inf, 0.0, math.inf]


def test_radii_are_rounded_down_by_eight_units(monkeypatch):
    unit = 2.0**-24
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", unit)
    radius, _ = margin_radius(torch.tensor([[3.0, 1.0]]), 4.0)
    assert float(radius) == pytest.approx(0.5 * (1 - 8 * unit / (1 - 8 * unit)), rel=1e-14)


# Exact arithmetic.


def test_rounding_is_the_smallest_of_the_bounds_by_the_norms_of_the_images():
    bound = MarginBound(torch.zeros(2, 2), {"l2": Rounding(1.0, 2.0), "linf": Rounding(2.0, 0.5)})
    x = torch.tensor([[[3.0, -4.0]], [[0.0, 0.1]]])  # of lengths 5 and 0.1, and of 4 and 0.1
    expected = torch.tensor([2 + 0.5 * 4, 1 + 2 * 0.1], dtype=torch.float64)
    torch.testing.assert_close(bound.rounding(x), 1.01 * expected, rtol=1e-6, atol=0)
    farther = torch.tensor([2 + 0.5 * (4 + 6), 2 + 0.5 * (0.1 + 6)], dtype=torch.float64)
    torch.testing.assert_close(bound.rounding(x, {"l2": 9.0, "linf": 6.0}), 1.01 * farther, rtol=1e-6, atol=0)
    torch.testing.assert_close(bound.rounding(x, {"l2": 9.0})[0], 1.01 * expected[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_difference_of_logits_is_off_by_alpha_times_their_error(norm):
    # A shift of one logit: 32 roundings of the output and, twice, of the input.
    model = Function(lambda self, x: x + torch.tensor([3.0, 0.0]).to(x))
    (rounding,) = (margin_bound(model, images(1, (2,)), norm).roundings[each] for each in [norm])
    assert rounding.constant == pytest.approx(ALPHA[norm] * 32 * 2.0**-53 * 3, rel=1e-12)
    assert rounding.slope == pytest.approx(ALPHA[norm] * 32 * 2.0**-53 * 2, rel=1e-12)


def exactly(layers, x):
    """Logits of dense layers with ReLUs between them, as fractions."""
    values = [Fraction(v) for v in x.double().tolist()]
    for number, layer in enumerate(layers):
        rows, biases = layer.weight.double().tolist(), layer.bias.double().tolist()
        sums = [sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(0)) for row in rows]
        values = [total + Fraction(bias) for total, bias in zip(sums, biases, strict=True)]
        if number < len(layers) - 1:
            values = [max(v, Fraction(0)) for v in values]
    return values


def mlp(*widths, seed=0):
    return [seeded(lambda n=n: nn.Linear(*n), seed + i) for i, n in enumerate(itertools.pairwise(widths))]


def test_radii_of_linear_networks_never_exceed_the_exact_distance():
    (layer,) = mlp(40, 3)
    x = images(150, (40,), dtype=torch.float32)
    copied, bound = exact_network(layer), margin_bound(layer, x, "l2")
    with torch.no_grad():
        radius, prediction = margin_radius(logits_in_float64(copied, x), bound.growth, bound.rounding(x))
    rows, tight = [[Fraction(w) for w in row] for row in layer.weight.double().tolist()], 0
    for point, r, c in zip(x, radius.tolist(), prediction.tolist(), strict=True):
        logits = exactly([layer], point)
        for j in set(range(3)) - {c}:
            square = sum((a - b) ** 2 for a, b in zip(rows[c], rows[j], strict=True))
            gap = logits[c] - logits[j]
            assert gap > 0
            assert Fraction(r) ** 2 * square <= gap**2, "beyond the exact distance"
            tight += Fraction(r) ** 2 * square >= gap**2 * (1 - Fraction(1, 10**9))
    assert tight > 140  # nearly nothing is given away


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e5])
def test_differences_in_float64_are_no_farther_off_than_said(scale):
    layers = mlp(12, 9, 7, 4, seed=3)
    with torch.no_grad():
        layers[1].bias.mul_(scale)
    model = nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])
    x = scale * images(20, (12,), dtype=torch.float32)
    with torch.no_grad():
        logits, off = logits_in_float64(exact_network(model), x), margin_bound(model, x, "l2").rounding(x)
    for row, point, allowed in zip(logits.tolist(), x, off.tolist(), strict=True):
        truth = exactly(layers, point)
        wrong = [Fraction(v) - t for v, t in zip(row, truth, strict=True)]
        assert max(wrong) - min(wrong) <= Fraction(allowed)
        assert allowed < 1e-11 * max(scale, 1e-2)


def check_rounding(model, x, monkeypatch):
    """What float32 computes, against float64, if the unit of rounding is that of float32."""
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", 2.0**-24)
    model = model.float().eval()
    with torch.no_grad():
        exact = logits_in_float64(exact_network(model), x.float())
        wrong = model(x.float()).double() - exact
    for norm in NORMS:
        off = margin_bound(model, x.float(), norm).rounding(x.float())
        assert bool((wrong.amax(1) - wrong.amin(1) <= off).all()), norm
        assert bool(off.isfinite().all())


ROUNDED = {
    "normalised": lambda: nn.Sequential(normed(), nn.Identity()),
    "smooth": smooth,
    "means": lambda: nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3)),
    "gelu": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 30), nn.GELU(), nn.Linear(30, 3), nn.LogSoftmax(1)),
    "large shift": lambda: Function(lambda self, x: self.head((x + 1e3).flatten(1)) - 500, head=nn.Linear(16, 3)),
    "residual": lambda: Function(
        lambda self, x: self.tail((x + self.conv(x)).flatten(1)), conv=conv(1, 1, 3, padding=1), tail=nn.Linear(16, 3)
    ),
    "upsampled": lambda: nn.Sequential(nn.Upsample(scale_factor=3, mode="bicubic"), nn.Flatten(), nn.Linear(144, 3)),
    "from the left": lambda: Function(
        lambda self, x: self.head((torch.arange(16.0).view(4, 4).to(x) @ x).flatten(1)), head=nn.Linear(16, 3)
    ),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_of_a_forward_pass_is_bounded(name, monkeypatch):
    for seed in range(3):
        check_rounding(seeded(ROUNDED[name], seed), 20 * images(30, seed=seed), monkeypatch)


def test_rounding_of_a_forward_pass_with_a_large_mean_is_bounded(monkeypatch):
    norm = nn.BatchNorm2d(1)
    with torch.no_grad():
        norm.running_mean.fill_(1e4), norm.bias.fill_(1e4)
    model = seeded(lambda: nn.Sequential(norm, nn.Flatten(), nn.Linear(16, 3)))
    check_rounding(model, images(50), monkeypatch)


@pytest.mark.parametrize(
    "name", [name for name in ("mlp", "lenet", "resnet18", "lipschitz-cnn") if name in cheap.MODEL_NAMES]
)
def test_rounding_of_our_networks_is_bounded(name, monkeypatch):
    model = build(cheap.CHEAP_MODELS[name], (3, 8, 8), 4, mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.25])
    check_rounding(model, images(20, (3, 8, 8)), monkeypatch)


def test_a_certificate_does_not_depend_on_the_precision_of_the_forward_pass():
    model, x = smooth().float(), images(5, dtype=torch.float32)
    for norm in NORMS:
        one, other = margin_bound(model, x, norm), margin_bound(copy.deepcopy(model).double(), x.double(), norm)
        assert torch.equal(one.growth, other.growth)
        assert torch.equal(one.rounding(x), other.rounding(x.double()))


def test_the_rounding_of_a_shift_grows_with_the_places_it_is_added_at():
    def rounding(side):
        normed = nn.BatchNorm2d(2).double().eval()
        normed.running_var.fill_(4.0)
        normed.bias.data.fill_(3.0)
        model = nn.Sequential(normed, Function(lambda self, x: x.sum((2, 3))))
        x = torch.zeros(1, 2, side, side, dtype=torch.float64)
        return float(margin_bound(model, x, "l2").rounding(x))

    assert rounding(4) >= 16 * rounding(1) > 0


def test_casts_and_constants_of_a_forward_pass_are_those_of_float64():
    weight = torch.linspace(0.1, 1, 18).view(6, 3)  # a constant that is no buffer
    model = Function(
        lambda self, x: (self.head(x.float()).float() @ weight).to(torch.float32), head=dense(6, 6).float()
    )
    x = images(3, (6,), dtype=torch.float32)
    with torch.no_grad():
        logits = logits_in_float64(exact_network(model), x)
        expected = (x.double() @ model.head.weight.double().mT + model.head.bias.double()) @ weight.double()
    assert logits.dtype == torch.float64
    torch.testing.assert_close(logits, expected, rtol=1e-14, atol=1e-14)
    assert float(margin_bound(model, x, "l2").rounding(x).amax()) < 1e-12


def test_lists_and_names_of_a_forward_pass_are_those_of_float64_too():
    parts = torch.linspace(0.1, 1, 18).view(6, 3), torch.linspace(0.3, 2, 9).view(3, 3)
    model = Function(
        lambda self, x: self.head(x.to(dtype=torch.float32)).to(dtype=torch.float32) @ torch.linalg.multi_dot(parts),
        head=dense(6, 6).float(),
    )
    x = images(3, (6,))
    with torch.no_grad():
        logits = logits_in_float64(exact_network(model), x)
        expected = (
            (x @ model.head.weight.double().mT + model.head.bias.double()) @ parts[0].double() @ parts[1].double()
        )
    torch.testing.assert_close(logits, expected, rtol=1e-14, atol=1e-14)


def test_convolutions_of_cudnn_are_not_asked_for_logits():
    allowed = []
    model = Function(lambda self, x: allowed.append(torch.backends.cudnn.enabled) or x)
    before = torch.backends.cudnn.enabled
    logits_in_float64(model, images(1))
    assert allowed == [False]
    assert torch.backends.cudnn.enabled == before


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 2), lambda: nn.BatchNorm1d(3, affine=False)])
def test_networks_stay_where_they_are_if_float64_exists_there(make):
    copied = in_float64(make().to("meta"))  # a device that nothing can be copied from
    tensors = [*copied.parameters(), *(each for each in copied.buffers() if each.is_floating_point())]
    assert {(each.device.type, each.dtype) for each in tensors} == {("meta", torch.float64)}
    assert not copied.training


def test_a_network_that_cannot_be_copied_is_refused_with_the_first_line_of_the_reason():
    class Unique(nn.Linear):
        def __deepcopy__(self, memo):
            raise RuntimeError("there is one of a kind\nand a second line")

    with pytest.raises(ModelError, match=r"can be copied to float64: there is one of a kind$"):
        exact_network(Unique(3, 2))


def test_what_is_remembered_of_a_network_is_for_images_of_one_shape():
    model, known = nn.Flatten(), {}
    with unchanging(known):
        sizes = [len(growth(model, images(1, shape), "l2")) for shape in ((1, 2, 2), (3, 2, 2), (3, 2, 1), (1, 2, 2))]
    assert sizes == [4, 12, 6, 4]


def test_orthogonal_layers_keep_the_weights_they_have():
    layer, x = seeded(lambda: OrthogonalDense(6, 4)), images(3, (6,), dtype=torch.float32)
    with torch.no_grad():
        expected = x.double() @ layer.weight.double().mT
        torch.testing.assert_close(logits_in_float64(exact_network(layer), x), expected, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (1, 1), (60, 40)])
def test_singular_values_have_a_bound_that_is_near(shape):
    for seed in range(5):
        matrix = Streams(seed, "matrix", 1).normal(torch.empty(1, *shape, dtype=torch.float64))
        value, bound = largest_singular_values(matrix)
        truth = torch.linalg.svdvals(matrix)[:, 0]
        assert bool((bound >= truth).all())
        assert bool((bound <= truth * (1 + 1e-10)).all())
        torch.testing.assert_close(value, truth, rtol=1e-13, atol=0)
    complex_matrix = torch.complex(matrix, matrix.flip(1))
    assert bool((largest_singular_values(complex_matrix)[1] >= torch.linalg.svdvals(complex_matrix)[:, 0]).all())


def test_a_wrong_eigenvalue_is_noticed(monkeypatch):
    matrix = Streams(0, "matrix", 1).normal(torch.empty(1, 5, 5, dtype=torch.float64))
    eigenvalues = torch.linalg.eigvalsh
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda square: 0.9 * eigenvalues(square))
    assert bool((largest_singular_values(matrix)[1] >= torch.linalg.svdvals(matrix)[:, 0]).all())


def test_the_largest_singular_value_of_nothing_is_nothing():
    value, bound = largest_singular_values(torch.zeros(2, 3, dtype=torch.float64))
    assert float(value) == 0
    assert 0 <= float(bound) < 1e-100


def test_refused_networks_are_refused_here_as_well():
    with pytest.raises(ModelError, match=r"expected an nn\.Module, got a function"):
        margin_bound(lambda z: z, images(1), "l2")
    for kind in (torch.bfloat16, torch.float16):
        with pytest.raises(ModelError, match=r"expected weights in float32 or float64, got b?float16 \('weight'\)"):
            margin_bound(nn.Linear(16, 3).to(kind), images(1, (16,)), "l2")
