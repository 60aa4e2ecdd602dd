"""Second-order adversarial regularisation: reference numbers, the bound and its printed form."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from torch import nn

from holdfast.losses import cross_entropy, margin
from holdfast.objectives import SOAR
from holdfast.objectives.penalty import hessian_product, inner, slope
from holdfast.objectives.soar import augmented_product, difference_product, enclosing_radius, estimate, factor
from holdfast.objectives.start import starting_point
from holdfast.recipe import parse_recipes
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from tests import chance
from tests.objectives.logistic import BEND, GRADIENT, WEIGHT, F, Logistic, X, Y, augmented, hessian
from tests.zoo import images, labels, linear

EPS = 8 / 255


def regulariser(z, eps, step=None):
    """R of the logistic regression for a given z, as equation 3.12 has it."""
    around = slope(cross_entropy, Logistic(), X, Y)
    z = torch.tensor([z], dtype=torch.float64)
    direction, last = z[:, :2], z[:, 2]
    if step is None:
        bent = hessian_product(around, direction)
    else:
        bent = difference_product(cross_entropy, Logistic(), around, Y, direction, step)
    length = torch.linalg.vector_norm(augmented_product(around.gradient, bent, direction, last), dim=1)
    return float((factor(Linf(EPS), eps, X) * length).detach())


@pytest.mark.parametrize(
    ("z", "eps", "expected"),
    [
        ((1.0, 0.0, 0.0), EPS, 0.38368498),
        ((0.0, 0.0, 1.0), EPS, 0.77255859),
        ((1.0, -1.0, 0.5), EPS, 0.76549255),
        ((1.0, 0.0, 0.0), 0.5, 0.57439679),
        ((0.0, 0.0, 1.0), 0.5, 1.15656122),
        ((1.0, -1.0, 0.5), 0.5, 1.14598298),
    ],
)
def test_has_the_reference_values_with_exact_products(z, eps, expected):
    assert regulariser(z, eps) == pytest.approx(expected, abs=6e-9)


@pytest.mark.parametrize(
    ("z", "expected"), [((1.0, 0.0, 0.0), 0.38373411), ((1.0, -1.0, 0.5), 0.76578602), ((0.0, 0.0, 1.0), 0.77255859)]
)
def test_has_the_reference_values_with_finite_differences(z, expected):
    assert regulariser(z, EPS, step=0.01) == pytest.approx(expected, abs=6e-9)


def test_gradient_and_hessian_are_those_of_the_logistic_regression():
    around = slope(cross_entropy, Logistic(), X, Y)
    torch.testing.assert_close(around.gradient.detach(), GRADIENT, rtol=0, atol=6e-9)
    assert float(around.logits.detach().softmax(1)[0, 1]) == pytest.approx(F, abs=6e-11)
    rows = [hessian_product(around, row[None]).detach()[0] for row in torch.eye(2, dtype=torch.float64)]
    torch.testing.assert_close(torch.stack(rows), hessian(), rtol=0, atol=1e-9)
    whole = augmented(GRADIENT[0], hessian())
    expected = torch.tensor([-0.05692137, 0.0, 2.30380157], dtype=torch.float64)
    torch.testing.assert_close(torch.linalg.eigvalsh(whole), expected, rtol=0, atol=2e-8)
    assert float(torch.linalg.matrix_norm(whole)) == pytest.approx(2.3045046558, abs=2e-8)


def mean_length(eigenvalues):
    r"""E|Hz| of a symmetric matrix, from E sqrt(Q) = 1/(2 sqrt pi) int_0^inf t^(-3/2) (1 - E exp(-tQ)) dt."""
    squares = np.square(np.asarray(eigenvalues, dtype=float))

    def integrand(s):  # t = s^2 takes the singularity away
        return -np.expm1(-0.5 * np.log1p(2 * s * s * squares).sum()) / (s * s)

    parts = [quad(integrand, low, high, limit=200)[0] for low, high in ((1e-12, 1.0), (1.0, np.inf))]
    return sum(parts) / math.sqrt(math.pi)


def test_estimators_tell_the_two_expectations_apart():
    """Equation 3.8 prints E|Hz| = |H|_F; the mean of |Hz| tends to a smaller number, the root mean square to |H|_F."""
    whole = augmented(GRADIENT[0], hessian())
    assert mean_length(torch.linalg.eigvalsh(whole).numpy()) == pytest.approx(1.8406, abs=5e-4)  # a sampled reference
    z = Streams(0, "z", 1).normal(torch.empty(1, 200_000, 3, dtype=torch.float64))[0]
    lengths = torch.linalg.vector_norm(z @ whole, dim=1)[:, None]
    error, squares = chance.deviations(2) / math.sqrt(len(z)), lengths.square()
    mean = pytest.approx(1.8406, abs=5e-4 + error * float(lengths.std()))
    assert float(estimate(lengths, "mean")) == mean
    assert float(estimate(lengths, "scaled_mean")) / math.sqrt(math.pi / 2) == mean
    root = float(estimate(lengths, "root_mean_square"))
    assert root**2 == pytest.approx(2.3045046558**2, abs=error * float(squares.std()))


def largest(gradient, bend, radius):
    """max g.d + d.H d / 2 over |d|_2 <= radius: at the edge d = (mu - H)^-1 g for the mu >= eigenvalues that fits."""
    values, vectors = np.linalg.eigh(bend)
    g = vectors.T @ gradient
    if values[-1] < 0 and np.linalg.norm(g / values) <= radius:
        return 0.5 * float(np.sum(g * g / -values))
    low = max(values[-1], 0.0)
    tiny = 1e-12 * (1 + abs(low) + np.linalg.norm(g))

    def excess(mu):
        return np.linalg.norm(g / (mu - values)) - radius

    if excess(low + tiny) <= 0:  # the hard case: no part of the gradient along the largest eigenvector
        d = np.where(values < low - tiny, g / np.maximum(low - values, tiny), 0.0)
        return float(g @ d + 0.5 * values @ d**2 + 0.5 * low * max(radius**2 - d @ d, 0.0))
    mu = brentq(excess, low + tiny, low + np.linalg.norm(g) / radius + 1.0, xtol=1e-14)
    d = g / (mu - values)
    return float(g @ d + 0.5 * values @ d**2)


def bound(gradient, bend, squared_radius, size):
    return (squared_radius + 1) / 2 * size(augmented(torch.tensor(gradient), torch.tensor(bend)).numpy()) - 0.5


def printed(whole):
    return mean_length(np.linalg.eigvalsh(whole))


@st.composite
def quadratics(draw):
    size = draw(st.integers(1, 5))
    values = st.floats(-3, 3, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-3)
    gradient = np.array(draw(st.lists(values, min_size=size, max_size=size)))
    entries = np.array(draw(st.lists(values, min_size=size * size, max_size=size * size))).reshape(size, size)
    return gradient, (entries + entries.T) / 2, draw(st.floats(0.01, 2))


@given(quadratics())
@settings(max_examples=60, deadline=None)
def test_corrected_proposition_holds(case):
    """Taylor maximum <= (d eps^2 + 1)/2 |H| - 1/2 with the Frobenius norm, and with sqrt(pi/2) E|Hz|."""
    gradient, bend, eps = case
    squared = len(gradient) * eps**2
    gain = largest(gradient, bend, math.sqrt(squared))
    slack = 1e-6 * (1 + abs(gain))
    assert gain <= bound(gradient, bend, squared, np.linalg.norm) + slack
    assert gain <= bound(gradient, bend, squared, lambda h: math.sqrt(math.pi / 2) * printed(h)) + slack


def test_printed_proposition_fails():
    """d = 1, gradient 1/2, Hessian 1/4, eps 1: the loss gains 0.625, more than equation 3.7 allows."""
    gradient, bend = np.array([0.5]), np.array([[0.25]])
    assert largest(gradient, bend, 1.0) == pytest.approx(0.625)
    # H has one eigenvalue, 5/4, so that E|Hz| = 5/4 sqrt(2/pi); sampled it is 0.498.
    assert bound(gradient, bend, 1.0, printed) == pytest.approx(1.25 * math.sqrt(2 / math.pi) - 0.5, abs=1e-6)
    assert bound(gradient, bend, 1.0, np.linalg.norm) == pytest.approx(0.75)
    assert bound(gradient, bend, 1.0, printed) < largest(gradient, bend, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_scaled_mean_is_never_below_the_spectral_norm(seed):
    generator = np.random.default_rng(seed)
    size = generator.integers(1, 6)
    matrix = generator.normal(size=(size, size)) * generator.exponential(size=size)
    values = np.linalg.eigvalsh(matrix + matrix.T)
    assert math.sqrt(math.pi / 2) * mean_length(values) >= np.abs(values).max() * (1 - 1e-6)
    assert mean_length(values) <= np.linalg.norm(values) * (1 + 1e-6)


def test_length_of_a_normal_vector_is_nearly_the_root_of_its_dimension():
    """The thesis says E|z_d| = sqrt(d); it is a little less, which is why |z_d| itself multiplies the difference."""
    mean = math.sqrt(2) * math.exp(math.lgamma(3073 / 2) - math.lgamma(3072 / 2))
    assert mean == pytest.approx(55.421115, abs=1e-6)
    assert math.sqrt(3072) == pytest.approx(55.425626, abs=1e-6)
    z = Streams(0, "z", 400).normal(torch.empty(400, 3072, dtype=torch.float64))
    assert chance.has_mean(torch.linalg.vector_norm(z, dim=1), mean)


@pytest.mark.parametrize(("eps", "expected"), [(8 / 255, 4.023576), (4 / 255, 1.755894)])
def test_factor_of_cifar_images(eps, expected):
    assert 2 * factor(Linf(8 / 255), eps, torch.zeros(1, 3, 32, 32)) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(("threat", "expected"), [(Linf(1.0), 4.0), (L2(1.0), 1.0), (L1(1.0), 1.0)])
def test_the_ball_fits_the_euclidean_ball_and_touches_it(threat, expected):
    assert enclosing_radius(threat, 0.3, torch.zeros(2, 1, 4, 4)) == pytest.approx(0.3 * expected)


def test_largest_gain_of_the_logistic_regression_in_l2():
    """eps |r| |w| + eps^2/2 u |w|^2, which is 0.7428046001 at eps = 0.5."""
    around = slope(cross_entropy, Logistic(), X, Y)
    length, eps = math.sqrt(5), 0.5
    delta = (eps * (F - 1) / abs(F - 1) * WEIGHT / length)[None]
    gain = inner(around.gradient, delta) + inner(hessian_product(around, delta), delta) / 2
    assert float(gain.detach()) == pytest.approx(0.7428046001, abs=1e-9)
    assert largest(GRADIENT[0].numpy(), hessian().numpy(), eps) == pytest.approx(0.7428046001, abs=1e-7)
    assert eps * abs(F - 1) * length + eps**2 / 2 * BEND * 5 == pytest.approx(0.7428046001, abs=1e-9)


def by_hand(model, x, y, objective, rng):
    """Algorithm 3.1 for one example at a time, the regulariser before its clip."""
    found = []
    for row in range(len(x)):
        one, label, own = x[row : row + 1], y[row : row + 1], rng[[row]]
        u = objective.threat.sample(one, own.split("start")) - one
        start = (one + u / 2).clamp(0, 1)  # images are far from the walls: half the ball is half the perturbation
        grad = slope(cross_entropy, model, start, label).gradient.detach()
        eps = objective.threat.eps / 2
        point = torch.minimum(torch.maximum(start + eps * grad.sign(), one - eps), one + eps)
        flat = model.weight.shape[1]
        z = own.split("draw 0").normal(torch.empty(1, flat + 1, dtype=x.dtype))
        here = slope(cross_entropy, model, point, label)
        unit = z[:, :-1] / z[:, :-1].norm()
        there = slope(cross_entropy, model, point + 0.01 * unit.view_as(one), label)
        bent = z[:, :-1].norm() * (there.gradient - here.gradient).flatten(1) / 0.01
        top = bent + z[:, -1:] * here.gradient.flatten(1)
        low = (here.gradient.flatten(1) * z[:, :-1]).sum(1, keepdim=True) + z[:, -1:]
        found.append(((flat * eps**2 + 1) / 2 * torch.cat((top, low), 1).norm(), here.values[0]))
    return [torch.stack(each) for each in zip(*found, strict=True)]


def test_is_algorithm_3_1():
    model, x, y = linear(3), images(5, low=0.3, high=0.7), labels(5, 3)
    objective, rng = SOAR(threat=Linf(0.2), clip=None), Streams(3, "s", 5)
    bounds, losses = by_hand(model, x, y, objective, rng)
    terms = objective(model, x, y, rng=rng)
    torch.testing.assert_close(terms.total, losses.mean() + bounds.mean())
    torch.testing.assert_close(terms.parts["loss"], losses.mean())
    limit = float(bounds.detach().sort().values[2:4].mean())  # each example is clipped on its own, before the mean
    terms = SOAR(threat=Linf(0.2), clip=limit)(model, x, y, rng=rng)
    torch.testing.assert_close(terms.parts["regulariser"], bounds.clamp(max=limit).mean())
    assert float(terms.parts["clipped"]) == pytest.approx(2 / 5)


def test_the_weight_multiplies_the_regulariser_after_its_clip():
    model, x, y, rng = linear(3), images(5, low=0.3, high=0.7), labels(5, 3), Streams(3, "s", 5)
    plain = SOAR(threat=Linf(0.2), clip=1.0)(model, x, y, rng=rng)
    light = SOAR(threat=Linf(0.2), clip=1.0, weight=0.03)(model, x, y, rng=rng)
    torch.testing.assert_close(light.total, plain.parts["loss"] + 0.03 * plain.parts["regulariser"])
    torch.testing.assert_close(light.parts["regulariser"], plain.parts["regulariser"])


def test_what_is_clipped_has_no_gradient():
    model, x, y = linear(3), images(5), labels(5, 3)
    terms = SOAR(threat=Linf(0.2), clip=1e-6)(model, x, y)
    only = torch.autograd.grad(terms.parts["regulariser"], list(model.parameters()), retain_graph=True)
    assert all(not bool(grad.any()) for grad in only)
    assert float(terms.parts["clipped"]) == 1


@pytest.mark.parametrize("threat", [Linf(0.2), L2(0.6), L1(1.0)])
def test_draws_are_put_together_by_the_estimator(threat):
    model, x, y, rng = linear(3), images(4), labels(4, 3), Streams(1, "d", 4)
    settings = {"threat": threat, "clip": None, "step": None, "start": "zero"}
    around = slope(cross_entropy, model, x, y)
    lengths = []
    for number in range(2):
        z = rng.split(f"draw {number}").normal(torch.empty(4, 17, dtype=x.dtype))
        direction, last = z[:, :-1].view_as(x), z[:, -1]
        product = augmented_product(around.gradient, hessian_product(around, direction), direction, last)
        lengths.append(product.norm(dim=1))
    first, second = lengths
    scale = ({"Linf": 16 * 0.2**2, "L2": 0.6**2, "L1": 1.0}[type(threat).__name__] + 1) / 2
    for estimator, expected in (
        ("root_mean_square", ((first**2 + second**2) / 2).sqrt()),
        ("mean", (first + second) / 2),
        ("scaled_mean", math.sqrt(math.pi / 2) * (first + second) / 2),
    ):
        terms = SOAR(**settings, draws=2, estimator=estimator)(model, x, y, rng=rng)
        torch.testing.assert_close(terms.parts["regulariser"], scale * expected.mean())


def test_another_loss_is_regularised_and_the_cross_entropy_stays():
    """The margin of a linear classifier does not bend: H has the difference of two rows in its border alone."""
    model, x, y, rng = linear(3), images(4, low=0.4, high=0.6), labels(4, 3), Streams(1, "d", 4)
    terms = SOAR(threat=Linf(0.02), loss=margin, start="zero", step=None, clip=None)(model, x, y, rng=rng)
    logits = model(x)
    torch.testing.assert_close(terms.parts["loss"], cross_entropy(logits, y).mean())
    other = logits.scatter(1, y[:, None], -torch.inf).argmax(1)
    grad = model.weight[other] - model.weight[y]
    z = rng.split("draw 0").normal(torch.empty(4, 17, dtype=x.dtype))
    top, low = z[:, -1:] * grad, (grad * z[:, :-1]).sum(1) + z[:, -1]
    expected = (16 * 0.02**2 + 1) / 2 * (top.square().sum(1) + low**2).sqrt().mean()
    torch.testing.assert_close(terms.parts["regulariser"], expected)


def test_point_is_inside_half_of_the_threat_and_held_still():
    model, x, y = linear(3), images(6), labels(6, 3)
    seen = []

    def watching(z):
        seen.append(z)
        return model(z)

    SOAR(threat=Linf(0.2))(watching, x, y, rng=Streams(0, "p", 6))
    point, _ = starting_point("pgd1", Linf(0.2), cross_entropy, model, x, y, Streams(0, "p", 6).split("start"))
    assert torch.equal(seen[1], point)
    assert seen[1].is_leaf
    assert float((point - x).abs().max()) <= 0.1 + 1e-12


def test_a_recipe_may_name_it():
    text = "name: a\ndata: {source: digits}\nmodel: linear\ntrain: {objective: {soar: %s}}"
    (recipe,) = parse_recipes(text % "{linf: 8/255}")
    assert recipe.train.objective == SOAR(threat=Linf(8 / 255))
    (recipe,) = parse_recipes(text % "{threat: {l2: 0.5}, loss: dlr, start: zero, step: null, clip: null}")
    assert recipe.train.objective.loss.__name__ == "difference_of_logits_ratio"


def test_soft_labels_need_the_cross_entropy():
    assert SOAR(threat=Linf(0.1)).soft_labels
    assert not SOAR(threat=Linf(0.1), loss=margin).soft_labels


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": "pgd"}, "start: unknown name 'pgd'; known: pgd1, random, zero. Did you mean 'pgd1'"),
        ({"estimator": "median"}, "estimator: unknown name 'median'"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"step": 0.0}, "step must be positive and finite, or null, got 0.0"),
        ({"clip": math.inf}, "clip must be positive and finite, or null, got inf"),
        ({"weight": -0.1}, "weight must be finite and not negative, got -0.1"),
        ({"weight": math.nan}, "weight must be finite and not negative, got nan"),
        ({"threat": L0(3)}, "soar has no l0 form"),
    ],
)
def test_impossible_settings_are_refused_at_once(change, message):
    with pytest.raises(ValueError, match=message):
        SOAR(**({"threat": Linf(0.1)} | change))


def test_both_gradients_of_the_difference_have_the_same_dropout():
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(16, 16), nn.Softplus(), nn.Dropout(0.4), nn.Linear(16, 5)]
    model = nn.Sequential(*layers).double().train()
    x, y = images(6), labels(6, 5)
    found = {}
    for step in (1e-5, None):
        torch.manual_seed(7)
        objective = SOAR(threat=Linf(0.1), start="zero", step=step, clip=None)
        found[step] = objective(model, x, y, rng=Streams(0, "", 6)).parts["regulariser"]
        after = torch.rand(1)
    torch.testing.assert_close(found[1e-5], found[None], rtol=1e-4, atol=0)
    torch.manual_seed(7)
    model(x)
    assert torch.equal(torch.rand(1), after)  # the global generator has moved by one pass
