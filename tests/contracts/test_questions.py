"""What every question promises, on one cheap instance of each."""

import subprocess
import sys

import pytest
import torch

from holdfast.attacks import PGD
from holdfast.data import Split
from holdfast.questions import QUESTIONS
from holdfast.testing.question import CHECKS, Trial, measured, same_answers
from holdfast.threat import Linf
from tests.contracts import cheap
from tests.zoo import images, labels, linear, normed

CHECKED = (PGD(threat=Linf(0.1), steps=2),)
TRAIN = Split(images(12, seed=1), labels(12, 3, seed=1), torch.arange(12))
SPLIT = Split(images(7), labels(7, 3), torch.tensor([30, 3, 12, 0, 9, 21, 6]))


def trial(name):
    question = cheap.cheap(cheap.QUESTIONS, name, "QUESTIONS")
    return Trial(question=question, model=normed(), split=SPLIT, train=TRAIN, checks=CHECKED, companion=linear(3))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(name, check):
    check(trial(name))


@pytest.mark.parametrize("most", [6, 3])
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_that_run_out_of_memory_have_the_same_answers(name, most):
    multiplying = {"thickness", "sra"}  # these ask about several rows for one image
    if name in multiplying and most == 3:
        pytest.skip("asks about more rows for a single image")
    if name == "lipschitz":
        pytest.skip("bounds of networks with hooks, with which memory runs out here, are refused")
    one = trial(name)
    expected = measured(one, batch_size=7)

    def cramped(network, arguments):
        if len(arguments[0]) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    handle = one.model.register_forward_pre_hook(cramped)
    try:
        same_answers(expected, measured(one, batch_size=7))
    finally:
        handle.remove()


def test_questions_start_without_torch():
    code = "import sys, holdfast.questions as q; list(q.QUESTIONS.values()); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
