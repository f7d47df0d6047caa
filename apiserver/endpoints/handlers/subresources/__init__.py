"""Handles subresources that have their own kind, or connect to another server.

A scale is a view of its object; a binding, an eviction and a token request are commands. Requests for logs,
terminals and ports go to the kubelet of a pod's node, those of proxies to the backends of a Service, a pod or
a node: `connect` runs admission on them; `proxy`, `pod_streams` and `kubelets` find their destination.
"""
