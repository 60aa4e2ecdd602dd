"""Progress of runs on the screen, and what becomes of an interruption."""

import os
import signal
from types import SimpleNamespace

import pytest

from holdfast.cli.drawing import draw
from holdfast.conduct import Trained, Training
from holdfast.training import Epoch, Step

JOB = SimpleNamespace(name="a", run=SimpleNamespace(info=dict, path=None))


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interruption_during_a_step_waits_for_its_end():
    taken = []

    def work():
        for step in (1, 2, 3):
            if step == 2:
                interrupt()
            taken.append(step)
            yield Training(JOB, Step(step, 3, 1, 0.5))

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        draw(work(), quiet=True)
    assert taken == [1, 2]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interruption_that_comes_after_the_last_step_is_not_lost():
    def work():
        yield Training(JOB, Step(1, 1, 1, 0.5))
        interrupt()
        yield Trained(JOB, new=True)
        raise AssertionError("the work went on")

    with pytest.raises(KeyboardInterrupt):
        draw(work(), quiet=True)


def test_an_alarm_has_its_first_epoch_and_how_many_there_were(capsys):
    alarmed = [Epoch(number, 1, 0.1, {}, None, False, 1.0, alarm="the network ignores its input") for number in (2, 3)]
    draw(iter([*(Training(JOB, epoch) for epoch in alarmed), Trained(JOB, new=False)]))
    assert "a: from epoch 2 on (2 epochs): the network ignores its input" in capsys.readouterr().out.splitlines()
