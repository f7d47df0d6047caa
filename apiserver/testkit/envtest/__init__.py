"""The programs that `apiserver envtest-assets` installs instead of envtest's kube-apiserver and etcd.

controller-runtime's envtest, and its ports to other languages, start `etcd` and then `kube-apiserver`, check
the health of each, and stop both by signals. These programs guarantee:

- *They keep that contract in every version*: the flags in both of their forms, the probe by `--help`, the
  checks over HTTPS, over HTTP on the insecure port of releases before 1.20, and by what etcd writes to
  stderr; SIGTERM and SIGKILL. `tests/server/test_envtest.py` holds a table of versions.
- *No etcd is needed.* The stand-in for it answers health checks, and stores nothing; a server that finds it
  at its `--etcd-servers` keeps its objects in memory. They are gone when the server stops, even if the
  stand-in continues. A server that finds an etcd there uses that.
- *They start at once.* The stand-in imports a handful of modules of the standard library, and none of this
  package.

assets          `apiserver envtest-assets`: makes the folder of these programs
etcd_stand_in   the program `etcd`
kube_apiserver  the program `kube-apiserver`: the server, with features that only envtest needs
insecure_port   serves HTTP on a loopback address, where each client is the administrator

Source: sigs.k8s.io/controller-runtime, pkg/internal/testing and, before 0.9, sigs.k8s.io/testing_frameworks.
"""
