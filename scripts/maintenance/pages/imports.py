"""The import graph of docs/design.md, from the code."""

from hardgrpo.runtime import code

import graphlib
from collections import defaultdict
from pathlib import Path


def modules(root: Path) -> dict[Path, set[Path]]:
    """{module of the library or program: the modules that it imports}."""
    sources = [*(root / "src").rglob("*.py"), *(root / "scripts").rglob("*.py")]
    return {
        path: {module for module in code.dependencies(path) if module.suffix == ".py"} - {path}
        for path in map(Path.resolve, sources)
    }


def packages(root: Path) -> dict[str, set[str]]:
    """{sub-package of the library: the sub-packages that it imports}."""
    graph: dict[str, set[str]] = defaultdict(set)
    # `modules` returns imported files below `code.SOURCE`, which may belong to another clone
    source, library = (root / "src/hardgrpo").resolve(), code.SOURCE / "hardgrpo"
    names = {path.parent.name for path in source.glob("*/__init__.py")}
    for path, imported in modules(root).items():
        if path.is_relative_to(source) and len(path.relative_to(source).parts) > 1:
            imported_packages = {
                module.relative_to(library).parts[0]
                for module in imported
                if module.is_relative_to(library)
            } & names
            name = path.relative_to(source).parts[0]
            graph[name] |= imported_packages - {name}
    return dict(graph)


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without implied arrows: a -> b and b -> ... -> c imply a -> c."""

    def reach(name: str) -> set[str]:
        return graph[name].union(*map(reach, graph[name]))

    return {name: imports.difference(*map(reach, imports)) for name, imports in graph.items()}


def diagram(root: Path) -> str:
    """The library's graph as Mermaid text. A cycle of sub-packages raises `graphlib.CycleError`."""
    library = packages(root)
    order = list(
        graphlib.TopologicalSorter(
            {name: sorted(library[name]) for name in sorted(library)}
        ).static_order()
    )
    arrows = reduced(library)
    lines = [
        f"    {name} --> {imported}"
        for name in order
        for imported in sorted(arrows[name], key=order.index)
    ]
    return "\n".join(["```mermaid", "graph BT", *lines, "```"])
