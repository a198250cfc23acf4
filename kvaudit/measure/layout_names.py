"""The names of layouts and backends, for a command line that must not load torch to print its help."""

DENSE, RAGGED, PADDED, TOMBSTONE, SPHERICAL = LAYOUTS = ("dense", "ragged", "padded", "tombstone", "spherical")
AUTO, TORCH, TRITON = BACKENDS = ("auto", "torch", "triton")

# Why a layout was not run on a backend that was asked for by name.
REFUSED = "backend.refused"
