"""Errors that a user can cause, as Snakemake reports them."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from snakemake.exceptions import WorkflowError

from hardgrpo.runtime.errors import UserError

P, T = ParamSpec("P"), TypeVar("T")


def raises_workflow_error(function: Callable[P, T]) -> Callable[P, T]:
    """The function, raising a `UserError` as a `WorkflowError`: Snakemake prints its message and the lines of rules that led to it."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise WorkflowError(str(error)) from None

    return run
