"""Where the specification and kube-apiserver differ, and which of them is followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Deviations:
    """True: as the specification has it. False: as kube-apiserver does it (`--strict-kube-compat`).

    item_watch: `?watch` on the path of one object watches it, instead of being ignored (row I11).
    bare_dry_run: `?dryRun` without a value is a dry run, instead of an error (row J08).
    if_match: If-Match on a JSON patch is a condition, instead of being ignored (row L04).
    empty_list_keeps_owners: `managedFields: []` says nothing, instead of stripping all ownership (row F22).
    reset_writer_owns: who strips all ownership owns what else the request changes, instead of nobody (F23).
    """

    item_watch: bool = True
    empty_dry_run: bool = True
    if_match: bool = True
    empty_list_keeps_owners: bool = True
    reset_writer_owns: bool = True


SPECIFIED: Final = Deviations()
KUBERNETES: Final = Deviations(
    item_watch=False,
    empty_dry_run=False,
    if_match=False,
    empty_list_keeps_owners=False,
    reset_writer_owns=False,
)
