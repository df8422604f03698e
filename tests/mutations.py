"""Change random operators and constants of the project, one at a time, and report which changes the
tests notice: `make nightly`, or `.venv/bin/python tests/mutations.py --number 40 --seed 7`.

Each change is made in a clone of the last commit. The clone runs the unit tests of the changed
module's package and the tests of exact files, up to the first failure. A change that no test
notices may be equivalent to the original; otherwise it needs a test.
"""

import argparse
import ast
import copy
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("analysis", "data", "grading", "online", "sampling", "selection", "training")
SECONDS = 600  # limit for the tests of one change; an endless loop counts as noticed
SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And,
}  # fmt: skip


def changed(node: ast.AST) -> ast.AST | None:
    """A copy of an expression with another operator, constant or condition; None if no change is
    known for it."""
    node = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in SWAPPED:
            node.ops[0] = SWAPPED[type(operator)]()
        case ast.BinOp() | ast.BoolOp() if type(node.op) in SWAPPED:
            node.op = SWAPPED[type(node.op)]()
        case ast.UnaryOp(op=ast.Not()):
            node = node.operand
        case ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value = node.value + 1 if isinstance(node.value, int) else 1.5 * node.value + 0.1
        case _:
            return None
    return node


def expressions(tree: ast.AST):
    """The expressions of a module, without annotations, texts and messages of errors."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr | ast.Raise):
            continue
        if isinstance(node, ast.expr):
            yield node
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        yield from (found for found in expressions(node) if found not in annotations)


def replace(source: str, node: ast.expr, new: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    content = source.encode()
    return (content[:start] + f"({new})".encode() + content[end:]).decode()


def related_tests(module: Path) -> list[str]:
    """The unit tests that import a module's package, those that import the module itself first; all
    unit tests if none does. Then the exact files of a small run, and the exact tables of made-up
    studies."""
    package, name = module.parent.name, module.stem
    imports_module = re.compile(
        rf"hardgrpo\.{package}\.{name}\b|from hardgrpo\.{package} import [^\n]*\b{name}\b"
    )
    texts = {path: path.read_text() for path in (ROOT / "tests/unit").glob("test_*.py")}
    related = [path for path, text in texts.items() if f"hardgrpo.{package}" in text]
    related.sort(key=lambda path: (not imports_module.search(texts[path]), path.name))
    unit_tests = [str(path.relative_to(ROOT)) for path in related] or ["tests/unit"]
    exact = [f"tests/end_to_end/test_exact_{name}.py" for name in ("run", "tables")]
    return [*unit_tests, *exact]


def first_failure(folder: Path, tests: list[str]) -> str:
    """The first test that fails, or why pytest ended early; "" if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS,
            env=os.environ | {"PYTHONPATH": str(folder / "src")},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s"
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failures or not done.returncode:
        return failures[0] if failures else ""
    return f"pytest ended with status {done.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    noticed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), temporary], check=True)
        sites = [
            (path, node)
            for package in PACKAGES
            for path in sorted((folder / "src/hardgrpo" / package).glob("*.py"))
            for node in expressions(ast.parse(path.read_text()))
            if changed(node) is not None
        ]
        for path, node in random.Random(arguments.seed).sample(sites, arguments.number):
            source, new = path.read_text(), ast.unparse(changed(node))
            path.write_text(replace(source, node, new))
            failure = first_failure(folder, related_tests(path))
            path.write_text(source)
            noticed += bool(failure)
            place = f"{path.relative_to(folder)}:{node.lineno}"
            print(f"{place}: {ast.unparse(node)} -> {new}: {failure or 'NOT NOTICED'}", flush=True)
    print(f"{noticed} of {arguments.number} changes were noticed (seed {arguments.seed})")


if __name__ == "__main__":
    main()
