"""What kinds of several groups share.

workloads          checks, defaults and columns of the kinds that run pods
columns            cells of tables
other_versions     declares versions of types that differ little from others
annotation_values  reads what such versions keep in annotations
claim_specs        checks the specs of PersistentVolumeClaims, and templates of claims
signer_names       checks the names of signers, and what pods ask them for
participants       checks the names of requesters and responders of evictions
node_labels        warns of deprecated labels of nodes
"""
