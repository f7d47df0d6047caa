"""Extensions whose conditions cannot be evaluated: `ignore` and `warn`, by what their failures do to writes,
and with `inline_` before those that are inline.

Each is about the objects whose label `in` is its name.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.extensions import Extension

ON_ERROR: Final = ("ignore", "warn")
# The label of objects that another function refuses, as its condition cannot be evaluated either.
REFUSED: Final = "refused"
# By the names of attributes, as the flag takes them.
extensions: Final = {
    f"{prefix}{on_error}": Extension(f"{prefix}{on_error}".replace("_", "-"), on_error=on_error)
    for on_error in ON_ERROR
    for prefix in ("", "inline_")
}
globals().update(extensions)


def mutates(created: Any) -> None:
    created["data"] = {"is": "changed"}


def validates(created: Any) -> None:
    raise AssertionError("called")


for _name, _extension in extensions.items():
    _of_these = (
        "has(object.metadata.labels) && 'in' in object.metadata.labels && "
        f"object.metadata.labels['in'] == '{_extension.name}'"
    )
    _where = f"{_of_these} && object.metadata.annotations['missing'] == ''"
    _extension.mutate("configmaps", where=_where, inline=_name.startswith("inline"))(mutates)
    _extension.validate("configmaps", where=_where, inline=_name.startswith("inline"))(validates)

failing = Extension("failing")
_of_refused = f"has(object.metadata.labels) && '{REFUSED}' in object.metadata.labels"
failing.validate("configmaps", where=f"{_of_refused} && object.metadata.annotations['missing'] == ''")(
    validates
)
extensions["failing"] = failing
