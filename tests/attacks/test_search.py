import pytest
import torch

from holdfast.attacks import FGSM, PGD
from holdfast.attacks.search import Aim, Front
from holdfast.errors import DataError
from holdfast.losses import cross_entropy, margin, towards
from holdfast.rng import Streams
from holdfast.threat import Linf
from holdfast.wrappers import Counted
from tests.zoo import images, labels, linear

LOGITS = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0, 0, 1])


def front(count=3, leave=True):
    return Front(linear(3), images(count), Aim.of(margin, Y[:count], None), Streams(0, "", count), leave=leave)


def values(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def test_an_untargeted_aim_is_reached_by_any_wrong_class():
    aim = Aim.of(cross_entropy, Y, None)
    assert aim.reached(LOGITS).tolist() == [False, True, False]
    assert aim.loss is cross_entropy


def test_a_targeted_aim_is_reached_by_the_target_alone():
    aim = Aim.of(cross_entropy, Y, torch.tensor([1, 2, 1]))
    assert aim.reached(LOGITS).tolist() == [False, True, True]
    assert aim.loss == towards(cross_entropy)


def test_a_selection_of_an_aim_keeps_its_kind():
    aim = Aim.of(cross_entropy, Y, torch.tensor([1, 2, 1]))[torch.tensor([True, False, True])]
    assert aim.labels.tolist() == [1, 1]
    assert aim.targeted


def test_the_point_of_highest_loss_is_kept_per_example():
    search = front(leave=False)
    first, second = images(3, seed=1), images(3, seed=2)
    assert search.record(first, values(1.0, 5.0, 0.0), LOGITS) is None
    assert search.record(second, values(2.0, 4.0, 0.0), LOGITS) is None
    assert torch.equal(search.best_points, torch.stack((second[0], first[1], first[2])))
    assert len(search) == 3


def test_a_point_never_looked_at_is_the_clean_one():
    search = front()
    assert torch.equal(search.best_points, images(3))


def test_who_is_lost_keeps_that_point_whatever_its_loss_and_leaves():
    search = front()
    search.record(images(3, seed=1), values(1.0, 9.0, 1.0), LOGITS * torch.tensor([[1.0], [-1.0], [1.0]]))
    assert len(search) == 3
    stay = search.record(images(3, seed=2), values(0.5, 2.0, 3.0), LOGITS)  # the loss of the lost one is lower
    assert stay.tolist() == [True, False, True]
    assert len(search) == 2
    assert torch.equal(
        search.best_points, torch.stack((images(3, seed=1)[0], images(3, seed=2)[1], images(3, seed=2)[2]))
    )
    assert torch.equal(search.x, images(3)[stay])
    assert search.aim.labels.tolist() == [0, 1]


def test_rows_find_their_place_after_others_left():
    search = front()
    search.record(images(3), values(0.0, 0.0, 0.0), LOGITS)
    late = images(2, seed=3)
    search.record(late, values(1.0, 1.0), LOGITS[[0, 2]])
    assert torch.equal(search.best_points[[0, 2]], late)
    assert torch.equal(search.best_points[1], images(3)[1])


def test_streams_stay_with_their_examples():
    search = front()
    search.record(images(3), values(0.0, 0.0, 0.0), LOGITS)
    like = torch.empty(2, 4, dtype=torch.float64)
    assert torch.equal(search.rng.uniform(like), Streams(0, "", [0, 2]).uniform(like))


def test_a_counting_model_is_told_who_stays():
    model = Counted(linear(3), torch.zeros(3, dtype=torch.int64))
    search = Front(model, images(3), Aim.of(margin, Y, None), Streams(0, "", 3), leave=True)
    search.record(images(3), values(0.0, 0.0, 0.0), LOGITS)
    search.model(images(2))
    assert model.counts.tolist() == [1, 0, 1]


def test_nobody_is_asked_when_everybody_left():
    search = front()
    search.record(images(3), values(0.0, 0.0, 0.0), -LOGITS)
    search.record(images(len(search)), values(*[0.0] * len(search)), LOGITS[[1] * len(search)])
    assert len(search) == 0
    search.model = None
    search.look(images(0))


def test_a_look_leaves_no_graph():
    search = front(leave=False)
    search.look(images(3, seed=1))
    assert not search.best_points.requires_grad


@pytest.mark.parametrize("attack", [FGSM(threat=Linf(0.1)), PGD(threat=Linf(0.1), steps=2)])
def test_images_outside_the_box_are_refused(attack):
    x, y = images(3), labels(3, 3)
    with pytest.raises(DataError, match=r"images in \[0, 1\]; got values from"):
        attack(linear(3), 2 * x, y)
