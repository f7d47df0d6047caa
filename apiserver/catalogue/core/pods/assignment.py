"""What becomes of a pod that is assigned to a node, by a binding or by the simulated scheduler.

Source: pkg/registry/core/pod/storage, setPodNodeAndMetadata.
"""

from __future__ import annotations

from apiserver.meta.conditions import replace_condition
from apiserver.meta.vocabulary import Document


def assign_node(pod: Document, node: str, now: str, *, clears_nomination: bool) -> None:
    """Assign a pod to a node, and record that in its status. now: as documents have it.

    clears_nomination: the pod is no longer nominated for a node
    (ClearingNominatedNodeNameAfterBinding).
    """
    pod["spec"]["nodeName"] = node
    # Why it was not scheduled before is over.
    replace_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None}, now)
    if clears_nomination:
        pod["status"].pop("nominatedNodeName", None)
