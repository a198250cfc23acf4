"""Files, schemas, locks and invalid cases. Knows no loop and no policy."""
