"""Which checkpoint may run under which representation changes, and in which order (specification 0x0CI and 0x0DD).

`refusal` asks in a fixed order: was the checkpoint trained for what is done to its cache, is the composition defined,
can the backend read the result, does a contract cover it, and is quantisation declared for each stored component.
"""

from collections.abc import Collection, Mapping, Sequence

DMC = "dmc"
MINICACHE = "minicache"
LCKV = "lckv"
AUTOCOMPRESSOR = "autocompressor"
SHARED_SELECTION = "shared_selection"
OWNER_SELECTION = "owner_selection"
TRANSFORMS = (DMC, MINICACHE, LCKV, AUTOCOMPRESSOR, SHARED_SELECTION, OWNER_SELECTION)
TRAINED = (DMC, LCKV, AUTOCOMPRESSOR)

NOT_TRAINED = "checkpoint_not_trained"
TRAINED_PART_MISSING = "trained_mechanism_missing"
POSITION_SETS_DIFFER = "position_sets_differ"
NO_LAYER_LOCAL_ROWS = "no_layer_local_rows"
SELECTION_AFTER_MERGE = "selection_after_merge"
NO_CONSUMER = "no_consumer"
NO_CONTRACT = "no_evaluation_contract"
QUANTISATION_UNDECLARED = "quantisation_component_undeclared"
REASONS = (
    NOT_TRAINED,
    TRAINED_PART_MISSING,
    POSITION_SETS_DIFFER,
    NO_LAYER_LOCAL_ROWS,
    SELECTION_AFTER_MERGE,
    NO_CONSUMER,
    NO_CONTRACT,
    QUANTISATION_UNDECLARED,
)
CHECKPOINT_REASONS = (NOT_TRAINED, TRAINED_PART_MISSING)

# What each change stores: quantisation is declared for every one of these, if only as `unquantised`.
COMPONENTS = {
    DMC: ("segment_rows", "masses"),
    MINICACHE: ("directions", "magnitudes", "angles", "exceptions"),
    LCKV: ("producer_rows",),
    AUTOCOMPRESSOR: ("summary_vectors",),
}


def refusal(
    trained_for: Collection[str],
    transforms: Sequence[str],
    consumers: Collection[str],
    evaluation_contract: str | None,
    quantised: Mapping[str, str] | None,
) -> str | None:
    """Return why a composition must be refused, None if it may run.

    `transforms` are applied in their order. `consumers` are the changes whose stored objects the backend reads.
    `quantised` maps a component to its format, None where nothing is quantised.
    """
    changed = [name for name in transforms if name in COMPONENTS]
    if any(name in TRAINED and name not in trained_for for name in transforms):
        return NOT_TRAINED
    if any(name not in transforms for name in trained_for):
        return TRAINED_PART_MISSING
    undefined = _undefined(transforms)
    if undefined is not None:
        return undefined
    if any(name not in consumers for name in changed):
        return NO_CONSUMER
    selects = SHARED_SELECTION in transforms or OWNER_SELECTION in transforms
    if evaluation_contract is None and (len(changed) > 1 or (DMC in changed and selects)):
        return NO_CONTRACT
    if quantised is not None and any(part not in quantised for name in changed for part in COMPONENTS[name]):
        return QUANTISATION_UNDECLARED
    return None


def _undefined(transforms: Sequence[str]) -> str | None:
    """Return why MiniCache cannot merge what it would meet, None if it can or is not used."""
    if MINICACHE not in transforms:
        return None
    if LCKV in transforms:
        return NO_LAYER_LOCAL_ROWS
    if DMC in transforms or OWNER_SELECTION in transforms:
        return POSITION_SETS_DIFFER
    if SHARED_SELECTION in transforms[transforms.index(MINICACHE) :]:
        return SELECTION_AFTER_MERGE
    return None
