"""The group `batch`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import STATUS_SUBRESOURCE, BuiltinType, field
from apiserver.catalogue.workloads import POD_TEMPLATE_COLUMNS, clear_status
from apiserver.meta import table, timestamps
from apiserver.meta.table import AGE, Column, columns
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.vocabulary import Document

# Jobs were deleted without their pods before there was a policy, and clients rely on it.
_ORPHANS_TEXT: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "batch",
            "v1",
            "jobs",
            "Job",
            "io.k8s.api.batch.v1.Job",
            categories=("all",),
            subresources=(STATUS_SUBRESOURCE,),
            strategy=Strategy(
                prepare_create=clear_status,
                update=UpdateStrategy(prepare=keep_status),
                has_generation=True,
                orphans_dependents=True,
                delete_warning=_ORPHANS_TEXT,
            ),
            columns=columns(
                Column("Status", _status, description="Whether the job is running, or how it ended."),
                Column(
                    "Completions",
                    _completions,
                    description="How many pods have succeeded, of how many wanted.",
                ),
                Column("Duration", _duration, description="How long the job ran, or has been running."),
                AGE,
                *POD_TEMPLATE_COLUMNS,
            ),
            selectable_fields={"status.successful": field("status", "succeeded", default="0")},
        ),
    )


_OUTCOMES: Final = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _status(document: Document, now: float) -> str:
    conditions = document.get("status", {}).get("conditions") or ()
    held = {c.get("type") for c in conditions if c.get("status") == "True"}
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((outcome for outcome in _OUTCOMES if outcome in held), "Running")


def _completions(document: Document, now: float) -> str:
    spec, succeeded = document.get("spec", {}), document.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(document: Document, now: float) -> str:
    status = document.get("status", {})
    began = timestamps.from_text(status.get("startTime") or "")
    ended = timestamps.from_text(status.get("completionTime") or "")
    return table.duration((ended or now) - began) if began is not None else ""
