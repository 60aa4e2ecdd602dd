"""Matrices of transfer as files: which sources, attacks and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.attacks.persistence import check_persistent
from holdfast.errors import RecipeError
from holdfast.recipe.load import override, places_of, read_recipe_text, read_yaml
from holdfast.recipe.schema import DataRecipe, EvaluateRecipe
from holdfast.recipe.strict import parse
from holdfast.types import Attack


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Sources x attacks x targets, on the same test images.

    Args:
        name: of the matrix; also its directory.
        seed: of everything random in the attacks; `{seed}` in a path stands for it.
        sources: runs whose networks are attacked: directories (the best weights, else the last) or weights files.
        targets: runs whose networks the points are tried on; none for the sources.
        attacks: how the sources are attacked; they must go to the end.
        data: the images; None for the test images of the first source.
        test_subset: only this many of them, drawn at random and balanced over the classes.
        test_first: only the first so many.
        evaluate: sizes of blocks and batches.
    """

    name: str
    seed: int = 0
    sources: tuple[str, ...]
    targets: tuple[str, ...] = ()
    attacks: tuple[Attack, ...]
    data: DataRecipe | None = None
    test_subset: int | None = None
    test_first: int | None = None
    evaluate: EvaluateRecipe = field(default_factory=EvaluateRecipe)

    def __post_init__(self) -> None:
        for name in ("sources", "attacks"):
            if not getattr(self, name):
                raise ValueError(f"{name}: expected at least one")
        for name in ("sources", "targets"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}: expected each run once")
        if self.test_subset is not None and self.test_first is not None:
            raise ValueError("expected test_subset or test_first, got both")
        for attack in self.attacks:
            check_persistent("a matrix", attack)

    def images(self, of_first_source: DataRecipe) -> DataRecipe:
        """Which images it is about."""
        data = self.data or of_first_source
        if self.test_subset is None and self.test_first is None:
            return data
        return replace(data, test_subset=self.test_subset, test_first=self.test_first)


def load_matrix(path: Path | str, overrides: Sequence[str] = ()) -> Matrix:
    """The matrix that a file describes.

    Args:
        path: the file.
        overrides: such as `test_subset=100`.

    Raises:
        RecipeError: one line with file, line and what was expected.
    """
    path = Path(path)
    content, lines = read_yaml(read_recipe_text(path), path)
    if not isinstance(content, dict):
        raise RecipeError(f"{path}: expected a mapping with sources and attacks; got {type(content).__name__}")
    for text in overrides:
        override(content, text, Matrix, example="test_subset=100")
    content.setdefault("name", path.stem)
    matrix: Matrix = parse(Matrix, content, where=places_of(path, lines))
    return matrix
