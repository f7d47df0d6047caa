"""What all webhooks have in common that this server calls: those of conversion, and those of admission.

    tls     whether the certificate of a webhook is trusted

What a webhook is sent, and what it may answer, is the matter of those who call it (`custom_resources`).
"""
