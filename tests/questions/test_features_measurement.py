"""Features of every layer, clean and noisy."""

import pytest
import torch
from torch import nn

from holdfast.corruptions import Clean, GaussianNoise
from holdfast.errors import ModelError
from holdfast.models import build
from holdfast.models.cnn import CNN
from holdfast.models.mlp import MLP
from holdfast.models.resnet import ResNet
from holdfast.models.vit import ViT
from holdfast.questions.features.measurement import Layer, feature_layers, feature_maps, layer_names, layers_of, pooled
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests.questions.test_separation import clusters
from tests.zoo import images, linear, smooth

X = images(9, (1, 8, 8), dtype=torch.float32)


def small(feature_dim=5):
    return build(ResNet(blocks=(1, 1, 1, 1), width=0.125, feature_dim=feature_dim), (1, 8, 8), 3).eval()


def test_stages_are_averaged_over_space_and_the_last_layer_is_as_it_is():
    model = small()
    found = layers_of(model, X)
    assert list(found) == ["stage 1", "stage 2", "stage 3", "stage 4", "stage 5", "penultimate"]
    for number, z in enumerate(model.stages(X), 1):
        torch.testing.assert_close(found[f"stage {number}"], z.mean((2, 3)))
    assert torch.equal(found["penultimate"], model.features(X))
    assert not found["stage 1"].requires_grad


def test_a_last_stage_that_is_the_penultimate_layer_appears_once():
    assert list(layers_of(small(None), X)) == ["stage 1", "stage 2", "stage 3", "stage 4", "penultimate"]


def test_vectors_stay_and_tokens_are_averaged():
    perceptron = build(MLP(hidden=(6, 4)), (1, 8, 8), 3)
    assert [tuple(each.shape) for each in layers_of(perceptron, X).values()] == [(9, 64), (9, 6), (9, 4)]
    transformer = build(ViT(patch_size=4, dim=12, depth=1, heads=3), (1, 8, 8), 3).eval()
    first = next(iter(transformer.stages(X)))
    torch.testing.assert_close(layers_of(transformer, X)["stage 1"], first.mean(1))
    with pytest.raises(ModelError, match=r"expected features of shape \(N, F\) or more, got \(9,\)"):
        pooled(torch.zeros(9))


def test_a_model_without_stages_has_its_penultimate_layer():
    model, x = linear(3), images(2)
    assert list(layers_of(model, x)) == ["penultimate"]
    assert torch.equal(layers_of(model, x)["penultimate"], x.flatten(1))


def test_a_model_that_shows_nothing_is_one_line():
    with pytest.raises(ModelError, match=r"expected one that shows its features, with features\(x\).*got Sequential"):
        layers_of(smooth(), images(2))


def test_batches_do_not_matter_and_noise_is_that_of_each_image():
    model, noise = small(), GaussianNoise(sigma=0.2)
    with torch.no_grad():
        wanted = model.features(noise(X, rng=Streams(3, "features", 9)))
    for size in (2, 9, 100):
        found = feature_layers(model, X, noise=noise, batch_size=size, rng=Streams(3, "features", 9))
        torch.testing.assert_close(found[-1].noisy, wanted)
        torch.testing.assert_close(found[-1].clean, model.features(X).detach())
    assert not torch.allclose(wanted, found[-1].clean, atol=1e-3)


class Doubled(nn.Module):
    """One stage, and features that equal it for dark images alone."""

    def stages(self, x):
        yield x.flatten(1)

    def features(self, x):
        return 2 * x.flatten(1)


def test_layers_are_the_same_for_any_batch_size():
    x = X.clone()
    x[0] = 0
    assert layer_names(Doubled(), x) == ["stage 1", "penultimate"]
    for size in (1, 4, 9):
        layers = feature_layers(Doubled(), x, noise=Clean(), batch_size=size)
        assert [layer.name for layer in layers] == ["stage 1", "penultimate"]


def test_leaves_everything_alone():
    model = small()
    with same_random_states(), same_module(model), same_tensors(X):
        layers = feature_layers(model, X, rng=Streams(0, "features", 9))
        list(feature_maps(layers, torch.arange(9) % 3, maps=["pca"], resamples=2))


def test_features_that_are_not_finite_are_refused():
    model = build(CNN(), (1, 8, 8), 3)
    with torch.no_grad():
        model.neck.weight.mul_(torch.nan)
    with pytest.raises(ModelError, match="expected finite features, penultimate has others for 9 of 9 images"):
        feature_layers(model, X, noise=Clean())


def test_numbers_are_of_all_images_and_maps_of_the_first():
    x, y = clusters(count=20)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    layer = Layer("penultimate", x[order], x[order] + 0.1)
    (found,) = feature_maps([layer], y[order], maps=["pca"], points=30, resamples=5)
    assert (found.name, found.size) == ("penultimate", 6)
    assert found.maps["pca"].clean.shape == (30, 2)
    assert found.noisy.silhouette.value == pytest.approx(found.clean.silhouette.value)  # moved as a whole
    # ... but the clean centroids are a tenth away in each coordinate, which hurts a little at most.
    assert found.noisy.reference_centroid.value <= found.clean.nearest_centroid.value


def test_noise_that_swaps_classes_is_seen_by_clean_centroids_only():
    x, y = clusters(count=20, classes=2, distance=5.0)
    swapped = Layer("penultimate", x, x.mean(0) * 2 - x)
    (found,) = feature_maps([swapped], y, maps=[], resamples=0)
    assert found.clean.nearest_centroid.value == found.noisy.nearest_centroid.value == 1.0
    assert found.noisy.reference_centroid.value < 0.5


class Untouched(nn.Module):
    """Stages, but no features."""

    def stages(self, x):
        yield x


def test_stages_alone_are_not_enough():
    with pytest.raises(ModelError, match="got Untouched"):
        layers_of(Untouched(), X)
