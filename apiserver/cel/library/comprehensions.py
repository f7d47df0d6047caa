"""The macros beyond the standard ones: cel-go ext/comprehensions.go, ext/bindings.go."""

from __future__ import annotations

from typing import Final

from apiserver.cel import macros
from apiserver.cel.declarations import Library

TWO_VARIABLES: Final = Library("cel.lib.ext.comprev2", macros=macros.TWO_VARIABLES, since=(1, 32))
"""`m.all(k, v, …)`, `l.transformList(i, v, …)`."""

BINDINGS: Final = Library("cel.lib.ext.cel.bindings", macros=macros.BINDINGS, since=(1, 31))
"""`cel.bind(name, value, …)`, which Kubernetes has in selectors of devices only."""
