"""The gate: deploy files -> commands and documents -> deployments -> findings by file and line."""
