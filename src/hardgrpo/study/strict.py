"""The base class of the configuration's objects, and types with restricted values that several
classes use."""

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]  # a folder can have this name
Names = Annotated[list[str], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]

# context of a validation that accepts values that exclude each other
MAY_CONTRADICT = {"contradictions": "accepted"}


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


def sorted_json(value) -> str:
    """A value as JSON with sorted keys. Snakemake compares parameters as text, and the order of
    keys must not matter."""
    return json.dumps(plain(value), sort_keys=True)


def plain(value):
    """A value in which mappings replace objects of the configuration."""
    if isinstance(value, Strict):
        return value.entry
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


class Strict(BaseModel):
    """An object of the configuration. Unknown keys, values of another type, and null
    (except for keys in `nullable`) are refused.

    The text below a field is its description in error messages, in `hardgrpo keys` and in config/schema.json.
    Without a text, a field whose value is an object has the description of the object's class.

    `entry` is the mapping from which the object was made. The object can also be read like this
    mapping, which lacks the keys that the configuration leaves out. `changed` changes both; pydantic's
    `model_copy` changes only the attributes.
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
    _entry: dict = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, entry: dict | Self) -> Self:
        """The object with an entry of a checked configuration. Values that exclude each other are
        accepted."""
        if isinstance(entry, cls):
            return entry
        return cls.model_validate(entry, context=MAY_CONTRADICT)

    def changed(self, changes: dict) -> Self:
        """The object with other values of some keys."""
        return self.of(self._entry | changes)

    @property
    def entry(self) -> dict:
        return self._entry

    def __getitem__(self, key: str) -> Any:
        return self._entry[key]

    def __contains__(self, key: str) -> bool:
        return key in self._entry

    def get(self, key: str, default: Any = None) -> Any:
        return self._entry.get(key, default)

    @model_validator(mode="wrap")
    @classmethod
    def keep_entry(cls, values: object, make: Callable[[object], Self]) -> Self:
        made = make(values)
        if isinstance(values, dict):
            made._entry = values
        return made

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
        """Yield pairs (key, message) for values that exclude each other. The key is "" if the
        message is about the whole object; the message says what is wrong and what to do."""
        yield from ()
