"""kvaudit: evidence and audits for KV-cache policies."""

__version__ = "0.1.0"
