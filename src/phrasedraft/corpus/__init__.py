"""Prompts and what the target answers to them: read, generated here or by a server, written block by block."""
