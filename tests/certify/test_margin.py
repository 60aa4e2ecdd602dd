"""The margin certificate: exact where the network is linear, and never refuted by an attack."""

import math

import pytest
import torch

from holdfast.attacks import APGD, FAB, PGD
from holdfast.certify.margin import Margin, check_logits
from holdfast.certify.mixture import MixtureMargin
from holdfast.certify.smoothed_margin import SmoothedMargin
from holdfast.ensembles import Composite, Probability
from holdfast.errors import ModelError
from holdfast.lipschitz import OrthogonalDense, export
from holdfast.threat import L1, L2, Linf
from holdfast.types import ABSTAIN
from tests.certify.attacked import inside
from tests.zoo import digits, digits_lipschitz, generator, half_space, half_space_distance, images, linear, normed

KINDS = {"l1": L1, "l2": L2, "linf": Linf}


@pytest.mark.parametrize(
    ("norm", "activation", "convolutions"),
    [
        *((norm, "maxmin", False) for norm in KINDS),
        ("l2", "relu", False),
        pytest.param("l2", "maxmin", True, marks=pytest.mark.slow),
    ],
)
def test_no_attack_finds_an_example_inside_the_radius(norm, activation, convolutions):
    # 500 images, every group attacked at the smallest radius it was promised.
    model, (x, y) = digits_lipschitz(activation, convolutions), digits()
    certificate = Margin(norm=norm)(model, x)
    assert float((certificate.prediction == y).double().mean()) > 0.9
    assert float(certificate.radius.mean()) > (0.1 if norm != "linf" else 0.01)
    for part, eps in inside(certificate):
        threat, labels = KINDS[norm](eps), certificate.prediction[part]
        for attack in (PGD(threat=threat, steps=20), APGD(threat=threat, steps=15)):
            z = attack(model, x[part], labels)
            with torch.no_grad():
                assert bool((model(z).argmax(1) == labels).all()), (attack, eps)


@pytest.mark.parametrize("norm", KINDS)
def test_minimum_norm_attacks_stop_outside_the_radius_and_not_far(norm):
    model, (x, _) = digits_lipschitz("maxmin"), digits()
    certificate = Margin(norm=norm)(model, x)
    labels = certificate.prediction
    big = {"l1": 20.0, "l2": 4.0, "linf": 0.9}[norm]
    z = FAB(threat=KINDS[norm](big), steps=20)(model, x, labels)
    with torch.no_grad():
        broken = model(z).argmax(1) != labels
    distance = KINDS[norm](big).distance(z, x)[broken].double()
    assert float(broken.double().mean()) > 0.9
    assert bool((distance >= certificate.radius[broken] * (1 - 1e-4)).all())
    if norm == "l2":  # a network that keeps gradients makes the bound nearly tight
        assert float((certificate.radius[broken] / distance).median()) > 0.5


def test_for_orthonormal_rows_the_radius_is_the_distance():
    layer = OrthogonalDense(3, 3).double()
    with torch.no_grad():
        layer.matrix.weight.copy_(torch.eye(3))
    x = torch.tensor([[0.9, 0.3, 0.1], [0.2, 0.2, 0.7], [0.5, 0.5, 0.0]], dtype=torch.float64)
    certificate = Margin()(layer, x)
    torch.testing.assert_close(certificate.radius, torch.tensor([0.6, 0.5, 0.0]).double() / math.sqrt(2))
    assert certificate.prediction.tolist() == [0, 2, ABSTAIN]
    assert certificate.samples is None


@pytest.mark.parametrize("norm", KINDS)
def test_never_claims_more_than_the_distance_to_a_half_space(norm):
    model, x = half_space(12), images(50, (12,))
    certificate, exact = Margin(norm=norm)(model, x), half_space_distance(model, x, norm)
    assert bool((certificate.radius <= exact * (1 + 1e-9)).all())
    if norm == "l2":  # rows -w and w: the Lipschitz constant of both together is sqrt 2 times that of one
        torch.testing.assert_close(certificate.radius, exact.double())


def test_a_constant_known_otherwise_is_taken():
    model, x = half_space(12), images(50, (12,))
    given = Margin(norm="linf", constant=2.0)(model, x)
    with torch.no_grad():
        torch.testing.assert_close(given.radius, model.signed(x).abs() * 2 / (2 * 2.0))
    for constant in (0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="constant must be positive and finite"):
            Margin(constant=constant)


def test_one_logit_is_refused():
    with pytest.raises(ModelError, match=r"two classes or more; got shape \(3, 1\)"):
        Margin()(torch.nn.Linear(2, 1), torch.rand(3, 2))


def test_the_certificate_is_that_of_the_network_in_evaluation_mode():
    model, x = normed(), images(6)
    expected = Margin()(model, x)
    model.train()
    found = Margin()(model, x)
    torch.testing.assert_close(found.radius, expected.radius)
    assert all(module.training for module in model.modules())


def test_no_images_have_an_empty_certificate_and_need_no_query():
    def silent(z):
        raise AssertionError("a query for no images")

    for certifier in (Margin(constant=1.0), SmoothedMargin(sigma=0.1, n=10, constant=1.0), MixtureMargin(constant=1.0)):
        found = certifier(silent, torch.empty(0, 12))
        assert found.prediction.shape == found.radius.shape == (0,)
        assert (found.samples is not None) == certifier.smoothed


@pytest.mark.parametrize("norm", KINDS)
def test_of_a_linear_network_the_radius_is_the_distance_to_the_nearest_class(norm):
    model, x = linear(5), images(40)
    with torch.no_grad():
        logits, rows = model(x), model.weight.detach()
    order = {"l1": torch.inf, "l2": 2, "linf": 1}[norm]
    apart = torch.linalg.vector_norm(rows[:, None] - rows, order, dim=2)[logits.argmax(1)]
    distance = ((logits.amax(1, keepdim=True) - logits) / apart).masked_fill(apart == 0, torch.inf).amin(1)
    radius = Margin(norm=norm)(model, x).radius
    assert bool((radius <= distance).all())
    torch.testing.assert_close(radius, distance, rtol=1e-9, atol=1e-12)


def test_a_certificate_is_that_of_the_weights_and_not_of_the_precision():
    model, (x, _) = digits_lipschitz("maxmin"), digits()
    one = Margin()(model, x[:50])
    other = Margin()(export(model).double(), x[:50].double())
    torch.testing.assert_close(one.radius, other.radius, rtol=1e-10, atol=1e-12)
    assert torch.equal(one.prediction, other.prediction)


CERTIFIERS = [Margin(), Margin(constant=3.0), SmoothedMargin(sigma=0.1, n=10), MixtureMargin()]


def of_kind(certifier, network):
    """The network, or a composite where it is the robust part."""
    return Composite(linear(3), network, Probability(), 4.0) if isinstance(certifier, MixtureMargin) else network


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda each: f"{type(each).__name__}-{each.constant}")
def test_networks_coarser_than_float32_are_refused(certifier, kind):
    model = of_kind(certifier, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).to(kind))
    with pytest.raises(
        ModelError, match=r"expected weights in float32 or float64, got b?float16 \('1\.weight'\).*float\(\)"
    ):
        certifier(model, images(4))


class Spoilt(torch.nn.Module):
    """Linear but for images whose first value is above 0.9: what comes then is no number."""

    def __init__(self, value):
        super().__init__()
        self.inner, self.value = linear(3), value

    def forward(self, x):
        logits = self.inner(x)
        return torch.where(x.flatten(1)[:, :1] > 0.9, logits + self.value, logits)


@pytest.mark.parametrize(("value", "what"), [(math.nan, "NaN"), (math.inf, "infinite")])
@pytest.mark.parametrize("make", [Margin, MixtureMargin], ids=lambda each: each.__name__)
def test_logits_that_are_no_numbers_are_refused(make, value, what):
    x = images(8).clamp(max=0.8)
    x[[3, 6], 0, 0, 0] = 1.0
    certifier = make(constant=4.0)
    with pytest.raises(ModelError, match=rf"the logits are {what} for 2 of 8 examples, first at row 3 of the batch"):
        certifier(of_kind(certifier, Spoilt(value)), x)


def test_the_first_row_says_what_the_logits_are():
    for first, second, what in ((math.nan, math.inf, "NaN"), (math.inf, math.nan, "infinite")):
        logits = torch.tensor([[1.0, 2.0], [first, 0.0], [second, 0.0]])
        with pytest.raises(ModelError, match=rf"the logits are {what} for 2 of 3 .* row 1 of the batch"):
            check_logits(logits, "margin")


def test_a_constant_of_what_is_no_network_is_taken_in_its_own_precision():
    weight = torch.linspace(-1, 1, 12).view(3, 4)
    x = torch.rand(5, 4, generator=generator())
    found = Margin(constant=2.0)(lambda z: z @ weight.mT, x)
    gaps = (x @ weight.mT).double().topk(2, dim=1).values
    gap = gaps[:, 0] - gaps[:, 1]
    torch.testing.assert_close(found.radius, gap / (2 * math.sqrt(2)), rtol=1e-4, atol=1e-5)
    assert bool((found.radius < gap / (2 * math.sqrt(2))).all()), "the rounding of float32 is not taken off"
    with pytest.raises(ModelError, match="expected logits in float32 or float64, got bfloat16"):
        Margin(constant=2.0)(lambda z: (z @ weight.mT).bfloat16(), x)


def test_a_forward_pass_with_casts_is_certified():
    class Casting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = linear(3).float()

        def forward(self, x):
            return self.head(x.float())

    x = images(6)
    found, expected = Margin()(Casting(), x), Margin()(Casting().double().head, x)
    torch.testing.assert_close(found.radius, expected.radius, rtol=1e-6, atol=0)


def test_the_rounding_of_a_known_network_is_64_machine_epsilons_of_its_largest_logit():
    logits = torch.tensor([[1000.0, 999.0, 0.0], [-2000.0, -2001.0, -2003.0], [3.0, 1.0, 0.0]])
    found = Margin(constant=2.0)(lambda z: logits, torch.zeros(3, 4))
    taken_off = 64 * 2.0**-23 * torch.tensor([1000.0, 2003.0, 3.0], dtype=torch.float64)
    gaps = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(found.radius, (gaps - taken_off) / (2 * math.sqrt(2)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("certifier", [Margin(), SmoothedMargin(sigma=0.1, n=10)], ids=lambda each: type(each).__name__)
def test_what_has_no_bound_is_refused_before_it_is_asked_anything(certifier):
    asked = []
    with pytest.raises(ModelError, match=r"expected an nn\.Module, got a function"):
        certifier(lambda z: asked.append(z) or z, torch.zeros(2, 4))
    assert not asked


def test_a_network_needs_a_bound_in_the_norm_unless_its_constant_is_known():
    for make in (Margin, lambda **fields: SmoothedMargin(sigma=0.1, **fields)):
        assert make(norm="linf").bound_in == "linf"
        assert make(norm="linf", constant=1.0).bound_in is None
