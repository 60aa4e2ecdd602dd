import pytest
import torch

from holdfast.losses import cross_entropy
from holdfast.objectives import Free, Passes, Standard
from holdfast.threat import L0, L2, Linf
from tests.zoo import images, labels, linear, smooth

X, Y = images(6, low=0.2, high=0.8), labels(6, 5)


def backward(work, model, x, y):
    """One replay as the training loop has it."""
    terms = work(model, x, y)
    terms.total.backward()
    return terms


@pytest.mark.parametrize(("threat", "step_size"), [(Linf(0.1), None), (Linf(0.1), 0.03), (L2(0.4), None)])
def test_the_backward_pass_of_a_replay_moves_the_images_of_the_next(threat, step_size):
    model, work = smooth(), Free(threat=threat, step_size=step_size).hooks.start(None, 5, torch.arange(6))
    z = X
    for _ in range(3):
        terms = backward(work, model, X, Y)
        torch.testing.assert_close(terms.total, cross_entropy(model(z), Y).mean())
        z = z.detach().requires_grad_()
        (grad,) = torch.autograd.grad(cross_entropy(model(z), Y).sum(), z)
        z = threat.project(z.detach() + (step_size or threat.eps) * threat.ascent(grad, z.detach()), X)
    torch.testing.assert_close(work.perturbation, z - X)


def test_the_first_replay_is_standard_training():
    model = linear(5)
    torch.testing.assert_close(Free(threat=Linf(0.1))(model, X, Y).total, Standard()(model, X, Y).total)


def test_a_new_batch_begins_with_what_was_found_before_by_place():
    model, work, threat = smooth(), Free(threat=Linf(0.1)).hooks.start(None, 5, torch.arange(6)), Linf(0.1)
    backward(work, model, X, Y)
    before, other = work.perturbation.clone(), images(4, seed=5)
    terms = backward(work, model, other, Y[:4])
    torch.testing.assert_close(
        terms.total, cross_entropy(model(threat.project(other + before[:4], other)), Y[:4]).mean()
    )
    assert torch.equal(work.perturbation[4:], before[4:])  # a short batch leaves the rest alone
    longer, labels_of_it = torch.cat((X, other)), torch.cat((Y, Y[:4]))
    backward(work, model, longer, labels_of_it)
    assert len(work.perturbation) == 10


def test_the_weights_gradient_alone_moves_nothing():
    model, work = smooth(), Free(threat=Linf(0.1)).hooks.start(None, 5, torch.arange(6))
    torch.autograd.grad(work(model, X, Y).total, list(model.parameters()))
    assert not len(work.perturbation)


def test_its_state_can_be_saved_and_goes_on():
    model = smooth()
    one, two = (Free(threat=Linf(0.1)).hooks.start(None, 5, torch.arange(6)) for _ in range(2))
    backward(one, model, X, Y)
    two.load_state_dict(one.state_dict())
    assert torch.equal(two(model, X, Y).total, one(model, X, Y).total)
    assert not torch.equal(two(model, X, Y).total, Free(threat=Linf(0.1))(model, X, Y).total)


def test_states_its_replays_and_their_passes():
    assert Free(threat=Linf(0.1), replays=8).passes == Passes(8, 8)
    for fields, says in (({"replays": 0}, "replays must be at least 1, got 0"), ({"threat": L0(2)}, "free has no l0")):
        with pytest.raises(ValueError, match=says):
            Free(**{"threat": Linf(0.1), **fields})
