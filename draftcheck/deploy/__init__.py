"""Deploy files -> Deployments: which engine is started, with which options. Knows no models."""
