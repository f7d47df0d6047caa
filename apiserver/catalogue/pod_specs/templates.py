"""What types that run pods have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.rules.pod_templates import warn_template
from apiserver.meta import table
from apiserver.meta.table import Column
from apiserver.validation.checks import at
from apiserver.vocabulary import Document


def clear_status(document: Document) -> None:
    """Create: whoever runs the pods will say how they are."""
    document["status"] = {}


def status_count(field: str) -> Callable[[Document, float], int]:
    """A cell that shows a number of the status; nobody has counted yet if it is not there."""
    return lambda document, now: int(document.get("status", {}).get(field) or 0)


def pod_template_columns(*template: str, has_selector: bool = True) -> tuple[Column, ...]:
    """Wide columns about the pods.

    template: the path of the template; the selector, if there is one, stands beside it.
    """

    def containers(field: str) -> Callable[[Document, float], str]:
        return lambda document, now: table.joined(at(document, *template, "spec", "containers") or (), field)

    def selector(document: Document, now: float) -> str:
        return table.selector_text(at(document, *template[:-1], "selector"))

    found = "The labels by which the pods are found."
    return (
        Column(
            "Containers", containers("name"), priority=1, description="The containers of each pod, by name."
        ),
        Column("Images", containers("image"), priority=1, description="The images that the containers run."),
        *((Column("Selector", selector, priority=1, description=found),) if has_selector else ()),
    )


POD_TEMPLATE_COLUMNS: Final = pod_template_columns("spec", "template")


def with_template_warnings(
    *template: str, warn: Callable[[Document, Document | None], list[str]] | None = None
) -> Callable[[Document, Document | None], list[str]]:
    """Warnings of a kind, and those about its template wherever that is new.

    template: its path.
    """
    path = ".".join(template)

    def warnings(new: Document, old: Document | None) -> list[str]:
        found = warn(new, old) if warn is not None else []
        pods = at(new, *template)
        if old is None or pods != at(old, *template):
            found += warn_template(path, pods)
        return found

    return warnings
