"""The environments of Kubernetes' expressions, which all have Kubernetes' libraries.

The first one imports parser, checker and most libraries in 10 ms, which a server need not spend at its start.
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

    further: additional libraries for this environment. For other parameters see `Environment`.
    """
    from apiserver.cel.environment import Environment
    from apiserver.cel.library.kubernetes import KUBERNETES

    return Environment(variables, (*KUBERNETES, *further), messages=messages, open_message=open_message)
