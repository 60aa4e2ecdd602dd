"""The cost of a training step, counted in passes over the batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passes:
    """Passes of one step through the network; a standard step is one forward and one backward.

    Every call of the network counts as a forward pass and every call of the differentiator as a backward pass,
    whatever it goes through: a backward pass through a gradient does more work than one through a loss, and one that
    needs only the gradient of the input does less. Where a loss has several plain forward passes, such as those of
    clean and adversarial images, going back through each counts; a batch of three times the size counts three times.

    Args:
        forward: calls of the network on a batch of the full size.
        backward: gradients, that of the weights at the end included.
    """

    forward: int
    backward: int

    @property
    def steps(self) -> float:
        """The cost in standard steps, where a backward pass counts as two forward passes."""
        return (self.forward + 2 * self.backward) / 3

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)
