"""The server of simulated kubelets: logs, shells and ports of simulated pods.

    server       answers the requests of API servers to kubelets
    requests     parses requests, and makes the responses that reject them
    followers    watches a pod while its log is followed
    sessions     runs a program in a session of `exec` or `attach`
    terminals    the line discipline of a terminal
    forwarding   connections to ports
    channels     WebSockets
    spdy, spdy_shells  the server's end of SPDY

What it guarantees: clients see the responses of a real kubelet, in its protocols. It has no state: the
answers of a container follow from its pod and the stages, so all API servers that share a store respond
alike, whichever of them runs the controllers.

Why this shape: the API server sends it the same requests as any other kubelet, over a connection that stays
in the process. So tests exercise the code of production: the choice of a container, the translation of
protocols, limits, broken connections. The two sides share one protocol,
`reverse_proxy.in_process.InProcessKubelets`. It listens on no socket and does not authenticate: only the API
server can connect.

Bounded are the number of sessions, their unread input, the output buffered for a slow client, the connections
to ports, and the size of a log.

Left out: containers run nothing, and only a few commands are implemented; the other endpoints of kubelets.
Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming, pkg/streaming.
"""
