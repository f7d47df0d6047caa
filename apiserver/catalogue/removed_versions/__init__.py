"""The versions of built-in types that releases up to 1.31 had, and that later ones have removed: a module
per group.

Objects may still be stored in them, and a server that emulates such a release serves them. Each is declared
as any other type (`builtin_type`), and converted to the version for which the rules are written, its hub.
That is the version
which has replaced it: rules, columns and selectable fields are the hub's; what differs from it is declared
here: fields (`schema/removed_definitions.json`), defaults, what must be set, and what may change.

Nothing of this is imported by a server that serves none of them, until it meets an object that is stored in
one.

Source: staging/src/k8s.io/api and pkg/apis/*/VERSION (conversion.go, defaults.go) of the releases that had
them; rows T01-T30.
"""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType


def types() -> tuple[BuiltinType, ...]:
    return ()
