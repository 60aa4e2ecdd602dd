import dataclasses

import pytest
import torch
from scipy.special import ndtri
from torch import nn

from holdfast.certify.sampling import Decision, Fixed, FullRadius
from holdfast.certify.smoothing import GaussianSmoothing, LaplaceSmoothing, UniformSmoothing
from holdfast.errors import ModelError
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.types import ABSTAIN, Certifier
from holdfast.wrappers import Counted
from tests import chance, zoo

KINDS = {
    "gaussian": lambda **fields: GaussianSmoothing(sigma=0.3, **fields),
    "laplace": lambda **fields: LaplaceSmoothing(scale=0.3, **fields),
    "uniform": lambda **fields: UniformSmoothing(width=0.6, **fields),
}
SAMPLINGS = {"fixed": Fixed(), "full radius": FullRadius(), "decision": Decision(radii=(0.0, 0.1, 0.3))}
kinds = pytest.mark.parametrize("kind", KINDS)
samplings = pytest.mark.parametrize("sampling", SAMPLINGS)


class Recorded:
    """A classifier that keeps what it was asked."""

    def __init__(self, model):
        self.model, self.seen = model, []

    def __call__(self, x):
        self.seen.append(x.clone())
        return self.model(x)


def sure(classes=3, answer=1):
    """A model that always gives the same answer."""
    return lambda x: torch.eye(classes, dtype=x.dtype, device=x.device)[answer].expand(len(x), classes)


def axis_half_space(size=6, dtype=torch.float64):
    """A half-space along one pixel: there all three radii are the distance itself."""
    weight = torch.zeros(size, dtype=dtype)
    weight[2] = 3.0
    return zoo.HalfSpace(weight, torch.tensor(-1.5, dtype=dtype))


@kinds
def test_fits_the_protocol(kind):
    method = KINDS[kind](n=100)
    assert isinstance(method, Certifier)
    assert method.norm == ("l2" if kind == "gaussian" else "l1")
    assert method.smoothed
    assert method == KINDS[kind](n=100) != KINDS[kind](n=200)


def test_a_model_that_never_changes_its_mind_gets_the_reference_radius():
    # 100 of 100 at alpha .001 and sigma .5
    found = GaussianSmoothing(sigma=0.5, n=100)(sure(), torch.rand(4, 1, 3, 3))
    assert found.prediction.tolist() == [1] * 4
    assert found.radius.tolist() == pytest.approx([0.75023751] * 4, abs=1e-8)
    assert found.radius.dtype == torch.float64
    assert found.samples.tolist() == [200] * 4


@kinds
@samplings
@pytest.mark.parametrize("bound", ["one_vs_rest", "two_class"])
def test_never_claims_more_than_the_true_distance(kind, sampling, bound):
    # The noise is symmetric, so smoothing leaves the half-space as it is.
    model = zoo.half_space()
    x, y = zoo.half_space_points(model, 12, scale=0.2)
    method = KINDS[kind](n=1_000, n0=50, sampling=SAMPLINGS[sampling], bound=bound)
    found = method(model, x)
    assert (found.radius <= zoo.half_space_distance(model, x, method.norm)).all()
    certified = found.prediction != ABSTAIN
    assert torch.equal(found.prediction[certified], y[certified])
    assert certified.sum() >= 6
    assert (found.radius[~certified] == 0).all()
    assert (found.radius[certified] > 0).all()


@kinds
def test_comes_close_to_the_true_distance_where_the_formula_is_tight(kind):
    model = axis_half_space()
    x = torch.full((3, 6), 0.5, dtype=torch.float64)
    x[:, 2] += torch.tensor([0.1, 0.2, -0.3])
    found = KINDS[kind](n=20_000)(model, x)
    assert found.prediction.tolist() == [1, 1, 0]
    distance = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    assert (found.radius < distance).all()
    assert (found.radius > distance - 0.03).all()


@samplings
def test_results_do_not_depend_on_what_else_is_in_the_batch_or_on_the_passes(sampling):
    model, x, rng = zoo.smooth(), zoo.images(5), Streams(3, "test", 5)
    method = GaussianSmoothing(sigma=0.25, n=600, n0=30, sampling=SAMPLINGS[sampling], batch=1_000)
    whole, guesses = method(model, x, rng=rng), method.predict(model, x, rng=rng)
    for batch in (7, 64, 100):
        narrow = dataclasses.replace(method, batch=batch)
        again = narrow(model, x, rng=rng)
        assert torch.equal(again.prediction, whole.prediction)
        assert torch.equal(again.radius, whole.radius)
        assert torch.equal(again.samples, whole.samples)
        assert torch.equal(narrow.predict(model, x, rng=rng), guesses)
    for rows in ([0], [4, 1], [2, 0, 3]):
        part = method(model, x[rows], rng=rng[rows])
        assert torch.equal(part.prediction, whole.prediction[rows])
        assert torch.equal(part.radius, whole.radius[rows])
        assert torch.equal(part.samples, whole.samples[rows])


@kinds
def test_the_noise_depends_on_image_seed_and_purpose_alone(kind):
    def noise(x, rng, **fields):
        model = Recorded(sure())
        KINDS[kind](n=70, n0=70, **fields)(model, x, rng=rng)
        return torch.cat(model.seen) - x[0]

    x = torch.full((1, 2, 2), 0.5, dtype=torch.float64)
    first = noise(x, Streams(0, "", 1))
    selection, estimation = first[:70], first[70:]
    assert not torch.equal(selection, estimation)
    assert len(first.unique(dim=0)) == 140
    assert torch.equal(first, noise(x, None, batch=9))
    assert torch.equal(first, noise(x, Streams(0, "", [0])))
    assert not (first == noise(x, Streams(1, "", 1))).any()
    assert not (first == noise(x, Streams(0, "", [1]))).any()


@kinds
def test_more_copies_begin_with_the_same_ones(kind):
    seen = []
    for n in (70, 200):
        model = Recorded(sure())
        KINDS[kind](n=n, n0=1)(model, torch.rand(1, 3, generator=torch.Generator().manual_seed(0)))
        seen.append(torch.cat(model.seen))
    assert torch.equal(seen[0], seen[1][:71])


def test_passes_are_full_whatever_the_images():
    for images, n, batch in ((3, 50, 16), (1, 1_000, 300), (7, 10, 1_000), (2, 64, 64)):
        model = Recorded(sure())
        GaussianSmoothing(sigma=0.1, n=n, n0=20, batch=batch)(model, torch.rand(images, 2, 2))
        sizes = [len(x) for x in model.seen]
        expected = [
            size for total in (20 * images, n * images) for size in [batch] * (total // batch) + [total % batch]
        ]
        assert sizes == [size for size in expected if size]


def test_noisy_copies_are_not_clipped():
    model = Recorded(sure())
    GaussianSmoothing(sigma=0.5, n=100)(model, torch.rand(2, 1, 4, 4))
    seen = torch.cat(model.seen)
    assert seen.min() < -0.5
    assert seen.max() > 1.5


def test_every_copy_is_counted_for_its_own_image():
    model, counts = zoo.half_space(), torch.zeros(6, dtype=torch.int64)
    x, _ = zoo.half_space_points(model, 6, scale=0.2)
    method = GaussianSmoothing(sigma=0.25, n=800, sampling=Decision(radii=(0.0, 0.1)), batch=50)
    found = method(Counted(model, counts), x)
    assert torch.equal(counts, found.samples)
    assert found.samples.unique().numel() > 1


def test_abstains_on_the_boundary():
    model = axis_half_space()
    x = torch.full((4, 6), 0.5, dtype=torch.float64)
    for sampling in SAMPLINGS.values():
        found = GaussianSmoothing(sigma=0.25, n=1_000, sampling=sampling)(model, x)
        assert found.prediction.tolist() == [ABSTAIN] * 4
        assert found.radius.tolist() == [0.0] * 4
    assert GaussianSmoothing(sigma=0.25, n=1_000).predict(model, x).tolist() == [ABSTAIN] * 4


def test_of_equal_logits_the_first_counts():
    found = GaussianSmoothing(sigma=0.25, n=50)(lambda x: x.new_zeros(len(x), 4), torch.rand(3, 2))
    assert found.prediction.tolist() == [0] * 3
    assert (found.radius > 0).all()


def test_of_equal_counts_none_is_predicted():
    class Alternating:
        """Says 2, 1, 2, 1, ..."""

        asked = 0

        def __call__(self, x):
            answers = 2 - torch.arange(self.asked, self.asked + len(x)) % 2
            self.asked += len(x)
            return torch.eye(3)[answers]

    method = GaussianSmoothing(sigma=0.25, n=1_000)
    assert method(Alternating(), torch.rand(1, 2)).prediction.tolist() == [ABSTAIN]
    assert method.predict(Alternating(), torch.rand(1, 2)).tolist() == [ABSTAIN]


@kinds
def test_predicts_the_class_that_is_clearly_ahead(kind):
    model = zoo.half_space()
    x, y = zoo.half_space_points_at(model, 0.3, "l2")
    assert torch.equal(KINDS[kind](n=500).predict(model, x), y)


def test_predicts_no_oftener_wrongly_than_it_says():
    # Each of 2,000 images is 1e-3 on one side, so that either class is as likely: a wrong one in 5 % / 2 of the cases.
    model = axis_half_space()
    x = torch.full((2_000, 6), 0.501, dtype=torch.float64)
    found = GaussianSmoothing(sigma=0.25, n=60, alpha=0.05, batch=10_000).predict(model, x)
    assert (found == 0).double().mean() <= 0.05
    assert (found == ABSTAIN).double().mean() >= 0.95 - chance.share_error(2_000, 0.05)


def test_predicting_needs_enough_copies():
    # 2^(1 - n) <= alpha from n = 11 on
    with pytest.raises(ValueError, match=r"n must be at least 11 to predict at alpha 0.001, got 10"):
        GaussianSmoothing(sigma=0.25, n=10).predict(sure(), torch.rand(1, 2))
    assert GaussianSmoothing(sigma=0.25, n=11).predict(sure(), torch.rand(1, 2)).tolist() == [1]


@samplings
def test_models_whose_logits_are_nan_are_refused(sampling):
    def broken(x):
        logits = torch.eye(3)[torch.zeros(len(x), dtype=torch.int64)]
        return torch.where((x.flatten(1).amin(1) > 5)[:, None], torch.nan, logits)

    x = torch.rand(3, 2, 2)
    x[1] += 10
    method = GaussianSmoothing(sigma=0.25, n=200, sampling=SAMPLINGS[sampling])
    with pytest.raises(ModelError, match="the logits are NaN for 1 of 3 examples, first at row 1 of the batch"):
        method(broken, x)
    with pytest.raises(ModelError, match="NaN"):
        method.predict(broken, x)


@pytest.mark.parametrize("shape", [lambda x: x.flatten(), lambda x: x.sum(1, keepdim=True), lambda x: x[:3]])
def test_models_without_rows_of_logits_are_refused(shape):
    with pytest.raises(ModelError, match=r"expected logits of shape \(100, at least 2\); got"):
        GaussianSmoothing(sigma=0.1, n=200)(shape, torch.rand(1, 5))


@kinds
@samplings
def test_leaves_everything_else_alone(kind, sampling):
    model, x = zoo.frozen_norm(), zoo.images(3).requires_grad_()
    method = KINDS[kind](n=300, sampling=SAMPLINGS[sampling])
    with same_random_states(), same_module(model), same_tensors(x):
        found, guesses = method(model, x), method.predict(model, x)
    assert not found.radius.requires_grad
    assert guesses.shape == (3,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_has_the_type_of_the_images(dtype):
    model = Recorded(axis_half_space(dtype=dtype))
    found = GaussianSmoothing(sigma=0.25, n=500)(model, torch.full((2, 6), 0.9, dtype=dtype))
    assert {x.dtype for x in model.seen} == {dtype}
    assert found.radius.dtype == torch.float64
    assert found.prediction.tolist() == [1, 1]


def test_no_images_need_no_passes():
    found = GaussianSmoothing(sigma=0.25)(sure(), torch.rand(0, 3))
    assert [len(part) for part in (found.prediction, found.radius, found.samples)] == [0, 0, 0]
    assert len(GaussianSmoothing(sigma=0.25).predict(sure(), torch.rand(0, 3))) == 0


def test_adaptive_sampling_stops_early_on_a_network():
    x, y = (part[:20] for part in zoo.digits())
    model, n, radii = zoo.digits_mlp(), 3_000, (0.0, 0.25, 0.5)
    fixed, planned, decided = (
        GaussianSmoothing(sigma=0.25, n=n, sampling=sampling)(model, x)
        for sampling in (Fixed(), FullRadius(), Decision(radii=radii))
    )
    assert fixed.samples.tolist() == [n + 100] * 20
    assert planned.samples.double().mean() < 0.8 * n
    assert planned.radius.mean() > 0.95 * fixed.radius.mean()
    assert decided.samples.double().mean() < 0.5 * n
    for radius in radii:
        sides = [(f.radius >= radius) & (f.prediction == y) for f in (fixed, decided)]
        assert (sides[0] != sides[1]).sum() <= 1
    largest = 0.25 * float(ndtri(0.001 ** (1 / n)))
    assert fixed.radius.max() <= largest * (1 + 1e-9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sigma": 0.0}, "sigma must be positive and finite, got 0.0"),
        ({"sigma": float("nan")}, "sigma must be positive and finite, got nan"),
        ({"sigma": float("inf")}, "sigma must be positive and finite, got inf"),
        ({"n": 0}, "n, n0 and batch must be at least 1, got 0, 100 and 256"),
        ({"n0": 0}, "n, n0 and batch must be at least 1"),
        ({"batch": 0}, "n, n0 and batch must be at least 1"),
        ({"alpha": 0.0}, "alpha must lie between 0 and 1, got 0.0"),
        ({"alpha": 1.0}, "alpha must lie between 0 and 1, got 1.0"),
        ({"n": 9}, "n must be at least 10 to prove anything at alpha 0.001, got 9"),
        ({"n": 10, "bound": "two_class"}, "n must be at least 11 to prove anything at alpha 0.001, got 10"),
        ({"bound": "two_clas"}, "bound: unknown name 'two_clas'; known: .* Did you mean 'two_class'"),
        ({"n": 100, "sampling": Decision(radii=(0.5,))}, r"n must be at least \d+ to certify a radius of 0.5"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        GaussianSmoothing(**{"sigma": 0.25, **fields})


def test_one_copy_to_select_and_one_at_a_time_are_possible():
    method = GaussianSmoothing(sigma=0.25, n=10, n0=1, batch=1)
    assert method(zoo.half_space(), torch.rand(2, 12, dtype=torch.float64)).samples.tolist() == [11, 11]


@pytest.mark.parametrize("make", [GaussianSmoothing, LaplaceSmoothing, UniformSmoothing])
def test_defaults_are_those_of_the_docs(make):
    strength = dataclasses.fields(make)[0].name
    stated = {"n": 100_000, "n0": 100, "alpha": 0.001, "batch": 256, "sampling": Fixed(), "bound": "one_vs_rest"}
    assert make(**{strength: 0.5}) == make(**{strength: 0.5}, **stated)


def test_of_a_radius_of_exactly_zero_nothing_is_predicted():
    class Lenient(Fixed):
        def falls_short(self, question):
            return None

    # All of 20 copies bound the probability by exactly one half.
    found = GaussianSmoothing(sigma=0.25, n=20, alpha=2.0**-20, sampling=Lenient())(sure(), torch.rand(2, 3))
    assert found.radius.tolist() == [0, 0]
    assert found.prediction.tolist() == [ABSTAIN] * 2


def test_a_class_is_predicted_at_a_p_value_of_exactly_alpha():
    # Of 11 copies that agree it is 2^(1 - 11).
    assert GaussianSmoothing(sigma=0.25, n=11, alpha=2.0**-10).predict(sure(), torch.rand(1, 2)).tolist() == [1]


def test_other_noises_name_their_own_strength():
    with pytest.raises(ValueError, match="scale must be positive"):
        LaplaceSmoothing(scale=-1.0)
    with pytest.raises(ValueError, match="width must be positive"):
        UniformSmoothing(width=float("inf"))


@pytest.mark.gpu
def test_works_on_a_gpu():
    model = axis_half_space().cuda()
    x = torch.full((3, 6), 0.8, dtype=torch.float64, device="cuda")
    for sampling in SAMPLINGS.values():
        found = GaussianSmoothing(sigma=0.25, n=1_000, sampling=sampling)(model, x)
        assert found.radius.device == found.prediction.device == found.samples.device == x.device
        assert (found.radius <= 0.3).all()
        assert found.prediction.tolist() == [1, 1, 1]


def test_a_model_may_be_a_module_or_a_function():
    x = torch.rand(2, 1, 2, 2)
    model = zoo.seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    as_module, as_function = (GaussianSmoothing(sigma=0.1, n=100)(kind, x) for kind in (model, model.forward))
    assert torch.equal(as_module.radius, as_function.radius)


def test_radii_that_no_sample_reaches_say_where_they_end():
    with pytest.raises(ValueError, match=r"radius of 0\.7 at alpha 0\.001, .*every radius is below 0\.6"):
        UniformSmoothing(width=0.6, sampling=Decision(radii=(0.7,)))
