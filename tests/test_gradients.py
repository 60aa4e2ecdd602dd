import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.gradients import (
    expansion,
    input_gradient,
    input_jacobian,
    without_weights,
)
from holdfast.losses import cross_entropy, margin
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests.zoo import half_space, images, labels, linear, normed, smooth

# Logistic regression, computed apart: w = (1, -2), x = (.5, .3), y = 1.
W = torch.tensor([1.0, -2.0], dtype=torch.float64)
X = torch.tensor([[0.5, 0.3]], dtype=torch.float64)


def hessian_vector(loss, model, x, y, vector):
    return expansion(loss, model, x, y).product(vector)


def hessian_vector_difference(loss, model, x, y, vector, *, step=1e-2):
    return expansion(loss, model, x, y, step=step).product(vector)


def logistic(x):
    score = x @ W
    return torch.stack((torch.zeros_like(score), score), dim=1)


ONE = torch.tensor([1])


def test_gradient_of_the_margin_of_a_half_space_is_its_normal():
    model, x = half_space(5), images(4, (5,))
    values, grad, logits = input_gradient(margin, model, x, torch.ones(4, dtype=torch.int64))
    torch.testing.assert_close(grad, (-2 * model.weight.detach()).expand(4, 5))
    torch.testing.assert_close(values, -2 * model.signed(x).detach())
    torch.testing.assert_close(logits, model(x).detach())


def test_gradient_of_a_linear_model_is_the_closed_form():
    model, x, y = linear(4), images(6), labels(6, 4)
    _, grad, logits = input_gradient(cross_entropy, model, x, y)
    error = logits.softmax(1) - nn.functional.one_hot(y, 4)
    torch.testing.assert_close(grad.flatten(1), error @ model.weight.detach())


def test_logistic_values_of_the_reference():
    values, grad, _ = input_gradient(cross_entropy, logistic, X, ONE)
    # f is the loss here: log(1 + exp(-w.x)) at w.x = -0.1 is .7443966; the gradient is g of the reference.
    torch.testing.assert_close(grad, torch.tensor([[-0.52497919, 1.04995837]], dtype=torch.float64), rtol=0, atol=1e-8)
    assert float(values) == pytest.approx(0.7443966600735709)


def test_gradients_are_per_example_and_not_divided_by_the_batch():
    model, x, y = smooth(), images(7), labels(7, 5)
    values, grad, _ = input_gradient(cross_entropy, model, x, y)
    for row in range(7):
        one = slice(row, row + 1)
        alone = input_gradient(cross_entropy, model, x[one], y[one])
        torch.testing.assert_close(alone[0], values[one])
        torch.testing.assert_close(alone[1], grad[one])


def test_results_are_detached_and_nothing_else_changes():
    model, x, y = normed(), images(5), labels(5, 3)
    with same_module(model), same_random_states(), same_tensors(x, y):
        assert not any(tensor.requires_grad for tensor in input_gradient(cross_entropy, model, x, y))
    attached = x.clone().requires_grad_()
    with same_tensors(attached):
        input_gradient(cross_entropy, model, attached, y)
    assert attached.grad is None


def test_works_under_no_grad():
    model, x, y = smooth(), images(3), labels(3, 5)
    with torch.no_grad():
        quiet = input_gradient(cross_entropy, model, x, y)
    assert all(torch.equal(a, b) for a, b in zip(quiet, input_gradient(cross_entropy, model, x, y), strict=True))


def test_works_when_no_weight_wants_a_gradient():
    model = smooth().requires_grad_(False)
    _, grad, _ = input_gradient(cross_entropy, model, images(3), labels(3, 5))
    assert bool((grad != 0).any())


def test_nan_is_an_error_that_counts_the_examples():
    def broken(x):
        return linear(3)(x) * torch.tensor([1.0, torch.nan, torch.nan])[: len(x), None]

    with pytest.raises(ModelError, match="NaN for 2 of 3 examples"):
        input_gradient(cross_entropy, broken, images(3), labels(3, 3))


def test_nan_behind_a_finite_loss_is_an_error():
    def broken(x):  # the square root has an infinite slope at 0, and 0 * inf is NaN
        return linear(3)(x) + (0 * x).sqrt().flatten(1)[:, :1]

    with pytest.raises(ModelError, match="NaN"):
        input_gradient(cross_entropy, broken, images(3), labels(3, 3))


def test_a_model_without_a_gradient_is_an_error_with_a_reason():
    with pytest.raises(ModelError, match="no gradient with respect to its input"):
        input_gradient(cross_entropy, lambda x: linear(3)(x).detach(), images(3), labels(3, 3))


def test_jacobian_is_the_gradient_of_each_quantity():
    model, x = smooth(), images(6)
    values, grads, logits = input_jacobian(lambda f: f[:, 1:] - f[:, :1], model, x)
    assert grads.shape == (6, 4, 1, 4, 4)
    for k in range(1, 5):
        _, grad, _ = input_gradient(lambda f, y, k=k: f[:, k] - f[:, 0], model, x, labels(6, 5))
        torch.testing.assert_close(grads[:, k - 1], grad)
    torch.testing.assert_close(values, logits[:, 1:] - logits[:, :1])
    torch.testing.assert_close(logits, model(x).detach())


def test_jacobian_asks_the_model_once_and_leaves_everything_alone():
    model, x, asked = normed(), images(5), []
    with same_module(model), same_random_states(), same_tensors(x), torch.no_grad():
        results = input_jacobian(lambda f: f, lambda z: (asked.append(len(z)), model(z))[1], x)
    assert asked == [5]
    assert not any(tensor.requires_grad for tensor in results)


def test_jacobian_refuses_nan_and_models_without_a_gradient():
    def broken(x):
        return linear(3)(x) * torch.tensor([1.0, torch.nan, torch.nan])[: len(x), None]

    with pytest.raises(ModelError, match="NaN for 2 of 3 examples"):
        input_jacobian(lambda f: f, broken, images(3))
    with pytest.raises(ModelError, match="no gradient with respect to its input"):
        input_jacobian(lambda f: f, lambda x: linear(3)(x).detach(), images(3))


def test_hessian_vector_of_the_logistic_reference():
    # Hess = .2493760402 w w^T
    for vector in ([[1.0, 0.0]], [[1.0, -1.0]]):
        v = torch.tensor(vector, dtype=torch.float64)
        expected = 0.2493760402 * W * (v @ W)[:, None]
        torch.testing.assert_close(hessian_vector(cross_entropy, logistic, X, ONE, v), expected, rtol=0, atol=1e-9)


def test_hessian_vector_agrees_with_the_full_hessian():
    model, x, y = smooth(3, (4,)), images(3, (4,)), labels(3, 3)
    vector = images(3, (4,), seed=9) - 0.5
    product = hessian_vector(cross_entropy, model, x, y, vector)
    for row in range(3):

        def value(point, row=row):
            return cross_entropy(model(point[None]), y[row : row + 1])[0]

        hessian = torch.autograd.functional.hessian(value, x[row])
        torch.testing.assert_close(product[row], hessian @ vector[row])


def test_hessian_of_linear_and_piecewise_linear_losses_is_zero():
    x, y, vector = images(3), labels(3, 3), images(3, seed=4)
    assert torch.equal(hessian_vector(margin, linear(3), x, y, vector), torch.zeros_like(x))
    assert torch.equal(hessian_vector(lambda z, _: z.sum(1), linear(3), x, y, vector), torch.zeros_like(x))


def test_hessian_vector_is_detached_and_touches_no_grad():
    model, x, y = smooth(), images(3), labels(3, 5)
    with same_module(model), same_tensors(x, y):
        assert not hessian_vector(cross_entropy, model, x, y, x).requires_grad
        assert not hessian_vector_difference(cross_entropy, model, x, y, x).requires_grad


def test_difference_of_gradients_goes_to_the_exact_product_linearly():
    model, x, y, vector = smooth(), images(4), labels(4, 5), images(4, seed=2) - 0.5
    exact = hessian_vector(cross_entropy, model, x, y, vector)
    errors = [
        float((hessian_vector_difference(cross_entropy, model, x, y, vector, step=h) - exact).norm())
        for h in (1e-2, 1e-3, 1e-4)
    ]
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.3)
    assert errors[1] / errors[2] == pytest.approx(10, rel=0.3)


def test_difference_is_exact_for_a_quadratic():
    def quadratic(x):
        return torch.stack((x.square().sum(1), torch.zeros(len(x), dtype=x.dtype)), dim=1)

    x, vector = images(3, (5,)), images(3, (5,), seed=1)
    product = hessian_vector_difference(lambda z, _: z[:, 0], quadratic, x, labels(3, 2), vector, step=0.5)
    torch.testing.assert_close(product, 2 * vector)


def test_backward_through_a_model_without_weights_gives_the_input_its_gradient_and_the_weights_none():
    model, x, y = normed(), images(5), labels(5, 3)
    leaf = x.clone().requires_grad_()
    with same_module(model), same_tensors(x):
        nn.functional.cross_entropy(without_weights(model)(2 * leaf / 2), y, reduction="sum").backward()
    torch.testing.assert_close(leaf.grad, input_gradient(cross_entropy, model, x, y)[1])


def test_a_model_without_weights_can_be_differentiated_once_per_class():
    model, leaf = smooth(), images(3).requires_grad_()
    logits = without_weights(model)(leaf)
    rows = [torch.autograd.grad(logits[:, k].sum(), leaf, retain_graph=True)[0] for k in range(5)]
    torch.testing.assert_close(torch.stack(rows, 1), input_jacobian(lambda f: f, model, images(3))[1])


def test_a_model_without_weights_keeps_no_graph_where_none_is_asked_for():
    model, leaf = smooth(), images(3).requires_grad_()
    assert not without_weights(model)(images(3)).requires_grad
    with torch.no_grad():
        assert not without_weights(model)(leaf).requires_grad

    def spy(x):
        assert not torch.is_grad_enabled()
        return model(x)

    assert torch.equal(without_weights(spy)(images(3)), model(images(3)).detach())


def test_whoever_differentiates_a_model_without_a_gradient_or_with_a_nan_in_it_is_told():
    leaf = images(3).requires_grad_()
    with pytest.raises(ModelError, match="no gradient"):
        without_weights(lambda x: x.detach().flatten(1))(leaf).sum().backward()
    with pytest.raises(ModelError, match="gradient is NaN for 3 of 3"):
        without_weights(lambda x: (0 * x).sqrt().flatten(1))(leaf).sum().backward()
    with pytest.raises(ModelError, match="logits are NaN for 2 of 3"):
        without_weights(lambda x: x.flatten(1) * torch.tensor([[1.0], [torch.nan], [torch.nan]]))(leaf)


def test_a_model_that_cuts_the_graph_at_its_input_has_no_gradient_though_its_weights_have():
    layer = torch.nn.Linear(4, 3)
    z, y = torch.rand(2, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ModelError, match="no gradient with respect to its input"):
        input_gradient(cross_entropy, lambda x: layer(x.detach()), z, y)
    with pytest.raises(ModelError, match="no gradient with respect to its input"):
        input_jacobian(lambda logits: logits, lambda x: layer(x.detach()), z)


def test_an_expansion_refuses_what_has_no_gradient_or_a_nan_in_it():
    x, y = images(3), labels(3, 3)
    for step in (None, 0.1):
        with pytest.raises(ModelError, match="no gradient with respect to its input"):
            expansion(cross_entropy, lambda x: linear(3)(x).detach(), x, y, step=step)

    def kinked(x):  # the second derivative of |x|^1.5 is infinite at 0, and 0 * inf is NaN
        return linear(3)(x) + (0 * x).abs().pow(1.5).flatten(1)[:, :1]

    around = expansion(cross_entropy, kinked, x, y)
    with pytest.raises(ModelError, match="NaN for 3 of 3 examples"):
        around.product(torch.ones_like(x))


def test_an_expansion_has_loss_gradient_and_logits_and_leaves_everything_alone():
    model, x, y = normed(), images(5), labels(5, 3)
    for step in (None, 1e-2):
        with same_module(model), same_random_states(), same_tensors(x, y), torch.no_grad():
            around = expansion(cross_entropy, model, x, y, step=step)
            product = around.product(x)
        values, grad, logits = input_gradient(cross_entropy, model, x, y)
        for found, expected in ((around.values, values), (around.gradient, grad), (around.logits, logits)):
            torch.testing.assert_close(found, expected)
            assert not found.requires_grad
        assert not product.requires_grad


def test_inference_mode_is_named_and_not_the_model():
    model, x, y = linear(3), images(4), labels(4, 3)
    differentiate = {
        "gradient": lambda x, y: input_gradient(cross_entropy, model, x, y),
        "jacobian": lambda x, y: input_jacobian(lambda logits: logits, model, x),
        "expansion": lambda x, y: expansion(cross_entropy, model, x, y),
    }
    with torch.inference_mode():
        born_inside = x.clone()
        for call in differentiate.values():
            with pytest.raises(ModelError, match=r"no gradient exists under torch.inference_mode; call this outside"):
                call(x, y)
    for call in differentiate.values():
        with pytest.raises(ModelError, match=r"made under torch.inference_mode have no gradient; clone\(\) them"):
            call(born_inside, y)
