"""Errors that a user can cause, as Snakemake reports them."""

import contextlib
from collections.abc import Iterator

from snakemake.exceptions import WorkflowError

from hardgrpo.runtime.errors import UserError


@contextlib.contextmanager
def as_workflow_error() -> Iterator[None]:
    """Raise a `UserError` as a `WorkflowError`, which Snakemake prints without a traceback of Python."""
    try:
        yield
    except UserError as error:
        raise WorkflowError(str(error))  # noqa: B904 (Snakemake prints no cause)
