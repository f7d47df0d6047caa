"""Parts of a cluster that pretend, for tests: nodes that run no pods, and controllers of workloads.

    stages           what becomes of pods: a file, annotations
    field_values     reads the values in them
    commands, ports  tables in them, for `exec` and `portforward`
    pod_status       the next status of a pod
    nodes            the objects of nodes
    scheduling       which node a pod is bound to
    waiting_pods     pods that wait for a node
    component        how all of them write: past HTTP, but not past admission
    object_index     what they know of objects, from informers
    resources        the resources that they work on
    node_controller  keeps the nodes
    scheduler        binds pods
    kubelet          runs the pods of all nodes
    kubelet_server   their logs, shells and ports
    container_answers    the logs, commands and ports of a container, from its stages and its spec
    logs             what a run has written so far, and which part of it a request selects
    programs, shell  the few commands that are implemented
    workloads        controllers of Deployments, Jobs and the like

What they guarantee: clients see what a cluster would show them, in its order: a pod is bound, starts, is
ready, ends. Nothing is kept outside of the objects but delays: who becomes the leader, or starts again, goes
on where another has stopped. What has settled is not written again, but for the Leases of nodes.

Why this shape: what decides is pure and takes the time as an argument; the rest are controllers as those in
`apiserver.controllers`, of which one is active among all servers on a store. They differ from these in two
ways. They write as the users that the real components are, so that webhooks, quotas, defaults and owners of
fields are what a cluster has. And they keep the objects that they follow, decoded: there are few in a test.

The server of logs, shells and ports is not a controller and has no state: every API server has one.

Left out: images, and commands beyond a few; preemption, affinity among pods, topology spread, volumes; probes
and lifecycle hooks, of which nobody could run anything; evictions for taints and pressure.
"""
