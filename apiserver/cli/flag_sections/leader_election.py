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
        "Elect a leader among the servers on one etcd, and run the controllers that only one process can "
        "run on the leader. If false, this server does not take part in the election and runs all "
        "controllers.",
    )
    leader_elect_lease_duration_s: int = option(
        15,
        WHOLE_DURATION,
        "The duration, in whole seconds, that non-leader candidates will wait after observing a leadership "
        "renewal until attempting to acquire leadership of a led but unrenewed leader slot. This is "
        "effectively the maximum duration that a leader can be stopped before it is replaced by another.",
    )
    leader_elect_renew_deadline_s: float = option(
        10.0,
        DURATION,
        "The interval between attempts by the acting leader to renew a leadership slot before it stops "
        "leading. This must be less than the lease duration.",
    )
    leader_elect_retry_period_s: float = option(
        2.0,
        DURATION,
        "The duration the clients should wait between attempting acquisition and renewal of a leadership.",
    )
    leader_elect_resource_name: str = option(
        "apiserver-controllers",
        Kind("string", flag_values.object_name),
        "The name of the Lease in kube-system that is used for locking during leader election.",
    )


FLAGS: Final = flags_of(LeaderElectionOptions)
