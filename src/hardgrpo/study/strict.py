"""The base class of the configuration's objects, and types with restricted values that several
classes use."""

import json
from collections.abc import Iterator
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]  # a folder can have this name
Names = Annotated[list[str], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
# a number that is written to parameters as it is configured: 16 does not become 16.0
Number = Annotated[int | float, WithJsonSchema({"type": "number"})]
PositiveNumber = Annotated[
    int | float, Field(gt=0), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]

# context of a validation that accepts values that exclude each other
MAY_CONTRADICT = {"contradictions": "accepted"}


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


def sorted_json(value) -> str:
    """JSON with sorted keys: Snakemake compares parameters as text."""
    return json.dumps(plain(value), sort_keys=True)


def plain(value):
    if isinstance(value, Strict):
        return value.entry
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


class Strict(BaseModel):
    """An object of the configuration. Unknown keys, values of another type, and null
    (except for keys in `nullable`) are refused.

    The text below a field is its description in `hardgrpo keys` and in config/schema.json.
    Without a text, a field whose value is an object has the description of the object's class.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )
    nullable: ClassVar[frozenset[str]] = frozenset()  # keys for which null is a value

    @classmethod
    def of(cls, entry: dict | Self) -> Self:
        """The object of a checked entry, whose values may exclude each other."""
        if isinstance(entry, cls):
            return entry
        return cls.model_validate(entry, context=MAY_CONTRADICT)

    @property
    def entry(self) -> dict:
        """The configured keys with their values, as plain data."""
        return self.model_dump(exclude_unset=True, by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def refuse_null(cls, values: object) -> object:
        """Refuse keys without a value. A default applies only if the key is left out."""
        if not isinstance(values, dict):
            return values
        problems = [
            (str(key), "the value is missing; add a value, or remove the key")
            for key, value in values.items()
            if value is None and key not in cls.nullable
        ]
        if problems:
            raise PydanticCustomError("null", "keys without a value", {"problems": problems})
        return values

    @model_validator(mode="after")
    def refuse_contradictions(self, info: ValidationInfo) -> Self:
        if info.context is MAY_CONTRADICT:
            return self
        if problems := list(self.contradictions()):
            raise PydanticCustomError(
                "contradiction", "values that exclude each other", {"problems": problems}
            )
        return self

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Pairs (key, what is wrong and what to do) for values that exclude each other; the key is
        "" for the whole object."""
        yield from ()
