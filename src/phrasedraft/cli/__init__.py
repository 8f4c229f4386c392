"""The `phrasedraft` command: one verb a file, each imported only when it is called."""

from phrasedraft.cli.app import app, main

__all__ = ["app", "main"]
