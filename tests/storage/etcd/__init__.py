"""The guarantees of the etcd store beyond the contract, as `storage.etcd` states them: on real servers."""
