"""API Priority and Fairness: which requests begin now, which wait, and which are refused.

    flow_schemas      FlowSchemas: which requests each matches, and what divides them into flows
    priority_levels   PriorityLevelConfigurations: what they say, the level that each makes, Retry-After
    flow_control      all levels and schemas: classifies requests, deals flows their queues, shares seats
    queue_set         one level: its seats, its queues, and whose turn is next
    seat_allocation   what each level may have now, by what all could use: lending and borrowing
    seat_usage        what a level has used, as statistics over time
    work_estimates    how many seats a request takes, and for how long after its answer
    watch_counts      how many watches a write has to tell
    flow_statistics   what is counted of each schema and level
    request_kinds     reads and writes under way, over time
    metrics           all of that under Kubernetes' names
    dumps             the tables of /debug/api_priority_and_fairness

A request has a flow: the FlowSchema that matches it (the one of least precedence, then name), and within
that the user or the namespace. The schema names a priority level. Levels share the server's seats, which are
`--max-requests-inflight` and `--max-mutating-requests-inflight` together, by their shares; what one does not
use others borrow, as far as it lends. Within a level a flow has a hand of queues, and the queues take turns
by the seat-seconds that each has had (fair queuing by virtual time, the progress R). So a flow that asks for
much waits behind its own requests, and others pass it.

How this and the per-user limits of `endpoints.request_slots` fit together: there is one bound, and one place
where it is shared. With fairness on it is shared here, by level and flow, and requests of limited levels have
no slots beside their seats: two shares of the same thing would make each other useless. Slots are then for
requests of the exempt level only, which nothing here bounds; those of `system:masters`, and the leases of
the system's components, get through in any case. With `--enable-priority-and-fairness=false` slots are for
all requests, as reads and as writes, by user, and nothing waits.

What differs from kube-apiserver, and why:

- A flow leaves some seats of its level to others: it may hold four times as many as are free
  (`SHARE_OF_FREE`), alone four fifths. All requests share one event loop here. If one flow's long lists had
  all seats, a short request of another would wait until one of them ends, though it would take the loop no
  time. A fifth of the seats that lies idle does not slow down the others, which keep the loop busy.
- A queue never has more requests than `queueLengthLimit`, also while a wide request waits for seats to come
  free. Queues without requests take no memory, whatever `queues` says.
- A client that goes is counted as `cancelled`, and one that has waited for too long as `time-out`.
- A request that waits for a webhook, of admission or of conversion, has no seats meanwhile
  (`QueueSet.pause`). Otherwise some hundred writes whose webhook is slow would keep everybody waiting. How
  many may do so is bounded, and shared by users (`endpoints.priority_and_fairness.PAUSED_MAX`); the others
  keep their seats.
- Health checks and `/metrics` are classified, and never wait (`request_slots.SlotLimits`).

What it guarantees: the seats in use are no more than the level's limit, but for one request that is wider
than that and runs alone, for those that come back from a webhook, or until a limit that was lowered is
reached. Nobody waits while its flow may have the seats that are free, unless a request that is due needs
them. Everybody who waits begins, or is told to go, within a bounded time. Every server and worker does this
for its own requests, as replicas do.

Everything here is pure: the clock is an argument, and the events are calls. `endpoints.priority_and_fairness`
makes requests wait; `controllers.flow_control_configuration` reads the objects. Matching costs a dictionary
lookup: a flow is remembered by user, groups, verb, resource and namespace, of which `FLOWS_MAX` are kept.

Sources: k8s.io/apiserver, pkg/util/flowcontrol; KEP-1040.
"""
