"""Turn errors that a user can cause into errors that Snakemake reports without a traceback."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from snakemake.exceptions import WorkflowError

from hardgrpo.runtime.errors import UserError

P, T = ParamSpec("P"), TypeVar("T")


def raises_workflow_error(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, but raising `WorkflowError` instead of `UserError`. Snakemake prints the message
    of a `WorkflowError` with the place in the rules, and no traceback."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise WorkflowError(str(error)) from None

    # Computed once here, because Snakemake asks for the signature in every job.
    run.__signature__ = inspect.signature(function)
    return run
