"""Turn errors that a user can cause into errors that Snakemake reports without a traceback."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from snakemake import exceptions

from hardgrpo.runtime.errors import UserError

P, T = ParamSpec("P"), TypeVar("T")


class WorkflowError(exceptions.WorkflowError):
    """An error that a user can cause. Snakemake prints only its message, because it does not find
    the places in the code that an error has passed."""

    # A property, because contextlib assigns the traceback of an error that passes a `with` block.
    __traceback__ = property(lambda self: None, lambda self, traceback: None)


def raises_workflow_error(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, but raising `WorkflowError` instead of `UserError`."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise WorkflowError(str(error)) from None

    # Computed once here, because Snakemake asks for the signature in every job.
    run.__signature__ = inspect.signature(function)
    return run
