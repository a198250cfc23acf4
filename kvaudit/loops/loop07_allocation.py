"""Loop 7, allocation: how many rows each layer and K/V head may keep, and which rows then fill them (0x08, 0x0B).

Two questions stay apart: *allocation* gives every owner a number of rows, *selection* fills it with the owner's own
best rows, and a protected suffix comes on top of both. Equal totals imply neither equal visible sets nor equal output.
The methods share one integer apportionment, because the papers' formulas are real-valued and a cache is not; what the
released code does instead is computed beside it, as a labelled alternative with its numbers.

The contracts are judged in the order of `oracle`: head map, source, limits, scores, layer receipts, head receipts,
policy families, the published allocation, its packed rows, accounting, execution, events, probes, other contracts,
released code.

Decided here: a receipt belongs to one request, so the batch is one. The source receipt is of SnapKV's kind, but an
input of its own, because no other loop's prompt has this shape. A layer budget is a total for the layer
(`rows_per_layer`, the teaching composition) or a capacity of each of its K/V heads (`rows_per_kv_head`, what PyramidKV
itself means): the manifest says which. The packing order is a manifest field. A recalibration allocates again over the
rows that are left, by the recorded prompt scores, since dropped rows do not come back. PyramidInfer's contract is
compared and gets no schedule. Targets are compared as a report writes them, so that thirds can be stated.
"""

from collections.abc import Mapping, Sequence
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
from kvaudit.policies import (
    adakv,
    attention,
    fastgen,
    headkv,
    heads,
    owner_allocation,
    packing,
    pyramidkv,
    ragged_execution,
    zigzagkv,
)
from kvaudit.policies.apportionment import Number, apportion, evenly, rounded_half_even
from kvaudit.policies.geometry import Geometry
from kvaudit.policies.owner_allocation import Allocation, by_layer, flat

PHASES = (
    "materialize_full_prompt",
    "derive_observation_scores",
    "allocate_layers",
    "allocate_heads",
    "select_prefix_rows",
    "append_protected_suffix",
    "publish_one_receipt",
)

PINNED_LABEL = "released code, rounded as it rounds; a total need not be conserved"

HEAD_MAP_LENGTH = Diagnostic(
    code="allocation.head-map-length",
    contract="q_to_kv_head_map has one entry for each query head.",
    why="A query head without an entry has no K/V rows to read; an extra entry belongs to no head.",
    fix="Give the map exactly query_heads entries.",
)
HEAD_MAP_RANGE = Diagnostic(
    code="allocation.head-map-out-of-range",
    contract="Every entry of q_to_kv_head_map is a K/V head of the cache.",
    why="The query head would read past the packed rows.",
    fix="Use K/V heads 0 to kv_heads - 1.",
)
HEAD_MAP_OWNERSHIP = Diagnostic(
    code="allocation.head-map-ownership",
    contract="Under contiguous_gqa, query head q maps to K/V head q // (query_heads / kv_heads), which divides evenly.",
    why="A vote or a read of the neighbouring group goes to rows that were never projected for that query head.",
    fix="Correct the map, or name head_map_mode `explicit` if the checkpoint groups its heads otherwise.",
)
FRONTIER = Diagnostic(
    code="allocation.frontier-mismatch",
    contract="The manifest, the source receipt and the geometry name one prompt frontier.",
    why="Rows past the smaller frontier were never considered; rows past the larger one do not exist.",
    fix="Allocate for the frontier that was materialised.",
)
POSITION_CONVENTION = Diagnostic(
    code="allocation.packed-rows-as-positions",
    contract="Positions in the receipt are original positions, counted from the first prompt token.",
    why="A packed row number taken for a position breaks causality, RoPE distances and every later score.",
    fix="Keep the original position of every row; never number the packed rows anew.",
)
PROTECTED_SUFFIX = Diagnostic(
    code="allocation.protected-suffix-mismatch",
    contract="The protected positions are the observation suffix: every position from prefix_rows to the frontier.",
    why="A hole between prefix and suffix is a row that no phase selects; an overlap is charged twice.",
    fix="List the positions prefix_rows to prompt_frontier - 1.",
)
REQUEST_ID = Diagnostic(
    code="allocation.request-mismatch",
    contract="Source receipt, manifest and allocation receipt belong to one request.",
    why="One request would attend to the rows of another: wrong output and a leak.",
    fix="Allocate from the observation of this request.",
)
REQUEST_GENERATION = Diagnostic(
    code="allocation.request-generation-stale",
    contract="Source receipt, manifest and allocation receipt have one request generation.",
    why="The request was cancelled, forked or recycled since; equal token counts do not make it the same.",
    fix="Discard the allocation and derive it from the current request.",
)
SOURCE_STALE = Diagnostic(
    code="allocation.source-cache-stale",
    contract="The allocation names the cache generation that its source receipt observed.",
    why="The cache has moved on since the scores were derived; budgets are shared out for rows of another prompt.",
    fix="Derive the observation scores from the current cache generation.",
)
PARENT_STATE = Diagnostic(
    code="allocation.parent-state-mismatch",
    contract="The parent of the allocated state is the state that the source receipt observed.",
    why="Falling back to the parent would publish a state that this allocation never replaced.",
    fix="Name the observed state as the parent.",
)
SOURCE_NOT_FULL = Diagnostic(
    code="allocation.source-not-full-prompt",
    contract="The source receipt materialised K/V for every position up to the frontier.",
    why="Rows that were never materialised cannot be scored, so the budgets favour whatever was there.",
    fix="Finish the prefill before scores are derived.",
)
SCORED_OTHER_CACHE = Diagnostic(
    code="allocation.scores-from-another-cache",
    contract="The observation scores were derived from the source cache generation, before any row was dropped.",
    why="Scores of a partially compressed cache come from the survivors of an earlier policy, not from the prompt.",
    fix="Derive the scores from the full prompt, then allocate.",
)
COMPOSITION = Diagnostic(
    code="allocation.method-composition",
    contract="The layer method all_owners and the head method headkv are used together or not at all.",
    why="HeadKV shares one pool over all owners; under a fixed layer budget it would be another method with its name.",
    fix="Use all_owners with headkv, or a layer method with adakv or uniform.",
)
ROUNDING = Diagnostic(
    code="allocation.rounding-not-conserving",
    contract="Integer budgets come from one apportionment over all owners, never from each target rounded on its own.",
    why="Independent rounding gives a total that nobody asked for: rows are lost, or capacity is overrun.",
    fix="Declare largest_remainder_lowest_owner.",
)
CAP_ABOVE_PREFIX = Diagnostic(
    code="allocation.cap-above-prefix",
    contract="The owner cap is at most the number of prefix rows.",
    why="An owner cannot fill rows it does not have: they are cut off in silence and missing from the total.",
    fix="Lower the cap to prefix_rows.",
)
INFEASIBLE = Diagnostic(
    code="allocation.budget-infeasible",
    contract="Floors and caps leave a solution: floor <= cap, and the total lies between the sums of both.",
    why="No integer budgets exist; an apportionment that answers all the same breaks a floor, a cap or the total.",
    fix="Change the total, or the floor or cap that is in its way.",
)
METHOD_TOTAL = Diagnostic(
    code="allocation.method-total-mismatch",
    contract="The mean of ZigZagKV and of HeadKV times their owners is the manifest's total, in the unit of each.",
    why="Methods given different totals, or a mean a head taken for one a layer, do not share a budget.",
    fix="State the mean that belongs to the total: rows a layer for ZigZagKV, rows a K/V head for HeadKV.",
)
SCORE_SHAPE = Diagnostic(
    code="allocation.score-shape",
    contract="Owner scores have one list for each layer and K/V head, with one score for each prefix row.",
    why="Scores per query head, or with the protected suffix in them, rank rows that do not compete.",
    fix="Reduce the votes to K/V heads and drop the protected columns.",
)
OWNER_SHAPE = Diagnostic(
    code="allocation.owner-shape",
    contract="A list that belongs to layers, K/V heads or both has one entry for each of them.",
    why="An owner without an entry has no budget; the entries after it belong to the wrong owner.",
    fix="Write one entry a layer, and in it one a K/V head where the list is nested.",
)
NOT_CONSERVED = Diagnostic(
    code="allocation.budget-not-conserved",
    contract="Integer budgets sum to exactly the total they share out.",
    why="Rows appear or vanish by rounding; capacity that was admitted is overrun or left empty.",
    fix="Apportion with the remainder, instead of rounding each target.",
)
BELOW_FLOOR = Diagnostic(
    code="allocation.budget-below-floor",
    contract="No budget is below its floor.",
    why="A starved owner attends to nothing but the protected suffix.",
    fix="Raise it to the floor and take the row from the owner furthest above its target.",
)
ABOVE_CAP = Diagnostic(
    code="allocation.budget-above-cap",
    contract="No budget is above its cap.",
    why="The owner has no rows for the surplus, or the kernel no slots.",
    fix="Lower it to the cap and give the row to the owner furthest below its target.",
)
REMAINDER = Diagnostic(
    code="allocation.remainder-order",
    contract="Left-over rows go to the owner furthest below its target, equal owners by lowest index.",
    why="Another order conserves the total too, but two runs no longer publish the same budgets.",
    fix="Apportion by the declared rule.",
)
PYRAMID_UNDEFINED = Diagnostic(
    code="allocation.pyramid-undefined",
    contract="A PyramidKV schedule has two layers or more and beta of at least 1/2.",
    why="One layer has no slope (division by zero); a smaller beta makes the bottom layer's budget negative.",
    fix="Use another method for one layer; raise beta.",
)
ENDPOINT = Diagnostic(
    code="allocation.pyramid-endpoint-mismatch",
    contract="The top layer gets K / (beta m) rows, the bottom layer 2 K / m minus that.",
    why="With other endpoints the line no longer averages K / m, and the total is another one.",
    fix="Recompute both endpoints from total, layers and beta.",
)
LAYER_TARGET = Diagnostic(
    code="allocation.layer-target-mismatch",
    contract="Layer targets are those of the method: the straight line, or floor plus share of the pool.",
    why="Budgets would be apportioned from the wrong real numbers, which no conservation check can notice.",
    fix="Recompute the targets: m - 1 steps for the line; (B_mean - B_min) L u_l above the floor.",
)
PROFILE_SHAPE = Diagnostic(
    code="allocation.profile-shape",
    contract="A profile has one weight for each prompt position, and one equally wide value row where it has values.",
    why="A missing position shifts the mass of all positions after it.",
    fix="Profile every prompt position.",
)
NOT_NORMALISED = Diagnostic(
    code="allocation.attention-not-normalised",
    contract="The weights of an attention row sum to exactly one.",
    why="A share of the mass means nothing if the mass is not one; the bound of Ada-KV assumes it.",
    fix="Normalise over every visible position, or state all digits.",
)
MINIMUM_BUDGET = Diagnostic(
    code="allocation.minimum-budget-mismatch",
    contract="MBA and MBO are the least counts of largest-weight rows that reach their threshold, exactly included.",
    why="A row more or less a layer changes every share, since all of them are divided by the same sum.",
    fix="Recount exactly: binary floating point misses a share that is reached exactly.",
)
LAYER_MEAN = Diagnostic(
    code="allocation.layer-sensitivity-mismatch",
    contract="LMBA and LMBO are the plain means of a layer's minimum budgets.",
    why="The most demanding row, or the sum, is another sensitivity and gives other budgets.",
    fix="Average over the layer's attention rows.",
)
MINIMUM_ABOVE_MEAN = Diagnostic(
    code="allocation.minimum-above-mean",
    contract="ZigZagKV's floor is at most the mean budget.",
    why="The pool above the floor is negative, and the neediest layer loses the most.",
    fix="Lower the floor, or raise the total.",
)
RAW_COUNT = Diagnostic(
    code="allocation.global-top-b-mismatch",
    contract="Raw head counts are the winners of one top-B over the layer's heads; ties by head, then position.",
    why="A top-k per head, or another tie rule, gives budgets under Ada-KV's name that it does not give.",
    fix="Rank all heads of the layer together.",
)
HEAD_TARGET = Diagnostic(
    code="allocation.head-target-mismatch",
    contract="Head targets are those of the method: the safeguard blend, or common base plus importance times pool.",
    why="The same alpha or beta has several meanings in circulation; a target by another one is another method.",
    fix="Recompute by the formula that the method names; alpha weighs the winners.",
)
IMPORTANCE = Diagnostic(
    code="allocation.importance-not-normalised",
    contract="HeadKV importances, one for each layer and K/V head, sum to exactly one.",
    why="The pool is shared out more or less than once, and the total is not b L H.",
    fix="Divide the importances by their sum.",
)
HEADKV_BETA = Diagnostic(
    code="allocation.headkv-base-negative",
    contract="HeadKV's beta is at least 1.",
    why="The pool would exceed the total and the common base would be negative.",
    fix="Use a beta of 1 or more; larger means a smaller pool.",
)
BOUND_SHAPE = Diagnostic(
    code="allocation.bound-case-shape",
    contract="A bound case has weights, equally wide projected values and different retained positions for every head.",
    why="A head or position without its counterpart makes the bound one of another output.",
    fix="Give every head one weight and one value row a position.",
)
BOUND = Diagnostic(
    code="allocation.output-bound-mismatch",
    contract="The L1 bound is 2 H C - 2 C times the retained mass; C is the largest L1 norm of a projected row.",
    why="A bound with another constant or factor is not proved, and may lie below the real difference.",
    fix="Recompute C, the retained mass and the bound; the factor 2 belongs to renormalised weights.",
)
DIFFERENCE = Diagnostic(
    code="allocation.output-difference-mismatch",
    contract="The stated difference is the L1 norm between the full output and that of renormalised retained rows.",
    why="A difference under dense weights is up to half as large and hides what the kernel really computes.",
    fix="Recompute the difference with weights renormalised over the retained rows.",
)
PATTERN_RANGE = Diagnostic(
    code="allocation.pattern-out-of-range",
    contract="A FastGen pattern names prompt positions.",
    why="There is no row there to retain.",
    fix="Name positions below the frontier.",
)
FULL_INCOMPLETE = Diagnostic(
    code="allocation.full-cache-incomplete",
    contract="The pattern full names every prompt position, and the policy full is this pattern.",
    why="The fallback would drop rows, so nothing is left that is safe.",
    fix="List every position under full, and keep a policy full made of it alone.",
)
PROFILE_MASS = Diagnostic(
    code="allocation.profile-mass-above-one",
    contract="The attention mass of a FastGen profile is at most one.",
    why="A recovery threshold compares shares of one; more mass than that meets it by mistake.",
    fix="Normalise the profile.",
)
POLICY_CHOICE = Diagnostic(
    code="allocation.policy-choice-mismatch",
    contract="A head gets the smallest policy that reaches the threshold, by name where sizes are equal.",
    why="A larger policy wastes rows; one below the threshold loses attention that was promised.",
    fix="Choose by size first, then by name, among the policies that reach the threshold.",
)
FALLBACK_FLAG = Diagnostic(
    code="allocation.fallback-undeclared",
    contract="A head is marked as fallback exactly when no policy reaches the threshold and it keeps the full cache.",
    why="A fallback that looks like a choice claims a recovery that was not reached.",
    fix="Mark the head as fallback.",
)
UNION_ROWS = Diagnostic(
    code="allocation.union-counted-twice",
    contract="A hybrid retains the union of its patterns: a position that two patterns name is one row.",
    why="Counted twice, a hybrid looks larger than it is and the cheaper policy is passed over.",
    fix="Count different positions.",
)
RECOVERY = Diagnostic(
    code="allocation.recovery-mismatch",
    contract="The stated recovery is the attention mass at the policy's positions, the fallback's included.",
    why="A recovery of 1.0 for a fallback invents mass that the profile never had.",
    fix="Sum the mass at the positions, each once.",
)
UNKNOWN_HEAD = Diagnostic(
    code="allocation.reprofiled-head-unknown",
    contract="A transition names a profiled head.",
    why="There is no policy to leave.",
    fix="Name one of the heads.",
)
REPROFILE_GENERATION = Diagnostic(
    code="allocation.reprofile-generation",
    contract="Each transition starts from the current profile generation and issues a larger one.",
    why="Two policies of one head would carry the same generation, and readers cannot tell old from new.",
    fix="Chain the generations: parent is the current one, the new one is larger.",
)
REPROFILE_DROPPED = Diagnostic(
    code="allocation.reprofile-needs-dropped-rows",
    contract="A transition that reuses retained rows chooses among the positions that the head still has.",
    why="Dropped rows do not come back: the new policy would run without the rows it was chosen for.",
    fix="Prefill the prompt again, or choose a policy inside the retained rows.",
)
SILENT_POLICY = Diagnostic(
    code="allocation.policy-changed-without-reprofile",
    contract="The current policy of a head is its first choice, or that of its last declared transition.",
    why="A policy that changes without a transition leaves no record of the profile that justified it.",
    fix="Declare the transition with its profile.",
)
NOT_SUCCESSOR = Diagnostic(
    code="allocation.generation-not-successor",
    contract="The allocated cache and state generations come after those that they replace.",
    why="A cache compacted in place has no parent to fall back to; readers cannot tell old rows from new.",
    fix="Publish successors with new generations.",
)
MANIFEST_DIGEST = Diagnostic(
    code="allocation.manifest-digest-mismatch",
    contract="The allocation receipt names the canonical SHA-256 of its manifest.",
    why="The budgets were shared out under another manifest.",
    fix="Allocate anew under this manifest.",
)
POLICY_GENERATION = Diagnostic(
    code="allocation.policy-generation-mismatch",
    contract="The allocation receipt carries the policy generation of the manifest.",
    why="An allocation of an earlier policy would be published as one of this policy.",
    fix="Allocate anew under the current policy generation.",
)
RECEIPT_GENERATION = Diagnostic(
    code="allocation.receipt-generation-mismatch",
    contract="The allocation receipt publishes the cache and state generations that the manifest reserves.",
    why="Another generation may belong to somebody else's rows.",
    fix="Publish under the reserved generations.",
)
PHASE_ORDER = Diagnostic(
    code="allocation.phase-order",
    contract="Seven phases run once, in order: full prompt, scores, layers, heads, selection, suffix, publication.",
    why="Allocation after selection, or scores after dropping, gives budgets for rows that are already gone.",
    fix="Run the phases in the order of the contract.",
)
PUBLICATION = Diagnostic(
    code="allocation.publication-incomplete",
    contract="The receipt publishes every layer once, in layer order.",
    why="A layer that is left out keeps serving its parent while the others have moved.",
    fix="Publish all layers with one receipt.",
)
CROSS_LAYER = Diagnostic(
    code="allocation.cross-layer-generation",
    contract="Every layer is published under the one cache and state generation of the receipt.",
    why="One forward pass would read some layers before the allocation and some after it.",
    fix="Hold the publication back until every layer is ready.",
)
OWNERS_NOT_VALIDATED = Diagnostic(
    code="allocation.owners-not-validated",
    contract="A layer is published after all of its K/V heads were validated.",
    why="An owner with a bad length or map becomes visible with the good ones.",
    fix="Validate positions, lengths and offsets of every owner first.",
)
LAYER_BUDGET = Diagnostic(
    code="allocation.published-layer-budget",
    contract="The published layer budgets are those of the declared layer method.",
    why="The receipt says one method and the rows follow another.",
    fix="Publish the budgets of the method that the manifest names, in the unit of its scope.",
)
OWNER_BUDGET = Diagnostic(
    code="allocation.published-owner-budget",
    contract="The published owner budgets are those of the declared head method.",
    why="Raw counts, or the budgets of another method, are published under this one's name.",
    fix="Publish the apportioned budgets of the head method.",
)
PROTECTED_MISSING = Diagnostic(
    code="allocation.protected-suffix-missing",
    contract="Every owner's positions end with the protected suffix, in ascending order.",
    why="The observation window is what the scores were derived from; dropping it breaks the first decode step.",
    fix="Append the protected positions after the selected prefix rows.",
)
OUTSIDE_PREFIX = Diagnostic(
    code="allocation.prefix-position-out-of-range",
    contract="Every selected row is a prefix position.",
    why="A protected position that competes takes a row from the prefix; a later one does not exist yet.",
    fix="Select among the prefix positions only.",
)
DUPLICATE = Diagnostic(
    code="allocation.duplicate-position",
    contract="An owner selects a position once.",
    why="The row would be attended to twice and charged twice.",
    fix="Remove the repetition.",
)
ROW_COUNT = Diagnostic(
    code="allocation.selected-count-mismatch",
    contract="An owner selects as many prefix rows as its budget, the protected suffix not counted.",
    why="A suffix inside the budget takes prefix rows away; a row too many overruns the neighbour.",
    fix="Fill the budget with prefix rows, then append the suffix.",
)
SELECTION = Diagnostic(
    code="allocation.selection-mismatch",
    contract="An owner's prefix rows are its own best by score, equal scores by lowest position.",
    why="Rows picked by another head's scores keep the budget and lose the attention.",
    fix="Select with the owner's own scores.",
)
PACK_ORDER = Diagnostic(
    code="allocation.pack-order",
    contract="Prefix rows are packed in the declared order: ascending position, or score.",
    why="A consumer that relies on the order reads the wrong rows.",
    fix="Pack in the declared order, or declare the other one.",
)
ROW_LENGTH = Diagnostic(
    code="allocation.row-length-mismatch",
    contract="The row lengths are the owners' selected plus protected rows, owner by owner.",
    why="The kernel stops early or runs into the next owner.",
    fix="Recompute the lengths from the positions.",
)
ROW_OFFSET = Diagnostic(
    code="allocation.row-offset-drift",
    contract="The offsets are one flat list of cumulative row lengths that starts at zero.",
    why="An owner would read rows of the owner before or after it.",
    fix="Recompute the offsets; per-layer offsets are another convention.",
)
RENUMBERED = Diagnostic(
    code="allocation.position-renumbered",
    contract="The original-position map repeats the owners' positions in packing order.",
    why="A packed index taken for a position shifts every RoPE distance.",
    fix="Copy the original positions; never number the packed rows anew.",
)
PACKED_SHAPE = Diagnostic(
    code="allocation.packed-shape",
    contract="There is a K row and a V row of the right width for each packed row, and a map entry.",
    why="A partly filled buffer is workspace; published, it is read past its end.",
    fix="Publish after every row is packed.",
)
AMBIGUOUS_SOURCE = Diagnostic(
    code="allocation.ambiguous-source-rows",
    contract="The symbolic source gives every (tensor, layer, K/V head, position, channel) a value of its own.",
    why="Two equal scalars hide a gather from the wrong row, and the identity check proves nothing.",
    fix="Enlarge the strides, or use fewer positions.",
)
KEY_VALUE = Diagnostic(
    code="allocation.key-value-positions-differ",
    contract="K and V of a packed row are gathered by one index.",
    why="The query scores one token and reads the value of another; shapes and budgets look right.",
    fix="Gather K and V with the same position list.",
)
GATHER = Diagnostic(
    code="allocation.gather-misaligned",
    contract="K and V of a packed row are those of its layer, K/V head and original position.",
    why="Both rows of another token are consistent with each other and wrong.",
    fix="Gather by (layer, K/V head, original position).",
)
QUERY_HEADS_CHARGED = Diagnostic(
    code="allocation.query-heads-charged",
    contract="Persistent rows are charged to layers x K/V heads, once each.",
    why="Charging every query head of a group counts views of one stored row as rows.",
    fix="Charge K/V heads; report query-expanded reads as demand.",
)
CHARGED_ROWS = Diagnostic(
    code="allocation.charged-rows-mismatch",
    contract="Prefix and protected rows are charged apart: the sum of budgets, and the suffix once an owner.",
    why="A budget that includes the suffix is compared with one that does not.",
    fix="Count prefix rows and protected rows separately.",
)
ROW_BYTES = Diagnostic(
    code="allocation.row-bytes-mismatch",
    contract="A row costs d_h (b_K + b_V) bytes.",
    why="Every byte ledger is off by the same factor, which no comparison inside the fixture can notice.",
    fix="Count one key row and one value row.",
)
QUERY_DEMAND = Diagnostic(
    code="allocation.query-demand-mismatch",
    contract="Query-expanded rows are the owner's rows once for each query head that reads them.",
    why="Demand taken for storage, or the reverse, misses the group size.",
    fix="Sum the rows of the owner over the query heads.",
)
NOT_ADMITTED = Diagnostic(
    code="allocation.layout-not-admitted",
    contract="The backend admits the execution layout that the manifest names.",
    why="A kernel without ragged support reads the flat buffer as if all owners were equally long.",
    fix="Choose an admitted layout, or a backend that admits this one.",
)
SLOTS = Diagnostic(
    code="allocation.padding-not-counted",
    contract="A layout's row slots include its padding: every owner of a layer counts as long as the longest one.",
    why="Logical rows are reported as saved although the kernel stores and reads the padded ones.",
    fix="Count slots, not selected rows.",
)
LAUNCHES = Diagnostic(
    code="allocation.launches-mismatch",
    contract="A layout launches once a layer, or once for each different length in a layer when owners are grouped.",
    why="Work that is split into more launches is hidden behind an unchanged row count.",
    fix="Count the groups of every layer.",
)
EVENT_PARENT = Diagnostic(
    code="allocation.event-parent-stale",
    contract="Every event after publication starts from the current cache and state generations.",
    why="A late worker would overwrite newer rows.",
    fix="Retry the event on the current generations.",
)
EVENT_GENERATION = Diagnostic(
    code="allocation.event-not-successor",
    contract="An event issues a larger cache generation, and a recalibration a larger state generation.",
    why="Two different caches would carry one generation.",
    fix="Issue a new generation.",
)
APPEND_POSITION = Diagnostic(
    code="allocation.append-position",
    contract="An append adds the row at the frontier and moves the frontier by one; a recalibration moves neither.",
    why="A gap or a repeated position in the tail shifts every later distance.",
    fix="Append at the frontier, one row at a time.",
)
UNDECLARED = Diagnostic(
    code="allocation.undeclared-recalibration",
    contract="Total, budgets, prefix rows and state change only in a recalibration that names its transaction.",
    why="The prompt allocation drifts during decode, and no receipt says which rows a token saw.",
    fix="Declare a recalibration transaction.",
)
READMITS = Diagnostic(
    code="allocation.recalibration-readmits-dropped-row",
    contract="A recalibration selects among the prefix rows that the owner still retains.",
    why="A dropped row is gone; its slot holds other data.",
    fix="Select among retained rows, or prefill the prompt again as a new request state.",
)
RECALIBRATION_BUDGET = Diagnostic(
    code="allocation.recalibration-budget-mismatch",
    contract="A recalibration's budgets are those of the declared methods at its total, over the retained rows.",
    why="The transaction is declared, but its budgets come from nowhere.",
    fix="Allocate again with the manifest's methods, floors and caps.",
)
RECALIBRATION_SELECTION = Diagnostic(
    code="allocation.recalibration-selection-mismatch",
    contract="A recalibration's rows are the owner's best retained ones by the recorded prompt scores, ascending.",
    why="The owner drops a row it ranks above one it keeps.",
    fix="Select again by score among the retained rows.",
)
VISIBILITY = Diagnostic(
    code="allocation.visibility-misreported",
    contract="A probe lists exactly the owners that retain its position after publication.",
    why="A query that needs an omitted position is answered without it, while the report says that it was there.",
    fix="List the owners by layer, then K/V head; an omitted position has none.",
)
PROXY_VALUE = Diagnostic(
    code="allocation.retained-score-mismatch",
    contract="The retained score of a layer is the sum of its owners' scores at the rows they selected.",
    why="The proxy is cited for a selection that did not run.",
    fix="Sum the scores at the published prefix rows.",
)
PROXY_AS_QUALITY = Diagnostic(
    code="allocation.proxy-claimed-as-quality",
    contract="Visibility and retained score state no task quality: it stays null here.",
    why="High retained attention can go with a wrong answer; a number here would be invented.",
    fix="Leave task_quality null and measure quality where a model runs.",
)
VARIANT = Diagnostic(
    code="allocation.contract-recorded-as-schedule",
    contract="A method is recorded as a layer schedule exactly when its contract is PyramidKV's.",
    why="PyramidInfer as a decreasing list of budgets loses its score, its phase and the work it saves in prefill.",
    fix="Record it as a different contract, or correct the contract.",
)
PINNED_INPUT = Diagnostic(
    code="allocation.pinned-case-input",
    contract="A case of released code can be run: window below capacity and prompt, counts that sum to the pool.",
    why="The numbers computed for it would describe no run.",
    fix="Correct the inputs of the case.",
)
DRIFT_HIDDEN = Diagnostic(
    code="allocation.rounding-drift-hidden",
    contract="A case is called conserving exactly when its capacities sum to the total; null where all is kept.",
    why="Rows that rounding adds or loses are compared as if the budgets were equal.",
    fix="Report the total that the code really gives.",
)
DRIFT = Diagnostic(
    code="allocation.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the inputs are right, run `kvaudit regenerate --redeclare`.",
)

DIAGNOSTICS = (
    HEAD_MAP_LENGTH,
    HEAD_MAP_RANGE,
    HEAD_MAP_OWNERSHIP,
    FRONTIER,
    POSITION_CONVENTION,
    PROTECTED_SUFFIX,
    REQUEST_ID,
    REQUEST_GENERATION,
    SOURCE_STALE,
    PARENT_STATE,
    SOURCE_NOT_FULL,
    SCORED_OTHER_CACHE,
    COMPOSITION,
    ROUNDING,
    CAP_ABOVE_PREFIX,
    INFEASIBLE,
    METHOD_TOTAL,
    SCORE_SHAPE,
    OWNER_SHAPE,
    NOT_CONSERVED,
    BELOW_FLOOR,
    ABOVE_CAP,
    REMAINDER,
    PYRAMID_UNDEFINED,
    ENDPOINT,
    LAYER_TARGET,
    PROFILE_SHAPE,
    NOT_NORMALISED,
    MINIMUM_BUDGET,
    LAYER_MEAN,
    MINIMUM_ABOVE_MEAN,
    RAW_COUNT,
    HEAD_TARGET,
    IMPORTANCE,
    HEADKV_BETA,
    BOUND_SHAPE,
    BOUND,
    DIFFERENCE,
    PATTERN_RANGE,
    FULL_INCOMPLETE,
    PROFILE_MASS,
    POLICY_CHOICE,
    FALLBACK_FLAG,
    UNION_ROWS,
    RECOVERY,
    UNKNOWN_HEAD,
    REPROFILE_GENERATION,
    REPROFILE_DROPPED,
    SILENT_POLICY,
    NOT_SUCCESSOR,
    MANIFEST_DIGEST,
    POLICY_GENERATION,
    RECEIPT_GENERATION,
    PHASE_ORDER,
    PUBLICATION,
    CROSS_LAYER,
    OWNERS_NOT_VALIDATED,
    LAYER_BUDGET,
    OWNER_BUDGET,
    PROTECTED_MISSING,
    OUTSIDE_PREFIX,
    DUPLICATE,
    ROW_COUNT,
    SELECTION,
    PACK_ORDER,
    ROW_LENGTH,
    ROW_OFFSET,
    RENUMBERED,
    PACKED_SHAPE,
    AMBIGUOUS_SOURCE,
    KEY_VALUE,
    GATHER,
    QUERY_HEADS_CHARGED,
    CHARGED_ROWS,
    ROW_BYTES,
    QUERY_DEMAND,
    NOT_ADMITTED,
    SLOTS,
    LAUNCHES,
    EVENT_PARENT,
    EVENT_GENERATION,
    APPEND_POSITION,
    UNDECLARED,
    READMITS,
    RECALIBRATION_BUDGET,
    RECALIBRATION_SELECTION,
    VISIBILITY,
    PROXY_VALUE,
    PROXY_AS_QUALITY,
    VARIANT,
    PINNED_INPUT,
    DRIFT_HIDDEN,
    DRIFT,
)


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of an allocation fixture, or raise the first `ContractViolation` in the order given above."""
    _judge_head_map(fixture)
    _judge_source(fixture)
    _judge_limits(fixture)
    _judge_scores(fixture)
    _judge_profile_rows(fixture)
    rules = _rules(fixture)
    _judge_layers(fixture, rules)
    _judge_headkv(fixture, rules)
    total, scores = fixture["manifest"]["total_prefix_rows"], fixture["owner_scores"]
    allocation = owner_allocation.allocate(rules, scores, _prefix(fixture), total)
    _judge_adakv(fixture, allocation)
    _judge_fastgen(fixture)
    _judge_receipt(fixture, allocation)
    _judge_packed_rows(fixture)
    _judge_accounting(fixture)
    _judge_execution(fixture)
    _judge_lifecycle(fixture, rules)
    _judge_probes(fixture)
    _judge_variants(fixture)
    _judge_pinned(fixture)
    return _evidence(fixture, rules, allocation)


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture with the manifest's digest recomputed in its allocation receipt."""
    receipt = {**fixture["receipt"], "manifest_sha256": canonical_sha256(fixture["manifest"])}
    return {**fixture, "receipt": receipt}


def _judge_head_map(fixture: Document) -> None:
    geometry, manifest = fixture["geometry"], fixture["manifest"]
    head_map, where = manifest["q_to_kv_head_map"], pointer("manifest", "q_to_kv_head_map")
    if len(head_map) != geometry["query_heads"]:
        reason = f"expected {geometry['query_heads']} entries, found {len(head_map)}"
        raise ContractViolation(HEAD_MAP_LENGTH, where, reason)
    for query_head, kv_head in enumerate(head_map):
        if kv_head >= geometry["kv_heads"]:
            reason = f"expected a K/V head below {geometry['kv_heads']} for query head {query_head}, found {kv_head}"
            raise ContractViolation(HEAD_MAP_RANGE, where + pointer(query_head), reason)
    if manifest["head_map_mode"] == "contiguous_gqa":
        try:
            expected = heads.contiguous_gqa(geometry["query_heads"], geometry["kv_heads"])
        except ValueError as error:
            raise ContractViolation(HEAD_MAP_OWNERSHIP, where, str(error)) from None
        for query_head, (owner, found) in enumerate(zip(expected, head_map, strict=True)):
            _require(HEAD_MAP_OWNERSHIP, owner, found, where + pointer(query_head), f"for query head {query_head}")


def _judge_source(fixture: Document) -> None:
    manifest, source = fixture["manifest"], fixture["source_receipt"]
    frontier, where = fixture["geometry"]["prompt_positions"], pointer("source_receipt")
    _require(FRONTIER, frontier, manifest["prompt_frontier"], pointer("manifest", "prompt_frontier"))
    _require(FRONTIER, frontier, source["frontier"], where + "/frontier")
    place = pointer("manifest", "position_convention")
    _require(POSITION_CONVENTION, "original", manifest["position_convention"], place)
    protected, first = manifest["protected_positions"], manifest["prefix_rows"]
    if first > frontier or len(protected) != frontier - first or protected != list(range(first, frontier)):
        reason = f"expected every position from {first} to {frontier - 1}, found {joined(protected)}"
        raise ContractViolation(PROTECTED_SUFFIX, pointer("manifest", "protected_positions"), reason)
    _require_same(REQUEST_ID, manifest, source, "request_id", where)
    _require_same(REQUEST_GENERATION, manifest, source, "request_generation", where)
    _require(
        SOURCE_STALE,
        source["cache_generation"],
        manifest["source_cache_generation"],
        "/manifest/source_cache_generation",
    )
    _require(
        PARENT_STATE,
        source["state_generation"],
        manifest["parent_state_generation"],
        "/manifest/parent_state_generation",
    )
    _require(SOURCE_NOT_FULL, frontier, source["materialized_positions"], where + "/materialized_positions")
    found = source["scored_cache_generation"]
    _require(SCORED_OTHER_CACHE, source["cache_generation"], found, where + "/scored_cache_generation")
    for kind, parent in (("cache", "source_cache"), ("state", "parent_state")):
        name, before = f"allocated_{kind}_generation", manifest[f"{parent}_generation"]
        if manifest[name] <= before:
            reason = f"expected a generation after {before}, found {manifest[name]}"
            raise ContractViolation(NOT_SUCCESSOR, pointer("manifest", name), reason)


def _judge_limits(fixture: Document) -> None:
    manifest, where = fixture["manifest"], pointer("manifest")
    if (manifest["layer_method"] == "all_owners") != (manifest["head_method"] == "headkv"):
        reason = f"{manifest['layer_method']} layers do not go with {manifest['head_method']} heads"
        raise ContractViolation(COMPOSITION, where + "/head_method", reason)
    place = where + "/rounding"
    _require(ROUNDING, "largest_remainder_lowest_owner", manifest["rounding"], place)
    floor, cap, prefix = manifest["owner_floor_rows"], manifest["owner_cap_rows"], manifest["prefix_rows"]
    if cap > prefix:
        reason = f"expected at most the {prefix} prefix rows, found {cap}"
        raise ContractViolation(CAP_ABOVE_PREFIX, where + "/owner_cap_rows", reason)
    if floor > cap:
        reason = f"expected at most the cap of {cap} rows, found {floor}"
        raise ContractViolation(INFEASIBLE, where + "/owner_floor_rows", reason)
    owners, pool = fixture["geometry"]["layers"] * fixture["geometry"]["kv_heads"], _pool(fixture)
    if not owners * floor <= pool <= owners * cap:
        reason = f"expected {owners * floor} to {owners * cap} rows over all owners, found {pool}"
        raise ContractViolation(INFEASIBLE, where + "/total_prefix_rows", reason)
    zigzag = fixture["layer_allocation"]["zigzagkv"]
    place = pointer("layer_allocation", "zigzagkv", "mean_rows_per_layer")
    mean = Fraction(manifest["total_prefix_rows"], fixture["geometry"]["layers"])
    _require_number(METHOD_TOTAL, mean, zigzag["mean_rows_per_layer"], place)
    head = fixture["head_allocation"]["headkv"]
    place = pointer("head_allocation", "headkv", "mean_rows_per_head")
    _require_number(METHOD_TOTAL, Fraction(pool, owners), head["mean_rows_per_head"], place)


def _judge_scores(fixture: Document) -> None:
    geometry, where = fixture["geometry"], pointer("owner_scores")
    scores = fixture["owner_scores"]
    _require_length(SCORE_SHAPE, scores, geometry["layers"], "layers", where)
    for layer, rows in enumerate(scores):
        _require_length(SCORE_SHAPE, rows, geometry["kv_heads"], "K/V heads", where + pointer(layer))
        for kv_head, row in enumerate(rows):
            place = where + pointer(layer, kv_head)
            _require_length(SCORE_SHAPE, row, fixture["manifest"]["prefix_rows"], "prefix rows", place)


def _judge_layers(fixture: Document, rules: owner_allocation.Rules) -> None:
    layers, total = fixture["geometry"]["layers"], fixture["manifest"]["total_prefix_rows"]
    floors, caps = _layer_limits(fixture, rules)
    pyramid, where = fixture["layer_allocation"]["pyramidkv"], pointer("layer_allocation", "pyramidkv")
    try:
        bottom, top = pyramidkv.endpoints(total, layers, pyramid["beta"])
    except ValueError as error:
        place = where + "/beta" if layers > 1 else pointer("geometry", "layers")
        raise ContractViolation(PYRAMID_UNDEFINED, place, str(error)) from None
    receipt, place = pyramid["receipt"], where + "/receipt"
    _require_number(ENDPOINT, bottom, receipt["bottom_rows"], place + "/bottom_rows")
    _require_number(ENDPOINT, top, receipt["top_rows"], place + "/top_rows")
    targets = pyramidkv.layer_targets(total, layers, pyramid["beta"])
    _require_numbers(LAYER_TARGET, targets, receipt["target_rows"], place + "/target_rows")
    _judge_budgets(receipt["budget_rows"], targets, total, floors, caps, place + "/budget_rows")
    zigzag, where = fixture["layer_allocation"]["zigzagkv"], pointer("layer_allocation", "zigzagkv")
    receipt, place = zigzag["receipt"], where + "/receipt"
    _judge_minimum_budgets(fixture, receipt, place)
    try:
        targets = owner_allocation.layer_targets(rules, owner_allocation.ZIGZAGKV, total, layers)
    except ValueError as error:
        raise ContractViolation(MINIMUM_ABOVE_MEAN, where + "/minimum_rows_per_layer", str(error)) from None
    _require_numbers(LAYER_TARGET, targets, receipt["target_rows"], place + "/target_rows")
    _judge_budgets(receipt["budget_rows"], targets, total, floors, caps, place + "/budget_rows")


def _judge_minimum_budgets(fixture: Document, receipt: Document, where: str) -> None:
    layers = fixture["geometry"]["layers"]
    recounted: dict[tuple[str, str], Sequence[Sequence[int | None]]] = {
        ("mba_rows", "lmba_rows"): _minimum_budgets(fixture),
        ("mbo_rows", "lmbo_rows"): _minimum_output_budgets(fixture),
    }
    for (name, mean_name), expected in recounted.items():
        _require_length(OWNER_SHAPE, receipt[name], layers, "layers", where + pointer(name))
        for layer, counts in enumerate(expected):
            _require_numbers(MINIMUM_BUDGET, counts, receipt[name][layer], where + pointer(name, layer))
        _require_numbers(LAYER_MEAN, _layer_means(expected), receipt[mean_name], where + pointer(mean_name))


def _judge_profile_rows(fixture: Document) -> None:
    zigzag, where = fixture["layer_allocation"]["zigzagkv"], pointer("layer_allocation", "zigzagkv")
    layers, positions = fixture["geometry"]["layers"], fixture["geometry"]["prompt_positions"]
    _require_length(OWNER_SHAPE, zigzag["profile"], layers, "layers", where + "/profile")
    for layer, rows in enumerate(zigzag["profile"]):
        for row, profile in enumerate(rows):
            place = where + pointer("profile", layer, row)
            _require_length(PROFILE_SHAPE, profile["weights"], positions, "weights", place + "/weights")
            _require_length(PROFILE_SHAPE, profile["values"], positions, "value rows", place + "/values")
            for position, channels in enumerate(profile["values"]):
                here = place + pointer("values", position)
                _require_length(PROFILE_SHAPE, channels, len(profile["values"][0]), "channels", here)
            _require_normalised(NOT_NORMALISED, profile["weights"], place + "/weights")


def _layer_limits(fixture: Document, rules: owner_allocation.Rules) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return owner_allocation.layer_limits(rules, *owner_allocation.owner_limits(rules, _prefix(fixture)))


def _judge_headkv(fixture: Document, rules: owner_allocation.Rules) -> None:
    head, where = fixture["head_allocation"]["headkv"], pointer("head_allocation", "headkv")
    owners = fixture["geometry"]["layers"] * fixture["geometry"]["kv_heads"]
    _require_length(IMPORTANCE, head["importances"], owners, "owners", where + "/importances")
    _require_normalised(IMPORTANCE, head["importances"], where + "/importances")
    pool = _pool(fixture)
    try:
        targets = owner_allocation.headkv_targets(rules, pool)
    except ValueError as error:
        raise ContractViolation(HEADKV_BETA, where + "/beta", str(error)) from None
    receipt, place = head["receipt"], where + "/receipt"
    _require_numbers(HEAD_TARGET, targets, receipt["target_rows"], place + "/target_rows")
    floors, caps = owner_allocation.owner_limits(rules, _prefix(fixture))
    _judge_budgets(receipt["budget_rows"], targets, pool, flat(floors), flat(caps), place + "/budget_rows")


def _judge_adakv(fixture: Document, allocation: Allocation) -> None:
    ada, where = fixture["head_allocation"]["adakv"], pointer("head_allocation", "adakv")
    receipt, layers = ada["receipt"], fixture["geometry"]["layers"]
    for name in ("raw_counts", "target_rows", "budget_rows"):
        _require_length(OWNER_SHAPE, receipt[name], layers, "layers", where + pointer("receipt", name))
    for layer, pool in enumerate(allocation.pools):
        counts = adakv.raw_counts(fixture["owner_scores"][layer], pool)
        targets = adakv.safeguarded_targets(counts, ada["alpha"])
        place = where + "/receipt"
        _require_numbers(RAW_COUNT, counts, receipt["raw_counts"][layer], place + pointer("raw_counts", layer))
        _require_numbers(HEAD_TARGET, targets, receipt["target_rows"][layer], place + pointer("target_rows", layer))
        floors, caps = allocation.floors[layer], allocation.caps[layer]
        stated = receipt["budget_rows"][layer]
        _judge_budgets(stated, targets, pool, floors, caps, place + pointer("budget_rows", layer))
    for name, case in ada["bounds"].items():
        _judge_bound(case, where + pointer("bounds", name))


def _judge_bound(case: Document, where: str) -> None:
    weights, projected, retained = case["weights"], case["projected_values"], case["retained"]
    _require_length(BOUND_SHAPE, projected, len(weights), "heads", where + "/projected_values")
    _require_length(BOUND_SHAPE, retained, len(weights), "heads", where + "/retained")
    for head, (row, values, kept) in enumerate(zip(weights, projected, retained, strict=True)):
        place = where + pointer("projected_values", head)
        _require_length(BOUND_SHAPE, values, len(row), "value rows", place)
        for position, channels in enumerate(values):
            _require_length(BOUND_SHAPE, channels, len(projected[0][0]), "channels", place + pointer(position))
        if len(set(kept)) != len(kept) or any(position >= len(row) for position in kept):
            reason = f"expected different positions below {len(row)}, found {joined(kept)}"
            raise ContractViolation(BOUND_SHAPE, where + pointer("retained", head), reason)
        _require_normalised(NOT_NORMALISED, row, where + pointer("weights", head))
    receipt, found, place = case["receipt"], _bound(case), where + "/receipt"
    _require_number(BOUND, found.largest_row_norm, receipt["largest_row_norm"], place + "/largest_row_norm")
    _require_number(BOUND, found.retained_mass, receipt["retained_mass"], place + "/retained_mass")
    _require_number(BOUND, found.bound, receipt["bound"], place + "/bound")
    _require_number(DIFFERENCE, found.difference, receipt["difference"], place + "/difference")


def _judge_fastgen(fixture: Document) -> None:
    family, where = fixture["fastgen"], pointer("fastgen")
    positions = fixture["geometry"]["prompt_positions"]
    for name, pattern in family["patterns"].items():
        for index, position in enumerate(pattern):
            if position >= positions:
                reason = f"expected a position below {positions}, found {position}"
                raise ContractViolation(PATTERN_RANGE, where + pointer("patterns", name, index), reason)
    if len(family["patterns"][fastgen.FULL]) != positions:
        reason = f"expected all {positions} positions, found {len(family['patterns'][fastgen.FULL])}"
        raise ContractViolation(FULL_INCOMPLETE, where + pointer("patterns", fastgen.FULL), reason)
    if family["policies"].get(fastgen.FULL) != [fastgen.FULL]:
        reason = f"expected a policy full of the pattern full, found {joined(family['policies'].get(fastgen.FULL, ()))}"
        raise ContractViolation(FULL_INCOMPLETE, where + "/policies", reason)
    choices = {}
    for name, head in family["heads"].items():
        choices[name] = _judge_profile(fixture, head, where + pointer("heads", name))
    for name, probe in family["probes"].items():
        _judge_profile(fixture, probe, where + pointer("probes", name))
    _judge_transitions(fixture, choices)


def _judge_profile(fixture: Document, head: Document, where: str) -> fastgen.Choice:
    _judge_mass(fixture, head["mass"], where + "/mass")
    receipt, choice = head["receipt"], _choose(fixture, head["mass"])
    _require(POLICY_CHOICE, choice.policy, receipt["policy"], where + "/receipt/policy")
    _require(FALLBACK_FLAG, choice.fallback, receipt["fallback"], where + "/receipt/fallback")
    _require(UNION_ROWS, len(choice.positions), receipt["rows"], where + "/receipt/rows")
    _require_number(RECOVERY, choice.recovery, receipt["recovery"], where + "/receipt/recovery")
    return choice


def _judge_mass(fixture: Document, mass: list[Number], where: str) -> None:
    _require_length(PROFILE_SHAPE, mass, fixture["geometry"]["prompt_positions"], "positions", where)
    if sum(mass) > 1:
        reason = f"expected a mass of at most 1, found {reported(Fraction(sum(mass)))}"
        raise ContractViolation(PROFILE_MASS, where, reason)


def _judge_transitions(fixture: Document, choices: Mapping[str, fastgen.Choice]) -> None:
    family = fixture["fastgen"]
    current, generation = dict(choices), family["profile_generation"]
    for index, step in enumerate(family["transitions"]):
        where = pointer("fastgen", "transitions", index)
        if step["head"] not in current:
            reason = f"expected one of {joined(current)}, found {step['head']}"
            raise ContractViolation(UNKNOWN_HEAD, where + "/head", reason)
        place = where + "/parent_profile_generation"
        _require(REPROFILE_GENERATION, generation, step["parent_profile_generation"], place)
        if step["profile_generation"] <= generation:
            reason = f"expected a generation after {generation}, found {step['profile_generation']}"
            raise ContractViolation(REPROFILE_GENERATION, where + "/profile_generation", reason)
        _judge_mass(fixture, step["mass"], where + "/mass")
        choice = _choose(fixture, step["mass"])
        _require(POLICY_CHOICE, choice.policy, step["policy"], where + "/policy")
        gone = [position for position in choice.positions if position not in current[step["head"]].positions]
        if step["rows_from"] == "retained_rows" and gone:
            reason = f"the policy {choice.policy} needs the positions {joined(gone)}, which {step['head']} has dropped"
            raise ContractViolation(REPROFILE_DROPPED, where + "/rows_from", reason)
        current[step["head"]], generation = choice, step["profile_generation"]
    stated, where = family["current_policies"], pointer("fastgen", "current_policies")
    if set(stated) != set(current):
        raise ContractViolation(SILENT_POLICY, where, f"expected the heads {joined(current)}, found {joined(stated)}")
    for name, choice in current.items():
        _require(SILENT_POLICY, choice.policy, stated[name], where + pointer(name))


def _judge_receipt(fixture: Document, allocation: Allocation) -> None:
    manifest, receipt, where = fixture["manifest"], fixture["receipt"], pointer("receipt")
    _require(MANIFEST_DIGEST, canonical_sha256(manifest), receipt["manifest_sha256"], where + "/manifest_sha256")
    _require_same(POLICY_GENERATION, manifest, receipt, "policy_generation", where)
    _require_same(REQUEST_ID, manifest, receipt, "request_id", where)
    _require_same(REQUEST_GENERATION, manifest, receipt, "request_generation", where)
    _require_same(SOURCE_STALE, manifest, receipt, "source_cache_generation", where)
    _require_same(PARENT_STATE, manifest, receipt, "parent_state_generation", where)
    for kind in ("cache_generation", "state_generation"):
        _require(RECEIPT_GENERATION, manifest[f"allocated_{kind}"], receipt[kind], where + pointer(kind))
    _require_length(PHASE_ORDER, receipt["phases"], len(PHASES), "phases", where + "/phases")
    for index, (phase, found) in enumerate(zip(PHASES, receipt["phases"], strict=True)):
        _require(PHASE_ORDER, phase, found, where + pointer("phases", index))
    _judge_publications(fixture)
    stated = receipt["layer_budget_rows"]
    _require_numbers(LAYER_BUDGET, allocation.layers or allocation.pools, stated, where + "/layer_budget_rows")
    stated = receipt["owner_budget_rows"]
    _require_owners(stated, fixture, where + "/owner_budget_rows")
    for layer, (budgets, pool) in enumerate(zip(stated, allocation.pools, strict=True)):
        place = where + pointer("owner_budget_rows", layer)
        _require(NOT_CONSERVED, pool, sum(budgets), place, "rows over the layer's owners")
        _require_numbers(OWNER_BUDGET, allocation.owners[layer], budgets, place)
    _require_owners(receipt["owner_positions"], fixture, where + "/owner_positions")
    for layer, kv_head, positions in packing.owners(receipt["owner_positions"]):
        budget = stated[layer][kv_head]
        _judge_positions(fixture, layer, kv_head, positions, budget, where + pointer("owner_positions", layer, kv_head))


def _judge_publications(fixture: Document) -> None:
    receipt, where = fixture["receipt"], pointer("receipt", "publications")
    layers, owners = fixture["geometry"]["layers"], fixture["geometry"]["kv_heads"]
    _require_length(PUBLICATION, receipt["publications"], layers, "layers", where)
    for layer, publication in enumerate(receipt["publications"]):
        place = where + pointer(layer)
        _require(PUBLICATION, layer, publication["layer"], place + "/layer")
        for kind in ("cache_generation", "state_generation"):
            _require_same(CROSS_LAYER, receipt, publication, kind, place)
        _require(OWNERS_NOT_VALIDATED, owners, publication["validated_owners"], place + "/validated_owners")


def _judge_positions(
    fixture: Document, layer: int, kv_head: int, positions: Sequence[int], budget: int, where: str
) -> None:
    manifest = fixture["manifest"]
    protected = manifest["protected_positions"]
    cut = max(0, len(positions) - len(protected))
    kept, suffix = list(positions[:cut]), list(positions[cut:])
    if suffix != protected:
        reason = f"expected the last positions {joined(protected)}, found {joined(suffix)}"
        raise ContractViolation(PROTECTED_MISSING, where, reason)
    seen: set[int] = set()
    for index, position in enumerate(kept):
        if position >= manifest["prefix_rows"]:
            reason = f"expected a prefix position below {manifest['prefix_rows']}, found {position}"
            raise ContractViolation(OUTSIDE_PREFIX, where + pointer(index), reason)
        if position in seen:
            raise ContractViolation(DUPLICATE, where + pointer(index), f"position {position} is selected twice")
        seen.add(position)
    if len(kept) != budget:
        reason = f"expected {budget} prefix rows before the suffix, found {len(kept)}"
        raise ContractViolation(ROW_COUNT, where, reason)
    ranked = attention.top_k(fixture["owner_scores"][layer][kv_head], budget)
    if seen != set(ranked):
        raise ContractViolation(SELECTION, where, f"expected the rows {joined(sorted(ranked))}, found {joined(kept)}")
    ordered = list(ranked) if manifest["pack_order"] == "score" else sorted(ranked)
    if kept != ordered:
        reason = f"expected {manifest['pack_order']} order {joined(ordered)}, found {joined(kept)}"
        raise ContractViolation(PACK_ORDER, where, reason)


def _judge_packed_rows(fixture: Document) -> None:
    receipt, where = fixture["receipt"], pointer("receipt")
    selected, width = receipt["owner_positions"], fixture["geometry"]["head_dimension"]
    lengths = packing.lengths(selected)
    _require_numbers(ROW_LENGTH, flat(lengths), receipt["row_lengths"], where + "/row_lengths", ROW_LENGTH)
    offsets = packing.flat_offsets(lengths)
    _require_numbers(ROW_OFFSET, offsets, receipt["row_offsets"], where + "/row_offsets", ROW_OFFSET)
    expected = packing.position_map(selected)
    stated = receipt["original_position_map"]
    _require_numbers(RENUMBERED, expected, stated, where + "/original_position_map", PACKED_SHAPE)
    for name in ("packed_key_rows", "packed_value_rows"):
        _require_length(PACKED_SHAPE, receipt[name], len(expected), "rows", where + pointer(name))
        for row, scalars in enumerate(receipt[name]):
            _require_length(PACKED_SHAPE, scalars, width, "scalars", where + pointer(name, row))
    _judge_symbolic_content(fixture)
    keys = packing.gather(_source(fixture, "key"), selected, 0)
    values = packing.gather(_source(fixture, "value"), selected, 0)
    for row, position in enumerate(expected):
        found_key, found_value = receipt["packed_key_rows"][row], receipt["packed_value_rows"][row]
        wrong_key, wrong_value = found_key != keys[row], found_value != values[row]
        if wrong_key and wrong_value:
            reason = f"packed row {row} holds position {position}; K and V are both of another row"
            raise ContractViolation(GATHER, where + pointer("packed_key_rows", row), reason)
        if wrong_key or wrong_value:
            name, found, source = (
                ("packed_key_rows", found_key, keys[row])
                if wrong_key
                else ("packed_value_rows", found_value, values[row])
            )
            reason = f"packed row {row} holds position {position}: expected {joined(source)}, found {joined(found)}"
            raise ContractViolation(KEY_VALUE, where + pointer(name, row), reason)


def _judge_symbolic_content(fixture: Document) -> None:
    geometry, content = fixture["geometry"], fixture["symbolic_content"]
    span = geometry["head_dimension"]
    counts = {
        "position_stride": geometry["prompt_positions"],
        "kv_head_stride": geometry["kv_heads"],
        "layer_stride": geometry["layers"],
        "value_offset": 2,
    }
    for name, count in counts.items():
        if content[name] < span:
            reason = f"expected at least {span}, found {content[name]}"
            raise ContractViolation(AMBIGUOUS_SOURCE, pointer("symbolic_content", name), reason)
        span += (count - 1) * content[name]


def _judge_accounting(fixture: Document) -> None:
    stated, where = fixture["accounting"], pointer("accounting")
    geometry = _geometry(fixture)
    place = where + "/charged_owners"
    _require(QUERY_HEADS_CHARGED, geometry.owners(), stated["charged_owners"], place, "owners, layers by K/V heads")
    prefix = sum(flat(fixture["receipt"]["owner_budget_rows"]))
    _require(CHARGED_ROWS, prefix, stated["prefix_rows"], where + "/prefix_rows", "rows without the suffix")
    protected = geometry.owners() * len(fixture["manifest"]["protected_positions"])
    _require(
        CHARGED_ROWS, protected, stated["protected_rows"], where + "/protected_rows", "rows, the suffix once an owner"
    )
    _require(ROW_BYTES, geometry.row_bytes(), stated["row_bytes"], where + "/row_bytes", "bytes")
    demand = _query_expanded_rows(fixture)
    _require(QUERY_DEMAND, demand, stated["query_expanded_rows"], where + "/query_expanded_rows", "rows")


def _judge_execution(fixture: Document) -> None:
    execution, layout = fixture["execution"], fixture["manifest"]["execution_layout"]
    if layout not in execution["admitted_layouts"]:
        reason = f"expected one of {joined(execution['admitted_layouts'])}, found {layout}"
        raise ContractViolation(NOT_ADMITTED, pointer("manifest", "execution_layout"), reason)
    lengths = packing.lengths(fixture["receipt"]["owner_positions"])
    for name in ragged_execution.LAYOUTS:
        expected, stated = ragged_execution.execution(name, lengths), execution["receipts"][name]
        where = pointer("execution", "receipts", name)
        _require(SLOTS, expected.row_slots, stated["row_slots"], where + "/row_slots", "row slots")
        _require(LAUNCHES, expected.launches, stated["launches"], where + "/launches")


def _judge_lifecycle(fixture: Document, rules: owner_allocation.Rules) -> None:
    manifest, receipt = fixture["manifest"], fixture["receipt"]
    current = {
        "cache_generation": receipt["cache_generation"],
        "state_generation": receipt["state_generation"],
        "frontier": manifest["prompt_frontier"],
        "total_prefix_rows": manifest["total_prefix_rows"],
        "owner_budget_rows": receipt["owner_budget_rows"],
        "owner_prefix_positions": _published_prefix(fixture),
    }
    for index, event in enumerate(fixture["lifecycle"]):
        where = pointer("lifecycle", index)
        for kind in ("cache_generation", "state_generation"):
            _require(EVENT_PARENT, current[kind], event[f"parent_{kind}"], where + pointer(f"parent_{kind}"))
        _require_after(event, "cache_generation", current, where)
        for name in ("owner_budget_rows", "owner_prefix_positions"):
            _require_owners(event[name], fixture, where + pointer(name))
        if event["event"] == "append":
            _judge_append(event, current, where)
        else:
            _judge_recalibration(fixture, rules, event, current, where)
        current = {name: event[name] for name in current}


def _judge_append(event: Document, current: Document, where: str) -> None:
    _require(APPEND_POSITION, current["frontier"], event["position"], where + "/position")
    _require(APPEND_POSITION, current["frontier"] + 1, event["frontier"], where + "/frontier")
    for name in ("state_generation", "total_prefix_rows"):
        _require_same(UNDECLARED, current, event, name, where)
    for name in ("owner_budget_rows", "owner_prefix_positions"):
        for layer, (before, after) in enumerate(zip(current[name], event[name], strict=True)):
            if before != after:
                reason = f"an append keeps {joined(before)}, found {joined(after)}"
                raise ContractViolation(UNDECLARED, where + pointer(name, layer), reason)


def _judge_recalibration(
    fixture: Document, rules: owner_allocation.Rules, event: Document, current: Document, where: str
) -> None:
    if event["transaction_id"] is None:
        raise ContractViolation(UNDECLARED, where + "/transaction_id", "expected a transaction, found null")
    _require(APPEND_POSITION, None, event["position"], where + "/position")
    _require_same(APPEND_POSITION, current, event, "frontier", where)
    _require_after(event, "state_generation", current, where)
    retained = current["owner_prefix_positions"]
    for layer, kv_head, positions in packing.owners(event["owner_prefix_positions"]):
        gone = [position for position in positions if position not in retained[layer][kv_head]]
        if gone:
            reason = f"position {gone[0]} was dropped before; retained are {joined(retained[layer][kv_head])}"
            raise ContractViolation(READMITS, where + pointer("owner_prefix_positions", layer, kv_head), reason)
    try:
        total, scores = event["total_prefix_rows"], fixture["owner_scores"]
        allocation = owner_allocation.allocate(rules, scores, retained, total)
    except ValueError as error:
        raise ContractViolation(INFEASIBLE, where + "/total_prefix_rows", str(error)) from None
    for layer, budgets in enumerate(allocation.owners):
        stated, place = event["owner_budget_rows"][layer], where + pointer("owner_budget_rows", layer)
        _require_numbers(RECALIBRATION_BUDGET, budgets, stated, place)
        for kv_head, budget in enumerate(budgets):
            expected = _best(fixture, layer, kv_head, retained[layer][kv_head], budget)
            found = event["owner_prefix_positions"][layer][kv_head]
            if found != expected:
                place = where + pointer("owner_prefix_positions", layer, kv_head)
                reason = f"expected {joined(expected)}, found {joined(found)}"
                raise ContractViolation(RECALIBRATION_SELECTION, place, reason)


def _judge_probes(fixture: Document) -> None:
    for index, probe in enumerate(fixture["probes"]):
        where, expected = pointer("probes", index), _visible_owners(fixture, probe["original_position"])
        if probe["visible_owners"] != expected:
            reason = f"expected {joined(expected)}, found {joined(probe['visible_owners'])}"
            raise ContractViolation(VISIBILITY, where + "/visible_owners", reason)
        _require(PROXY_AS_QUALITY, None, probe["task_quality"], where + "/task_quality")
    proxy, where = fixture["proxy"], pointer("proxy")
    expected_scores = _retained_scores(fixture, _published_prefix(fixture))
    place = where + "/retained_score_per_layer"
    _require_numbers(PROXY_VALUE, expected_scores, proxy["retained_score_per_layer"], place)
    _require(PROXY_AS_QUALITY, None, proxy["task_quality"], where + "/task_quality")


def _judge_variants(fixture: Document) -> None:
    for name, variant in fixture["contracts"]["variants"].items():
        differences = _differs_in(fixture, variant)
        expected = "different_contract" if differences else "layer_schedule"
        if variant["claimed_as"] != expected:
            reason = f"expected {expected}, which differs in {joined(differences)}, found {variant['claimed_as']}"
            raise ContractViolation(VARIANT, pointer("contracts", "variants", name, "claimed_as"), reason)


def _judge_pinned(fixture: Document) -> None:
    pinned = fixture["pinned_rounding"]
    for name, case in pinned["pyramidkv"].items():
        where = pointer("pinned_rounding", "pyramidkv", name)
        if case["window_rows"] >= min(case["capacity_rows"], case["prompt_rows"]):
            reason = f"expected a window below capacity and prompt, found {case['window_rows']}"
            raise ContractViolation(PINNED_INPUT, where + "/window_rows", reason)
        _require(
            DRIFT_HIDDEN, _pinned_pyramid(case)["conserved"], case["claims_conserved"], where + "/claims_conserved"
        )
    for name, case in pinned["adakv"].items():
        where, target = pointer("pinned_rounding", "adakv", name), case["rows_per_head"] * len(case["winner_counts"])
        _require(PINNED_INPUT, target, sum(case["winner_counts"]), where + "/winner_counts", "winners")
        _require(DRIFT_HIDDEN, _pinned_adakv(case)["conserved"], case["claims_conserved"], where + "/claims_conserved")
    for name, case in pinned["headkv"].items():
        where = pointer("pinned_rounding", "headkv", name)
        _require_normalised(IMPORTANCE, case["importances"], where + "/importances")
        _require(DRIFT_HIDDEN, _pinned_headkv(case)["conserved"], case["claims_conserved"], where + "/claims_conserved")


def _judge_budgets(
    stated: list[int],
    targets: Sequence[Number],
    total: int,
    floors: Sequence[int],
    caps: Sequence[int],
    where: str,
) -> None:
    """Judge integer budgets against their targets: floor, cap, total, and last the order of the remainder."""
    _require_length(OWNER_SHAPE, stated, len(targets), "budgets", where)
    for owner, (budget, floor, cap) in enumerate(zip(stated, floors, caps, strict=True)):
        if budget < floor:
            raise ContractViolation(
                BELOW_FLOOR, where + pointer(owner), f"expected {floor} rows or more, found {budget}"
            )
        if budget > cap:
            raise ContractViolation(ABOVE_CAP, where + pointer(owner), f"expected at most {cap} rows, found {budget}")
    _require(NOT_CONSERVED, total, sum(stated), where, "rows in all")
    _require_numbers(REMAINDER, apportion(targets, total, floors, caps), stated, where)


def _rules(fixture: Document) -> owner_allocation.Rules:
    """Return the methods of the manifest with the parameters that the fixture gives to all of them."""
    manifest, layer, head = fixture["manifest"], fixture["layer_allocation"], fixture["head_allocation"]
    return owner_allocation.Rules(
        layer_method=manifest["layer_method"],
        head_method=manifest["head_method"],
        per_kv_head=manifest["layer_budget_scope"] == "rows_per_kv_head",
        floor=manifest["owner_floor_rows"],
        cap=manifest["owner_cap_rows"],
        pyramid_beta=layer["pyramidkv"]["beta"],
        sensitivities=_layer_means(_minimum_budgets(fixture)),
        minimum_layer_rows=layer["zigzagkv"]["minimum_rows_per_layer"],
        alpha=head["adakv"]["alpha"],
        importances=head["headkv"]["importances"],
        headkv_beta=head["headkv"]["beta"],
    )


def _prefix(fixture: Document) -> list[list[range]]:
    return [[range(len(row)) for row in rows] for rows in fixture["owner_scores"]]


def _pool(fixture: Document) -> int:
    """Return the total over all owners in rows; under `rows_per_kv_head` every K/V head has the layer budgets."""
    manifest, kv_heads = fixture["manifest"], int(fixture["geometry"]["kv_heads"])
    total = int(manifest["total_prefix_rows"])
    return total * kv_heads if manifest["layer_budget_scope"] == "rows_per_kv_head" else total


def _minimum_budgets(fixture: Document) -> list[list[int]]:
    zigzag = fixture["layer_allocation"]["zigzagkv"]
    return [
        [zigzagkv.minimum_budget_of_attention(row["weights"], zigzag["attention_share"]) for row in rows]
        for rows in zigzag["profile"]
    ]


def _minimum_output_budgets(fixture: Document) -> list[list[int | None]]:
    zigzag = fixture["layer_allocation"]["zigzagkv"]
    return [
        [zigzagkv.minimum_budget_of_output(row["weights"], row["values"], zigzag["output_similarity"]) for row in rows]
        for rows in zigzag["profile"]
    ]


def _layer_means(counts: Sequence[Sequence[int | None]]) -> list[Any]:
    """Return the mean a layer, None where one of its rows has no minimum budget."""
    known = [[count for count in row if count is not None] for row in counts]
    return [
        zigzagkv.layer_mean(row) if len(row) == len(every) else None for row, every in zip(known, counts, strict=True)
    ]


def _policies(fixture: Document) -> dict[str, tuple[int, ...]]:
    family = fixture["fastgen"]
    return {
        name: fastgen.union(family["patterns"][pattern] for pattern in patterns)
        for name, patterns in family["policies"].items()
    }


def _choose(fixture: Document, mass: list[Number]) -> fastgen.Choice:
    return fastgen.choose(mass, _policies(fixture), fixture["fastgen"]["recovery_threshold"])


def _best(fixture: Document, layer: int, kv_head: int, candidates: Sequence[int], budget: int) -> list[int]:
    """Return the owner's `budget` best positions among `candidates`, ascending; ties by lowest position."""
    ascending = sorted(candidates)
    scores = [fixture["owner_scores"][layer][kv_head][position] for position in ascending]
    return sorted(ascending[index] for index in attention.top_k(scores, budget))


def _selected(fixture: Document, budgets: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """Return the prefix rows that every owner selects at these budgets."""
    return [
        [sorted(attention.top_k(fixture["owner_scores"][layer][kv_head], rows)) for kv_head, rows in enumerate(owners)]
        for layer, owners in enumerate(budgets)
    ]


def _published_prefix(fixture: Document) -> list[list[list[int]]]:
    """Return the prefix part of the published positions, ascending, whatever the packing order."""
    suffix = len(fixture["manifest"]["protected_positions"])
    return [
        [sorted(positions[: len(positions) - suffix]) for positions in rows]
        for rows in fixture["receipt"]["owner_positions"]
    ]


def _retained_scores(fixture: Document, selected: packing.Selection) -> list[Fraction]:
    """Return the sum of the owners' scores at their selected prefix rows, a layer."""
    return [
        sum(
            (
                Fraction(scores[position])
                for scores, positions in zip(fixture["owner_scores"][layer], rows, strict=True)
                for position in positions
            ),
            Fraction(0),
        )
        for layer, rows in enumerate(selected)
    ]


def _visible_owners(fixture: Document, position: int) -> list[list[int]]:
    return [
        [layer, kv_head]
        for layer, kv_head, positions in packing.owners(fixture["receipt"]["owner_positions"])
        if position in positions
    ]


def _differs_in(fixture: Document, variant: Document) -> list[str]:
    baseline = fixture["contracts"]["pyramidkv"]
    return [name for name in baseline if variant["contract"][name] != baseline[name]]


def _query_expanded_rows(fixture: Document) -> int:
    head_map = fixture["manifest"]["q_to_kv_head_map"]
    readers = [0] * fixture["geometry"]["kv_heads"]
    for kv_head in head_map:
        readers[kv_head] += 1
    lengths = packing.lengths(fixture["receipt"]["owner_positions"])
    return sum(rows * count for layer in lengths for rows, count in zip(layer, readers, strict=True))


def _bound(case: Document) -> adakv.Bound:
    return adakv.output_bound(case["weights"], case["projected_values"], case["retained"])


def _bound_results(case: Document) -> Document:
    """Return the terms of Ada-KV's bound for one case, under renormalised and under dense weights."""
    found = _bound(case)
    half = found.bound / 2
    return {
        "largest_row_norm": found.largest_row_norm,
        "retained_mass": found.retained_mass,
        "bound": found.bound,
        "difference": found.difference,
        "holds": found.difference <= found.bound,
        "without_renormalisation": {
            "bound": half,
            "difference": found.dense_difference,
            "holds": found.dense_difference <= half,
        },
    }


def _bound_trials(fixture: Document) -> Document:
    """Return how often the bound holds over drawn cases, and how often half of it would have held."""
    stated = fixture["head_allocation"]["adakv"]["bound_trials"]
    found = [_bound(case) for case in _drawn_cases(stated)]
    return {
        "trials": len(found),
        "held": sum(each.difference <= each.bound for each in found),
        "held_at_half_the_bound": sum(2 * each.difference <= each.bound for each in found),
        "held_at_half_without_renormalisation": sum(2 * each.dense_difference <= each.bound for each in found),
    }


def _drawn_cases(stated: Document) -> list[Document]:
    """Draw bound cases: weights in 99ths of their sum, values in -9 to 9, each position retained or not.

    A linear congruential generator written out here, so that every machine draws the same cases.
    """
    state = stated["seed"]

    def draw(size: int) -> int:
        nonlocal state
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        return int((state >> 33) % size)

    cases = []
    for _ in range(stated["trials"]):
        parts = [[1 + draw(99) for _ in range(stated["positions"])] for _ in range(stated["heads"])]
        cases.append(
            {
                "weights": [[Fraction(part, sum(row)) for part in row] for row in parts],
                "projected_values": [[[draw(19) - 9 for _ in range(stated["channels"])] for _ in row] for row in parts],
                "retained": [[position for position in range(len(row)) if draw(2)] for row in parts],
            }
        )
    return cases


def _pinned_pyramid(case: Document) -> Document:
    base, layers = case["capacity_rows"] - case["window_rows"], case["layers"]
    schedule = pyramidkv.pinned_capacities(
        case["capacity_rows"], case["window_rows"], layers, case["beta"], case["prompt_rows"]
    )
    ends = {"branch": schedule.branch, "high": schedule.high, "low": schedule.low, "step": schedule.step}
    capacities = schedule.capacities
    if capacities is None:
        return {**ends, "first": None, "last": None, **_pinned_totals(None, None, None)}
    prefix = case["prompt_rows"] - case["window_rows"]
    targets = pyramidkv.layer_targets(base * layers, layers, case["beta"])
    exact = _apportioned(targets, base * layers, prefix)
    return {
        **ends,
        "first": capacities[0],
        "last": capacities[-1],
        **_pinned_totals(sum(capacities), base * layers, exact),
    }


def _pinned_adakv(case: Document) -> Document:
    base, counts, share = case["rows_per_head"], case["winner_counts"], case["floor_share"]
    capacities = adakv.pinned_head_capacities(base, counts, share)
    target = base * len(counts)
    exact = _apportioned(adakv.safeguarded_targets(counts, 1 - share), target, target)
    return {"capacities": summarised(capacities), **_pinned_totals(sum(capacities), target, exact)}


def _pinned_headkv(case: Document) -> Document:
    importances, base, prefix = case["importances"], case["rows_per_head"], case["prefix_rows"]
    capacities = headkv.pinned_owner_capacities(importances, base, case["beta"], prefix)
    target = base * len(importances)
    exact = _apportioned(headkv.owner_targets(importances, base, case["beta"]), target, prefix)
    return {
        "capacities": summarised(capacities.truncated),
        "truncated_rows": sum(capacities.rounded) - sum(capacities.truncated),
        **_pinned_totals(sum(capacities.truncated), target, exact),
    }


def _apportioned(targets: Sequence[Number], total: int, cap: int) -> tuple[int, ...] | None:
    """Return kvaudit's integer budgets for the same targets, or None where the caps cannot hold the total."""
    if total > cap * len(targets):
        return None
    return apportion(targets, total, [0] * len(targets), [cap] * len(targets))


def _pinned_totals(total: int | None, target: int | None, exact: tuple[int, ...] | None) -> Document:
    return {
        "total_rows": total,
        "target_rows": target,
        "excess_rows": None if total is None or target is None else total - target,
        "conserved": None if total is None else total == target,
        "exact_rows": None if exact is None else summarised(exact),
        "exact_total_rows": None if exact is None else sum(exact),
    }


def _evidence(fixture: Document, rules: owner_allocation.Rules, allocation: Allocation) -> Evidence:
    geometry, receipt, manifest = _geometry(fixture), fixture["receipt"], fixture["manifest"]
    selected = receipt["owner_positions"]
    rows = sum(map(sum, packing.lengths(selected)))
    entries = fixture["geometry"]
    return Evidence(
        results=_results(fixture, rules, allocation),
        ledgers=(
            LedgerRow(
                "full_prompt_payload",
                geometry.full_payload_bytes(manifest["prompt_frontier"]),
                "B",
                "L * H_kv * T * d_h * (b_K + b_V)",
            ),
            LedgerRow(
                "allocated_payload", rows * geometry.row_bytes(), "B", "sum of (K_lh + W_lh) * d_h * (b_K + b_V)"
            ),
            LedgerRow(
                "position_map",
                rows * entries["position_entry_bytes"],
                "B",
                "sum of (K_lh + W_lh) * position_entry_bytes",
            ),
            LedgerRow(
                "cumulative_offsets",
                (geometry.owners() + 1) * entries["offset_entry_bytes"],
                "B",
                "(L * H_kv + 1) * offset_entry_bytes",
            ),
        ),
        snapshots=tuple(
            Snapshot(
                policy=manifest["policy_manifest_id"],
                step="publication",
                owner=f"layer {layer} K/V head {kv_head}",
                state_generation=receipt["state_generation"],
                cache_generation=receipt["cache_generation"],
                selected_original_positions=positions,
                selected_row_count=len(positions),
                published=True,
            )
            for layer, kv_head, positions in packing.owners(selected)
        ),
        comparisons=(
            Comparison(
                "prompt_payload_bytes",
                "B",
                "one request, one prompt, unique K/V payload only",
                ("full_prompt_payload", "allocated_payload"),
            ),
        ),
    )


def _results(fixture: Document, rules: owner_allocation.Rules, allocation: Allocation) -> Document:
    geometry, manifest, source = fixture["geometry"], fixture["manifest"], fixture["source_receipt"]
    return {
        "source": {
            "receipt_kind": source["kind"],
            "shape_per_layer": [1, geometry["kv_heads"], geometry["prompt_positions"], geometry["head_dimension"]],
            "query_heads": geometry["query_heads"],
            "q_to_kv_head_map": summarised(manifest["q_to_kv_head_map"]),
            "prefix_positions": summarised(range(manifest["prefix_rows"])),
            "protected_positions": summarised(manifest["protected_positions"]),
        },
        "pyramidkv": _pyramid_results(fixture),
        "zigzagkv": _zigzag_results(fixture, rules),
        "uniform": _uniform_results(fixture, rules, allocation),
        "adakv": _adakv_results(fixture, allocation),
        "headkv": _headkv_results(fixture, rules),
        "fastgen": _fastgen_results(fixture),
        "published": _published_results(fixture),
        "alternatives": _alternatives(fixture, allocation),
        "execution": _execution_results(fixture),
        "lifecycle": [
            {
                "event": event["event"],
                "transaction_id": event["transaction_id"],
                "frontier": event["frontier"],
                "cache_generation": event["cache_generation"],
                "state_generation": event["state_generation"],
                "prefix_rows": sum(flat(event["owner_budget_rows"])),
                "tail_rows": event["frontier"] - manifest["prompt_frontier"],
                "owner_budgets": summarised(event["owner_budget_rows"]),
                "owner_prefix_positions": summarised(event["owner_prefix_positions"]),
            }
            for event in fixture["lifecycle"]
        ],
        "probes": [
            {
                "original_position": probe["original_position"],
                "visible_owners": summarised(_visible_owners(fixture, probe["original_position"])),
                "task_quality": None,
            }
            for probe in fixture["probes"]
        ],
        "proxy": {
            "retained_score_per_layer": summarised(_retained_scores(fixture, _published_prefix(fixture))),
            "task_quality": None,
        },
        "contract_variants": {
            name: {
                "resembles": "pyramidkv",
                "claimed_as": variant["claimed_as"],
                "differs_in": _differs_in(fixture, variant),
                "layer_budgets": None,
            }
            for name, variant in fixture["contracts"]["variants"].items()
        },
        "pinned_rounding": {
            "label": PINNED_LABEL,
            "pyramidkv": {
                name: _pinned_pyramid(case) for name, case in fixture["pinned_rounding"]["pyramidkv"].items()
            },
            "adakv": {name: _pinned_adakv(case) for name, case in fixture["pinned_rounding"]["adakv"].items()},
            "headkv": {name: _pinned_headkv(case) for name, case in fixture["pinned_rounding"]["headkv"].items()},
        },
    }


def _pyramid_results(fixture: Document) -> Document:
    layers, total = fixture["geometry"]["layers"], fixture["manifest"]["total_prefix_rows"]
    beta = fixture["layer_allocation"]["pyramidkv"]["beta"]
    bottom, top = pyramidkv.endpoints(total, layers, beta)
    divided = pyramidkv.layer_targets_divided_by_m(total, layers, beta)
    kv_heads, row_bytes = fixture["geometry"]["kv_heads"], _geometry(fixture).row_bytes()
    return {
        "layers": layers,
        "total_rows": total,
        "beta": beta,
        "bottom_rows": bottom,
        "top_rows": top,
        "targets": summarised(pyramidkv.layer_targets(total, layers, beta)),
        "budgets": summarised(fixture["layer_allocation"]["pyramidkv"]["receipt"]["budget_rows"]),
        # The same numbers as totals of a layer, and as the capacity of each of its K/V heads.
        "capacity_per_layer": {"prefix_rows": total, "prefix_payload_bytes": total * row_bytes},
        "capacity_per_kv_head": {
            "prefix_rows": total * kv_heads,
            "prefix_payload_bytes": total * kv_heads * row_bytes,
        },
        "divided_by_m": {
            "label": "line of m steps instead of m - 1",
            "targets": summarised(divided),
            "total_rows": sum(divided),
            "excess_rows": sum(divided) - total,
        },
    }


def _zigzag_results(fixture: Document, rules: owner_allocation.Rules) -> Document:
    zigzag, total = fixture["layer_allocation"]["zigzagkv"], fixture["manifest"]["total_prefix_rows"]
    floors, caps = _layer_limits(fixture, rules)
    counts, outputs = _minimum_budgets(fixture), _minimum_output_budgets(fixture)
    output_means = _layer_means(outputs)
    targets = owner_allocation.layer_targets(rules, owner_allocation.ZIGZAGKV, total, len(floors))
    rounded = rounded_half_even(targets)
    from_lmbo = None
    if None not in output_means:
        mean, minimum = Fraction(total, len(floors)), zigzag["minimum_rows_per_layer"]
        output_targets = zigzagkv.layer_targets(output_means, mean, minimum)
        budgets = apportion(output_targets, total, floors, caps)
        from_lmbo = {"targets": summarised(output_targets), "budgets": summarised(budgets)}
    return {
        "attention_share": zigzag["attention_share"],
        "output_similarity": zigzag["output_similarity"],
        "mean_rows_per_layer": zigzag["mean_rows_per_layer"],
        "minimum_rows_per_layer": zigzag["minimum_rows_per_layer"],
        "mba_rows": summarised(counts),
        "lmba_rows": summarised(rules.sensitivities),
        "mbo_rows": summarised(outputs),
        "lmbo_rows": summarised(output_means),
        "shares": summarised(zigzagkv.shares(rules.sensitivities)),
        "targets": summarised(targets),
        "budgets": summarised(zigzag["receipt"]["budget_rows"]),
        "from_lmbo": from_lmbo,
        "needs_full_prefill": True,
        "each_target_rounded": {
            "label": "every target rounded on its own, halves to even",
            "budgets": summarised(rounded),
            "total_rows": sum(rounded),
            "excess_rows": sum(rounded) - total,
        },
    }


def _uniform_results(fixture: Document, rules: owner_allocation.Rules, allocation: Allocation) -> Document:
    layers, total = fixture["geometry"]["layers"], fixture["manifest"]["total_prefix_rows"]
    floors, caps = owner_allocation.layer_limits(rules, allocation.floors, allocation.caps)
    return {
        "layer_budgets": summarised(apportion([Fraction(total, layers)] * layers, total, floors, caps)),
        "split_of_published_layers": summarised(_uniform_owners(fixture, allocation)),
    }


def _uniform_owners(fixture: Document, allocation: Allocation) -> list[tuple[int, ...]]:
    """Return the published layer pools split evenly over their K/V heads."""
    manifest, kv_heads = fixture["manifest"], fixture["geometry"]["kv_heads"]
    floor, cap = manifest["owner_floor_rows"], manifest["owner_cap_rows"]
    return [evenly(pool, kv_heads, floor, cap) for pool in allocation.pools]


def _adakv_results(fixture: Document, allocation: Allocation) -> Document:
    ada, scores = fixture["head_allocation"]["adakv"], fixture["owner_scores"]
    alpha, paper = ada["alpha"], ada["paper_default_alpha"]
    counts = ada["receipt"]["raw_counts"]
    uniform = _uniform_owners(fixture, allocation)
    # The released code and kvpress count a mean per head, which exists where the pool divides evenly.
    kv_heads = fixture["geometry"]["kv_heads"]
    means = [pool // kv_heads if pool % kv_heads == 0 else None for pool in allocation.pools]
    return {
        "alpha": alpha,
        "paper_alpha": paper,
        "raw_counts": summarised(counts),
        "tied_at_cut": summarised(
            [adakv.tied_at_cut(scores[layer], pool) for layer, pool in enumerate(allocation.pools)]
        ),
        "targets": summarised([list(adakv.safeguarded_targets(row, alpha)) for row in counts]),
        "budgets": summarised(ada["receipt"]["budget_rows"]),
        "scores_can_move_budgets": _scores_can_move_budgets(allocation, alpha),
        "retained_score": {
            "global_top_b": summarised(_retained_scores(fixture, _selected(fixture, counts))),
            "published": summarised(_retained_scores(fixture, _published_prefix(fixture))),
            "uniform": summarised(_retained_scores(fixture, _selected(fixture, uniform))),
        },
        "readings_of_paper_alpha": {
            "label": "one number: the paper's blend, released code's floor share, kvpress's guaranteed share",
            "blend_toward_winners": summarised([list(adakv.safeguarded_targets(row, paper)) for row in counts]),
            "uniform_floor_share": summarised(
                [
                    None if mean is None else list(adakv.pinned_head_capacities(mean, row, paper))
                    for mean, row in zip(means, counts, strict=True)
                ]
            ),
            "guaranteed_share_of_a_head": summarised(
                [
                    None if mean is None else [len(each) for each in adakv.kvpress_retained(scores[layer], mean, paper)]
                    for layer, mean in enumerate(means)
                ]
            ),
        },
        "bounds": {name: _bound_results(case) for name, case in ada["bounds"].items()},
        "bound_trials": _bound_trials(fixture),
    }


def _scores_can_move_budgets(allocation: Allocation, alpha: Number) -> bool:
    """Return whether floors, caps and alpha leave Ada-KV any choice; if not, it is uniform under another name."""
    layers = zip(allocation.pools, allocation.floors, allocation.caps, strict=True)
    return alpha > 0 and any(sum(floors) < pool < sum(caps) for pool, floors, caps in layers)


def _headkv_results(fixture: Document, rules: owner_allocation.Rules) -> Document:
    head, kv_heads = fixture["head_allocation"]["headkv"], fixture["geometry"]["kv_heads"]
    budgets = head["receipt"]["budget_rows"]
    return {
        "importances": summarised(head["importances"]),
        "mean_rows_per_head": head["mean_rows_per_head"],
        "beta": head["beta"],
        "targets": summarised(owner_allocation.headkv_targets(rules, _pool(fixture))),
        "budgets": summarised(budgets),
        "layer_totals": summarised([sum(row) for row in by_layer(budgets, kv_heads)]),
    }


def _fastgen_results(fixture: Document) -> Document:
    family = fixture["fastgen"]
    choices = {name: _choose(fixture, head["mass"]) for name, head in family["heads"].items()}
    current, transitions = dict(choices), []
    for step in family["transitions"]:
        before, after = current[step["head"]], _choose(fixture, step["mass"])
        transitions.append(
            {
                "head": step["head"],
                "from": before.policy,
                "to": after.policy,
                "old_policy_recovery": fastgen.recovery(step["mass"], before.positions),
                "recovery": after.recovery,
                "profile_generation": step["profile_generation"],
            }
        )
        current[step["head"]] = after
    return {
        "recovery_threshold": family["recovery_threshold"],
        "choices": {name: _choice_results(fixture, head["mass"]) for name, head in family["heads"].items()},
        "probes": {name: _choice_results(fixture, probe["mass"]) for name, probe in family["probes"].items()},
        "current_policies": {name: choice.policy for name, choice in current.items()},
        "transitions": transitions,
    }


def _choice_results(fixture: Document, mass: list[Number]) -> Document:
    family = fixture["fastgen"]
    choice = _choose(fixture, mass)
    nested = fastgen.choose(mass, fastgen.nested_families(family["patterns"]), family["recovery_threshold"])
    return {
        "policy": choice.policy,
        "rows": len(choice.positions),
        "positions": summarised(choice.positions),
        "recovery": choice.recovery,
        "fallback": choice.fallback,
        # Two thresholds that share a name: the paper's is on this distance, which a row of mass one has in full.
        "renormalised_l1_distance": fastgen.renormalised_distance(mass, choice.positions) if sum(mass) == 1 else None,
        "nested_families": {
            "label": "the paper's feasible set: unions that always hold the special tokens",
            "policy": nested.policy,
            "rows": len(nested.positions),
            "recovery": nested.recovery,
            "fallback": nested.fallback,
        },
    }


def _published_results(fixture: Document) -> Document:
    manifest, receipt, geometry = fixture["manifest"], fixture["receipt"], _geometry(fixture)
    selected = receipt["owner_positions"]
    lengths = packing.lengths(selected)
    protected = geometry.owners() * len(manifest["protected_positions"])
    return {
        "layer_method": manifest["layer_method"],
        "head_method": manifest["head_method"],
        "layer_budget_scope": manifest["layer_budget_scope"],
        "layer_budgets": summarised(receipt["layer_budget_rows"]),
        "owner_budgets": summarised(receipt["owner_budget_rows"]),
        "prefix_rows": sum(map(sum, lengths)) - protected,
        "protected_rows": protected,
        "owner_positions": summarised(selected),
        "lengths": summarised(flat(lengths)),
        "offsets": summarised(packing.flat_offsets(lengths)),
        "position_map": summarised(packing.position_map(selected)),
        "pack_order": manifest["pack_order"],
        "row_bytes": geometry.row_bytes(),
        "unique_owners": geometry.owners(),
        "query_expanded_rows": _query_expanded_rows(fixture),
        "gather_scalars_checked": 2 * sum(map(sum, lengths)) * geometry.head_dimension,
    }


def _alternatives(fixture: Document, allocation: Allocation) -> Document:
    """Return what the other methods would retain of the same prompt with the same selector."""
    head_budgets = fixture["head_allocation"]["headkv"]["receipt"]["budget_rows"]
    budgets: dict[str, Sequence[Sequence[int]]] = {
        "uniform": _uniform_owners(fixture, allocation),
        "global_top_b": fixture["head_allocation"]["adakv"]["receipt"]["raw_counts"],
        "headkv": by_layer(head_budgets, fixture["geometry"]["kv_heads"]),
    }
    published = _published_prefix(fixture)
    alternatives = {}
    for name, rows in budgets.items():
        selected = _selected(fixture, rows)
        pairs = zip(packing.owners(selected), packing.owners(published), strict=True)
        differing = sum(one != other for (_, _, one), (_, _, other) in pairs)
        alternatives[name] = {
            "owner_budgets": summarised(rows),
            "layer_totals": summarised([sum(row) for row in rows]),
            "total_rows": sum(map(sum, rows)),
            "retained_score": sum(_retained_scores(fixture, selected), Fraction(0)),
            "owners_with_other_positions": differing,
        }
    return alternatives


def _execution_results(fixture: Document) -> Document:
    lengths = packing.lengths(fixture["receipt"]["owner_positions"])
    rows, full = sum(map(sum, lengths)), _geometry(fixture).owners() * fixture["manifest"]["prompt_frontier"]
    results = {}
    for name in ragged_execution.LAYOUTS:
        execution = ragged_execution.execution(name, lengths)
        results[name] = {
            "admitted": name in fixture["execution"]["admitted_layouts"],
            "used": name == fixture["manifest"]["execution_layout"],
            "row_slots": execution.row_slots,
            "launches": execution.launches,
            "padding_rows": execution.row_slots - rows,
            "saved_slots": full - execution.row_slots,
        }
    return results


def _geometry(fixture: Document) -> Geometry:
    stated = fixture["geometry"]
    return Geometry(
        batch=1,
        layers=stated["layers"],
        kv_heads=stated["kv_heads"],
        head_dimension=stated["head_dimension"],
        key_scalar_bytes=stated["key_scalar_bytes"],
        value_scalar_bytes=stated["value_scalar_bytes"],
    )


def _source(fixture: Document, tensor: str) -> Any:
    """Return the symbolic source tensor as a function of (layer, K/V head, position) to a row of d_h integers."""
    content, width = fixture["symbolic_content"], fixture["geometry"]["head_dimension"]
    offset = content["value_offset"] if tensor == "value" else 0

    def row(layer: int, kv_head: int, position: int) -> list[int]:
        first = (
            offset
            + layer * content["layer_stride"]
            + kv_head * content["kv_head_stride"]
            + position * content["position_stride"]
        )
        return list(range(first, first + width))

    return row


def _require(diagnostic: Diagnostic, expected: object, found: object, where: str, what: str = "") -> None:
    if found != expected:
        reason = f"expected {_shown(expected)}{what and ' '}{what}, found {_shown(found)}"
        raise ContractViolation(diagnostic, where, reason)


def _shown(value: object) -> str:
    """Return a value as JSON would show it, an exact number as a report writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Fraction):
        return str(value.numerator if value.denominator == 1 else reported(value))
    return str(value)


def _require_same(diagnostic: Diagnostic, expected: Document, found: Document, name: str, where: str) -> None:
    _require(diagnostic, expected[name], found[name], where + pointer(name))


def _require_after(event: Document, name: str, current: Document, where: str) -> None:
    if event[name] <= current[name]:
        reason = f"expected a generation after {current[name]}, found {event[name]}"
        raise ContractViolation(EVENT_GENERATION, where + pointer(name), reason)


def _require_length(diagnostic: Diagnostic, items: Sequence[Any], expected: int, what: str, where: str) -> None:
    if len(items) != expected:
        raise ContractViolation(diagnostic, where, f"expected {expected} {what}, found {len(items)}")


def _require_owners(rows: Sequence[Sequence[Any]], fixture: Document, where: str) -> None:
    _require_length(OWNER_SHAPE, rows, fixture["geometry"]["layers"], "layers", where)
    for layer, row in enumerate(rows):
        _require_length(OWNER_SHAPE, row, fixture["geometry"]["kv_heads"], "K/V heads", where + pointer(layer))


def _require_number(diagnostic: Diagnostic, expected: Number, found: Number, where: str) -> None:
    """Require a number that a report would write as the expected one: 12 significant digits."""
    if reported(Fraction(expected)) != reported(Fraction(found)):
        _require(diagnostic, Fraction(expected), Fraction(found), where)


def _require_numbers(
    diagnostic: Diagnostic,
    expected: Sequence[Number | None],
    found: Sequence[Number | None],
    where: str,
    shape: Diagnostic = OWNER_SHAPE,
) -> None:
    """Require a list of numbers, None only where none exists; another count of them is the diagnostic `shape`."""
    _require_length(shape, found, len(expected), "entries", where)
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one is None or other is None:
            _require(diagnostic, one, other, where + pointer(index))
        else:
            _require_number(diagnostic, one, other, where + pointer(index))


def _require_normalised(diagnostic: Diagnostic, weights: list[Number], where: str) -> None:
    if sum(weights) != 1:
        raise ContractViolation(diagnostic, where, f"expected a sum of 1, found {reported(Fraction(sum(weights)))}")


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the owners, the alternatives, the execution layouts, the events and the totals of released code."""
    results = report["results"]
    owners = Table(
        "Published owners",
        ("owner", "rows", "original positions", "state", "cache"),
        tuple(
            _cells(
                snapshot,
                "owner",
                "selected_row_count",
                "selected_original_positions",
                "state_generation",
                "cache_generation",
            )
            for snapshot in report["snapshots"]
        ),
    )
    alternatives = Table(
        "One prompt and one selector under other head budgets; a retained score is a local proxy, not task quality",
        ("allocation", "owner budgets", "layer totals", "rows", "retained score", "owners with other positions"),
        tuple(
            (
                name.replace("_", " "),
                *_cells(
                    each,
                    "owner_budgets",
                    "layer_totals",
                    "total_rows",
                    "retained_score",
                    "owners_with_other_positions",
                ),
            )
            for name, each in results["alternatives"].items()
        ),
    )
    execution = Table(
        "Execution layouts of the published rows",
        ("layout", "admitted", "used", "row slots", "padding rows", "launches", "slots fewer than full"),
        tuple(
            (
                name.replace("_", " "),
                "yes" if each["admitted"] else "no",
                "yes" if each["used"] else "no",
                *_cells(each, "row_slots", "padding_rows", "launches", "saved_slots"),
            )
            for name, each in results["execution"].items()
        ),
    )
    policies = Table(
        "FastGen policies of the heads, then of probes of the rule",
        ("head", "policy", "rows", "recovery", "fallback", "policy of the nested families"),
        tuple(
            (
                name.replace("_", " "),
                *_cells(each, "policy", "rows", "recovery"),
                "yes" if each["fallback"] else "no",
                each["nested_families"]["policy"],
            )
            for group in ("choices", "probes")
            for name, each in results["fastgen"][group].items()
        ),
    )
    events = Table(
        "Events after publication",
        ("event", "transaction", "frontier", "cache", "state", "prefix rows", "tail rows"),
        tuple(
            _cells(
                event,
                "event",
                "transaction_id",
                "frontier",
                "cache_generation",
                "state_generation",
                "prefix_rows",
                "tail_rows",
            )
            for event in results["lifecycle"]
        ),
    )
    pinned = Table(
        "Released code: rows given and rows asked for",
        ("method", "case", "rows", "asked for", "excess", "exact apportionment"),
        tuple(
            (method, name, *_cells(case, "total_rows", "target_rows", "excess_rows", "exact_total_rows"))
            for method in ("pyramidkv", "adakv", "headkv")
            for name, case in results["pinned_rounding"][method].items()
        ),
    )
    return owners, alternatives, execution, policies, events, pinned


def _cells(record: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple("none" if record[name] is None else str(record[name]) for name in names)


LOOP = Loop(
    id="loop07_allocation",
    command="allocation",
    title="layer and head allocation: from one budget to ragged owners",
    section="0x08",
    fixture_schema="kvaudit.fixture.allocation/1",
    report_schema="kvaudit.report.allocation/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "source receipt and identity",
        "allocation and rounding",
        "layer schedule and sensitivity",
        "head budgets and bound",
        "policy family",
        "selection and protected suffix",
        "tensor identity",
        "GQA ownership and accounting",
        "cross-layer generation",
        "runtime admission",
        "recalibration",
        "lossy visibility",
        "proxy and quality",
        "other contracts and released code",
        "declared-result drift",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "layer and head budgets of five methods",
            "exact integer apportionment",
            "selection and scalar-by-scalar gather check",
            "Ada-KV's output bound on small cases",
            "rounding of released code, restated",
        ),
        not_executed=(
            "model",
            "calibration of a checkpoint",
            "released code itself",
            "allocator",
            "attention kernel",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)
