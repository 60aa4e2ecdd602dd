"""What training does where memory runs out: it stops with one line, since a smaller batch would be other training.

A step on two halves of a batch is not the step on the batch: batch normalisation takes its statistics over the batch,
objectives such as CURE, AWP and center losses mix its examples, and even where neither does, the sums are rounded in
another order. Evaluation, whose results do not depend on the batch, continues with a smaller one, see `halving`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import TrainingError
from holdfast.halving import is_out_of_memory


@contextmanager
def without_smaller_batch(where: str, batch_size: int, *, saved: bool) -> Iterator[None]:
    """Let an error that memory has run out say what to do.

    Args:
        where: run, step and epoch.
        batch_size: images of a batch.
        saved: whether there is a state to continue from.

    Raises:
        TrainingError: in its place.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        resumed = "it continues from the state that was saved last" if saved else "nothing was saved before"
        raise TrainingError(
            f"{where}: out of memory with a batch of {batch_size} images. The weights depend on train.batch_size, so "
            f"that it is not lowered for you: free memory and repeat the command ({resumed}), or train anew with "
            f"--set train.batch_size={max(1, batch_size // 2)} --fresh"
        ) from error
