"""Encryption at rest: a store in front of another that keeps the values of some resources encrypted.

    configuration   the providers of each resource, already validated
    ciphers         AES-GCM, AES-CBC, secretbox, and AES-GCM with derived keys, for single values
    chains          chooses the provider and the key that writes a value, and those that read it
    encryption      the chain of each resource, by the current configuration
    kms             the provider that asks a KMS plugin for keys; its health, and the rotation of its key
    kms_client      calls a plugin over its socket
    kms_pb2         the messages of plugins, and the form of values: generated from kms.proto
    history_cipher  encrypts the history of encrypted objects
    store           `Storage` over another store, which encrypts and decrypts

- *Beneath the cache.* The watch cache holds decrypted values, so a cached read costs nothing. Without a
  configuration this package takes no part in requests.
- *Kubernetes' form.* Prefixes, layouts, the key in the store as additional data: encrypted values equal those
  of kube-apiserver, if the key and the plain value are the same. They are for custom resources; built-in
  types have other keys there, and are protobuf.
- *The first provider writes, all read.* A value that another provider or key wrote is stale: an update that
  changes nothing rewrites it, and nothing else does.
- *One value that cannot be decrypted harms no other.* It is replaced by `UnreadableValue`, with the reason; a
  client that reads the object gets an error. Nothing else fails, and the server starts.
- *A plugin decrypts keys, never values,* and reads from the cache do not wait for it. While it does not
  respond, values with known keys are read and, for three minutes, written.
- *Secrets stay here.* No error, log or metric contains a key, or a part of a value; they contain only hashes
  of a plugin's key IDs.

Left out: encryption of the server's own records, except those that a caller names as secret; KMS v1, which
Kubernetes switches off by default; a bound on the time for which a key is cached.
"""
