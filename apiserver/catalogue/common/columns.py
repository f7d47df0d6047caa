"""Cells and columns that kinds of several groups share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from apiserver.meta import table
from apiserver.meta.table import Column
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at


def status_count(field: str) -> Callable[[Document, float], int]:
    """Returns a cell that shows a number in the status; 0 if it is absent."""
    return lambda document, now: int(document.get("status", {}).get(field) or 0)


def status_column(name: str, status_field: str, description: str) -> Column:
    """Returns a column of whole numbers in the status."""
    return Column(name, status_count(status_field), description, type="integer")


_SHOWN_MAX: Final = 3


def first_few(texts: Sequence[str], *, empty: str) -> str:
    """Joins the first texts and adds the number of others: `a,b,c + 2 more...`.

    empty: the text if there are none.
    """
    shown = ",".join(texts[:_SHOWN_MAX])
    hidden = len(texts) - _SHOWN_MAX
    return f"{shown} + {hidden} more..." if hidden > 0 else shown or empty


def labels_cell(*steps: str) -> Callable[[Document, float], str]:
    """Returns a cell that shows the labels at a path as a selector: `a=b,c=d`."""
    return lambda document, now: table.selector_text({"matchLabels": at(document, *steps) or {}})


def list_length(*steps: str) -> Callable[[Document, float], int]:
    """Returns a cell that shows the number of items in the list or map at a path."""
    return lambda document, now: len(at(document, *steps) or ())
