"""Objects as instances of the classes that functions take."""

from __future__ import annotations

from typing import Any, get_origin

from apiserver.types.instances import InstanceDecoder, InstanceEncoder, with_changes
from apiserver.types.models.reader import is_document


class TypedObjects:
    """Makes instances of a class from objects. hint: the class, or a generic one with its arguments."""

    def __init__(self, hint: Any) -> None:
        self._hint = hint
        self._decoder, self._encoder = InstanceDecoder(), InstanceEncoder()

    def instance(self, document: Any) -> Any:
        """Returns the instance that an object stands for; None for None. Raises InvalidObject.

        The object itself is the instance of a TypedDict.
        """
        return None if document is None else self._decoder.decode(self._hint, document)

    def is_instance(self, value: Any) -> bool:
        return not is_document(self._hint) and isinstance(value, get_origin(self._hint) or self._hint)

    def encoded(self, instance: Any) -> Any:
        """Returns an instance as an object with the fields of its class; None for that of a TypedDict."""
        return None if is_document(self._hint) else self._encoder.encode(instance)

    def changed(self, document: Any, before: Any, instance: Any) -> Any:
        """Returns an object with what differs between `before`, an earlier `encoded`, and the instance."""
        return with_changes(document, before, self.encoded(instance))
