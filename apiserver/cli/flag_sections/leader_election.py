"""The flags of the election of a leader among several servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apiserver.cli import flag_values
from apiserver.cli.flag import Flag


@dataclass(frozen=True, slots=True, repr=False)
class LeaderElectionOptions:
    """The options of leader election."""

    leader_elect: bool = True
    leader_elect_resource_name: str = "apiserver-controllers"
    leader_elect_lease_duration_s: int = 15
    leader_elect_renew_deadline_s: float = 10.0
    leader_elect_retry_period_s: float = 2.0


FLAGS: Final[Sequence[Flag]] = (
    Flag(
        "--leader-elect",
        "bool",
        flag_values.boolean,
        "Elect a leader among the servers on one etcd, and run the controllers of which only one may run on "
        "the leader alone. If false, this server takes no part in the election and runs all of them.",
        needs_value=False,
    ),
    Flag(
        "--leader-elect-lease-duration",
        "duration",
        flag_values.whole_duration_s,
        "The duration, in whole seconds, that non-leader candidates will wait after observing a leadership "
        "renewal until attempting to acquire leadership of a led but unrenewed leader slot. This is "
        "effectively the maximum duration that a leader can be stopped before it is replaced by another.",
        field="leader_elect_lease_duration_s",
    ),
    Flag(
        "--leader-elect-renew-deadline",
        "duration",
        flag_values.duration_s,
        "The interval between attempts by the acting leader to renew a leadership slot before it stops "
        "leading. This must be less than the lease duration.",
        field="leader_elect_renew_deadline_s",
    ),
    Flag(
        "--leader-elect-retry-period",
        "duration",
        flag_values.duration_s,
        "The duration the clients should wait between attempting acquisition and renewal of a leadership.",
        field="leader_elect_retry_period_s",
    ),
    Flag(
        "--leader-elect-resource-name",
        "string",
        flag_values.object_name,
        "The name of the Lease in kube-system that is used for locking during leader election.",
    ),
)
