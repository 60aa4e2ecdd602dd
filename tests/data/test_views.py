"""Views of labels: images, indices and their order stay; labels are those of groups or of one group."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data import Memory, Split
from holdfast.data.cifar import FINE
from holdfast.data.selected import CIFAR5X5, Selected
from holdfast.data.views import relabelled, view_of
from holdfast.errors import DataError
from holdfast.hierarchy import hierarchy_of
from holdfast.recipe.schema import DataRecipe
from holdfast.runs.splits import prepare

HIERARCHY = hierarchy_of(tuple("abcde"), {"group": {"x": ["a", "d"], "y": ["e", "b"], "z": ["c"]}})


def split_of(y):
    y = torch.tensor(y, dtype=torch.int64)
    return Split(y.to(torch.uint8).view(-1, 1, 1, 1), y, 10 + torch.arange(len(y)))


def test_a_level_has_its_groups_as_classes():
    view = view_of("group", HIERARCHY)
    seen = view(split_of([0, 1, 2, 3, 4]))
    assert view.classes == ("x", "y", "z")
    assert seen.y.tolist() == [0, 1, 2, 0, 1]
    assert seen.index.tolist() == [10, 11, 12, 13, 14]


def test_a_group_has_its_own_classes_alone_numbered_in_their_order():
    view = view_of("group/y", HIERARCHY)
    seen = view(split_of([4, 1, 2, 0, 4]))
    assert view.classes == ("b", "e")
    assert seen.y.tolist() == [1, 0, 1]
    assert seen.index.tolist() == [10, 11, 14]
    assert seen.x.flatten().tolist() == [4, 1, 4]


@given(st.lists(st.integers(0, 4), max_size=30))
def test_views_of_all_groups_together_have_every_image_once(y):
    parts = [view_of(f"group/{name}", HIERARCHY)(split_of(y)) for name in "xyz"]
    assert sorted(chain(*(part.index.tolist() for part in parts))) == [10 + n for n in range(len(y))]


@pytest.mark.parametrize(
    ("name", "hierarchy", "problem"),
    [
        ("group", None, "data.view 'group': expected data with a hierarchy"),
        ("grup", HIERARCHY, "level: unknown name 'grup'"),
        ("group/w", HIERARCHY, "group: unknown name 'w'; known: x, y, z"),
    ],
)
def test_views_that_do_not_exist_are_one_line(name, hierarchy, problem):
    with pytest.raises(DataError, match=problem):
        view_of(name, hierarchy)


def memory(count=200):
    y = torch.arange(count) % 5
    split = split_of(y.tolist())
    return Memory(test=(split.x, y), train=(split.x, y), classes=tuple("abcde"), hierarchy=HIERARCHY)


def test_subset_and_validation_are_cut_first_so_that_all_views_share_their_images():
    def cut(view):
        return prepare(DataRecipe(source=memory(), validation=0.2, subset=100, test_subset=50, view=view), seed=3)

    flat, groups, parts = cut(None), cut("group"), [cut(f"group/{name}") for name in "xyz"]
    for name in ("train", "validation", "test"):
        own = getattr(flat, name).index.tolist()
        assert getattr(groups, name).index.tolist() == own
        assert sorted(chain(*(getattr(part, name).index.tolist() for part in parts))) == sorted(own)
    assert groups.hierarchy is None
    assert flat.hierarchy == HIERARCHY
    assert groups.fingerprint == flat.fingerprint


def test_a_view_without_training_images_is_refused():
    with pytest.raises(DataError, match="view group/z: expected training images of it; got none"):
        prepare(DataRecipe(source=memory(), subset=2, view="group/z"), seed=1)


def test_selected_classes_are_numbered_in_their_new_order():
    made = Selected(source=memory(10), classes=("d", "a"))()
    assert made.classes == ("d", "a")
    assert made.train.y.tolist() == [1, 0, 1, 0]
    assert made.train.index.tolist() == [0, 3, 5, 8]
    with pytest.raises(DataError, match="selected: memory: unknown name 'f'"):
        Selected(source=memory(10), classes=("d", "f"))()
    with pytest.raises(ValueError, match="different names"):
        Selected(source=memory(10), classes=("d", "d"))


def test_cifar_5x5_has_25_classes_of_cifar_100():
    assert len(set(CIFAR5X5.classes)) == 25
    assert set(CIFAR5X5.classes) <= set(FINE)


def test_labels_that_no_view_has_are_left_out():
    assert relabelled(split_of([0, 3, 4]), [[4], [0]]).y.tolist() == [1, 0]
