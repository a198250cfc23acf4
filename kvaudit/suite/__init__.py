"""The pipeline over a bundle: check it, or write what it should hold."""
