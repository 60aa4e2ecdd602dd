"""Mutants of a Python source: copies with one operator, number, condition or call changed.

Positions come from the syntax tree and changes are made in the text, so that a mutant differs in one place and keeps
its line numbers. Left alone: docstrings, annotations, decorators, `__all__`, what stands in a `raise`, and `strict`,
which asserts what is so anyway.
"""

import ast
import difflib
import itertools
import re
from dataclasses import dataclass

OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
UNARY = {ast.USub: b"-", ast.Not: b"not", ast.Invert: b"~"}
PAIRS = "min max, all any, amin amax, argmin argmax, floor ceil, clamp_min clamp_max, minimum maximum, zeros ones"
OPPOSITE = {a: b for pair in PAIRS.split(", ") for a, b in (pair.split(), pair.split()[::-1])}


@dataclass(frozen=True)
class Mutant:
    """One change of a file: bytes from `start` to `end` become `text`."""

    file: str
    source: bytes
    start: int
    end: int
    text: bytes

    @property
    def mutated(self):
        return self.source[: self.start] + self.text + self.source[self.end :]

    @property
    def line(self):
        return self.source.count(b"\n", 0, self.start) + 1

    @property
    def change(self):
        """The lines that differ, before and after."""
        old, new = (text.decode().splitlines() for text in (self.source, self.mutated))
        changed = list(difflib.unified_diff(old, new, n=0, lineterm=""))[3:]
        return tuple("\n".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+")


def mutants(file, source):
    """All mutants of a source, in the order of the text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node):
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    changes = (change for node in _nodes(ast.parse(source)) for change in _changes(node, span, source))
    return [Mutant(file, source, *change) for change in sorted(set(changes))]


def _nodes(node):
    """The nodes that carry behaviour."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _passive(child):
                yield from _nodes(child)


def _passive(node):
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Expr(value=ast.Constant()) | ast.keyword(arg="strict"):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _changes(node, span, source):
    """The changes of one node: (start, end, text)."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            yield from _between(op, left, right, span, source)
        case ast.BoolOp(op=op, values=values):
            for left, right in itertools.pairwise(values):
                yield from _between(op, left, right, span, source)
        case ast.Compare(left=left, ops=ops, comparators=others):
            for op, first, second in zip(ops, [left, *others], others, strict=False):
                yield from _between(op, first, second, span, source)
        case ast.AugAssign(target=target, op=op, value=value):
            yield from _between(op, target, value, span, source)
        case ast.UnaryOp(op=op) if type(op) in UNARY:
            start, _ = span(node)
            yield start, start + len(UNARY[type(op)]), b""
        case ast.Constant(value=bool() | int() | float() as value):
            yield *span(node), _other(value)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in OPPOSITE:
            _, end = span(node)
            yield end - len(name), end, OPPOSITE[name].encode()
        case ast.If(test=test, body=[ast.Raise() | ast.Return() | ast.Continue()]):
            yield *span(test), b"False"
        case ast.IfExp(test=ast.Name() | ast.Attribute() | ast.Call() as test):
            start, _ = span(test)
            yield start, start, b"not "
        case ast.Expr(value=ast.Call()):
            yield *span(node), b"None"


def _between(op, left, right, span, source):
    """The operator between two operands, replaced."""
    if type(op) not in OPERATORS:
        return
    old, new = OPERATORS[type(op)]
    start, end = span(left)[1], span(right)[0]
    word = r"\b" if old[0].isalpha() else ""
    place = re.search(word + r"\s+".join(map(re.escape, old.split())) + word, source[start:end].decode())
    if place and "#" not in source[start:end].decode():
        yield start + place.start(), start + place.end(), new.encode()


def _other(value):
    if isinstance(value, bool):
        return str(not value).encode()
    if isinstance(value, int):
        return str(value + 1).encode()
    return repr(value * 2 if value else 1.0).encode()
