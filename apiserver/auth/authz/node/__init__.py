"""The Node authorizer, which decides what a kubelet may do by the pods that run on its node.

    identity    identifies the users that are nodes
    references  the objects that pods and volumes refer to
    graph       the objects related to each node: filled by `controllers.node_graph`
    authorizer  decides

Pure. The graph is a set of look-up tables rather than vertices and edges: a decision costs the same however
many pods refer to an object. It takes some hundred bytes for each reference of a pod to an object, and is
built at the first request of a node: a server without nodes has none.
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/node and pkg/auth/nodeidentifier.
"""
