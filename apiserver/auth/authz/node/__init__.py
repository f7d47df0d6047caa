"""The Node authorizer: what a kubelet may do, which is a matter of the pods that run on its node.

    identity    which users are nodes
    references  which objects pods and volumes refer to
    graph       which objects are related to which nodes: filled by `controllers.node_graph`
    authorizer  decides

Pure. The graph is a set of look-up tables rather than vertices and edges: a question costs the same however
many pods refer to an object. It has some hundred bytes for each reference of a pod to an object, and is built
when the first node asks: a server that no node talks to has none.
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/node and pkg/auth/nodeidentifier.
"""
