"""Prepares a server process for serving: sockets, certificates, keys, a kubeconfig and a log.

pki, pki_files           keys and certificates in the data directory
server_keys, key_process
                         make and read all of these at the start, once; many servers let a child process do
                         it, and do without `cryptography` while they are idle
cluster_identity         the CA and the service account key of servers that share an etcd, stored there as
                         Kubernetes stores Secrets: anyone who can read that etcd can act as any user
prefix_check             refuses to start on keys of another program, or on an unfinished copy
service_account_tokens   the issuer and the authenticator of tokens
listening                sockets, addresses, the kubeconfig
serving_tls              how connections are secured, with certificates that may change
named_certificates       chooses the certificate by the server name that a client asks for
certificate_keeper       renews certificates before they expire, and warns of those that it cannot renew
watched_files            rereads files when they change
listener                 accepts connections, within limits, and does their TLS handshakes
tls_transport            TLS on an open connection, without buffers
tls_record_flood         ends connections whose clients keep OpenSSL busy
service_manager          reports to systemd: ready, alive, stopping
shutdown                 why a server stops, and how long that takes
logs, exit_codes         what a process tells about itself
"""
