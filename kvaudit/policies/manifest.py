"""The identity of a policy manifest (specification 0x01A)."""

# The ten fields that a manifest digest covers, and nothing else. State, placement and scores are left out on purpose:
# an update or a move must not pretend to be a new policy.
IDENTITY_FIELDS = (
    "schema_version",
    "policy_manifest_id",
    "policy_generation",
    "logical_cache_abi_sha256",
    "checkpoint_generation",
    "tensor_contract",
    "selection_contract",
    "representation_contract",
    "recoverability_contract",
    "quality_and_fallback",
)
