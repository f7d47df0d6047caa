"""Environments of the expressions that Kubernetes has, which all have its libraries.

Parser, checker and most libraries are imported by the first one: 10 ms, without which a server starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from apiserver.cel.types import Type

if TYPE_CHECKING:
    from apiserver.cel.declarations import Library
    from apiserver.cel.environment import Environment

_NOTHING: Final[Mapping[str, Type]] = MappingProxyType({})


def kubernetes_environment(
    variables: Mapping[str, Type],
    further: Sequence[Library] = (),
    messages: Mapping[str, Type] = _NOTHING,
    *,
    open_message: str = "",
) -> Environment:
    """Returns an environment with the libraries of all of Kubernetes' expressions.

    further: libraries that only these have. The others: see `Environment`.
    """
    from apiserver.cel.environment import Environment
    from apiserver.cel.library.kubernetes import KUBERNETES

    return Environment(variables, (*KUBERNETES, *further), messages=messages, open_message=open_message)
