"""Controllers of workloads, for tests: they make and remove pods, and tell in a status how far that is.

    plans            what is to be done for one workload
    pods             pods as controllers see them
    revisions        the templates that a StatefulSet or a DaemonSet has had
    replica_sets     as many pods as are wanted
    deployments      rollouts: ReplicaSets that grow and shrink
    stateful_sets    pods with names and claims, one after the other
    daemon_sets      a pod on each node
    failed_pods      how often pods of DaemonSets have failed
    jobs             pods until enough have succeeded, or too many have failed
    endpoint_slices  the addresses of a Service's pods
    controller       looks at workloads when something of theirs changes, and carries the plans out

What they guarantee: a plan is made of what there is, and carried out step by step; what fails is planned
again. So whoever becomes the leader, or starts again, goes on. Nothing is created twice: what was written is
known before it is planned for again, and pods of Jobs are counted once. What fails is tried again less and
less often: pods of Jobs and DaemonSets that fail at once, and pods that are refused.

Why this shape: kube-controller-manager's controllers, with a pure core each, and one loop for all of them:
they look at the same pods, and a test has few.

Left out: ReplicationControllers, CronJobs and HorizontalPodAutoscalers; volumes, whose claims stay Pending;
Jobs' successPolicy and limits by index; maxSurge of DaemonSets, whose old pods always go first.
"""
