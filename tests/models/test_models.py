"""Promises of every architecture in the registry, and their sizes against published ones."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.lipschitz import OrthogonalDense
from holdfast.models import MODELS, Network, build
from holdfast.models.allconv import AllConv
from holdfast.models.cnn import CNN
from holdfast.models.densenet import DenseNet
from holdfast.models.mobilenet import HardSigmoid, HardSwish, MobileNetV3Small
from holdfast.models.preactresnet import PreActResNet
from holdfast.models.resnet import ResNet
from holdfast.models.vit import ViT
from holdfast.models.wideresnet import WideResNet

NAMES = [name for name, model in MODELS.items() if not isinstance(model, type)]
SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 29, 31)]


def cheap(name, **options):
    """The architecture of that name with few channels."""
    prototype = MODELS[name]
    known = {field.name for field in dataclasses.fields(prototype)}
    if "width" in known:
        options = {"width": 0.1 if "-10" in name else 0.25, **options}
    return dataclasses.replace(prototype, **{key: value for key, value in options.items() if key in known})


def images(shape, count=3, dtype=torch.float64):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def network(name, shape=(3, 16, 16), classes=5, **options):
    mean, std = options.pop("mean", None), options.pop("std", None)
    return build(cheap(name, **options), shape, classes, mean=mean, std=std).double().eval()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_gives_one_logit_per_class_for_every_image_size(name, shape):
    if name == "vit-tiny" and shape[1] % 4:
        pytest.skip("not a multiple of the patch size")
    if name == "allconv-augmix" and min(shape[1:]) < 12:
        with pytest.raises(ValueError, match="allconv-augmix: images must be at least 12x12, got 8x8"):
            network(name, shape)
        return
    with torch.no_grad():
        assert network(name, shape)(images(shape, 2)).shape == (2, 5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("feature_dim", [None, 7])
def test_logits_are_the_head_of_the_features_and_features_come_from_the_last_stage(name, feature_dim):
    model, x = network(name, feature_dim=feature_dim), images((3, 16, 16))
    with torch.no_grad():
        stages, features = list(model.stages(x)), model.features(x)
        assert isinstance(model.head, (nn.Linear, OrthogonalDense))
        assert features.shape == (3, model.head.in_features)
        assert feature_dim is None or features.shape[1] == feature_dim
        torch.testing.assert_close(model(x), model.head(features), rtol=0, atol=0)
        torch.testing.assert_close(features, model.neck(model.pool(stages[-1])), rtol=0, atol=0)
        assert all(len(stage) == 3 for stage in stages)


@pytest.mark.parametrize("name", NAMES)
def test_normalises_the_input_first(name):
    if name.startswith("lipschitz"):
        pytest.skip("normalising would stretch distances")
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    x = images((3, 16, 16))
    inside, outside = network(name, mean=mean, std=std), network(name)
    z = (x - x.new_tensor(mean).view(3, 1, 1)) / x.new_tensor(std).view(3, 1, 1)
    # The buffers were rounded to float32 before the model became float64.
    torch.testing.assert_close(inside(x), outside(z), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(inside(x), outside(x), atol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_does_not_see_its_batch_in_eval_mode(name):
    model, x = network(name), images((3, 16, 16))
    with torch.no_grad():
        torch.testing.assert_close(model(x), torch.cat([model(one[None]) for one in x]))


@pytest.mark.parametrize("name", NAMES)
def test_weights_depend_on_the_seed_alone_and_the_global_state_stays(name):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = build(cheap(name), (3, 16, 16), 5, seed=3).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = build(cheap(name), (3, 16, 16), 5, seed=3).state_dict()
    other = build(cheap(name), (3, 16, 16), 5, seed=4).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    head = next(key for key in first if key.startswith("head.") and key.endswith("weight"))
    assert not torch.equal(first[head], other[head])


@pytest.mark.parametrize("name", NAMES)
def test_gradient_reaches_the_input_and_every_parameter(name):
    model, x = network(name, norm="group").train(), images((3, 16, 16)).requires_grad_()
    loss = F.cross_entropy(model(x), torch.tensor([0, 1, 2]))
    gradients = torch.autograd.grad(loss, [x, *model.parameters()], allow_unused=True)
    names = ["input", *(key for key, _ in model.named_parameters())]
    quiet = [key for key, grad in zip(names, gradients, strict=True) if grad is None or not grad.abs().sum() > 0]
    # Without normalisation some branches start at zero on purpose, see holdfast.models.layers.quiet.
    assert quiet == []


@pytest.mark.parametrize("name", NAMES)
def test_has_second_derivatives_with_respect_to_the_input(name):
    model, x = network(name), images((3, 16, 16), 2).requires_grad_()
    (grad,) = torch.autograd.grad(F.cross_entropy(model(x), torch.tensor([0, 1])), x, create_graph=True)
    (product,) = torch.autograd.grad((grad * images((3, 16, 16), 2)).sum(), x)
    assert product.isfinite().all()
    assert product.abs().sum() > 0


WITHOUT_NORM = [name for name in NAMES if "norm" in {field.name for field in dataclasses.fields(MODELS[name])}]


@pytest.mark.parametrize("name", WITHOUT_NORM)
def test_trains_without_normalisation(name):
    side = 12 if name == "allconv-augmix" else 8
    model = build(cheap(name, norm="none", dropout=0.0), (1, side, side), 3).train()
    assert not any(isinstance(module, nn.BatchNorm2d | nn.GroupNorm) for module in model.modules())
    x, y = images((1, side, side), 12, torch.float32), torch.arange(12) % 3
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] < 4
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("norm", ["batch", "group", "layer", "none"])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "elu", "silu", "gelu", "softplus", "tanh"])
def test_takes_every_norm_and_activation(norm, activation):
    assert network("resnet10", norm=norm, activation=activation)(images((3, 16, 16))).isfinite().all()


@pytest.mark.parametrize(
    ("architecture", "shape", "message"),
    [
        (DenseNet(), (3, 3, 9), "densenet: images must be at least 4x4, got 3x9"),
        (MODELS["cnn6"], (1, 7, 8), "cnn: images must be at least 8x8, got 7x8"),
        (CNN(), (1, 2, 2), "cnn: images must be at least 3x3, got 2x2"),
        (ViT(), (3, 30, 32), "vit: height and width must be multiples of 4, got 30x32"),
        (ViT(), (3, 2, 2), "vit: images must be at least 4x4, got 2x2"),
        (ResNet(), (0, 8, 8), "expected an image shape"),
        (ResNet(width=0), (3, 8, 8), "width: expected a positive factor, got 0"),
        (ResNet(norm="bach"), (3, 8, 8), "norm: unknown name 'bach'.*Did you mean 'batch'"),
        (ResNet(activation="rellu"), (3, 8, 8), "activation: unknown name 'rellu'.*Did you mean 'relu'"),
    ],
)
def test_refuses_what_it_cannot_build_in_one_line(architecture, shape, message):
    with pytest.raises(ValueError, match=message) as error:
        architecture(shape, 10)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (WideResNet, {"depth": 41}),
        (DenseNet, {"depth": 41}),
        (DenseNet, {"depth": 43, "bottleneck": True}),
        (DenseNet, {"compression": 0}),
        (ViT, {"heads": 5}),
    ],
)
def test_refuses_impossible_options(make, options):
    with pytest.raises(ValueError, match="must"):
        make(**options)


@pytest.mark.parametrize("architecture", [CNN(), MODELS["cnn6"], MODELS["lenet"], CNN(stride=2), DenseNet(), ViT()])
def test_smallest_image_of_the_message_can_be_built(architecture):
    with pytest.raises(ValueError, match="at least") as error:
        architecture((1, 1, 1), 2)
    side = int(str(error.value).partition("at least ")[2].partition("x")[0])
    assert architecture((1, side, side), 2)(torch.rand(2, 1, side, side)).shape == (2, 2)


def test_dropout_acts_in_training_only():
    model = build(WideResNet(depth=10, widen=1, dropout=0.5), (1, 8, 8), 3)
    x = images((1, 8, 8), 4, torch.float32)
    assert torch.equal(model.eval()(x), model(x))
    with torch.random.fork_rng(devices=[]):
        assert not torch.equal(model.train()(x), model(x))
    assert not any(isinstance(module, nn.Dropout) for module in WideResNet()((3, 32, 32), 10).modules())


@pytest.mark.parametrize(("width", "heads"), [(0.25, 1), (0.5, 2), (1.0, 3), (1.7, 5), (2.0, 6)])
def test_transformer_heads_divide_its_tokens_for_every_width(width, heads):
    block = ViT(width=width, depth=1)((3, 8, 8), 10).body[1]
    attention = block.attention[1]
    assert attention.heads == heads
    assert attention.out.in_features % heads == 0


def test_hard_activations_are_those_of_torch():
    x = torch.linspace(-5, 5, 101)
    torch.testing.assert_close(HardSwish()(x), F.hardswish(x))
    torch.testing.assert_close(HardSigmoid()(x), F.hardsigmoid(x))


def parameters(architecture, shape=(3, 32, 32), classes=10):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in architecture(shape, classes).parameters())


BC = {"bottleneck": True, "compression": 0.5}


@pytest.mark.parametrize(
    ("architecture", "count"),
    [
        # Counts that users of the kuangliu/pytorch-cifar networks report (also jvlmdr/flax-cifar, ResNetV1-18 and -50).
        (MODELS["resnet10"], 4_903_242),
        (MODELS["resnet18"], 11_173_962),
        (MODELS["resnet34"], 21_282_122),
        (MODELS["resnet50"], 23_520_842),
        # jvlmdr/flax-cifar, ResNetV2-18: with the paper's last BatchNorm. The often quoted 11,171,146 is without it.
        (MODELS["preactresnet18"], 11_171_146 + 2 * 512),
        # osmr/imgclsmob, table of CIFAR-10 networks (paper: 36.5M); paper: 2.2M; reported for RobustBench's WRN-34-10.
        (MODELS["wrn-28-10"], 36_479_194),
        (MODELS["wrn-40-2"], 2_243_546),
        (MODELS["wrn-34-10"], 46_160_474),
        # osmr/imgclsmob, densenet100_k12_bc_cifar10 and densenet40_k12_bc_cifar10 (paper: 0.8M for the first).
        (DenseNet(depth=100, **BC), 769_162),
        (DenseNet(depth=40, **BC), 176_122),
        # Paper: 1.37M; the sum over table 1 with biases.
        (AllConv(norm="none"), 1_369_738),
        # google-research/augmix, models/cifar/allconv.py, counted by building it.
        (MODELS["allconv-augmix"], 1_409_674),
        # torchvision mobilenet_v3_small: 2,542,856 with 1,000 classes; strides do not count.
        (MODELS["mobilenetv3-small"], 2_542_856 - 990 * 1025),
    ],
)
def test_parameter_count_is_the_published_one(architecture, count):
    assert parameters(architecture) == count


def test_the_documentation_states_the_parameters_of_every_network():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \|[^|]*\| ([\d,]+) \|", page, re.MULTILINE))
    assert rows == {name: f"{parameters(MODELS[name]):,}" for name in NAMES}


def test_transformer_has_the_size_of_deit_tiny():
    # DeiT-Ti with patches of 16 on 224x224 and 1,000 classes: 5.7M in table 1 of arXiv:2012.12877.
    assert parameters(ViT(patch_size=16), (3, 224, 224), 1000) == 5_717_416


def test_mnist_network_has_the_dense_layer_of_the_paper():
    # FN(21632, 100), FN(100, 10): 32 maps of 26x26.
    model = CNN()((1, 28, 28), 10)
    assert (model.neck.in_features, model.neck.out_features, model.head.in_features) == (21632, 100, 100)


@pytest.mark.parametrize(
    ("name", "count"), [("cnn", 2), ("cnn6", 6), ("cnn8", 8), ("allconv", 8), ("allconv-augmix", 9)]
)
def test_plain_networks_have_as_many_convolutions_as_they_say(name, count):
    model = MODELS[name]((3, 32, 32), 10)
    assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == count


@pytest.mark.parametrize("architecture", [ResNet(), PreActResNet(), WideResNet(), MobileNetV3Small(), AllConv()])
def test_stages_of_a_small_image_network_end_small(architecture):
    *_, last = dataclasses.replace(architecture, width=0.1)((3, 32, 32), 10).eval().stages(torch.rand(2, 3, 32, 32))
    assert last.shape[2] in (4, 8)


SMALLER = {"cnn", "lipschitz-cnn", "vit-tiny", "linear", "mlp", "lipschitz-mlp", "m5"}
"""Networks whose first layer makes maps smaller (an even kernel, a stride, four neighbours to channels, patches) or has
none."""


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 28, 32)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_first_maps_have_the_size_of_the_image(name, shape):
    model, x = network(name, shape, mean=[0.3] * shape[0], std=[0.5] * shape[0]), images(shape, 2)
    with torch.no_grad():
        maps, first = model.first_maps(x), next(model.stages(x))
        assert maps.shape[2:] == x.shape[2:]
        if name in SMALLER:
            assert torch.equal(maps, model.normalise(x))
        elif first.shape[2:] == x.shape[2:]:
            assert torch.equal(maps, first)
        else:  # the first stage is these maps, then the layers that make them smaller
            rest = [*model.body[0]][-1 if isinstance(model.body[0][-1], nn.MaxPool2d) else -3 :]
            torch.testing.assert_close(nn.Sequential(*rest)(maps), first)
    assert name in SMALLER or maps.shape[1] not in (1, 3)


def test_stages_compute_no_further_than_asked():
    calls = []
    model = ResNet(width=0.1)((3, 8, 8), 10).eval()
    model.body[2].register_forward_hook(lambda *_: calls.append(1))
    assert isinstance(model, Network)
    stages = model.stages(torch.rand(1, 3, 8, 8))
    next(stages)
    next(stages)
    assert calls == []
    next(stages)
    assert calls == [1]
