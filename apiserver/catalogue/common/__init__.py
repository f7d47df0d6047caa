"""Code that kinds of several groups share.

workloads          checks, defaults and columns of workloads
columns            cells of tables
other_versions     declares versions of types that differ little from others
annotation_values  reads fields that such versions keep in annotations
claim_specs        checks the specs of PersistentVolumeClaims, and templates of claims
signer_names       checks the names of signers, and requests of pods to them
participants       checks the names of requesters and responders of evictions
node_labels        warns about deprecated labels of nodes
"""
