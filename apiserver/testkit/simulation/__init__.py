"""Simulates parts of a cluster for tests: nodes that run no pods, and controllers of workloads.

    stages           the behavior of pods, from a file or annotations
    field_values     reads the values in them
    commands, ports  tables in them, for `exec` and `portforward`
    pod_status       the next status of a pod
    nodes            the objects of nodes
    scheduling       chooses the node for a pod
    waiting_pods     pods that wait for a node
    component        how all components write: without HTTP, but with admission
    object_index     the objects that they know from informers
    resources        the resources that they use
    node_controller  keeps the nodes
    scheduler        binds pods
    kubelet          runs the pods of all nodes
    kubelet_server   their logs, shells and ports
    container_answers    the logs, commands and ports of a container, from its stages and its spec
    logs             the output of a run so far, and the part that a request selects
    programs, shell  the few commands that are implemented
    workloads        controllers of Deployments, Jobs and the like

What they guarantee: clients see the same states as in a cluster, in the same order: a pod is bound, starts,
is ready, ends. All state except delays is in the objects: a new leader, or a restarted server, continues
where another has stopped. Settled objects are not written again, except the Leases of nodes.

Why this shape: decisions are pure and take the time as an argument; the rest are controllers like those in
`apiserver.controllers`, each active once among all servers on a store. They differ in two ways. They write as
the users of the real components, so that webhooks, quotas, defaults and owners of fields are those of a
cluster. And they cache decoded objects, as a test has few.

The server of logs, shells and ports is not a controller and has no state: every API server has one.

Left out: images, and commands beyond a few; preemption, affinity among pods, topology spread, volumes; probes
and lifecycle hooks, which could not run; evictions for taints and pressure.
"""
