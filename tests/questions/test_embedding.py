"""Maps to two dimensions."""

import sys
from types import SimpleNamespace

import pytest
import torch
from sklearn.decomposition import PCA

from holdfast.errors import RecipeError
from holdfast.questions.features.embedding import pca, tsne, umap
from holdfast.testing.untouched import same_random_states
from tests.questions.test_separation import clusters


def test_pca_of_clean_features_is_applied_to_both():
    clean, _ = clusters()
    noisy = clean + 0.5
    found = pca(clean, noisy)
    oracle = PCA(2).fit(clean.numpy())
    for mine, theirs in (
        (found.clean, oracle.transform(clean.numpy())),
        (found.noisy, oracle.transform(noisy.numpy())),
    ):
        torch.testing.assert_close(mine.abs(), torch.as_tensor(theirs).abs())  # signs are a convention
    shift = found.noisy - found.clean
    torch.testing.assert_close(shift, shift[:1].expand_as(shift))  # the same move stays the same move


def test_pca_has_one_sign_for_all():
    clean, _ = clusters()
    torch.testing.assert_close(pca(clean, clean).clean, pca(clean.flip(0), clean).clean.flip(0))


def test_one_number_per_image_is_a_line():
    clean = torch.arange(8.0)[:, None]
    assert not pca(clean, clean).clean[:, 1].any()


def test_tsne_keeps_clusters_together_and_both_views_in_one_map():
    clean, labels = clusters(count=15, distance=8.0)
    with same_random_states():
        found = tsne(clean, clean + 1e-3, seed=1)
    assert found.clean.shape == found.noisy.shape == (len(labels), 2)
    both, twice = torch.cat((found.clean, found.noisy)), labels.repeat(2)
    far = torch.cdist(both, both).fill_diagonal_(torch.inf)
    assert bool((twice[far.argmin(1)] == twice).all())
    size = (found.clean - found.clean.mean(0)).norm(dim=1).mean()
    assert (found.clean - found.noisy).norm(dim=1).mean() < 0.1 * size  # like features, like places
    again = tsne(clean, clean + 1e-3, seed=1)
    assert torch.equal(found.clean, again.clean)


def test_layers_that_say_nothing_are_one_point():
    flat = torch.ones(6, 3)
    assert not tsne(flat, flat).clean.any()


def test_umap_is_asked_for_both_together(monkeypatch):
    asked = {}

    class Fake:
        def __init__(self, **options):
            asked.update(options)

        def fit_transform(self, x):
            return x[:, :2]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Fake))
    clean, _ = clusters(count=3)
    found = umap(clean, clean + 1, seed=4)
    torch.testing.assert_close(found.noisy, found.clean + 1)
    assert asked["n_jobs"] == 1
    assert asked["random_state"] >= 0


def test_umap_that_is_missing_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(RecipeError, match=r"umap: cannot import it .*; pip install umap-learn, or ask for tsne or pca"):
        umap(torch.ones(2, 2), torch.ones(2, 2))
