import pytest
import torch

from holdfast.gradients import Expansion, expansion
from holdfast.losses import cross_entropy
from holdfast.questions.curvature.eigenvalue import lanczos, largest_eigenvalue
from holdfast.rng import Streams
from tests.questions.test_curvature import hessians
from tests.zoo import images, labels, linear, smooth


def around(matrices):
    """The expansion of quadratic losses with these Hessians, (N, D, D)."""
    nothing = matrices.new_zeros(matrices.shape[:2])
    return Expansion(nothing[:, 0], nothing, nothing, lambda vector: torch.einsum("nij,nj->ni", matrices, vector))


def symmetric(count, size, seed=0):
    half = Streams(seed, "matrices", count).normal(torch.empty(count, size, size, dtype=torch.float64))
    return half + half.transpose(1, 2)


def test_a_full_space_gives_the_eigenvalue_of_largest_magnitude_with_its_sign():
    matrices = symmetric(40, 6)
    found = largest_eigenvalue(around(matrices), steps=6, rng=Streams(0, "", 40))
    values = torch.linalg.eigvalsh(matrices)
    exact = values.gather(1, values.abs().argmax(1, keepdim=True))[:, 0]
    torch.testing.assert_close(found.value, exact)
    assert float(found.residual.max()) < 1e-6
    assert bool((exact < 0).any())
    assert bool((exact > 0).any())


def test_an_eigenvalue_lies_within_the_residual():
    matrices = symmetric(60, 40)
    values = torch.linalg.eigvalsh(matrices)
    for steps in (1, 3, 8):
        found = largest_eigenvalue(around(matrices), steps=steps, rng=Streams(0, "", 60))
        nearest = (values - found.value[:, None]).abs().amin(1)
        assert bool((nearest <= found.residual + 1e-9).all())
        assert bool((found.value.abs() <= values.abs().amax(1) + 1e-9).all())


@pytest.mark.parametrize("step", [None, 1e-5])
def test_agrees_with_the_exact_hessian_of_a_smooth_network(step):
    model, x, y = smooth(), images(8), labels(8, 5)
    values = torch.linalg.eigvalsh(hessians(model, x, y))
    exact = values.gather(1, values.abs().argmax(1, keepdim=True))[:, 0]
    found = largest_eigenvalue(expansion(cross_entropy, model, x, y, step=step), steps=16, rng=Streams(0, "", 8))
    torch.testing.assert_close(found.value, exact, rtol=1e-3, atol=1e-3)


def test_a_linear_softmax_needs_no_more_steps_than_classes():
    # H = W' (diag p - p p') W has rank K - 1: the space is invariant after as many steps, and goes on without harm.
    model, x, y = linear(3), images(5), labels(5, 3)
    values = torch.linalg.eigvalsh(hessians(model, x, y))
    for steps in (3, 12):
        found = largest_eigenvalue(expansion(cross_entropy, model, x, y), steps=steps, rng=Streams(0, "", 5))
        torch.testing.assert_close(found.value, values.amax(1))
        assert float(found.residual.max()) < 1e-6


def test_examples_do_not_see_each_other():
    matrices = symmetric(9, 12)
    whole = largest_eigenvalue(around(matrices), steps=4, rng=Streams(3, "", 9))
    part = largest_eigenvalue(around(matrices[4:6]), steps=4, rng=Streams(3, "", [4, 5]))
    torch.testing.assert_close(part.value, whole.value[4:6])
    torch.testing.assert_close(part.residual, whole.residual[4:6])


def test_no_bend_is_zero_and_not_nan():
    found = largest_eigenvalue(around(torch.zeros(3, 5, 5)), steps=4, rng=Streams(0, "", 3))
    assert torch.equal(found.value, torch.zeros(3, dtype=torch.float64))
    assert torch.equal(found.residual, torch.zeros(3, dtype=torch.float64))


def test_many_steps_in_float32_do_not_lose_what_few_have_found():
    # One eigenvalue far from the others is found at once; orthogonalised once, some examples lose it by step 60.
    matrices = torch.diag(torch.cat((torch.linspace(0.01, 1, 99), torch.tensor([10.0])))).expand(50, 100, 100)
    start = torch.nn.functional.normalize(Streams(0, "", 50).normal(torch.empty(50, 100)), dim=1)
    for steps in (8, 60):
        vector = lanczos(lambda v: torch.einsum("nij,nj->ni", matrices, v), start, steps)
        torch.testing.assert_close(vector[:, -1].abs(), torch.ones(50), rtol=1e-4, atol=1e-4)


def test_steps_are_counted():
    asked = []
    quadratic = around(symmetric(2, 4))
    spied = Expansion(
        quadratic.values, quadratic.gradient, quadratic.logits, lambda v: (asked.append(1), quadratic.product(v))[1]
    )
    largest_eigenvalue(spied, steps=3, rng=Streams(0, "", 2))
    assert len(asked) == 4
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        largest_eigenvalue(quadratic, steps=0, rng=Streams(0, "", 2))
