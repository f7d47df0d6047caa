"""The flags of the election of a leader among several servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import DURATION, SWITCH, WHOLE_DURATION


@dataclass(frozen=True, slots=True, repr=False)
class LeaderElectionOptions:
    """The options of leader election."""

    leader_elect: bool = option(
        True,
        SWITCH,
        "If true, the servers that share an etcd cluster elect a leader. Only the leader runs the "
        "controllers that must run in a single process. If false, this server does not take part in the "
        "election and runs all controllers.",
    )
    leader_elect_lease_duration_s: int = option(
        15,
        WHOLE_DURATION,
        "How long, in whole seconds, a leader remains the leader after its last renewal. Other servers wait "
        "this long before they try to become the leader.",
    )
    leader_elect_renew_deadline_s: float = option(
        10.0,
        DURATION,
        "How long the leader tries to renew its leadership before it stops leading. The deadline must be "
        "shorter than --leader-elect-lease-duration.",
    )
    leader_elect_retry_period_s: float = option(
        2.0,
        DURATION,
        "How long servers wait between attempts to acquire or renew leadership.",
    )
    leader_elect_resource_name: str = option(
        "apiserver-controllers",
        Kind("string", flag_values.object_name),
        "The name of the Lease that servers use for leader election. The Lease is in the kube-system "
        "namespace.",
    )


FLAGS: Final = flags_of(LeaderElectionOptions)
