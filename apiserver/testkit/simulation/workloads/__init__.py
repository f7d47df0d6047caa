"""Controllers of workloads, for tests: they create and delete pods, and report the progress in a status.

    plans            the actions for one workload
    pods             pods as controllers see them
    revisions        the templates of a StatefulSet or a DaemonSet over time
    replica_sets     keeps the desired number of pods
    deployments      rollouts: ReplicaSets that grow and shrink
    stateful_sets    pods with names and claims, one after the other
    daemon_sets      a pod on each node
    failed_pods      how often pods of DaemonSets have failed
    jobs             pods until enough have succeeded, or too many have failed
    endpoint_slices  the addresses of a Service's pods
    controller       plans for changed workloads, and carries the plans out

What they guarantee: a plan is made from the current objects, and carried out step by step; after a failure it
is made again. So a new leader, or a restarted server, continues. Nothing is created twice: written objects
are known before the next plan, and pods of Jobs are counted once. Failures are retried with back-off: pods of
Jobs and DaemonSets that fail immediately, and pods that are refused.

Why this shape: kube-controller-manager's controllers, each with a pure core, and one loop for all of them, as
they use the same pods, of which a test has few.

Left out: ReplicationControllers, CronJobs and HorizontalPodAutoscalers; volumes, whose claims stay Pending;
Jobs' successPolicy and limits by index; maxSurge of DaemonSets, whose old pods always go first.
"""
