"""Other backward passes: the same answers, gradients in closed form, and nothing left behind."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.attacks import TransferLoop
from holdfast.attacks.stages import BPA, LinBP, LossEnsemble, Momentum, SkipGradient
from holdfast.backward import ChangedBackward, linear, silu_slope
from holdfast.ensembles import Ensemble
from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.models import MODELS, build
from holdfast.models.layers import Residual
from holdfast.threat import L2, Linf
from tests.zoo import images, labels, seeded

ALL = (LinBP(start=0.3), LinBP(start=0.0, rescale=False, sums=True), BPA(start=0.3))
OURS = ("cnn", "mlp", "lenet", "resnet10", "preactresnet18", "wrn-40-1", "densenet", "allconv", "mobilenetv3-small")

WITHOUT_BRANCHES = ("cnn", "mlp", "lenet", "allconv")


class Written(nn.Module):
    """Two layers and a residual block with ReLUs written in one of three ways."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Linear(4 * 9, 3)
        self.module, self.in_place = nn.ReLU(), nn.ReLU(inplace=True)

    def act(self, x):
        ways = {
            "module": self.module, "module in place": self.in_place, "functional": F.relu,
            "functional in place": lambda z: F.relu(z, inplace=True), "torch": torch.relu, "method": lambda z: z.relu(),
            "method in place": lambda z: z.relu_(), "torch in place": torch.relu_,
        }  # fmt: skip
        return ways[self.way](x)

    def forward(self, x):
        x = self.act(self.first(x))
        out = self.second(x)
        out += x
        out = self.act(out)
        out = F.max_pool2d(out, 2)
        return self.last(self.act(out).flatten(1))


WAYS = (
    "module", "module in place", "functional", "functional in place", "torch", "method", "method in place",
    "torch in place",
)  # fmt: skip


def written(way="module"):
    return seeded(lambda: Written(way)).double().eval()


def gradient(model, x, y):
    z = x.clone().requires_grad_()
    return torch.autograd.grad(cross_entropy(model(z), y).sum(), z)[0]


def modes():
    return torch._C._len_torch_function_stack()


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("way", WAYS)
def test_logits_and_weights_are_the_same_to_the_bit_however_relus_are_written(method, way):
    model, x, y = written(way), images(5, (2, 6, 6)), labels(5, 3)
    before, logits = copy.deepcopy(model.state_dict()), model(x)
    changed = method.on(model)
    z = x.clone().requires_grad_()
    during = changed(z)
    assert torch.equal(during, logits)
    torch.autograd.grad(cross_entropy(during, y).sum(), z)
    assert torch.equal(model(x), logits)
    assert torch.equal(changed(x), logits)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    # Every way of writing a ReLU has the same other gradient, and none has its own.
    torch.testing.assert_close(gradient(changed, x, y), gradient(method.on(written()), x, y), rtol=0, atol=1e-14)
    assert not torch.allclose(gradient(changed, x, y), gradient(model, x, y))


@pytest.mark.parametrize("method", [*ALL, SkipGradient()])
@pytest.mark.parametrize("name", OURS)
def test_our_networks_keep_their_logits(name, method):
    model = build(MODELS[name], (3, 32, 32), 4).eval()
    x, y = images(2, (3, 32, 32)).float(), labels(2, 4)
    if isinstance(method, SkipGradient) and name in WITHOUT_BRANCHES:
        with pytest.raises(ModelError, match="expected a network with modules called branch"):
            method.on(model)
        return
    z = x.clone().requires_grad_()
    logits = method.on(model)(z)
    assert torch.equal(logits, model(x))
    (grad,) = torch.autograd.grad(cross_entropy(logits, y).sum(), z)
    assert bool(grad.isfinite().all())


def test_a_network_without_relus_is_refused():
    model = build(MODELS["vit-tiny"], (3, 16, 16), 4).eval()
    x, y = images(2, (3, 16, 16)).float(), labels(2, 4)
    for method, kinds in ((LinBP(), "ReLUs"), (BPA(), "ReLUs or max-pools")):
        with pytest.raises(ModelError, match=f"expected a network with {kinds}; none in Network"):
            gradient(method.on(model), x, y)
    with pytest.raises(ModelError, match="modules called branch, attention, perceptron; none in Written"):
        SkipGradient().on(written())


@pytest.mark.parametrize("method", ALL)
def test_no_mode_is_left_after_an_exception(method):
    model, x, y = written(), images(2, (2, 6, 6)), labels(2, 3)
    expected = gradient(model, x, y)

    def broken(z):
        model(z)
        raise RuntimeError("broken")

    before = modes()
    with pytest.raises(RuntimeError, match="broken"):
        gradient(method.on(broken), x, y)
    assert modes() == before
    assert torch.equal(gradient(model, x, y), expected)
    assert torch.equal(F.relu(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 2.0]))


def mlp(depth=3, width=6):
    def made():
        layers = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(width, 3))

    return seeded(made).double()


def logit_gradient(model, x):
    z = x.clone().requires_grad_()
    return torch.autograd.grad(model(z)[:, 1].sum(), z)[0]


def test_with_all_relus_linear_the_gradient_is_the_product_of_the_weights():
    model, x = mlp(), images(4, (6,))
    product = model[0].weight
    for layer in (model[2], model[4], model[6]):
        product = layer.weight @ product
    result = logit_gradient(LinBP(start=0.0, rescale=False).on(model), x)
    torch.testing.assert_close(result, product[1].detach().expand(4, -1), rtol=0, atol=1e-14)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("sums", [False, True])
def test_the_relu_of_a_sum_keeps_its_gradient_unless_it_is_wanted(sums, in_place):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside, self.after = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x):
            out = F.relu(self.inside(x))
            if in_place:
                out = out * 1
                out += x
            return self.after(F.relu(out + x if not in_place else out))

    model, x = seeded(Block).double(), images(4, (6,)) - 0.5
    inside, after = model.inside.weight.detach(), model.after.weight[1].detach()
    grad = after.expand(4, -1) * (1 if sums else (F.relu(model.inside(x)) + x > 0))
    result = logit_gradient(LinBP(start=0.0, rescale=False, sums=sums).on(model), x)
    torch.testing.assert_close(result, grad + grad @ inside, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("start", "changed"), [(0.0, 3), (0.3, 2), (0.5, 1), (0.7, 0), (1.0, 0)])
def test_the_first_share_of_the_relus_keeps_its_gradient(start, changed):
    model, x = mlp(), images(4, (6,))
    mask = [(layer > 0).double() for layer in (model[:1](x), model[:3](x), model[:5](x))]
    grad = model[6].weight[1].detach().expand(4, -1)
    for number, layer in ((2, model[4]), (1, model[2]), (0, model[0])):
        grad = (grad if number >= 3 - changed else grad * mask[number]) @ layer.weight.detach()
    result = logit_gradient(LinBP(start=start, rescale=False).on(model), x)
    torch.testing.assert_close(result, grad, rtol=0, atol=1e-14)


def test_a_rescaled_gradient_is_as_long_as_that_of_the_relu_and_zero_where_it_is_zero():
    model = nn.Sequential(nn.ReLU(), nn.Linear(5, 2)).double()
    x = images(3, (5,)) - 0.5
    x[2] = -1.0
    plain, own = model[1].weight[1].detach(), logit_gradient(model, x)
    result = logit_gradient(LinBP(start=0.0).on(model), x)
    torch.testing.assert_close(result.norm(dim=1), own.norm(dim=1))
    torch.testing.assert_close(F.normalize(result[:2], dim=1), F.normalize(plain, dim=0).expand(2, -1))
    assert torch.equal(result[2], torch.zeros(5, dtype=torch.float64))


@pytest.mark.parametrize(("name", "grows"), [("cnn", False), ("wrn-40-1", True)])
def test_rescaling_keeps_the_length_of_the_gradients_of_deep_networks(name, grows):
    model = build(MODELS[name], (3, 32, 32), 4).eval()
    x, y = images(2, (3, 32, 32)).float(), labels(2, 4)
    own, whole, rescaled = (
        float(gradient(one, x, y).norm())
        for one in (model, LinBP(start=0.0, rescale=False, sums=True).on(model), LinBP(start=0.0, sums=True).on(model))
    )
    assert (whole / own > 100) == grows
    assert 0.1 < rescaled / own < 10


def test_bpa_has_the_slope_of_silu():
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], dtype=torch.float64)
    # METHODS.md, chapter 9, and autograd.
    values = torch.tensor([-0.0907842488, 0.2600388127, 0.5, 0.7399611873, 1.0907842488], dtype=torch.float64)
    torch.testing.assert_close(silu_slope(torch.ones_like(x), x), values, rtol=0, atol=1e-10)
    z = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.silu(z).sum(), z)
    torch.testing.assert_close(silu_slope(torch.ones_like(x), x), slope, rtol=0, atol=1e-14)


POOLS = [
    {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": (2, 3), "stride": (3, 2)}, {"kernel_size": 2, "dilation": 2}, {"kernel_size": 2, "stride": 3},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
]  # fmt: skip


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (1, 1, 7, 7)])
def test_a_pool_goes_back_by_a_softmax_over_its_window_without_padding(pool, shape):
    x, t = images(shape[0], shape[1:]) * 2 - 1, 3.0
    # As torch pools: windows of places in the image; those of the padding have the index -1 and count for nothing.
    places = F.pad(torch.arange(shape[2] * shape[3]).view(1, 1, *shape[2:]).double(), [30] * 4, value=-1)[0, 0]
    names, usual = ("kernel_size", "stride", "padding", "dilation"), {"stride": pool["kernel_size"], "padding": 0}
    sizes = [{"dilation": 1, **usual, **pool}[name] for name in names]
    kernel, stride, padding, spread = ((size, size) if isinstance(size, int) else size for size in sizes)
    out = F.max_pool2d(x, **pool)
    weights = images(shape[0], out.shape[1:])
    expected = torch.zeros_like(x).flatten(2)
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            top, left = 30 + i * stride[0] - padding[0], 30 + j * stride[1] - padding[1]
            down, right = (slice(at, at + kernel[n] * spread[n], spread[n]) for n, at in enumerate((top, left)))
            window = places[down, right]
            inside = window[window >= 0].long()
            share = (t * x.flatten(2)[:, :, inside]).softmax(2)
            expected[:, :, inside] += share * weights[:, :, i, j, None]
    z = x.clone().requires_grad_()
    result = ChangedBackward(lambda x: F.max_pool2d(x, **pool), silu_slope, 0.0, t)(z)
    assert torch.equal(result, out)
    (grad,) = torch.autograd.grad((result * weights).sum(), z)
    torch.testing.assert_close(grad, expected.view_as(x), rtol=0, atol=1e-13)


def test_a_pool_of_large_values_has_a_finite_gradient():
    # Public code takes exp(10 x) in float32, which is infinite from x = 8.9 on.
    z = torch.tensor([[[[100.0, 90.0], [0.0, -50.0]]]], requires_grad=True)
    out = BPA().on(nn.MaxPool2d(2))(z)
    (grad,) = torch.autograd.grad(out.sum(), z)
    torch.testing.assert_close(grad, torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]]))


def block():
    def made():
        branch = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        return nn.Sequential(Residual(branch, nn.Identity(), nn.Identity()), nn.Linear(6, 3))

    return seeded(made)


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0])
def test_skip_gradient_scales_the_branch_and_nothing_else(factor):
    model, x = block().double(), images(4, (6,))
    changed = SkipGradient(factor=factor).on(model)
    assert torch.equal(changed(x), model(x))
    full, last = logit_gradient(model, x), model[1].weight[1].detach().expand(4, -1)
    result = logit_gradient(changed, x)
    torch.testing.assert_close(result, last + factor * (full - last), rtol=0, atol=1e-14)
    assert not model[0].branch._forward_hooks
    torch.testing.assert_close(logit_gradient(model, x), full, rtol=0, atol=0)
    assert next(changed.parameters()) is next(model.parameters())


class Foreign(nn.Module):
    """A block as torchvision writes them."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)

    def forward(self, x):
        return F.relu(self.bn1(self.conv1(x)) + x).flatten(1)


def test_branches_of_foreign_networks_go_by_the_name_of_their_last_module():
    model, x, y = seeded(Foreign).double().eval(), images(3, (2, 4, 4)), labels(3, 5)
    with pytest.raises(ModelError, match="name the last module of its branches"):
        SkipGradient().on(model)
    changed = SkipGradient(factor=0.0, branches=("bn1",)).on(model)
    straight = (model(x) > 0).view_as(x)
    z = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(changed(z).sum(), z)
    torch.testing.assert_close(grad, straight.double(), rtol=0, atol=0)
    assert torch.equal(gradient(SkipGradient(factor=1.0, branches=("bn1",)).on(model), x, y), gradient(model, x, y))


@pytest.mark.parametrize("stage", [LinBP(start=0.3), BPA(start=0.3)])
def test_a_stage_attacks_through_the_other_backward_pass(stage):
    model, x, y = written(), images(4, (2, 6, 6), low=0.3, high=0.7), labels(4, 3)
    step = gradient(stage.on(model), x, y)
    attack = TransferLoop(threat=L2(0.1), steps=1, length=1.0, stages=(stage,))
    expected = x + 0.1 * F.normalize(step.flatten(1), dim=1).view_as(x)
    torch.testing.assert_close(attack(model, x, y), expected, rtol=0, atol=1e-12)
    later = TransferLoop(threat=L2(0.1), steps=1, length=1.0, stages=(Momentum(), stage))
    torch.testing.assert_close(later(model, x, y), expected, rtol=0, atol=1e-12)


def test_members_of_an_ensemble_have_a_depth_of_their_own():
    members, x, y = [mlp(1).eval(), mlp(3).eval()], images(4, (6,), low=0.3, high=0.7), labels(4, 3)
    stage, source = LinBP(start=0.5, rescale=False), Ensemble(members)
    z = x.clone().requires_grad_()
    logits = sum(stage.on(member)(z) for member in members) / 2
    (grad,) = torch.autograd.grad(cross_entropy(logits, y).sum(), z)
    one_step = TransferLoop(threat=L2(0.1), steps=1, length=1.0, stages=(stage,))
    torch.testing.assert_close(one_step(source, x, y), x + 0.1 * F.normalize(grad, dim=1), rtol=0, atol=1e-12)
    losses = sum(gradient(stage.on(member), x, y) for member in members) / 2
    one_step = TransferLoop(threat=L2(0.1), steps=1, length=1.0, stages=(LossEnsemble(), stage))
    torch.testing.assert_close(one_step(source, x, y), x + 0.1 * F.normalize(losses, dim=1), rtol=0, atol=1e-12)


def test_rules_are_functions_of_the_gradient_and_the_value():
    grad, x = torch.tensor([[1.0, -2.0]]), torch.tensor([[-1.0, 1.0]])
    assert torch.equal(linear(grad, x), grad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinBP(start=1.5), "start must lie in"),
        (lambda: BPA(start=-0.1), "start must lie in"),
        (lambda: BPA(temperature=0.0), "temperature must be positive"),
        (lambda: SkipGradient(factor=1.5), "expected a factor in"),
        (lambda: SkipGradient(branches=()), "expected a factor in"),
    ],
)
def test_impossible_fields_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_attacks_through_them_stay_inside_and_leave_the_model_alone():
    model, x, y = written("module in place"), images(6, (2, 6, 6)), labels(6, 3)
    before = copy.deepcopy(model.state_dict())
    for threat in (Linf(0.1), L2(0.4)):
        for stage in ALL:
            z = TransferLoop(threat=threat, steps=3, stages=(stage, Momentum()))(model, x, y)
            assert bool((threat.distance(z, x) <= threat.eps + 1e-9).all())
            assert bool(((z >= 0) & (z <= 1)).all())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert modes() == 0
