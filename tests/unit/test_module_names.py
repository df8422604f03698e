"""Every name that code takes from a module of this project is defined in that module. On a machine
without a GPU or vLLM, other tests do not execute the programs that need them, and would not notice
that such a program calls a function by an old name."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT

FILES = [path for folder in ("src", "scripts", "tests") for path in (ROOT / folder).rglob("*.py")]


def module_names(path: Path) -> list[str]:
    """The names under which a file can be imported: hardgrpo.data.tasks for a module; write_locks
    and maintenance.write_locks for a program."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return [".".join(parts[1:])] if parts[0] == "src" else [parts[-1], ".".join(parts[-2:])]


TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
FILE_COUNTS = Counter(name for path in FILES for name in module_names(path))
# {name: file}, without names that several files have, such as conftest
MODULES = {name: path for path in FILES for name in module_names(path) if FILE_COUNTS[name] == 1}


def defined_names(path: Path) -> set[str]:
    """The names that a module defines or imports outside of functions and classes."""
    names: set[str] = set()
    nodes: list[ast.AST] = list(TREES[path].body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        nodes.extend(ast.iter_child_nodes(node))
    return names


DEFINED = {name: defined_names(path) for name, path in MODULES.items()}
# a module with `__getattr__` computes its names, so it is not checked
DEFINED = {name: names for name, names in DEFINED.items() if "__getattr__" not in names}


def is_defined(module: str, name: str) -> bool:
    return f"{module}.{name}" in MODULES or name in DEFINED[module] or name.startswith("__")


def missing_names(tree: ast.Module) -> Iterator[str]:
    """`line: module.name` for each name that a file takes from a module of this project, but that
    the module does not define."""
    aliases: dict[str, str] = {}  # {name in the file: module of this project}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if (full_name := f"{node.module}.{alias.name}") in DEFINED:
                    aliases[alias.asname or alias.name] = full_name
                elif node.module in DEFINED and not is_defined(node.module, alias.name):
                    yield f"{node.lineno}: {full_name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in DEFINED and (alias.asname or "." not in alias.name):
                    aliases[alias.asname or alias.name] = alias.name
    # attributes of a module are not checked if a parameter or variable of the file has its name
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            aliases.pop(node.arg, None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            aliases.pop(node.id, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id)
            if module and isinstance(node.ctx, ast.Load) and not is_defined(module, node.attr):
                yield f"{node.lineno}: {module}.{node.attr}"


def test_every_name_that_code_takes_from_a_module_is_defined():
    missing = [
        f"{path.relative_to(ROOT)}:{name}"
        for path, tree in TREES.items()
        for name in missing_names(tree)
    ]
    assert not missing, "\n".join(missing)


def test_a_name_that_a_module_does_not_define_is_reported():
    text = "from hardgrpo.grading import graders\nfrom hardgrpo.grading.graders import no_rule\ngraders.no_grade('')\n"
    assert list(missing_names(ast.parse(text))) == [
        "2: hardgrpo.grading.graders.no_rule",
        "3: hardgrpo.grading.graders.no_grade",
    ]
