"""The handlers of subresources that have a kind of their own, or connect to another server.

A scale is a view of its object; a binding, an eviction and a token request are orders that are carried out.
Requests for logs, terminals and ports go to the kubelet of a pod's node, those of proxies to whatever is
behind a Service, a pod or a node: `connect` asks admission about them, `proxy`, `pod_streams` and `kubelets`
find out where they go.
"""
