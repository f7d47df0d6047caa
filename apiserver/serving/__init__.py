"""What a server process needs before it can serve: sockets, certificates, keys, a kubeconfig, a log."""
