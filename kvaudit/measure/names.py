"""The names of the policies in `policies.POLICIES`, for a command line that must not load torch to print its help."""

POLICY_NAMES = (
    "full",
    "window",
    "streaming",
    "streaming_repositioned",
    "h2o",
    "scissorhands",
    "keyformer",
    "snapkv",
    "pyramidkv",
    "zigzagkv",
    "adakv",
    "headkv",
    "fastgen",
    "minicache",
    "spherical",
    "spherical_rdr",
    "dmc",
    "lckv",
)
