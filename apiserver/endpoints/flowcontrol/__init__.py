"""API Priority and Fairness: decides which requests begin now, which wait, and which are refused.

    flow_schemas      FlowSchemas: the requests that each matches, and their flows
    priority_levels   PriorityLevelConfigurations, their levels, and Retry-After
    flow_control      all levels and schemas: classifies requests, deals queues to flows, distributes seats
    queue_set         one level: its seats, its queues, and the next request
    seat_allocation   the current seats of each level by the demand of all: lending and borrowing
    seat_usage        the seats that a level used, as statistics over time
    work_estimates    the seats of a request, and the time for which it keeps them after its response
    watch_counts      the number of watches that a write concerns
    flow_statistics   counts of each schema and level
    request_kinds     reads and writes under way, over time
    metrics           all metrics under Kubernetes' names
    dumps             the tables of /debug/api_priority_and_fairness

A request has a flow: the FlowSchema that matches it (the one of least precedence, then name), and within that
the user or the namespace. The schema names a priority level. Levels divide the server's seats,
`--max-requests-inflight` and `--max-mutating-requests-inflight` together, by their shares; a level lends
seats that it does not use, within its limits, and others borrow them. Within a level a flow has a hand of
queues, and the queues take turns by the seat-seconds that each has used (fair queuing by virtual time, the
progress R). So a flow with many requests waits behind its own requests, and others pass it.

Relation to the per-user limits of `endpoints.request_slots`: there is one limit, and one place that
distributes it. With fairness on, this package distributes it, by level and flow, and requests of limited
levels have no slots beside their seats: two distributions of the same limit would defeat each other. Slots
are then only for requests of the exempt level, which nothing here limits; those of `system:masters`, and the
leases of the system's components, always pass. With `--enable-priority-and-fairness=false` slots are for all
requests, as reads and as writes, by user, and nothing waits.

Differences from kube-apiserver, and their reasons:

- A flow leaves some seats of its level to others: it may hold four times as many as are free
  (`SHARE_OF_FREE`), alone four fifths. All requests share one event loop here. If long lists of one flow had
  all seats, a short request of another flow would wait until one of them ends, although it would hardly
  occupy the loop. The idle fifth of the seats costs no throughput, since the other requests keep the loop
  busy.
- A queue never has more requests than `queueLengthLimit`, not even while a wide request waits for seats.
  Queues without requests take no memory, whatever the value of `queues`.
- A request whose client disconnects is counted as `cancelled`, and one that waits for too long as `time-out`.
- A request that waits for a webhook, of admission or of conversion, has no seats meanwhile
  (`QueueSet.pause`). Otherwise some hundred writes with a slow webhook would block all others. The number of
  such requests is limited, for each user and in total (`endpoints.priority_and_fairness.PAUSED_MAX`); the
  others keep their seats.
- Health checks and `/metrics` are classified, and never wait (`request_slots.SlotLimits`).

Guarantees: the seats in use do not exceed the level's limit, except for one request that is wider than the
limit and runs alone, for requests that come back from a webhook, and after a limit was lowered. No request
waits while its flow may have free seats, unless an earlier request needs them. Every waiting request begins,
or is refused, within a bounded time. Every server and worker does this for its own requests, as replicas do.

The package is pure: the clock is an argument, and events are calls. `endpoints.priority_and_fairness` makes
requests wait; `endpoints.flow_control_configuration` reads the objects. Matching costs a dictionary lookup:
flows are cached by user, groups, verb, resource and namespace, up to `FLOWS_MAX`.

Sources: k8s.io/apiserver, pkg/util/flowcontrol; KEP-1040.
"""
