"""What all webhooks have in common that this server calls: those of conversion, and those of admission.

    client_config     where a webhook is
    credentials       how this server proves to them who it is; credential_files: what is in files of its own
    client            sends a review, and reads the answer within bounds
    caller            posts a review to an admission webhook
    addresses         where no webhook may be
    service_resolver  where a Service is that a webhook is behind; cached_services: as the watch cache has it
    tls               whether the certificate of a webhook is trusted
    errors            what can go wrong

What a webhook is sent, and what it may answer, is the matter of those who call it (`admission.webhooks`,
`custom_resources`).
"""
