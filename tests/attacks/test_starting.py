import pytest
import torch

from holdfast.attacks import EOT, HopSkipJump, StartingFrom
from holdfast.attacks.search import Aim
from holdfast.attacks.starting import Attempt, Pool, note_not_run, starting_images
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted, ExpectedOverRandomness, behind, narrow, network
from tests.zoo import images, linear


def line(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


POOL = Pool(line(0.0, 0.2, 0.5, 0.9), torch.tensor([0, 1, 1, 2]))


@pytest.mark.parametrize("threat", [L2(1.0), Linf(1.0)], ids=str)
def test_the_nearest_image_of_another_class_or_of_the_target(threat):
    x = line(0.1, 0.4, 0.95)
    away = Aim.of(margin, torch.tensor([0, 1, 2]), None)
    towards = Aim.of(margin, torch.tensor([0, 1, 2]), torch.tensor([2, 0, 3]))
    for aim, rank, expected, available in [
        (away, 0, (0.2, 0.0, 0.5), [True] * 3),
        (away, 1, (0.5, 0.9, 0.2), [True] * 3),
        (away, 2, (0.9, 0.4, 0.0), [True, False, True]),  # itself where there is none
        (towards, 0, (0.9, 0.0, 0.95), [True, True, False]),
        (towards, 9, (0.1, 0.4, 0.95), [False] * 3),
    ]:
        z, some = POOL.nearest(threat, x, aim, rank)
        assert torch.equal(z, line(*expected))
        assert some.tolist() == available


def test_notes_find_their_example_through_other_wrappers_and_selections():
    notes = [None] * 5
    model = Counted(Attempt(linear(3), notes, lambda: POOL), torch.zeros(5, dtype=torch.int64))
    part = narrow(narrow(model, torch.tensor([0, 2, 3, 4])), torch.tensor([True, True, False, True]))
    averaged = ExpectedOverRandomness(part, 2)
    assert starting_images(averaged) is POOL
    assert note_not_run(averaged, torch.tensor([False, True, True]), "why")
    assert notes == [None, None, "why", None, "why"]
    other = behind(part, lambda _: linear(4))
    assert note_not_run(other, torch.tensor([True, False, False]), "else")
    assert notes == ["else", None, "why", None, "why"]
    assert network(model) is not model


def test_a_plain_model_has_no_images_and_keeps_no_notes():
    assert starting_images(linear(3)) is None
    assert not note_not_run(linear(3), torch.ones(2, dtype=torch.bool), "why")


def test_given_images_leave_the_notes_to_who_keeps_them():
    notes, x = [None] * 3, images(3)

    class Leaves:
        threat = L2(1.0)

        def __call__(self, model, x, y, *, target=None, rng=None):
            assert starting_images(model).classes.tolist() == linear(3)(images(6)).argmax(1).tolist()
            note_not_run(narrow(model, torch.tensor([1, 2])), torch.tensor([False, True]), "why")
            return x

    counts = torch.zeros(3, dtype=torch.int64)
    StartingFrom(attack=Leaves(), images=images(6))(Counted(Attempt(linear(3), notes), counts), x, None)
    assert notes == [None, None, "why"]
    assert counts.tolist() == [0, 0, 0]  # the look at the images is nobody's query


def test_given_images_do_not_make_results_depend_on_the_batch():
    model, x = linear(5), images(9)
    y = model(x).argmax(1)
    attack = StartingFrom(
        attack=EOT(attack=HopSkipJump(threat=L2(4.0), steps=2, samples=10), draws=1), images=images(20)
    )
    whole = attack(model, x, y, rng=Streams(0, "", 9))
    for size in (1, 4):
        parts = [attack(model, x[r], y[r], rng=Streams(0, "", r)) for r in torch.arange(9).split(size)]
        torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-9)
