"""What types that run pods have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.meta import table
from apiserver.meta.table import Column
from apiserver.vocabulary import Document


def clear_status(document: Document) -> None:
    """Create: whoever runs the pods will say how they are."""
    document["status"] = {}


def status_count(field: str) -> Callable[[Document, float], int]:
    """A cell that shows a number of the status; nobody has counted yet if it is not there."""
    return lambda document, now: int(document.get("status", {}).get(field, 0))


def _containers(field: str) -> Callable[[Document, float], str]:
    def cell(document: Document, now: float) -> str:
        template = document.get("spec", {}).get("template", {})
        return table.joined(template.get("spec", {}).get("containers") or (), field)

    return cell


def _selector(document: Document, now: float) -> str:
    return table.selector_text(document.get("spec", {}).get("selector"))


POD_TEMPLATE_COLUMNS: Final = (
    Column("Containers", _containers("name"), priority=1, description="The containers of each pod, by name."),
    Column("Images", _containers("image"), priority=1, description="The images that the containers run."),
    Column("Selector", _selector, priority=1, description="The labels by which the pods are found."),
)
