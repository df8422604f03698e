"""Turn errors that a user can cause into errors that Snakemake reports without a traceback."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from snakemake.exceptions import WorkflowError

from hardgrpo.runtime.errors import UserError

P, T = ParamSpec("P"), TypeVar("T")


def raises_workflow_error(function: Callable[P, T]) -> Callable[P, T]:
    """A function like `function` that raises `WorkflowError` instead of `UserError`. For a
    `WorkflowError`, Snakemake prints the message and the lines of the rules from which the function
    was called."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise WorkflowError(str(error)) from None

    run.__signature__ = inspect.signature(function)  # Snakemake asks for it once per job
    return run
