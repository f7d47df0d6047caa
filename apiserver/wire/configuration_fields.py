"""Reads the objects of configuration files strictly: an unknown field is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from apiserver import wire

T = TypeVar("T")

_TYPES: Final = {str: "a string", int: "an integer", bool: "true or false", list: "a list", dict: "an object"}


class InvalidConfiguration(ValueError):
    """A configuration file that is not valid. The message, one line, is for the operator."""


def decode(content: bytes, ignored: list[str] | None = None) -> Any:
    """Returns the document in a file: YAML, or JSON. Raises InvalidConfiguration.

    ignored: collects duplicate members, which are errors without it.
    """
    try:
        document, duplicates = wire.yaml.load(content)
    except wire.yaml.InvalidYaml as error:
        raise InvalidConfiguration(str(error)) from None
    if ignored is not None:
        ignored += duplicates
    elif duplicates:
        raise InvalidConfiguration(f"strict decoding error: {'; '.join(duplicates)}")
    return document


class ConfigurationObject:
    """The fields of one object. At the end of a `with` block all of them must have been read.

    path: that of the object in its file, as `plugins[0]`. An absent field and null mean the default.
    ignored: collects messages about unread fields, where these are not errors.
    All methods raise InvalidConfiguration.
    """

    def __init__(self, document: Any, path: str = "", ignored: list[str] | None = None) -> None:
        self.path, self._ignored = path, ignored
        if not isinstance(document, dict):
            raise InvalidConfiguration(f"{path or 'the document'}: expected an object")
        self._fields: dict[str, Any] = document
        self._known: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and (unknown := sorted(self._fields.keys() - self._known)):
            problems = [f'unknown field "{self.at(name)}"' for name in unknown]
            if self._ignored is None:
                raise InvalidConfiguration(f"strict decoding error: {', '.join(problems)}")
            self._ignored += problems

    def at(self, name: str) -> str:
        """Returns the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, why: str) -> InvalidConfiguration:
        return InvalidConfiguration(f"{self.at(name)}: {why}")

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def any(self, name: str) -> Any:
        """Returns the value of a field of any type; None if it is absent."""
        self._known.add(name)
        return self._fields.get(name)

    def text(self, name: str, default: str = "") -> str:
        return self._typed(name, str, default)

    def integer(self, name: str, default: int = 0) -> int:
        return self._typed(name, int, default)

    def boolean(self, name: str, default: bool = False) -> bool:
        return self._typed(name, bool, default)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._typed(name, list, [])
        if not all(isinstance(each, str) for each in values):
            raise self.fail(name, "expected a list of strings")
        return tuple(values)

    def text_map(self, name: str) -> Mapping[str, str]:
        values = self._typed(name, dict, {})
        if not all(isinstance(each, str) for each in values.values()):
            raise self.fail(name, "expected an object whose values are strings")
        return values

    def object(self, name: str) -> ConfigurationObject:
        return ConfigurationObject(self._typed(name, dict, {}), self.at(name), self._ignored)

    def objects(self, name: str) -> Iterator[ConfigurationObject]:
        for index, each in enumerate(self._typed(name, list, [])):
            yield ConfigurationObject(each, f"{self.at(name)}[{index}]", self._ignored)

    def require_kind(self, *kinds: tuple[str, str]) -> None:
        """Checks that apiVersion and kind are one of several pairs."""
        api_version, kind = self.text("apiVersion"), self.text("kind")
        if (api_version, kind) not in kinds:
            expected = " or ".join(f"{kind} of {api_version}" for api_version, kind in kinds)
            found = f'kind "{kind}" of version "{api_version}"'
            raise InvalidConfiguration(f"{self.path and f'{self.path}: '}{found} is not {expected}")

    def _typed(self, name: str, type_: type[T], default: T) -> T:
        value = self.any(name)
        if value is None:
            return default
        if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
            raise self.fail(name, f"expected {_TYPES[type_]}")
        return value


def one_of(fields: ConfigurationObject, name: str, value: str, allowed: Sequence[str]) -> str:
    """Returns the value if it is one of the allowed ones. Raises InvalidConfiguration."""
    if value not in allowed:
        raise fields.fail(name, f'"{value}" is not one of {", ".join(allowed)}')
    return value
