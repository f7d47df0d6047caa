"""What a server process needs before it can serve: sockets, certificates, keys, a kubeconfig, a log.

pki                      keys and certificates in the data directory
cluster_identity         the CA and the service account key of servers that share an etcd: they lie there,
                         as Secrets do in Kubernetes, so who can read it can act as anybody
service_account_tokens   the issuer and the authenticator of tokens
listening                sockets, addresses, the kubeconfig
serving_tls              how connections are secured, with certificates that may change
named_certificates       which certificate a client is shown, by the server's name that it asks for
certificate_keeper       renews certificates before they expire, and tells of those that it cannot renew
watched_files            has files read again when they change
listener                 accepts connections, within limits, and does their TLS handshakes
tls_transport            TLS on an open connection, without buffers
endless_reads            ends connections whose clients keep OpenSSL busy
logs, exit_codes         what a process tells about itself
"""
