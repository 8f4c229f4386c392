"""Phrase drafting inside other hosts."""
