"""The import graph of docs/design.md, from the code."""

from hardgrpo.runtime import code

import graphlib
from collections import defaultdict
from pathlib import Path


def modules(root: Path) -> dict[Path, set[Path]]:
    """Every module of the library and every program, with the modules that it imports."""
    sources = [*(root / "src").rglob("*.py"), *(root / "scripts").rglob("*.py")]
    return {
        path: {other for other in code.dependencies(path) if other.suffix == ".py"} - {path} for path in map(Path.resolve, sources)
    }


def packages(root: Path) -> dict[str, set[str]]:
    """The sub-packages that each sub-package of the library imports."""
    graph: dict[str, set[str]] = defaultdict(set)
    source, library = (root / "src/hardgrpo").resolve(), code.SOURCE / "hardgrpo"  # `dependencies` gives files of the latter
    names = {path.parent.name for path in source.glob("*/__init__.py")}
    for path, imported in modules(root).items():
        if path.is_relative_to(source) and len(path.relative_to(source).parts) > 1:
            used = {other.relative_to(library).parts[0] for other in imported if other.is_relative_to(library)} & names
            name = path.relative_to(source).parts[0]
            graph[name] |= used - {name}
    return dict(graph)


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without arrows that others imply: a -> c is implied by a -> b and b -> ... -> c."""

    def reach(name: str) -> set[str]:
        return graph[name].union(*(reach(other) for other in graph[name]))

    return {name: {one for one in used if not any(one in reach(other) for other in used - {one})} for name, used in graph.items()}


def drawn(root: Path) -> str:
    """Mermaid's text for the library. A circle among sub-packages is an error."""
    library = packages(root)
    order = list(graphlib.TopologicalSorter({name: sorted(library[name]) for name in sorted(library)}).static_order())
    arrows = reduced(library)
    lines = [f"    {name} --> {used}" for name in order for used in sorted(arrows[name], key=order.index)]
    return "\n".join(["```mermaid", "graph BT", *lines, "```"])
