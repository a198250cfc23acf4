"""Loop 8, representation change: merged rows, shared layers, or a graph that produces fewer (0x0C, 0x0D, 0x00H).

A manifest a method names what replaces original rows. A fixture then states what a runtime stored and published:
segments, shared directions, exception rows, producer layers, summaries, bytes. The oracle derives each of them anew.

The contracts are judged in the order of `oracle`: the manifests against their checkpoints, DMC, MiniCache, LCKV,
segment summaries, recurrent memories, stored objects, compositions, and last the publication.

Decided here: alpha 0 appends and 1 accumulates, logit 0 accumulates, and a first decision of 1 is refused, because the
length formula would miss its row. The payload rows of the trace hold no control channel (rounding the sigmoid of their
first scalars gives other decisions), and its weights 1 and 2 are relative: what a sigmoid could give is a second set
of weights, scaled, with the same means. MiniCache retains pairs that are far apart, as the paper's prose says; equation
4 as printed is the labelled alternative. One exception set serves K and V. A pair within near_pi_angle of pi has no
shared direction and is retained whatever the threshold; a zero vector is refused. Re-merging keeps older rows as they
are stored. The diagonal is masked exactly where a layer reads from above. The LCKV fixture has one warm-up layer at the
bottom and the top producer, which no sandwich with an even number of warm-up layers gives. Stated irrational numbers
are compared as reports write them, at 12 significant digits; retained rows are compared exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.canonical import canonical_sha256, reported
from kvaudit.evidence.summary import summarised
from kvaudit.model import (
    Boundary,
    Comparison,
    Diagnostic,
    Document,
    Evidence,
    LedgerRow,
    Loop,
    Snapshot,
    Table,
    joined,
    pointer,
)
from kvaudit.policies import composition, dmc, lckv, minicache, summaries
from kvaudit.policies.geometry import Geometry
from kvaudit.policies.transcendental import cosine, sine

METHODS = (composition.DMC, composition.MINICACHE, composition.LCKV)
SIDES = ("low_key", "high_key", "low_value", "high_value")
TENSORS = ("key", "value")

PREFILL_OPERATIONS = (
    "materialise_both_layers",
    "merge_pair",
    "store_side_metadata",
    "store_exception_rows",
    "release_layer_local",
)
DECODE_OPERATIONS = ("fetch", "restore", "attend", "append", "re_merge")

# How far the squared norm of a stated direction may be from one: it is written with 12 digits.
UNIT_TOLERANCE = Fraction(1, 10**9)

UNKNOWN_CHECKPOINT = Diagnostic(
    code="representation.unknown-checkpoint",
    contract="A checkpoint that is named is one of the fixture's checkpoints.",
    why="Without its training record nobody can say whether the cache object means anything to it.",
    fix="Correct the name, or add the checkpoint.",
)
NOT_TRAINED = Diagnostic(
    code="representation.checkpoint-not-trained",
    contract="DMC, LCKV and segment summaries run on a checkpoint that was trained for them.",
    why="Control channels, condensed graphs and summary tokens are learned; an ordinary model answers with noise.",
    fix="Load the retrofitted checkpoint, or choose a change that needs no training.",
)
TRAINED_PART_MISSING = Diagnostic(
    code="representation.trained-mechanism-missing",
    contract="A checkpoint that was trained for a mechanism runs with it.",
    why="Its projections and masks expect the mechanism; run without it, the graph is not the trained one.",
    fix="Name the mechanism, or load an ordinary checkpoint.",
)
CHECKPOINT_REVISION = Diagnostic(
    code="representation.checkpoint-revision-mismatch",
    contract="The manifest carries the revision of its checkpoint.",
    why="Rows, summaries and control channels of other weights fit in shape and mean nothing.",
    fix="Rebuild the manifest for the loaded weights.",
)
GRAPH_REVISION = Diagnostic(
    code="representation.graph-revision-mismatch",
    contract="The manifest carries the graph revision of its checkpoint.",
    why="Producer map and diagonal mask are part of the graph; another graph reads other layers.",
    fix="Rebuild the manifest for the graph that the checkpoint was trained with.",
)
KIND = Diagnostic(
    code="representation.kind-mismatch",
    contract="representation_kind is what the method stores.",
    why="A consumer chooses its kernel by it and would read segments as layer pairs.",
    fix="Name the kind of the method: time_segments, depth_pairs or condensed_layers.",
)
OWNER = Diagnostic(
    code="representation.owner-mismatch",
    contract="The owner is the unit that the method stores by: layer and K/V head, layer pair, or producer layer.",
    why="Bytes are charged and freed by owner; a pair freed as one layer takes the other layer's rows with it.",
    fix="Name the owner of the method.",
)
POSITION_CONTRACT = Diagnostic(
    code="representation.position-contract-mismatch",
    contract="original_position_contract says which position a stored row has under the method.",
    why="Relative distances and causality are computed from it; another anchor changes attention geometry.",
    fix="Name latest_source_position for DMC and same_position for MiniCache and LCKV.",
)
LAYER_MAP = Diagnostic(
    code="representation.layer-map-mismatch",
    contract="Under DMC and MiniCache every layer produces; it reads its own rows, or those of its pair's lower layer.",
    why="A layer without an entry, or with another's, restores or reads the wrong rows.",
    fix="Derive the maps from the layers and the merged pairs.",
)
SIDE_METADATA = Diagnostic(
    code="representation.side-metadata-missing",
    contract="The manifest declares type and shape of all side metadata that the method needs.",
    why="Without masses, magnitudes, angles or indices the next update or the restoration is impossible.",
    fix="Declare the missing member of side_metadata.",
)
QUANTISATION_CONTRACT = Diagnostic(
    code="representation.quantisation-contract-unknown",
    contract="A quantization_contract_id is that of an admitted composition with the method.",
    why="A format that nobody declared for each component will be guessed by the kernel.",
    fix="Declare the composition with its components, or write null.",
)
REVERSED = Diagnostic(
    code="representation.decision-reversed",
    contract="Decision 0 appends a segment and decision 1 accumulates into the newest one.",
    why="Read the other way round, the cache merges what the model wanted apart and keeps what it wanted merged.",
    fix="Apply 0 as append and 1 as accumulate.",
)
FIRST_DECISION = Diagnostic(
    code="representation.first-decision-accumulates",
    contract="The first decision of an owner is an append.",
    why="There is no segment yet; code appends anyway, and the length formula counts one row too few.",
    fix="Force the first decision to 0, as the runtime does.",
)
WEIGHT = Diagnostic(
    code="representation.weight-not-positive",
    contract="Every importance weight is positive.",
    why="A zero or negative mass divides by zero or turns a mean into an extrapolation.",
    fix="Use the sigmoid of the control channel; relative weights must be positive too.",
)
SIGMOID_RANGE = Diagnostic(
    code="representation.weight-outside-sigmoid",
    contract="in_range_omega lies strictly between 0 and 1 and is proportional to omega.",
    why="It stands for what a sigmoid can give; other proportions give other means.",
    fix="Scale all weights by one factor.",
)
DMC_SHAPE = Diagnostic(
    code="representation.dmc-shape",
    contract="Decisions, weights, keys and values have one entry a row, and rows of one width.",
    why="A missing entry shifts every later decision to the wrong row.",
    fix="Write one decision, weight, key and value for each source row.",
)
ROTATED_MERGE = Diagnostic(
    code="representation.rotated-keys-merged",
    contract="Keys are averaged before positional rotation and rotated once, at the anchor.",
    why="The mean of keys rotated by different angles is shorter than any of them and has no position.",
    fix="Average pre-RoPE keys; rotate the mean at the latest position.",
)
SPAN = Diagnostic(
    code="representation.segment-span-mismatch",
    contract="A segment covers its first appended row and the rows accumulated into it, no others.",
    why="Audit and rollback find out by the span which source rows a stored row replaces.",
    fix="Close a segment at the next append.",
)
ANCHOR = Diagnostic(
    code="representation.segment-anchor-mismatch",
    contract="The anchor of a segment is its latest source position.",
    why="The runtime rotates the stored key there; another convention shifts every relative distance.",
    fix="Move the anchor with every accumulation.",
)
MASS = Diagnostic(
    code="representation.segment-mass-mismatch",
    contract="The mass of a segment is the sum of its weights.",
    why="The next accumulation weighs the old mean by it; a wrong mass tilts every later mean.",
    fix="Start with the weight of the appended row and add each accumulated one.",
)
MEAN = Diagnostic(
    code="representation.segment-mean-mismatch",
    contract="Key and value of a segment are the means of its rows weighted by importance.",
    why="A sum, a plain mean or a fixed interpolation has another length and direction; attention logits change.",
    fix="Divide by the accumulated mass, for keys and values alike.",
)
LENGTH = Diagnostic(
    code="representation.compressed-length-mismatch",
    contract="Stored rows are the sum of 1 - alpha, owner by owner, and the ratio is source rows over stored rows.",
    why="Lengths are the bounds of every attention read; a wrong one reads past the segments or misses some.",
    fix="Count the appends, not the accumulations.",
)
DMC_BYTES = Diagnostic(
    code="representation.dmc-bytes-mismatch",
    contract="DMC payload is row bytes times the stored rows of every layer and K/V head, pages rounded up by owner.",
    why="Lengths differ by layer and head; one shared length over- or under-reserves memory.",
    fix="Sum the lengths of the owners; charge padding only where rows are padded.",
)
RELAXED_MASS = Diagnostic(
    code="representation.relaxed-mass-mismatch",
    contract="In training z_i = alpha_i z_(i-1) + omega_i with alpha between 0 and 1.",
    why="Full accumulation trains another function than the one whose gradient is taken.",
    fix="Scale the carried mass by the relaxed decision.",
)
LOSS = Diagnostic(
    code="representation.compression-loss-mismatch",
    contract="The loss is the share of rows appended beyond the target, and never negative.",
    why="A two-sided loss punishes a model for compressing more than it was asked to.",
    fix="Take the maximum with zero, then divide by all decisions.",
)
LAYER_PAIR = Diagnostic(
    code="representation.layer-pair-mismatch",
    contract="Merged pairs are (S, S + 1), (S + 2, S + 3), ... from the starting layer, and the pair is one of them.",
    why="Only adjacent layers from S on are similar; another pair restores rows that never were alike.",
    fix="Derive the pairs from start_layer and the number of layers.",
)
PAIR_MEMBER = Diagnostic(
    code="representation.pair-member-replaced",
    contract="Both layers of a merged pair use the shared cache, every other layer its own.",
    why="One layer switched to a plain cache invalidates the whole pair, while the method's name stays in the status.",
    fix="Replace both members or none.",
)
POSITION_SETS = Diagnostic(
    code="representation.position-sets-differ",
    contract="The layers of a pair hold the same original positions, ascending.",
    why="Rows of different tokens would share a direction; merging different sets is undefined.",
    fix="Select one position set for both layers before merging.",
)
PAIR_SHAPE = Diagnostic(
    code="representation.pair-shape",
    contract="Rows, directions, magnitudes and angles of a pair have one entry a position and the head dimension.",
    why="A missing entry gives every later position the metadata of its neighbour.",
    fix="Write one entry a position for K and V of both layers.",
)
ZERO_VECTOR = Diagnostic(
    code="representation.zero-vector",
    contract="No row of a pair is the zero vector.",
    why="It has no direction: dividing by its norm writes NaN into the shared cache of both layers.",
    fix="Refuse the pair; find out why a projection gave zeros (padding, a masked position).",
)
ANGLE = Diagnostic(
    code="representation.angle-mismatch",
    contract="The angle is that between the two rows, from 0 to pi.",
    why="Exceptions are chosen by it; a wrong angle merges rows that should be retained.",
    fix="Recompute the angle from the unit directions.",
)
NOT_UNIT = Diagnostic(
    code="representation.direction-not-unit",
    contract="A shared direction is a unit vector.",
    why="Restoration multiplies it by a norm; every restored row would be too long or too short.",
    fix="Normalise, and divide the sines by the sine of the whole angle.",
)
DIRECTION = Diagnostic(
    code="representation.direction-mismatch",
    contract="The shared direction is the spherical interpolation at rho, or the normalised linear one near zero.",
    why="Another rho or a mean of unnormalised rows leans towards one layer.",
    fix="Interpolate between the unit directions, keys and values each on their own.",
)
ANTIPODAL = Diagnostic(
    code="representation.antipodal-direction",
    contract="A pair within near_pi_angle of pi has no shared direction, and every other pair has one.",
    why="Between opposite rows every direction is equally near; the result is rounding noise.",
    fix="Write null and retain the rows as an exception.",
)
MAGNITUDE = Diagnostic(
    code="representation.magnitude-mismatch",
    contract="Each layer keeps the L2 norm of its own row.",
    why="Swapped or shared norms scale the logits of one layer by those of the other.",
    fix="Store both norms before the rows are released.",
)
EXCEPTION_MISSING = Diagnostic(
    code="representation.exception-missing",
    contract="Every position whose K or V pair is farther apart than the threshold, or opposite, is an exception.",
    why="It would be restored with a direction that neither layer had.",
    fix="Take the union over K and V.",
)
EXCEPTION_EXTRA = Diagnostic(
    code="representation.exception-superfluous",
    contract="A position is retained only if K or V is too far apart, and is listed once, ascending.",
    why="Each exception costs four rows; retaining similar pairs gives the saving back.",
    fix="Retain pairs above the threshold only.",
)
PRINTED_INEQUALITY = Diagnostic(
    code="representation.printed-inequality-used",
    contract="Far pairs are retained, as the paper's prose says, not near ones, as its equation 4 is printed.",
    why="The printed inequality keeps the rows that merge well and merges those that do not.",
    fix="Retain where the distance is above the threshold, and cite the alternative by its own name.",
)
EXCEPTION_ROWS = Diagnostic(
    code="representation.exception-rows-mismatch",
    contract="The rows of every exception are kept exactly, K and V of both layers.",
    why="After the layer-local cache is released there is no other copy.",
    fix="Copy the rows before merging; one index set serves all four lists.",
)
RESTORED = Diagnostic(
    code="representation.restored-row-mismatch",
    contract="A restored row is the shared direction times the layer's own magnitude.",
    why="This is the row that attention reads.",
    fix="Normalise the direction and multiply by the norm of the layer that is restored.",
)
EXCEPTION_RESTORED = Diagnostic(
    code="representation.exception-not-restored",
    contract="At exception positions the exact retained row overwrites the restored one.",
    why="The exception was stored and paid for, and is not used.",
    fix="Overwrite after rescaling, with the rows of the layer that is restored.",
)
OPERATIONS = Diagnostic(
    code="representation.operation-order",
    contract="Prefill stores metadata and exceptions before it releases; decode restores, attends, appends, re-merges.",
    why="Released before the exceptions are stored, their rows are gone; attended before restored, the layer has none.",
    fix="Run the operations in the order of the method.",
)
DECODE_POSITION = Diagnostic(
    code="representation.decode-position",
    contract="A decoded row comes after every position of the pair.",
    why="It would overwrite or reorder history.",
    fix="Append at the next position.",
)
PAIR_BYTES = Diagnostic(
    code="representation.pair-bytes-mismatch",
    contract="A merged pair costs directions, four magnitudes, two angles, four rows an exception, and indices.",
    why="Two layers become one is not half the bytes; at a small head dimension the pair grows.",
    fix="Add every term of the ledger.",
)
CONSUMER_MAP = Diagnostic(
    code="representation.consumer-map-illegal",
    contract="Every layer reads a layer of the graph that produces K/V, that is, one that reads itself.",
    why="The layer would read rows that are never written.",
    fix="Point the layer to a producer.",
)
PRODUCERS = Diagnostic(
    code="representation.producer-set-mismatch",
    contract="The producers are exactly the layers that read themselves, and the cache stores exactly those.",
    why="A layer stored without need costs its bytes; one not stored is missing at the next token.",
    fix="Derive the producers from the consumer map.",
)
GRAPH_LAYERS = Diagnostic(
    code="representation.graph-layers-mismatch",
    contract="Consumer map and diagonal rule have one entry for each layer of the checkpoint.",
    why="The layers past the end of the map have no K/V to read.",
    fix="Write one entry a layer.",
)
OPEN_DIAGONAL = Diagnostic(
    code="representation.open-diagonal-cycle",
    contract="A layer that reads from above masks its diagonal.",
    why="Its query would wait for K/V of its own token, which waits for this layer: the graph has a cycle.",
    fix="Mask the diagonal of every layer that reads from above.",
)
CLOSED_DIAGONAL = Diagnostic(
    code="representation.ordinary-diagonal-masked",
    contract="A layer that reads its own or a lower layer keeps its diagonal.",
    why="Warm-up layers and producers are ordinary attention; masked, a token no longer sees itself there.",
    fix="Leave the diagonal of these layers open.",
)
FIRST_TOKEN = Diagnostic(
    code="representation.first-token-state",
    contract="Where the diagonal is masked, the first token reads a zero K/V.",
    why="Its row is masked whole; a softmax over nothing is NaN, or uniform over tokens of the future.",
    fix="Give the first token a zero K/V that adds nothing.",
)
VISIBLE = Diagnostic(
    code="representation.visible-tokens-mismatch",
    contract="Token t reads the tokens before t on a masked diagonal, and itself too on an open one.",
    why="Hiding the previous token instead, as a shifted mask does, decodes another model than was trained.",
    fix="Mask the column of the token itself; append the zero K/V, do not put it in front.",
)
BACKWARD = Diagnostic(
    code="representation.backward-iterations-too-few",
    contract="A graph with layers that read from above trains through at least two iterations.",
    why="With one, no gradient reaches the K/V that the last iteration reads.",
    fix="Use b of two or more.",
)
ITERATIONS = Diagnostic(
    code="representation.prompt-iterations-mismatch",
    contract="A prompt is encoded with m + b iterations.",
    why="Fewer leave K/V that the trained model has never seen; decoding continues from them.",
    fix="Add forward-only and backward iterations.",
)
ITERATION_CLAIM = Diagnostic(
    code="representation.iteration-claim-mismatch",
    contract="Token i, counted from 1, equals the sequential graph from iteration i on where layers read from above.",
    why="A prompt longer than m + b iterations is an approximation; calling it exact hides that.",
    fix="State the iterations that the dependency graph gives.",
)
LCKV_BYTES = Diagnostic(
    code="representation.condensed-bytes-mismatch",
    contract="Condensed payload is B T |P| H_kv d_h 2b, and standard payload the same with all layers.",
    why="The ratio is a count of layers; bytes by another count promise memory that is not there.",
    fix="Count producer layers.",
)
SUMMARY_GROWTH = Diagnostic(
    code="representation.summary-growth-mismatch",
    contract="Before segment i there are (i - 1) kappa summary vectors; its input adds m_i tokens and kappa more.",
    why="Accumulated summaries grow with every segment; a fixed size runs out of memory later.",
    fix="Add kappa vectors a segment.",
)
SUMMARY_BYTES = Diagnostic(
    code="representation.summary-bytes-mismatch",
    contract="Summaries cost B (i - 1) kappa d_model b, and the K/V projected from them is charged on its own.",
    why="Vectors kept between calls and K/V rows made when they are read are different memory.",
    fix="Use d_model for the vectors, 2 L H_kv d_h for their K/V.",
)
DISCARD = Diagnostic(
    code="representation.discard-not-allowed",
    contract="After a segment only what its retention rule lets go is discarded, never a summary vector.",
    why="Source rows that are gone cannot be summarised again; a lost summary is lost history.",
    fix="Discard activations and summary-token rows, and token states only under summary_only.",
)
FALSE_CACHE = Diagnostic(
    code="representation.false-cache-equivalence",
    contract="Summary vectors enter as input embeddings, and the model projects K/V from them.",
    why="Written into the cache as K/V rows they bypass every projection that gives them meaning.",
    fix="Prepend them to the input of the next call.",
)
SUMMARY_SCOPE = Diagnostic(
    code="representation.summary-scope-missing",
    contract="A count of summary vectors says whether they replace one segment or the whole document.",
    why="The two differ by the number of segments.",
    fix="State what the vectors replace.",
)
MEMORY = Diagnostic(
    code="representation.memory-span-mismatch",
    contract="A recurrent memory holds the newest states, and compressed slots the oldest groups that still fit.",
    why="A memory that is said to reach farther back than it does answers from nothing.",
    fix="Move the spans on at every segment.",
)
UNNAMED_OBJECT = Diagnostic(
    code="representation.stored-object-unnamed",
    contract="A number of slots says what one slot stores.",
    why="512 K/V rows, hidden states and summaries differ in bytes, meaning and consumer.",
    fix="Name the stored object before the budget.",
)
OBJECT_CONSUMER = Diagnostic(
    code="representation.stored-object-consumer",
    contract="Each stored object is read by its own consumer.",
    why="A kernel that reads hidden states as K/V rows computes with unprojected numbers.",
    fix="Name the consumer of the object.",
)
OBJECT_BYTES = Diagnostic(
    code="representation.stored-object-bytes-mismatch",
    contract="The bytes of a stored object follow from its own shape: 2 H_kv d_h for K/V rows, d_model for states.",
    why="Equal slots are not equal bytes, least of all under grouped or multi-query attention.",
    fix="Use the width of what is stored.",
)
INCOMPATIBLE_ADMITTED = Diagnostic(
    code="representation.incompatible-checkpoint-admitted",
    contract="A composition without the checkpoint trained for it, or without what that was trained for, is rejected.",
    why="It runs, and answers with garbage.",
    fix="Reject it, or name the checkpoint that was trained for it.",
)
UNDEFINED_ADMITTED = Diagnostic(
    code="representation.undefined-composition-admitted",
    contract="A composition that is undefined, that no backend reads or that no contract covers is rejected.",
    why="Multiplying two ratios proves nothing about rows that cannot be merged, read or evaluated.",
    fix="Reject it, or change the order, the backend or the evaluation contract.",
)
QUANTISATION = Diagnostic(
    code="representation.quantisation-component-undeclared",
    contract="A quantised composition declares a format for every stored component, if only `unquantised`.",
    why="Directions, magnitudes, exceptions and masses lose quality in different ways.",
    fix="Declare each component.",
)
LEGAL_REJECTED = Diagnostic(
    code="representation.legal-composition-rejected",
    contract="A composition is rejected only for a reason.",
    why="A gate that rejects what it should admit will be switched off.",
    fix="Admit it, or declare what is wrong with it.",
)
REASON = Diagnostic(
    code="representation.rejection-reason-mismatch",
    contract="A rejected composition states the first reason of the declared order, an admitted one none.",
    why="Who repairs the stated reason meets the real one next.",
    fix="State the reason that applies.",
)
MANIFEST_DIGEST = Diagnostic(
    code="representation.manifest-digest-mismatch",
    contract="The publication carries the canonical SHA-256 of the manifest of its method.",
    why="The replacement was built under another meaning.",
    fix="Build the replacement anew under this manifest.",
)
POLICY_GENERATION = Diagnostic(
    code="representation.policy-generation-mismatch",
    contract="The publication carries the policy generation of its manifest.",
    why="A replacement of an earlier policy would be read as one of this policy.",
    fix="Build the replacement under the current policy generation.",
)
SOURCE_STALE = Diagnostic(
    code="representation.source-stale",
    contract="The publication was built from the request, cache and state that are current.",
    why="Rows committed since are in neither the source nor the replacement.",
    fix="Discard the replacement and build it from the current source.",
)
NOT_SUCCESSOR = Diagnostic(
    code="representation.not-a-successor",
    contract="A publication issues cache and state generations above those of its source.",
    why="Readers could not tell the replacement from the rows it replaces.",
    fix="Issue new generations.",
)
RECEIPT = Diagnostic(
    code="representation.replacement-receipt-mismatch",
    contract="The receipt lists the source span, layer pair or consumer layer of every stored object.",
    why="Nobody could say later what a stored row stands for.",
    fix="List each represented span or pair, in order.",
)
CONSUMER = Diagnostic(
    code="representation.replacement-consumer-mismatch",
    contract="The receipt names the reconstruction rule and the consumer of its method.",
    why="Another kernel reads the stored object as something else.",
    fix="Name the rule and the consumer of the method.",
)
EXACT_PREFIX = Diagnostic(
    code="representation.advertised-as-exact-prefix",
    contract="A replacement is never advertised as an exact prefix-cache row.",
    why="Another request with the same prefix would reuse lossy rows as exact ones.",
    fix="Publish it with exact_prefix_reuse false.",
)
ORIGINAL_POSITIONS = Diagnostic(
    code="representation.original-positions-claimed",
    contract="A replacement has no selected original positions.",
    why="No stored row is an original row; a list of positions would pass for a selection.",
    fix="Write null, and list what is represented in the receipt.",
)
PUBLISHED_BYTES = Diagnostic(
    code="representation.published-bytes-mismatch",
    contract="The published bytes are those of the method's stored object.",
    why="The allocator reserves and frees by this number.",
    fix="Take the bytes from the ledger of the method.",
)
DRIFT = Diagnostic(
    code="representation.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the fixture's inputs are right, "
    "run `kvaudit regenerate --redeclare` and review the difference.",
)

DIAGNOSTICS = (
    UNKNOWN_CHECKPOINT,
    NOT_TRAINED,
    TRAINED_PART_MISSING,
    CHECKPOINT_REVISION,
    GRAPH_REVISION,
    KIND,
    OWNER,
    POSITION_CONTRACT,
    LAYER_MAP,
    SIDE_METADATA,
    QUANTISATION_CONTRACT,
    REVERSED,
    FIRST_DECISION,
    WEIGHT,
    SIGMOID_RANGE,
    DMC_SHAPE,
    ROTATED_MERGE,
    SPAN,
    ANCHOR,
    MASS,
    MEAN,
    LENGTH,
    DMC_BYTES,
    RELAXED_MASS,
    LOSS,
    LAYER_PAIR,
    PAIR_MEMBER,
    POSITION_SETS,
    PAIR_SHAPE,
    ZERO_VECTOR,
    ANGLE,
    NOT_UNIT,
    DIRECTION,
    ANTIPODAL,
    MAGNITUDE,
    EXCEPTION_MISSING,
    EXCEPTION_EXTRA,
    PRINTED_INEQUALITY,
    EXCEPTION_ROWS,
    RESTORED,
    EXCEPTION_RESTORED,
    OPERATIONS,
    DECODE_POSITION,
    PAIR_BYTES,
    CONSUMER_MAP,
    PRODUCERS,
    GRAPH_LAYERS,
    OPEN_DIAGONAL,
    CLOSED_DIAGONAL,
    FIRST_TOKEN,
    VISIBLE,
    BACKWARD,
    ITERATIONS,
    ITERATION_CLAIM,
    LCKV_BYTES,
    SUMMARY_GROWTH,
    SUMMARY_BYTES,
    DISCARD,
    FALSE_CACHE,
    SUMMARY_SCOPE,
    MEMORY,
    UNNAMED_OBJECT,
    OBJECT_CONSUMER,
    OBJECT_BYTES,
    INCOMPATIBLE_ADMITTED,
    UNDEFINED_ADMITTED,
    QUANTISATION,
    LEGAL_REJECTED,
    REASON,
    MANIFEST_DIGEST,
    POLICY_GENERATION,
    SOURCE_STALE,
    NOT_SUCCESSOR,
    RECEIPT,
    CONSUMER,
    EXACT_PREFIX,
    ORIGINAL_POSITIONS,
    PUBLISHED_BYTES,
    DRIFT,
)


@dataclass(frozen=True, slots=True)
class _Method:
    """What a manifest of one method must say, and who reads its publication."""

    kind: str
    owner: str
    position_contract: str
    side_metadata: tuple[str, ...]
    reconstruction_rule: str
    consumer: str


_METHODS = {
    composition.DMC: _Method(
        "time_segments",
        "layer_kv_head",
        "latest_source_position",
        ("masses", "lengths", "block_table"),
        "weighted_mean_at_anchor",
        "ragged_segment_attention",
    ),
    composition.MINICACHE: _Method(
        "depth_pairs",
        "shared_layer_pair",
        "same_position",
        ("magnitudes", "angles", "exception_positions"),
        "direction_times_magnitude_then_exceptions",
        "restore_then_attend",
    ),
    composition.LCKV: _Method(
        "condensed_layers",
        "producer_layer",
        "same_position",
        (),
        "read_producer_layer",
        "condensed_attention",
    ),
}

_OBJECT_CONSUMERS = {
    "raw_kv_window": "attention_kernel",
    "merged_kv": "attention_kernel_with_merge_contract",
    "hidden_memory": "kv_projection_of_next_segment",
    "dual_activation": "attention_over_two_memories",
    "segment_summaries": "input_of_next_segment",
}

_DISCARDABLE = {
    "summary_only": ("token_states", "segment_activations", "summary_token_rows"),
    "summaries_and_tokens": ("segment_activations", "summary_token_rows"),
}


@dataclass(frozen=True, slots=True)
class _Pair:
    """A layer pair as it is stored: its positions, merged rows of K and V, and the row indices of its exceptions.

    `restored` holds the rows that attention reads of each layer and tensor: restored, then overwritten where retained.
    A row that has no direction and is not retained does not exist: it is empty.
    """

    positions: list[int]
    sources: Mapping[str, list[list[Any]]]
    rows: Mapping[str, tuple[minicache.MergedRow, ...]]
    exceptions: tuple[int, ...]
    restored: Mapping[str, list[Sequence[Any]]]


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a representation fixture, or raise the first `ContractViolation` in the order above."""
    for method in METHODS:
        _judge_manifest(fixture, method)
    segments = _judge_dmc(fixture)
    prefill, decoded = _judge_minicache(fixture)
    _judge_lckv(fixture)
    _judge_summaries(fixture)
    _judge_memories(fixture["memories"])
    _judge_stored_objects(fixture["stored_objects"])
    _judge_compositions(fixture)
    _judge_publication(fixture, segments, prefill)
    return _evidence(fixture, segments, prefill, decoded)


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture with the manifest digest of its publication recomputed."""
    publication = fixture["publication"]
    digest = canonical_sha256(fixture["manifests"][publication["method"]])
    return {**fixture, "publication": {**publication, "manifest_sha256": digest}}


def _judge_manifest(fixture: Document, method: str) -> None:
    manifest, rule, where = fixture["manifests"][method], _METHODS[method], pointer("manifests", method)
    checkpoint = _checkpoint(fixture, manifest["checkpoint"], where + "/checkpoint")
    _judge_training(checkpoint, method, where + "/checkpoint")
    revision = manifest["checkpoint_revision"]
    _require(CHECKPOINT_REVISION, revision, checkpoint["revision"], where + "/checkpoint_revision")
    _require(GRAPH_REVISION, manifest["graph_revision"], checkpoint["graph_revision"], where + "/graph_revision")
    _require(KIND, manifest["representation_kind"], rule.kind, where + "/representation_kind")
    _require(OWNER, manifest["owner"], rule.owner, where + "/owner")
    position_contract = manifest["original_position_contract"]
    _require(POSITION_CONTRACT, position_contract, rule.position_contract, where + "/original_position_contract")
    for name in rule.side_metadata:
        if name not in manifest["side_metadata"]:
            raise ContractViolation(SIDE_METADATA, where + "/side_metadata", f"expected {name}, found none")


def _judge_training(checkpoint: Document, method: str, where: str) -> None:
    """Judge one method alone on its checkpoint, whatever the backend and the evaluation contract."""
    reason = composition.refusal(checkpoint["trained_for"], (method,), (method,), None, None)
    trained = f"trained for {joined(checkpoint['trained_for'])}"
    if reason == composition.NOT_TRAINED:
        raise ContractViolation(NOT_TRAINED, where, f"expected a checkpoint trained for {method}, found one {trained}")
    if reason == composition.TRAINED_PART_MISSING:
        raise ContractViolation(TRAINED_PART_MISSING, where, f"expected an ordinary checkpoint, found one {trained}")


def _judge_layer_maps(manifest: Document, layers: int, consumers: Sequence[int], where: str) -> None:
    for name, expected in (("producer_layer_map", list(range(layers))), ("consumer_layer_map", list(consumers))):
        _require_items(LAYER_MAP, manifest[name], expected, where + pointer(name))


def _judge_dmc(fixture: Document) -> tuple[dmc.Segment, ...]:
    trace, manifest = fixture["dmc"], fixture["manifests"]["dmc"]
    layers = fixture["checkpoints"][manifest["checkpoint"]]["layers"]
    _judge_layer_maps(manifest, layers, range(layers), "/manifests/dmc")
    parameters, place = manifest["parameters"], "/manifests/dmc/parameters"
    for name, value in (("append_value", dmc.APPEND), ("accumulate_value", dmc.ACCUMULATE)):
        _require(REVERSED, parameters[name], value, place + pointer(name))
    _require(ROTATED_MERGE, parameters["key_stage_at_merge"], "pre_rope", place + "/key_stage_at_merge")
    where = "/dmc"
    _judge_rows(trace, ("alpha", "omega", "keys", "values"), trace["head_dimension"], where)
    _judge_first(trace["alpha"], where + "/alpha")
    _judge_weights(trace["omega"], where + "/omega")
    _judge_in_range(trace, where + "/in_range_omega")
    segments = _segments(trace, trace["omega"])
    _judge_segments(trace, segments)
    _judge_dmc_receipt(trace, len(segments))
    for name in ("keys", "queries"):
        _judge_rows(trace["control_example"], (name,), trace["control_example"]["channels"], where + "/control_example")
    _require_length(DMC_SHAPE, trace["control_example"], "queries", "keys", where + "/control_example")
    _judge_ragged(trace["ragged"], trace, layers)
    _judge_relaxation(trace["relaxation"])
    _judge_objectives(trace)
    return segments


def _judge_rows(record: Document, names: Sequence[str], width: int, where: str) -> None:
    """Judge lists with one entry a row of the first list, whose rows, where they have any, are `width` long."""
    for name in names:
        _require_length(DMC_SHAPE, record, name, names[0], where)
        for index, row in enumerate(record[name]):
            if isinstance(row, list) and len(row) != width:
                reason = f"expected {width} scalars, found {len(row)}"
                raise ContractViolation(DMC_SHAPE, where + pointer(name, index), reason)


def _judge_first(alpha: list[int], where: str) -> None:
    if alpha[0] != dmc.APPEND:
        raise ContractViolation(FIRST_DECISION, where + "/0", f"expected {dmc.APPEND}, found {alpha[0]}")


def _judge_weights(omega: list[Any], where: str) -> None:
    for index, weight in enumerate(omega):
        if weight <= 0:
            raise ContractViolation(WEIGHT, where + pointer(index), f"expected more than 0, found {_shown(weight)}")


def _judge_in_range(trace: Document, where: str) -> None:
    scaled, omega = trace["in_range_omega"], trace["omega"]
    _require_length(DMC_SHAPE, trace, "in_range_omega", "omega", "/dmc")
    for index, weight in enumerate(scaled):
        if not 0 < weight < 1:
            reason = f"expected a weight between 0 and 1, found {_shown(weight)}"
            raise ContractViolation(SIGMOID_RANGE, where + pointer(index), reason)
        if weight * omega[0] != scaled[0] * omega[index]:
            expected = Fraction(scaled[0] * omega[index]) / omega[0]
            reason = f"expected {_shown(expected)}, found {_shown(weight)}"
            raise ContractViolation(SIGMOID_RANGE, where + pointer(index), reason)


def _judge_segments(trace: Document, segments: tuple[dmc.Segment, ...]) -> None:
    stated, where = trace["segments"], "/dmc/segments"
    spans = [[segment.first, segment.last] for segment in segments]
    found = [[segment["first"], segment["last"]] for segment in stated]
    if found != spans and found == _reversed_spans(trace):
        reason = f"expected the spans {joined(spans)}, found {joined(found)}, which reversed decisions give"
        raise ContractViolation(REVERSED, where, reason)
    if len(found) != len(spans):
        raise ContractViolation(SPAN, where, f"expected {len(spans)} segments, found {len(found)}")
    for index, (record, segment) in enumerate(zip(stated, segments, strict=True)):
        place = where + pointer(index)
        _require(SPAN, record["first"], segment.first, place + "/first")
        _require(SPAN, record["last"], segment.last, place + "/last")
        _require(ANCHOR, record["anchor"], segment.last, place + "/anchor")
        _require_number(MASS, record["mass"], segment.mass, place + "/mass")
        for name, mean in (("key", segment.key), ("value", segment.value)):
            _require_row(MEAN, DMC_SHAPE, record[name], mean, place + pointer(name))


def _reversed_spans(trace: Document) -> list[list[int]]:
    flipped = {**trace, "alpha": [1 - decided for decided in trace["alpha"]]}
    return [[segment.first, segment.last] for segment in _segments(flipped, trace["omega"])]


def _judge_dmc_receipt(trace: Document, stored: int) -> None:
    receipt, where = trace["receipt"], "/dmc/receipt"
    rows = len(trace["alpha"])
    row_bytes = _dmc_row_bytes(trace)
    _require(LENGTH, receipt["source_rows"], rows, where + "/source_rows")
    _require(LENGTH, receipt["stored_rows"], stored, where + "/stored_rows")
    ratio = dmc.compression_ratio(rows, stored)
    _require_number(LENGTH, receipt["compression_ratio"], ratio, where + "/compression_ratio")
    _require(DMC_BYTES, receipt["source_payload_bytes"], rows * row_bytes, where + "/source_payload_bytes")
    _require(DMC_BYTES, receipt["segment_payload_bytes"], stored * row_bytes, where + "/segment_payload_bytes")
    _require(DMC_BYTES, receipt["mass_bytes"], stored * trace["mass_entry_bytes"], where + "/mass_bytes")


def _judge_ragged(ragged: Document, trace: Document, layers: int) -> None:
    where = "/dmc/ragged"
    alpha = ragged["alpha"]
    for name in ("alpha", "lengths"):
        _require_count(DMC_SHAPE, ragged[name], layers, "layers", where + pointer(name))
        for layer, heads in enumerate(ragged[name]):
            _require_count(DMC_SHAPE, heads, len(alpha[0]), "K/V heads", where + pointer(name, layer))
    for layer, heads in enumerate(alpha):
        for head, decisions in enumerate(heads):
            place = where + pointer("alpha", layer, head)
            _require_count(DMC_SHAPE, decisions, len(alpha[0][0]), "decisions", place)
            _judge_first(decisions, place)
            length = ragged["lengths"][layer][head]
            _require(LENGTH, length, dmc.appended_rows(decisions), where + pointer("lengths", layer, head))
    expected = _ragged_bytes(ragged, trace)
    for name in ("pages", "payload_bytes", "padded_payload_bytes"):
        _require(DMC_BYTES, ragged[name], expected[name], where + pointer(name))


def _judge_relaxation(relaxation: Document) -> None:
    where = "/dmc/relaxation"
    width = len(relaxation["keys"][0])
    _judge_rows(relaxation, ("logits", "noise", "omega", "keys", "values", "masses"), width, where)
    _judge_weights(relaxation["omega"], where + "/omega")
    for index, state in enumerate(_relaxed(relaxation)):
        _require_number(RELAXED_MASS, relaxation["masses"][index], state.mass, where + pointer("masses", index))


def _judge_objectives(trace: Document) -> None:
    appended, decisions = _ragged_decisions(trace["ragged"])
    for index, objective in enumerate(trace["objectives"]):
        where = pointer("dmc", "objectives", index)
        _require(LENGTH, objective["appended_rows"], appended, where + "/appended_rows")
        loss = dmc.compression_loss(appended, decisions, objective["target_ratio"])
        _require_number(LOSS, objective["loss"], loss, where + "/loss")


def _judge_minicache(fixture: Document) -> tuple[_Pair, _Pair]:
    record, manifest = fixture["minicache"], fixture["manifests"]["minicache"]
    layers = fixture["checkpoints"][manifest["checkpoint"]]["layers"]
    parameters, place = manifest["parameters"], "/manifests/minicache/parameters"
    _require(PRINTED_INEQUALITY, parameters["exception_rule"], "far_pairs", place + "/exception_rule")
    pairs = [list(pair) for pair in minicache.layer_pairs(layers, parameters["start_layer"])]
    _require_items(LAYER_PAIR, parameters["merged_pairs"], pairs, place + "/merged_pairs")
    lower = {high: low for low, high in pairs}
    consumers = [lower.get(layer, layer) for layer in range(layers)]
    _judge_layer_maps(manifest, layers, consumers, "/manifests/minicache")
    pair = [record["pair"]["low_layer"], record["pair"]["high_layer"]]
    if pair not in pairs:
        place = "/minicache/pair" + ("/low_layer" if pair[0] not in lower.values() else "/high_layer")
        raise ContractViolation(LAYER_PAIR, place, f"expected one of {joined(pairs)}, found {pair}")
    members = {layer for each in pairs for layer in each}
    kinds = ["shared_pair" if layer in members else "layer_local" for layer in range(layers)]
    _require_items(PAIR_MEMBER, record["layer_caches"], kinds, "/minicache/layer_caches")
    prefill = _judge_prefill(record, parameters)
    decoded = _judge_decode(record, parameters, prefill)
    expected = _pair_bytes(
        record["running_pair"]["positions"], record["running_pair"]["exceptions"], record["running_pair"]
    )
    _judge_pair_bytes(record["running_pair"], expected, "/minicache/running_pair")
    return prefill, decoded


def _judge_prefill(record: Document, parameters: Document) -> _Pair:
    prefill, where = record["prefill"], "/minicache/prefill"
    positions = prefill["low_positions"]
    for index, position in enumerate(positions):
        if index and position <= positions[index - 1]:
            reason = f"expected a position after {positions[index - 1]}, found {position}"
            raise ContractViolation(POSITION_SETS, where + pointer("low_positions", index), reason)
    _require_items(POSITION_SETS, prefill["high_positions"], positions, where + "/high_positions")
    sources = {side: prefill[side] for side in SIDES}
    for side, rows in sources.items():
        _judge_pair_rows(rows, len(positions), record["widths"]["head_dimension"], where + pointer(side))
    _require_items(OPERATIONS, prefill["operations"], list(PREFILL_OPERATIONS), where + "/operations")
    merged = {tensor: _merged(sources, tensor, parameters) for tensor in TENSORS}
    pair = _pair(positions, sources, merged, _far_exceptions(merged, parameters))
    _judge_pair_state(prefill["state"], pair, record["widths"], parameters, where + "/state")
    _judge_restored(prefill["restored"], pair, where + "/restored")
    return pair


def _judge_decode(record: Document, parameters: Document, prefill: _Pair) -> _Pair:
    decode, where = record["decode"], "/minicache/decode"
    if decode["position"] <= prefill.positions[-1]:
        reason = f"expected a position after {prefill.positions[-1]}, found {decode['position']}"
        raise ContractViolation(DECODE_POSITION, where + "/position", reason)
    for side in SIDES:
        _judge_pair_rows([decode[side]], 1, record["widths"]["head_dimension"], where, (side,))
    _require_items(OPERATIONS, decode["operations"], list(DECODE_OPERATIONS), where + "/operations")
    newest = {side: [decode[side]] for side in SIDES}
    sources = {side: [*prefill.sources[side], decode[side]] for side in SIDES}
    merged = {tensor: (*prefill.rows[tensor], *_merged(newest, tensor, parameters)) for tensor in TENSORS}
    pair = _pair([*prefill.positions, decode["position"]], sources, merged, _far_exceptions(merged, parameters))
    _judge_pair_state(decode["state"], pair, record["widths"], parameters, where + "/state")
    return pair


def _judge_pair_rows(
    rows: list[list[Any]], count: int, width: int, where: str, names: Sequence[str] | None = None
) -> None:
    """Judge the rows of one layer; with `names`, row i lies at that member of `where`, otherwise at its index."""
    _require_count(PAIR_SHAPE, rows, count, "rows", where)
    for index, row in enumerate(rows):
        place = where + pointer(index if names is None else names[index])
        _require_count(PAIR_SHAPE, row, width, "channels", place)
        if not any(row):
            raise ContractViolation(ZERO_VECTOR, place, "expected a row with a direction, found zeros only")


def _judge_pair_state(state: Document, pair: _Pair, widths: Document, parameters: Document, where: str) -> None:
    for tensor in TENSORS:
        _judge_tensor_state(state[tensor], pair.rows[tensor], widths["head_dimension"], where + pointer(tensor))
    _judge_exceptions(state, pair, parameters, where)
    _judge_pair_bytes(state, _pair_bytes(len(pair.positions), len(pair.exceptions), widths), where)


def _judge_tensor_state(state: Document, rows: Sequence[minicache.MergedRow], width: int, where: str) -> None:
    for name in ("angles", "directions", "low_magnitudes", "high_magnitudes"):
        _require_count(PAIR_SHAPE, state[name], len(rows), name.replace("_", " "), where + pointer(name))
    for index, row in enumerate(rows):
        _require_number(ANGLE, state["angles"][index], row.angle, where + pointer("angles", index))
        place = where + pointer("directions", index)
        _judge_direction(state["directions"][index], row, width, place)
        for name, norm in (("low_magnitudes", row.low_magnitude), ("high_magnitudes", row.high_magnitude)):
            _require_number(MAGNITUDE, state[name][index], norm, where + pointer(name, index))


def _judge_direction(stated: list[Any] | None, row: minicache.MergedRow, width: int, where: str) -> None:
    if stated is None or row.direction is None:
        if row.direction is not None:
            raise ContractViolation(ANTIPODAL, where, "expected a direction, found null")
        if stated is not None:
            raise ContractViolation(ANTIPODAL, where, f"expected null at an angle of {_shown(row.angle)}, found one")
        return
    _require_count(PAIR_SHAPE, stated, width, "channels", where)
    square = sum((Fraction(channel) ** 2 for channel in stated), Fraction(0))
    if abs(square - 1) > UNIT_TOLERANCE:
        raise ContractViolation(NOT_UNIT, where, f"expected a squared norm of 1, found {_shown(square)}")
    _require_row(DIRECTION, PAIR_SHAPE, stated, row.direction, where)


def _judge_exceptions(state: Document, pair: _Pair, parameters: Document, where: str) -> None:
    stated, place = state["exception_positions"], where + "/exception_positions"
    expected = [pair.positions[index] for index in pair.exceptions]
    printed = [pair.positions[index] for index in _printed_exceptions(pair, parameters)]
    if stated != expected:
        reason = f"expected {joined(expected)}, found {joined(stated)}"
        if stated == printed:
            raise ContractViolation(PRINTED_INEQUALITY, place, reason)
        if set(expected) - set(stated):
            raise ContractViolation(EXCEPTION_MISSING, place, reason)
        index = next(i for i, position in enumerate(stated) if expected[i : i + 1] != [position])
        raise ContractViolation(EXCEPTION_EXTRA, place + pointer(index), reason)
    for side in SIDES:
        retained = [pair.sources[side][index] for index in pair.exceptions]
        _require_items(EXCEPTION_ROWS, state["exception_rows"][side], retained, where + pointer("exception_rows", side))


def _judge_restored(restored: Document, pair: _Pair, where: str) -> None:
    for side in SIDES:
        place, retained = where + pointer(side), set(pair.exceptions)
        _require_count(PAIR_SHAPE, restored[side], len(pair.positions), "rows", place)
        for index, row in enumerate(pair.restored[side]):
            if index in retained:
                _require_items(EXCEPTION_RESTORED, restored[side][index], list(row), place + pointer(index))
            else:
                _require_row(RESTORED, PAIR_SHAPE, restored[side][index], row, place + pointer(index))


def _judge_pair_bytes(record: Document, expected: minicache.PairLedger, where: str) -> None:
    _require(PAIR_BYTES, record["full_bytes"], expected.full, where + "/full_bytes")
    _require(PAIR_BYTES, record["merged_bytes"], expected.merged(), where + "/merged_bytes")


def _judge_lckv(fixture: Document) -> None:
    record, manifest = fixture["lckv"], fixture["manifests"]["lckv"]
    layers = fixture["checkpoints"][manifest["checkpoint"]]["layers"]
    where, parameters = "/manifests/lckv", manifest["parameters"]
    consumers = manifest["consumer_layer_map"]
    _require_count(GRAPH_LAYERS, consumers, layers, "layers", where + "/consumer_layer_map")
    _require_count(GRAPH_LAYERS, parameters["diagonal_masked"], layers, "layers", where + "/parameters/diagonal_masked")
    illegal = lckv.first_illegal_consumer(consumers)
    if illegal is not None:
        reason = f"expected one of the producers {joined(lckv.producers(consumers))}, found {consumers[illegal]}"
        raise ContractViolation(CONSUMER_MAP, where + pointer("consumer_layer_map", illegal), reason)
    produced = list(lckv.producers(consumers))
    _require_items(PRODUCERS, manifest["producer_layer_map"], produced, where + "/producer_layer_map")
    _require_items(PRODUCERS, record["stored_layers"], produced, "/lckv/stored_layers")
    _judge_diagonals(consumers, parameters["diagonal_masked"], where + "/parameters/diagonal_masked")
    cyclic = any(lckv.reads_from_above(consumers))
    if cyclic:
        _require(FIRST_TOKEN, parameters["first_token"], "zero_kv", where + "/parameters/first_token")
        if parameters["backward_iterations"] < 2:
            reason = f"expected at least 2, found {parameters['backward_iterations']}"
            raise ContractViolation(BACKWARD, where + "/parameters/backward_iterations", reason)
    for index, receipt in enumerate(record["visibility"]):
        _judge_visibility(receipt, consumers, pointer("lckv", "visibility", index))
    iterations = lckv.prompt_iterations(parameters["forward_iterations"], parameters["backward_iterations"])
    _require(ITERATIONS, record["prompt_iterations"], iterations, "/lckv/prompt_iterations")
    trace, place = record["iteration_trace"], "/lckv/iteration_trace"
    first = list(lckv.first_exact_iterations(consumers, trace["inputs"]))
    _require_items(ITERATION_CLAIM, trace["first_exact_iterations"], first, place + "/first_exact_iterations")
    exact = _exact_tokens(first, iterations)
    _require(ITERATION_CLAIM, trace["exact_after_prompt_iterations"], exact, place + "/exact_after_prompt_iterations")
    for name, count in (("standard_bytes", layers), ("condensed_bytes", len(produced))):
        _require(LCKV_BYTES, record["payload"][name], _lckv_bytes(record, count), "/lckv/payload" + pointer(name))


def _judge_diagonals(consumers: list[int], masked: list[bool], where: str) -> None:
    for layer, above in enumerate(lckv.reads_from_above(consumers)):
        if above and not masked[layer]:
            waiting = lckv.cycle(consumers, layer)
            reason = f"expected a masked diagonal; the layers {joined(waiting or ())} wait for each other"
            raise ContractViolation(OPEN_DIAGONAL, where + pointer(layer), reason)
        if masked[layer] and not above:
            reason = f"expected an open diagonal: layer {layer} reads layer {consumers[layer]}"
            raise ContractViolation(CLOSED_DIAGONAL, where + pointer(layer), reason)


def _judge_visibility(receipt: Document, consumers: list[int], where: str) -> None:
    layer, token = receipt["layer"], receipt["token"]
    if layer >= len(consumers):
        raise ContractViolation(
            GRAPH_LAYERS, where + "/layer", f"expected a layer below {len(consumers)}, found {layer}"
        )
    visible = lckv.visible_tokens(consumers, layer, token)
    _require(VISIBLE, receipt["visible_tokens"], visible, where + "/visible_tokens")


def _judge_summaries(fixture: Document) -> None:
    record, where = fixture["summaries"], "/summaries"
    checkpoint = _checkpoint(fixture, record["checkpoint"], where + "/checkpoint")
    _judge_training(checkpoint, composition.AUTOCOMPRESSOR, where + "/checkpoint")
    _require(FALSE_CACHE, record["consumed_as"], "input_embeddings", where + "/consumed_as")
    allowed = _DISCARDABLE[record["retention"]]
    for index, segment in enumerate(record["segments"]):
        place, expected = where + pointer("segments", index), _summary_segment(record, index)
        for name in ("accumulated_vectors", "input_rows"):
            _require(SUMMARY_GROWTH, segment[name], expected[name], place + pointer(name))
        _require(SUMMARY_BYTES, segment["payload_bytes"], expected["payload_bytes"], place + "/payload_bytes")
        for number, discarded in enumerate(segment["discarded"]):
            if discarded not in allowed:
                reason = f"{record['retention']} lets go {joined(allowed)}, found {discarded}"
                raise ContractViolation(DISCARD, place + pointer("discarded", number), reason)
    projected = _projected_bytes(record)
    _require(SUMMARY_BYTES, record["projected_kv_bytes"], projected, where + "/projected_kv_bytes")
    if record["stated_size"]["replaces"] is None:
        reason = "expected one_segment or whole_document, found null"
        raise ContractViolation(SUMMARY_SCOPE, where + "/stated_size/replaces", reason)


def _judge_memories(memories: Document) -> None:
    where = "/memories"
    span = summaries.transformer_xl_memory(memories["segment_tokens"], memories["memory_rows"])
    _require(MEMORY, memories["transformer_xl"], list(span), where + "/transformer_xl")
    stated, memory = memories["compressive"], _two_tier(memories)
    _require(MEMORY, stated["local"], list(memory.local), where + "/compressive/local")
    slots = [list(span) for span in memory.compressed]
    _require_items(MEMORY, stated["compressed"], slots, where + "/compressive/compressed")
    _require(MEMORY, stated["lost_positions"], memory.lost_positions, where + "/compressive/lost_positions")


def _judge_stored_objects(record: Document) -> None:
    for name, entry in record["entries"].items():
        where = pointer("stored_objects", "entries", name)
        kind = entry["stored_object"]
        if kind is None:
            reason = f"expected what one of {entry['slots']} slots stores, found null"
            raise ContractViolation(UNNAMED_OBJECT, where + "/stored_object", reason)
        _require(OBJECT_CONSUMER, entry["consumer"], _OBJECT_CONSUMERS[kind], where + "/consumer")
        _require(OBJECT_BYTES, entry["bytes"], _object_bytes(record["geometry"], entry), where + "/bytes")


def _judge_compositions(fixture: Document) -> None:
    for name, stated in fixture["compositions"].items():
        where = pointer("compositions", name)
        _checkpoint(fixture, stated["checkpoint"], where + "/checkpoint")
        reason = _refusal(fixture, stated)
        if stated["decision"] == "admitted" and reason is not None:
            diagnostic = UNDEFINED_ADMITTED
            if reason in composition.CHECKPOINT_REASONS:
                diagnostic = INCOMPATIBLE_ADMITTED
            elif reason == composition.QUANTISATION_UNDECLARED:
                diagnostic = QUANTISATION
            raise ContractViolation(diagnostic, where + "/decision", f"expected rejected ({reason}), found admitted")
        if stated["decision"] == "rejected" and reason is None:
            raise ContractViolation(LEGAL_REJECTED, where + "/decision", "expected admitted, found rejected")
        _require(REASON, stated["reason"], reason, where + "/reason")
    for method in METHODS:
        contract = fixture["manifests"][method]["quantization_contract_id"]
        if contract is not None and contract not in _quantisation_contracts(fixture, method):
            where = pointer("manifests", method, "quantization_contract_id")
            raise ContractViolation(
                QUANTISATION_CONTRACT, where, f"no admitted composition with {method} has {contract}"
            )


def _judge_publication(fixture: Document, segments: tuple[dmc.Segment, ...], prefill: _Pair) -> None:
    stated, source, where = fixture["publication"], fixture["source_state"], "/publication"
    manifest, rule = fixture["manifests"][stated["method"]], _METHODS[stated["method"]]
    digest = canonical_sha256(manifest)
    _require(MANIFEST_DIGEST, stated["manifest_sha256"], digest, where + "/manifest_sha256")
    generation = manifest["policy_generation"]
    _require(POLICY_GENERATION, stated["policy_generation"], generation, where + "/policy_generation")
    _require(SOURCE_STALE, stated["request_id"], source["request_id"], where + "/request_id")
    for name in ("cache_generation", "state_generation"):
        _require(SOURCE_STALE, stated[f"source_{name}"], source[name], where + pointer(f"source_{name}"))
        if stated[name] <= source[name]:
            reason = f"expected more than {source[name]}, found {stated[name]}"
            raise ContractViolation(NOT_SUCCESSOR, where + pointer(name), reason)
    _require_items(RECEIPT, stated["represents"], _represented(fixture, segments), where + "/represents")
    _require(CONSUMER, stated["reconstruction_rule"], rule.reconstruction_rule, where + "/reconstruction_rule")
    _require(CONSUMER, stated["consumer"], rule.consumer, where + "/consumer")
    _require(EXACT_PREFIX, stated["exact_prefix_reuse"], False, where + "/exact_prefix_reuse")
    positions = stated["selected_original_positions"]
    _require(ORIGINAL_POSITIONS, positions, None, where + "/selected_original_positions")
    expected = _published_bytes(fixture, segments, prefill)
    _require(PUBLISHED_BYTES, stated["payload_bytes"], expected, where + "/payload_bytes")


def _evidence(fixture: Document, segments: tuple[dmc.Segment, ...], prefill: _Pair, decoded: _Pair) -> Evidence:
    trace, publication = fixture["dmc"], fixture["publication"]
    row_bytes = _dmc_row_bytes(trace)
    pair = _pair_bytes(len(prefill.positions), len(prefill.exceptions), fixture["minicache"]["widths"])
    consumers = fixture["manifests"]["lckv"]["consumer_layer_map"]
    condensed = _lckv_bytes(fixture["lckv"], len(lckv.producers(consumers)))
    ledgers = (
        LedgerRow("dmc_source_payload", len(trace["alpha"]) * row_bytes, "B", "n * 2 d_h b"),
        LedgerRow("dmc_segment_payload", len(segments) * row_bytes, "B", "T_DMC * 2 d_h b"),
        LedgerRow("layer_pair_full", pair.full, "B", "4 T d_h b"),
        LedgerRow(
            "layer_pair_merged", pair.merged(), "B", "2 T d_h b + 4 T b_mag + 2 T b_angle + 4 R d_h b + R b_index"
        ),
        LedgerRow("standard_layer_caches", _lckv_bytes(fixture["lckv"], len(consumers)), "B", "B T L H_kv d_h 2b"),
        LedgerRow("condensed_layer_caches", condensed, "B", "B T |P| H_kv d_h 2b"),
    )
    snapshot = Snapshot(
        policy=publication["method"],
        step="representation replacement",
        owner=fixture["manifests"][publication["method"]]["owner"],
        state_generation=publication["state_generation"],
        cache_generation=publication["cache_generation"],
        selected_original_positions=None,
        selected_row_count=None,
        published=True,
    )
    comparison = Comparison(
        "layer_pair_payload",
        "B",
        "one layer pair, one K/V head, the same positions, keys and values with their metadata",
        ("layer_pair_full", "layer_pair_merged"),
    )
    return Evidence(_results(fixture, segments, prefill, decoded), ledgers, (snapshot,), (comparison,))


def _results(fixture: Document, segments: tuple[dmc.Segment, ...], prefill: _Pair, decoded: _Pair) -> Document:
    return {
        "manifests": {method: _manifest_result(fixture["manifests"][method]) for method in METHODS},
        "dmc": _dmc_result(fixture, segments),
        "minicache": _minicache_result(fixture, prefill, decoded),
        "lckv": _lckv_result(fixture),
        "summaries": _summaries_result(fixture["summaries"]),
        "memories": _memories_result(fixture["memories"]),
        "stored_objects": _stored_objects_result(fixture["stored_objects"]),
        "compositions": {
            name: {
                "checkpoint": each["checkpoint"],
                "transforms": each["transforms"],
                "decision": each["decision"],
                "reason": each["reason"],
            }
            for name, each in fixture["compositions"].items()
        },
        "publication": _publication_result(fixture),
    }


def _manifest_result(manifest: Document) -> Document:
    names = ("checkpoint", "representation_kind", "owner", "original_position_contract", "policy_generation")
    return {**{name: manifest[name] for name in names}, "manifest_sha256": canonical_sha256(manifest)}


def _dmc_result(fixture: Document, segments: tuple[dmc.Segment, ...]) -> Document:
    trace = fixture["dmc"]
    stored = len(segments)
    scaled = _segments(trace, trace["in_range_omega"])
    rounded = [dmc.decision(key[0]) for key in trace["keys"]]
    return {
        "alpha": summarised(trace["alpha"]),
        "omega": summarised(trace["omega"]),
        "keys": summarised(trace["keys"]),
        "values": summarised(trace["values"]),
        "segments": _segment_records(segments),
        "stored_rows": stored,
        "compression_ratio": dmc.compression_ratio(len(trace["alpha"]), stored),
        "mass_bytes": stored * trace["mass_entry_bytes"],
        "relative_weights": {
            "some_weight_outside_sigmoid_range": any(weight >= 1 for weight in trace["omega"]),
            "in_range_omega": summarised(trace["in_range_omega"]),
            "in_range_masses": summarised([segment.mass for segment in scaled]),
            "same_means": [(one.key, one.value) for one in segments] == [(one.key, one.value) for one in scaled],
        },
        "control_channel": {
            "payload_rows_cannot_hold_it": rounded != trace["alpha"],
            "decisions_if_first_scalar_were_it": summarised(rounded),
            "decision_at_one_half": dmc.decision(0),
            "decision_at_one_half_if_rounded_to_even": round(dmc.weight(0)),
            **_control_variants(trace["control_example"]),
        },
        "first_decision_accumulates": _first_accumulates(trace),
        "pinned_code_window": _pinned_window(trace, segments),
        "rotated_merge": _rotated_merge(trace["rotated_merge"]),
        "ragged": _ragged_result(trace),
        "relaxation": _relaxation_result(trace["relaxation"]),
        "objectives": [_objective_result(trace, objective) for objective in trace["objectives"]],
    }


def _segment_records(segments: Sequence[dmc.Segment]) -> Any:
    """Return the segments as a report lists them: all of a short trace, the digest of a long one."""
    records = [
        {
            "first": segment.first,
            "last": segment.last,
            "anchor": segment.last,
            "mass": segment.mass,
            "key": list(segment.key),
            "value": list(segment.value),
        }
        for segment in segments
    ]
    return summarised(records)


def _control_variants(example: Document) -> Document:
    """Return decisions and weights by the paper's first channel and by the last one, as the pinned code uses it."""
    keys, queries, offset = example["keys"], example["queries"], example["pinned_offset"]
    return {
        "paper_first_channel": {
            "decisions": summarised([dmc.decision(key[0]) for key in keys]),
            "weights": summarised([dmc.weight(query[0]) for query in queries]),
            "payload_keys": summarised([list(dmc.without_channel(key, 0)) for key in keys]),
        },
        "last_channel": {
            "decisions": summarised([dmc.decision(key[-1]) for key in keys]),
            "weights": summarised([dmc.weight(query[-1]) for query in queries]),
            "payload_keys": summarised([list(dmc.without_channel(key, -1)) for key in keys]),
        },
        "pinned_code_last_channel_with_offset": {
            "decisions": summarised([dmc.pinned_decision(key[-1], offset) for key in keys]),
            "weights": summarised([dmc.pinned_weight(query[-1], offset) for query in queries]),
            "payload_keys": summarised([list(dmc.without_channel(key, -1)) for key in keys]),
        },
    }


def _first_accumulates(trace: Document) -> Document:
    """Return what the update and the length formula give if the first decision of the trace were 1."""
    alpha = [dmc.ACCUMULATE, *trace["alpha"][1:]]
    stored, formula = len(_segments({**trace, "alpha": alpha}, trace["omega"])), dmc.appended_rows(alpha)
    return {"stored_rows": stored, "formula_rows": formula, "formula_undercounts": formula < stored}


def _pinned_window(trace: Document, segments: tuple[dmc.Segment, ...]) -> Document:
    window = trace["pinned_window_rows"]
    pinned = dmc.pinned_segments(trace["alpha"], trace["omega"], trace["keys"], trace["values"], window)
    return {
        "window_rows": window,
        "segments_longer_than_window": sum(segment.last + 1 - segment.first > window for segment in segments),
        "same_means": [(one.key, one.value) for one in pinned] == [(one.key, one.value) for one in segments],
    }


def _rotated_merge(example: Document) -> Document:
    """Return the norms of one two-channel key averaged with itself, before and after rotation at two positions."""
    key, weights = example["key"], example["weights"]
    turned = []
    for position in example["positions"]:
        angle = example["radians_per_position"] * position
        across, along = sine(angle), cosine(angle)
        turned.append((key[0] * along - key[1] * across, key[0] * across + key[1] * along))
    mean = dmc.segments((dmc.APPEND, dmc.ACCUMULATE), weights, turned, turned)[0].key
    return {
        "norm_of_each_key": minicache.magnitude(key),
        "norm_of_mean_before_rotation": minicache.magnitude(key),
        "norm_of_mean_after_rotation": minicache.magnitude(mean),
    }


def _ragged_result(trace: Document) -> Document:
    ragged = trace["ragged"]
    _, decisions = _ragged_decisions(ragged)
    row_bytes = _dmc_row_bytes(trace)
    expected = _ragged_bytes(ragged, trace)
    return {
        "source_rows_per_owner": len(ragged["alpha"][0][0]),
        "lengths": summarised(ragged["lengths"]),
        "longest_owner_rows": max(map(max, ragged["lengths"])),
        "source_payload_bytes": ragged["batch"] * decisions * row_bytes,
        **expected,
        "page_payload_bytes": expected["pages"] * ragged["page_rows"] * row_bytes,
    }


def _relaxation_result(relaxation: Document) -> Document:
    states = _relaxed(relaxation)
    alpha = [state.alpha for state in states]
    return {
        "alpha": summarised(alpha),
        "masses": summarised([state.mass for state in states]),
        "keys": summarised([list(state.key) for state in states]),
        "values": summarised([list(state.value) for state in states]),
        "retained_states": len(states),
        "surviving_shares": summarised(list(dmc.surviving_shares(alpha))),
    }


def _objective_result(trace: Document, objective: Document) -> Document:
    appended, decisions = _ragged_decisions(trace["ragged"])
    target = objective["target_ratio"]
    return {
        "target_ratio": Fraction(target),
        "decisions": decisions,
        "appended_rows": appended,
        "allowed_rows": Fraction(decisions) / target,
        "loss": dmc.compression_loss(appended, decisions, target),
    }


def _minicache_result(fixture: Document, prefill: _Pair, decoded: _Pair) -> Document:
    record, parameters = fixture["minicache"], fixture["manifests"]["minicache"]["parameters"]
    widths = record["widths"]
    before = _pair_bytes(len(prefill.positions), len(prefill.exceptions), widths)
    return {
        "start_layer": parameters["start_layer"],
        "merged_pairs": summarised(parameters["merged_pairs"]),
        "pair": [record["pair"]["low_layer"], record["pair"]["high_layer"]],
        "prefill": _pair_result(prefill, widths),
        "decode": _pair_result(decoded, widths),
        "restored": {side: summarised([list(row) for row in prefill.restored[side]]) for side in SIDES},
        "exception_rules": {
            "far_pairs": _exception_rule(prefill, prefill.exceptions, widths),
            "far_keys_only": _exception_rule(prefill, _key_exceptions(prefill, parameters), widths),
            "printed_equation_4": _exception_rule(prefill, _printed_exceptions(prefill, parameters), widths),
        },
        "parallel_rows_restore_exactly": _parallel_exact(prefill),
        "re_merge_keeps_older_rows": all(
            _re_merged(prefill, tensor, index, parameters)
            for tensor in TENSORS
            for index in set(range(len(prefill.positions))) - set(prefill.exceptions)
        ),
        "prefill_peak_bytes": before.full + before.merged(),
        "restore_workspace_bytes": before.directions,
        "running_pair": _running_pair(record["running_pair"]),
    }


def _pair_result(pair: _Pair, widths: Document) -> Document:
    return {
        "positions": summarised(pair.positions),
        "exception_positions": summarised([pair.positions[index] for index in pair.exceptions]),
        **{tensor: _tensor_result(pair, tensor) for tensor in TENSORS},
        "ledger": _ledger_terms(_pair_bytes(len(pair.positions), len(pair.exceptions), widths)),
    }


def _tensor_result(pair: _Pair, tensor: str) -> Document:
    rows = pair.rows[tensor]
    return {
        "rules": summarised([row.rule for row in rows]),
        "angles": summarised([row.angle for row in rows]),
        "distances": summarised([row.distance for row in rows]),
        "directions": summarised([None if row.direction is None else list(row.direction) for row in rows]),
        "low_magnitudes": summarised([row.low_magnitude for row in rows]),
        "high_magnitudes": summarised([row.high_magnitude for row in rows]),
        **{f"{which}_errors": summarised(_errors(pair, f"{which}_{tensor}")) for which in ("low", "high")},
        **{
            f"{which}_directional_errors": summarised(_directional_errors(pair, f"{which}_{tensor}"))
            for which in ("low", "high")
        },
    }


def _exception_rule(pair: _Pair, chosen: Sequence[int], widths: Document) -> Document:
    """Return what a rule retains, what it costs, and the worst of what it merges."""
    ruled = _pair(pair.positions, pair.sources, pair.rows, tuple(chosen))
    merged = sorted(set(range(len(pair.positions))) - set(chosen))
    no_direction = [index for index in merged if any(pair.rows[tensor][index].direction is None for tensor in TENSORS)]
    errors = [error for side in SIDES for error in _errors(ruled, side) if error is not None]
    turns = [turn for side in SIDES for turn in _directional_errors(ruled, side) if turn is not None]
    return {
        "exception_positions": summarised([pair.positions[index] for index in chosen]),
        "merged_bytes": _pair_bytes(len(pair.positions), len(chosen), widths).merged(),
        "merged_without_direction": len(no_direction),
        "largest_restoration_error": max(errors, default=None),
        "largest_directional_error": max(turns, default=None),
    }


def _parallel_exact(pair: _Pair) -> bool | None:
    """Return whether K or V pairs at angle zero are restored without any error, None if there is no such pair."""
    errors = [
        error
        for tensor in TENSORS
        for which in ("low", "high")
        for row, error in zip(pair.rows[tensor], _errors(pair, f"{which}_{tensor}"), strict=True)
        if row.angle == 0
    ]
    return not any(errors) if errors else None


def _re_merged(pair: _Pair, tensor: str, index: int, parameters: Document) -> bool:
    """Return whether merging the restored rows of a position again gives what is stored, as reports write it."""
    before = pair.rows[tensor][index]
    low, high = pair.restored[f"low_{tensor}"][index], pair.restored[f"high_{tensor}"][index]
    after = minicache.merge_row(low, high, _interpolation(parameters))
    if before.direction is None or after.direction is None:
        return before.direction is after.direction
    stored = (*before.direction, before.low_magnitude, before.high_magnitude)
    again = (*after.direction, after.low_magnitude, after.high_magnitude)
    return all(reported(one) == reported(other) for one, other in zip(stored, again, strict=True))


def _running_pair(record: Document) -> Document:
    ledger = _pair_bytes(record["positions"], record["exceptions"], record)
    return {
        "positions": record["positions"],
        "exceptions": record["exceptions"],
        "ledger": _ledger_terms(ledger),
        "payload_ratio": Fraction(ledger.full, ledger.merged()),
        "most_exceptions_that_save": minicache.most_exceptions_that_save(record["positions"], _widths(record)),
    }


def _ledger_terms(ledger: minicache.PairLedger) -> Document:
    """Return the terms of a pair's ledger in bytes, and their sum."""
    return {**{f"{name}_bytes": value for name, value in asdict(ledger).items()}, "merged_bytes": ledger.merged()}


def _lckv_result(fixture: Document) -> Document:
    record, manifest = fixture["lckv"], fixture["manifests"]["lckv"]
    consumers, parameters = manifest["consumer_layer_map"], manifest["parameters"]
    produced, layers = lckv.producers(consumers), len(consumers)
    forward, backward = parameters["forward_iterations"], parameters["backward_iterations"]
    iterations, tokens = lckv.prompt_iterations(forward, backward), len(record["iteration_trace"]["inputs"])
    cycles = (lckv.cycle(consumers, layer) for layer in range(layers))
    return {
        "layers": layers,
        "producers": summarised(produced),
        "consumer_map": summarised(consumers),
        "diagonal_masked": summarised(parameters["diagonal_masked"]),
        "cycles_without_mask": summarised([list(waiting) for waiting in cycles if waiting is not None]),
        "payload_ratio": Fraction(layers, len(produced)),
        "forward_iterations": forward,
        "backward_iterations": backward,
        "prompt_iterations": iterations,
        "sandwich": _sandwich(consumers),
        "visibility": [
            {**receipt, "pinned_decode_visible_tokens": _pinned_visible(receipt, consumers)}
            for receipt in record["visibility"]
        ],
        "iteration_trace": {
            "tokens": tokens,
            "first_exact_iterations": record["iteration_trace"]["first_exact_iterations"],
            "exact_after_prompt_iterations": record["iteration_trace"]["exact_after_prompt_iterations"],
            "pinned_code_encodes_token_by_token": tokens <= iterations,
        },
    }


def _pinned_visible(receipt: Document, consumers: list[int]) -> int | None:
    """Return what the pinned decode path shows a layer that reads from above; None where its rule is not used."""
    layer = receipt["layer"]
    return lckv.pinned_decode_visible_tokens(receipt["token"]) if consumers[layer] > layer else None


def _sandwich(consumers: list[int]) -> Document:
    """Return the smallest sandwich of as many layers, with two warm-up layers; None where there is none."""
    layers = len(consumers)
    even = [lckv.sandwich_map(layers, warmup) for warmup in range(0, layers, 2)]
    smallest = even[1] if len(even) > 1 else None
    produced = None if smallest is None else lckv.producers(smallest)
    return {
        "warmup_layers": None if smallest is None else 2,
        "consumer_map": None if smallest is None else summarised(smallest),
        "producers": None if produced is None else summarised(produced),
        "payload_ratio": None if produced is None else Fraction(layers, len(produced)),
        "no_even_warmup_gives_this_map": tuple(consumers) not in even,
    }


def _summaries_result(record: Document) -> Document:
    tokens = sum(segment["tokens"] for segment in record["segments"])
    expected = [_summary_segment(record, index) for index in range(len(record["segments"]))]
    vectors, size = _final_vectors(record), record["stated_size"]
    one_segment = size["replaces"] == "one_segment"
    return {
        "vectors_per_segment": record["vectors_per_segment"],
        "segments": [
            {**each, "discarded": segment["discarded"], "causal_pairs": summaries.causal_pairs(each["input_rows"])}
            for each, segment in zip(expected, record["segments"], strict=True)
        ],
        "may_be_discarded": list(_DISCARDABLE[record["retention"]]),
        "final_vectors": vectors,
        "final_payload_bytes": _summary_bytes(record, vectors),
        "projected_kv_bytes": _projected_bytes(record),
        "source_kv_bytes": record["batch"] * _kv_bytes(record, tokens),
        "stated_size": {
            "summary_vectors": size["summary_vectors"],
            "replaces": size["replaces"],
            "vectors_for_the_document": size["summary_vectors"] * (len(record["segments"]) if one_segment else 1),
        },
    }


def _memories_result(memories: Document) -> Document:
    memory = _two_tier(memories)
    begin, end = summaries.transformer_xl_memory(memories["segment_tokens"], memories["memory_rows"])
    return {
        "positions": end,
        "transformer_xl": [begin, end],
        "compressive": {
            "local": list(memory.local),
            "compressed": summarised([list(span) for span in memory.compressed]),
            "lost_positions": memory.lost_positions,
        },
    }


def _stored_objects_result(record: Document) -> Document:
    geometry = record["geometry"]
    row_heads = {"multi_head": geometry["query_heads"], "grouped_query": geometry["kv_heads"], "multi_query": 1}
    entries = {}
    for name, entry in record["entries"].items():
        slots = entry["slots"] + entry["compressed_slots"]
        entries[name] = {
            "stored_object": entry["stored_object"],
            "slots": slots,
            "bytes": entry["bytes"],
            "bytes_per_slot": Fraction(entry["bytes"], slots),
            "consumer": entry["consumer"],
        }
    return {
        "entries": entries,
        "kv_row_bytes_by_sharing": {
            sharing: summaries.raw_kv_bytes(
                geometry["layers"], 1, heads, geometry["head_dimension"], geometry["scalar_bytes"]
            )
            for sharing, heads in row_heads.items()
        },
    }


def _publication_result(fixture: Document) -> Document:
    publication = fixture["publication"]
    names = (
        "method",
        "manifest_sha256",
        "cache_generation",
        "state_generation",
        "reconstruction_rule",
        "consumer",
        "exact_prefix_reuse",
        "payload_bytes",
    )
    return {
        **{name: publication[name] for name in names},
        "stored_objects": len(publication["represents"]),
        "represents": summarised(publication["represents"]),
    }


def _checkpoint(fixture: Document, name: str, where: str) -> Document:
    checkpoint: Document | None = fixture["checkpoints"].get(name)
    if checkpoint is None:
        raise ContractViolation(
            UNKNOWN_CHECKPOINT, where, f"expected one of {joined(fixture['checkpoints'])}, found {name}"
        )
    return checkpoint


def _segments(trace: Document, omega: Sequence[Any]) -> tuple[dmc.Segment, ...]:
    return dmc.segments(trace["alpha"], omega, trace["keys"], trace["values"], trace["first_position"])


def _dmc_row_bytes(trace: Document) -> int:
    return 2 * int(trace["head_dimension"]) * int(trace["scalar_bytes"])


def _ragged_bytes(ragged: Document, trace: Document) -> dict[str, int]:
    batch, lengths, row_bytes = ragged["batch"], ragged["lengths"], _dmc_row_bytes(trace)
    return {
        "pages": batch * dmc.pages_ceil(lengths, ragged["page_rows"]),
        "payload_bytes": dmc.payload_bytes(batch, lengths, row_bytes),
        "padded_payload_bytes": dmc.padded_payload_bytes(batch, lengths, row_bytes),
    }


def _ragged_decisions(ragged: Document) -> tuple[int, int]:
    """Return (appended rows, decisions) over all layers and K/V heads of one sequence."""
    owners = [decisions for heads in ragged["alpha"] for decisions in heads]
    return sum(map(dmc.appended_rows, owners)), sum(map(len, owners))


def _relaxed(relaxation: Document) -> tuple[dmc.RelaxedState, ...]:
    offset, temperature = relaxation["offset"], relaxation["temperature"]
    alpha = [
        dmc.gumbel_sigmoid(logit, offset, noise, temperature)
        for logit, noise in zip(relaxation["logits"], relaxation["noise"], strict=True)
    ]
    return dmc.relaxed_states(alpha, relaxation["omega"], relaxation["keys"], relaxation["values"])


def _interpolation(parameters: Document) -> minicache.Interpolation:
    return minicache.Interpolation(parameters["rho"], parameters["near_zero_angle"], parameters["near_pi_angle"])


def _merged(sources: Mapping[str, Any], tensor: str, parameters: Document) -> tuple[minicache.MergedRow, ...]:
    return minicache.merge(sources[f"low_{tensor}"], sources[f"high_{tensor}"], _interpolation(parameters))


def _pair(
    positions: list[int],
    sources: Mapping[str, Any],
    rows: Mapping[str, tuple[minicache.MergedRow, ...]],
    retained: tuple[int, ...],
) -> _Pair:
    """Return a layer pair with its restored rows."""
    restored = {side: list(sources[side]) for side in SIDES}
    for tensor in TENSORS:
        for index in set(range(len(positions))) - set(retained):
            low, high = minicache.restore(rows[tensor][index]) or ((), ())
            restored[f"low_{tensor}"][index], restored[f"high_{tensor}"][index] = low, high
    return _Pair(positions, sources, rows, retained, restored)


def _far_exceptions(rows: Mapping[str, tuple[minicache.MergedRow, ...]], parameters: Document) -> tuple[int, ...]:
    return minicache.exceptions(rows["key"], rows["value"], parameters["exception_distance"])


def _key_exceptions(pair: _Pair, parameters: Document) -> tuple[int, ...]:
    """Return the exceptions if only keys were looked at."""
    return minicache.exceptions(pair.rows["key"], pair.rows["key"], parameters["exception_distance"])


def _printed_exceptions(pair: _Pair, parameters: Document) -> tuple[int, ...]:
    distance = parameters["exception_distance"]
    return minicache.exceptions_by_printed_inequality(pair.rows["key"], pair.rows["value"], distance)


def _errors(pair: _Pair, side: str) -> list[Fraction | None]:
    """Return the L2 norms of what restoration changed, None where there is no restored row."""
    return [
        minicache.error_norm(row, source) if row else None
        for row, source in zip(pair.restored[side], pair.sources[side], strict=True)
    ]


def _directional_errors(pair: _Pair, side: str) -> list[Fraction | None]:
    """Return the angles between restored and original rows in radians, None where there is no restored row."""
    return [
        minicache.angle(row, source) if row else None
        for row, source in zip(pair.restored[side], pair.sources[side], strict=True)
    ]


def _widths(record: Document) -> minicache.Widths:
    return minicache.Widths(
        record["head_dimension"],
        record["scalar_bytes"],
        record["magnitude_bytes"],
        record["angle_bytes"],
        record["index_bytes"],
    )


def _pair_bytes(positions: int, exceptions: int, widths: Document) -> minicache.PairLedger:
    return minicache.pair_ledger(positions, exceptions, _widths(widths))


def _lckv_bytes(record: Document, layers: int) -> int:
    shape = record["geometry"]
    width = shape["scalar_bytes"]
    geometry = Geometry(shape["batch"], layers, shape["kv_heads"], shape["head_dimension"], width, width)
    return geometry.full_payload_bytes(shape["positions"])


def _exact_tokens(first: Sequence[int | None], iterations: int) -> int:
    return sum(iteration is not None and iteration <= iterations for iteration in first)


def _summary_segment(record: Document, index: int) -> Document:
    """Return what exists before segment `index` (from 0) and what goes into it."""
    kappa, tokens = record["vectors_per_segment"], record["segments"][index]["tokens"]
    vectors = summaries.accumulated_vectors(index + 1, kappa)
    return {
        "tokens": tokens,
        "accumulated_vectors": vectors,
        "input_rows": summaries.input_rows(index + 1, kappa, tokens),
        "payload_bytes": _summary_bytes(record, vectors),
    }


def _final_vectors(record: Document) -> int:
    return summaries.accumulated_vectors(len(record["segments"]) + 1, record["vectors_per_segment"])


def _summary_bytes(record: Document, vectors: int) -> int:
    return summaries.summary_payload_bytes(record["batch"], vectors, record["model_dimension"], record["scalar_bytes"])


def _projected_bytes(record: Document) -> int:
    """Return the K/V that a call projects when it reads the summaries of all segments."""
    return int(record["batch"]) * _kv_bytes(record, _final_vectors(record))


def _kv_bytes(record: Document, rows: int) -> int:
    return summaries.raw_kv_bytes(
        record["layers"], rows, record["kv_heads"], record["head_dimension"], record["scalar_bytes"]
    )


def _two_tier(memories: Document) -> summaries.TwoTierMemory:
    return summaries.compressive_memory_floor(
        memories["segment_tokens"], memories["memory_rows"], memories["compressed_rows"], memories["compression_rate"]
    )


def _object_bytes(geometry: Document, entry: Document) -> int:
    layers, width, scalar = geometry["layers"], geometry["model_dimension"], geometry["scalar_bytes"]
    kind, slots = entry["stored_object"], entry["slots"]
    if kind in ("raw_kv_window", "merged_kv"):
        return summaries.raw_kv_bytes(layers, slots, geometry["kv_heads"], geometry["head_dimension"], scalar)
    if kind == "segment_summaries":
        return summaries.summary_payload_bytes(1, slots, width, scalar)
    if kind == "dual_activation":
        return summaries.dual_activation_bytes(layers, slots, entry["compressed_slots"], width, scalar)
    return summaries.hidden_memory_bytes(layers, slots, width, scalar)


def _refusal(fixture: Document, stated: Document) -> str | None:
    quantised = None if stated["quantisation"] is None else stated["quantisation"]["components"]
    return composition.refusal(
        fixture["checkpoints"][stated["checkpoint"]]["trained_for"],
        stated["transforms"],
        stated["backend_consumes"],
        stated["evaluation_contract"],
        quantised,
    )


def _quantisation_contracts(fixture: Document, method: str) -> set[str]:
    """Return the contracts of the admitted quantised compositions that include a method."""
    return {
        each["quantisation"]["contract_id"]
        for each in fixture["compositions"].values()
        if each["quantisation"] is not None and each["decision"] == "admitted" and method in each["transforms"]
    }


def _represented(fixture: Document, segments: tuple[dmc.Segment, ...]) -> list[list[int]]:
    """Return what the published objects stand for: source spans, layer pairs, or (consumer, producer) layers."""
    method = fixture["publication"]["method"]
    if method == composition.DMC:
        return [[segment.first, segment.last] for segment in segments]
    if method == composition.MINICACHE:
        return [list(pair) for pair in fixture["manifests"][method]["parameters"]["merged_pairs"]]
    consumers = fixture["manifests"][method]["consumer_layer_map"]
    return [[layer, source] for layer, source in enumerate(consumers) if source != layer]


def _published_bytes(fixture: Document, segments: tuple[dmc.Segment, ...], prefill: _Pair) -> int:
    method = fixture["publication"]["method"]
    if method == composition.DMC:
        return len(segments) * _dmc_row_bytes(fixture["dmc"])
    if method == composition.MINICACHE:
        widths = fixture["minicache"]["widths"]
        return _pair_bytes(len(prefill.positions), len(prefill.exceptions), widths).merged()
    return _lckv_bytes(fixture["lckv"], len(lckv.producers(fixture["manifests"][method]["consumer_layer_map"])))


def _require(diagnostic: Diagnostic, found: object, expected: object, where: str) -> None:
    if found != expected:
        raise ContractViolation(diagnostic, where, f"expected {_shown(expected)}, found {_shown(found)}")


def _require_number(diagnostic: Diagnostic, found: Any, expected: Fraction, where: str) -> None:
    """Require a stated number to be the recomputed one at the 12 digits that a report writes."""
    if reported(Fraction(found)) != reported(expected):
        raise ContractViolation(diagnostic, where, f"expected {_shown(expected)}, found {_shown(found)}")


def _require_row(
    diagnostic: Diagnostic, shape: Diagnostic, found: list[Any], row: Sequence[Fraction], where: str
) -> None:
    _require_count(shape, found, len(row), "channels", where)
    for channel, (stated, expected) in enumerate(zip(found, row, strict=True)):
        _require_number(diagnostic, stated, expected, where + pointer(channel))


def _require_count(diagnostic: Diagnostic, items: Sequence[Any], expected: int, what: str, where: str) -> None:
    if len(items) != expected:
        raise ContractViolation(diagnostic, where, f"expected {expected} {what}, found {len(items)}")


def _require_length(diagnostic: Diagnostic, record: Document, name: str, other: str, where: str) -> None:
    _require_count(diagnostic, record[name], len(record[other]), f"entries as in {other}", where + pointer(name))


def _require_items(diagnostic: Diagnostic, found: list[Any], expected: list[Any], where: str) -> None:
    """Require equal lists; the pointer is that of the first entry that differs, or of the list if it is too short."""
    if len(found) != len(expected):
        raise ContractViolation(diagnostic, where, f"expected {len(expected)} entries, found {len(found)}")
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        _require(diagnostic, one, other, where + pointer(index))


def _shown(value: object) -> str:
    if isinstance(value, Fraction):
        return str(reported(value))
    if isinstance(value, list):
        return joined(_shown(item) for item in value)
    return "null" if value is None else str(value)


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return segments, merged rows, exception rules, condensation, stored objects and compositions."""
    results = report["results"]
    segments = results["dmc"]["segments"]
    segment_table = Table(
        "DMC segments",
        ("source span", "anchor", "mass", "key", "value"),
        tuple(
            (f"[{each['first']}, {each['last']}]", *_cells(each, "anchor", "mass", "key", "value")) for each in segments
        )
        if isinstance(segments, list)
        else (),
    )
    channels = Table(
        "DMC control channel: the paper's first, the last, and the last as the pinned code reads it",
        ("variant", "decisions", "weights"),
        tuple(
            (name.replace("_", " "), *_cells(each, "decisions", "weights"))
            for name, each in results["dmc"]["control_channel"].items()
            if isinstance(each, dict) and "decisions" in each
        ),
    )
    pair = results["minicache"]
    names = "rules", "distances", "directions", "low_errors", "high_errors"
    merged = Table(
        "MiniCache: one layer pair after prefill and after one decoded token; errors are L2, exceptions are exact",
        ("state", "tensor", "rule", "distance", "shared direction", "low error", "high error"),
        tuple(
            (state, tensor, *row)
            for state in ("prefill", "decode")
            for tensor in TENSORS
            for row in _rows(pair[state][tensor], *names)
        ),
    )
    rule_names = "exception_positions", "merged_bytes", "largest_restoration_error", "largest_directional_error"
    rules = Table(
        "MiniCache exception rules on the same rows; the first is the contract, the others are labelled alternatives",
        ("rule", "exceptions", "merged B", "largest error, L2", "largest error, rad"),
        tuple((name.replace("_", " "), *_cells(each, *rule_names)) for name, each in pair["exception_rules"].items()),
    )
    condensed = results["lckv"]
    maps = Table(
        "LCKV maps",
        ("graph", "consumer map", "producers", "all layers over stored"),
        (
            ("fixture", *_cells(condensed, "consumer_map", "producers", "payload_ratio")),
            (
                "sandwich, two warm-up layers",
                *_cells(condensed["sandwich"], "consumer_map", "producers", "payload_ratio"),
            ),
        ),
    )
    objects = Table(
        "Stored objects; slots of different objects are not the same budget",
        ("name", "stored object", "slots", "bytes", "bytes a slot", "consumer"),
        tuple(
            (name, *_cells(each, "stored_object", "slots", "bytes", "bytes_per_slot", "consumer"))
            for name, each in results["stored_objects"]["entries"].items()
        ),
    )
    gates = Table(
        "Compositions",
        ("composition", "checkpoint", "transforms", "decision", "reason"),
        tuple(
            (name, *_cells(each, "checkpoint", "transforms", "decision", "reason"))
            for name, each in results["compositions"].items()
        ),
    )
    return segment_table, channels, merged, rules, maps, objects, gates


def _cells(record: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(_cell(record[name]) for name in names)


def _rows(record: Mapping[str, Any], *names: str) -> tuple[tuple[str, ...], ...]:
    """Return one row for each entry of the lists called `names`, or a single row where one of them is summarised."""
    columns = [record[name] for name in names]
    if all(isinstance(column, list) for column in columns):
        return tuple(tuple(_cell(item) for item in row) for row in zip(*columns, strict=True))
    return (_cells(record, *names),)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return joined(_cell(item) for item in value)
    return "none" if value is None else str(value)


LOOP = Loop(
    id="loop08_representation",
    command="representation",
    title="representation change: merged rows, shared layers, condensed graphs, learned summaries",
    section="0x0C",
    fixture_schema="kvaudit.fixture.representation/1",
    report_schema="kvaudit.report.representation/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "reversed DMC decisions",
        "inconsistent segment masses",
        "mismatched MiniCache layer pairs",
        "missing exception state",
        "invalid Layer-Condensed producer graphs",
        "incompatible checkpoints",
        "summaries and stored objects",
        "byte or publication drift",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "DMC running means and relaxed training states",
            "spherical interpolation, restoration and exceptions of one layer pair",
            "a toy condensed graph, sequentially and by iterations",
            "byte ledgers of representations, summaries and memories",
            "composition gates",
        ),
        not_executed=(
            "model",
            "training or any checkpoint",
            "any paper's kernel",
            "quantisation",
            "paper quality or throughput",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)
