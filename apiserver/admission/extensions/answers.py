"""The results of functions of extensions: see `extensions.invocation`. Pure.

They are checked, as the code in a worker may be broken or hostile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apiserver.admission import responses
from apiserver.admission.responses import InvalidAnswer
from apiserver.meta.vocabulary import Document


class FunctionAnswer(NamedTuple):
    """The result of a function.

    changed: the object that it has changed; None if it has not. denial: the Status by which it refuses the
    write; None if it does not.
    """

    changed: Document | None = None
    denial: Document | None = None
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = {}


def read(result: Mapping[str, Any]) -> FunctionAnswer:
    """Returns the answer in the result of a function. Raises InvalidAnswer."""
    response = dict(result)
    changed, denial = response.get("object"), None
    if changed is not None and not isinstance(changed, dict):
        raise InvalidAnswer("response.object is not an object")
    if response.get("denied") is not None:
        denial = responses.status(response, "denied")
    return FunctionAnswer(
        changed, denial, responses.warnings(response), responses.audit_annotations(response)
    )
