"""GGUF pairs, by llama.cpp's library or its server."""
