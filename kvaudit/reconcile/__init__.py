"""What may be compared with what, and why not. Reads finished documents only: no policy, no selector, no loop."""
