"""Where bytes come from: a folder, the Hub, the store of Ollama."""
