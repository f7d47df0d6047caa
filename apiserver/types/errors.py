"""The errors of definitions made from classes, and of objects.

DefinitionError         a definition cannot be made: its versions disagree, or an argument is not valid
  Unrepresentable       a part of a class cannot be said in a structural schema
InvalidObject           an object does not fit its class
"""

from __future__ import annotations


class DefinitionError(ValueError):
    """A CustomResourceDefinition cannot be made from these classes."""


class Unrepresentable(DefinitionError):
    """A structural schema cannot express a part of a class.

    path: the place in the classes, as `Order.spec.items[*].price`.
    hint: what to write instead; may be empty.
    """

    def __init__(self, path: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}{f'; {hint}' if hint else ''}")
        self.path, self.reason, self.hint = path, reason, hint


class InvalidObject(ValueError):
    """An object does not fit its class.

    path: of the field, as `spec.items[0].price`; may be empty. is_of_another: whether the field is one that
    tells the classes of a union apart, so that another class may fit.
    """

    def __init__(self, path: str, reason: str, *, is_of_another: bool = False) -> None:
        super().__init__(f"{path or 'the object'} {reason}")
        self.path, self.is_of_another = path, is_of_another
