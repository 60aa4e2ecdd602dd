"""What `--help` says of the presets is so."""

import pytest
import torch

import holdfast
from holdfast.cli.presets import PRESETS as STATED
from holdfast.cli.presets import limits, table
from holdfast.presets import PRESETS, preset


class Unmoved:
    """Answers the same class whatever the image, by a wide margin, and counts what it is asked."""

    def __init__(self):
        self.plain = self.differentiated = 0

    def __call__(self, x):
        if x.requires_grad and torch.is_grad_enabled():
            self.differentiated += len(x)
        else:
            self.plain += len(x)
        return torch.tensor([0.0] * 9 + [100.0]) + 1e-3 * x.flatten(1)[:, :10]


@pytest.mark.parametrize("name", PRESETS)
def test_stated_passes_are_those_of_an_image_that_nothing_breaks(name):
    x, y = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([9])
    model = Unmoved()
    assert holdfast.evaluate(model, x, y, name).rows["correct"].all()
    around = 3  # does it answer with a record, has it the classes, are its outputs probabilities?
    assert (model.plain - around, model.differentiated) == (STATED[name].passes, STATED[name].gradients)


def test_every_preset_is_in_the_help_and_those_without_autoattack_name_their_limits():
    assert PRESETS.keys() == STATED.keys()
    assert all(f"\n  {name} " in table() for name in PRESETS)
    for name in PRESETS:
        strongest = any(word in name for word in ("autoattack", "common"))
        assert (limits(name) is None) == strongest
    assert limits("{pgd: {}}") is None
    assert limits(None) is None


def test_autoattack_is_one_norm_or_both():
    linf, l2 = (preset(f"autoattack-{norm}")[1:] for norm in ("linf", "l2"))
    assert preset("autoattack")[1:] == [*linf, *l2]
    assert [type(one.threat).__name__ for one in (*linf, *l2)] == ["Linf", "L2"]


def test_common_has_every_kind_and_severity_of_the_benchmark():
    grid = [(one.kind, one.severity) for one in preset("common")[1:]]
    assert len(set(grid)) == 75
    assert {severity for _, severity in grid} == {1, 2, 3, 4, 5}
