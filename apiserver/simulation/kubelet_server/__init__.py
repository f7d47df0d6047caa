"""The server of simulated kubelets: logs, shells and ports of pods that only pretend to run.

    server       answers what API servers ask kubelets for
    requests     what requests ask for, and how they are refused
    followers    what becomes of a pod while its log is followed
    sessions     runs a program in a session of `exec` or `attach`
    terminals    what a person types, as a program gets it
    forwarding   connections to ports
    channels     WebSockets
    upgrades, spdy, spdy_shells  the server's end of SPDY

What it guarantees: clients see what a real kubelet would tell them, in its protocols. It keeps nothing: what
a container answers follows from its pod and the stages, so that each of several API servers on a store
answers alike, whichever of them runs the controllers.

Why this shape: the API server reaches it as it reaches any kubelet, with the same requests over a connection,
and neither knows nor cares that the connection stays in its process. So what tests see has taken the same
way as in production: the choice of a container, the translation of protocols, limits, cut connections. The
two sides share one protocol, `reverse_proxy.in_process.InProcessKubelets`. It listens nowhere, and trusts who
connects: only the API server can.

What is bounded: sessions, what is kept of their input, what is buffered for a slow client, connections to
ports, and the size of a log.

Left out: what runs in containers, of which only a few commands are understood; the other endpoints of
kubelets.
Source: k8s.io/kubernetes, pkg/kubelet/server; k8s.io/cri-streaming, pkg/streaming.
"""
