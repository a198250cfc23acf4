"""What the angle and retention sections of loop 13 may raise, in the order in which they are judged."""

from kvaudit.model import Diagnostic

DIMENSION = Diagnostic(
    code="spherical.dimension-not-power-of-two",
    contract="The head dimension is a power of two, at least 2.",
    why="The tree joins two halves at every level; another dimension leaves a node without a sibling.",
    fix="Pad the keys and queries with zeros to a power of two, and state the padded dimension.",
)
LEVEL_COUNT = Diagnostic(
    code="spherical.level-count",
    contract="A tree of dimension d has log2(d) widths, the leaves first.",
    why="A level without a width has no cells; a width too many is read as another level's.",
    fix="State one width for each level.",
)
WIDTH = Diagnostic(
    code="spherical.width-out-of-range",
    contract="A level has a width of 1 to 8 bits.",
    why="Without a bit there is no cell; past eight a code no longer fits the byte that kernels unpack.",
    fix="Choose a width from 1 to 8.",
)
PAGE_TOKENS = Diagnostic(
    code="spherical.page-not-whole-bytes",
    contract="A page holds a multiple of 8 rows.",
    why="Otherwise a plane of a node ends inside a byte and the next node starts in the middle of it.",
    fix="Use 8, 16, 32 ... rows a page.",
)

ROPE_STAGE = Diagnostic(
    code="spherical.rope-stage",
    contract="Codes are of keys after RoPE.",
    why="A rotation by position mixes coordinates inside the leaf pairs or across the tree; it cannot be applied to a "
    "stored upper angle, so the logit of a key coded before RoPE is that of another position.",
    fix="Rotate the keys first, then code them.",
)
TABLE_SET = Diagnostic(
    code="spherical.table-set",
    contract="There is one table for the leaves, then one for each width of the upper levels, ascending.",
    why="A level without a table of its own range would be decoded over the cells of another range.",
    fix="State the leaf table first, then the upper tables by width.",
)
TABLE_LENGTH = Diagnostic(
    code="spherical.table-length",
    contract="A table of b bits has 2^b cosines and 2^b sines.",
    why="A code past the end of the table reads whatever lies behind it.",
    fix="State every cell.",
)
TABLE_ENTRY = Diagnostic(
    code="spherical.table-entry",
    contract="A table holds the cosine and the sine of the middle of each cell.",
    why="A table of cell edges doubles the largest angle error, and the bound no longer holds.",
    fix="Recompute the entry at (code + 1/2) cells from the start of the range.",
)
KEY_DIMENSION = Diagnostic(
    code="spherical.key-dimension",
    contract="A key has as many coordinates as its tree has dimensions.",
    why="The pairs of a longer or shorter key are those of other coordinates.",
    fix="State all d coordinates.",
)
KEY_ORDER = Diagnostic(
    code="spherical.key-order",
    contract="Keys stand in ascending original position, none twice.",
    why="A logit is attributed to the wrong token, or one token is counted twice.",
    fix="Sort the keys by original position.",
)
CODE_SHAPE = Diagnostic(
    code="spherical.code-shape",
    contract="A key has d / 2^(l+1) codes at level l.",
    why="With a code missing, every code after it is read for its neighbour's node.",
    fix="State one code for each node of the tree.",
)
CODE_RANGE = Diagnostic(
    code="spherical.code-out-of-range",
    contract="A code of b bits is 0 to 2^b - 1.",
    why="The packed field cannot hold it; its high bit lands in the code of another token.",
    fix="Wrap pi to the first cell at the leaves, clamp pi/2 to the last cell above.",
)
CODE_VALUE = Diagnostic(
    code="spherical.code-mismatch",
    contract="A code is the cell that holds the key's angle; an angle on an edge takes the upper cell, a zero part 0.",
    why="The decoded angle is more than half a cell away, and the bound on the logit does not hold.",
    fix="Encode the key again, with the edge rule.",
)
RADIUS_OVERFLOW = Diagnostic(
    code="spherical.radius-overflow",
    contract="The norm of a key is within the range of the radius format.",
    why="An infinite radius makes the logit infinite or, where the direction gives 0, not a number.",
    fix="Use float32 radii for this tier, or scale keys and queries.",
)
RADIUS_UNDERFLOW = Diagnostic(
    code="spherical.radius-underflow",
    contract="The norm of a key that is not zero is at least the least normal number of the radius format.",
    why="Below it the relative error of the radius has no bound.",
    fix="Use float32 radii for this tier, or scale keys and queries.",
)
RADIUS_NEGATIVE = Diagnostic(
    code="spherical.radius-negative",
    contract="A stored radius is not negative.",
    why="A negative radius turns the key around and changes the sign of every logit.",
    fix="Store the norm; the direction is in the angles.",
)
RADIUS_FORMAT = Diagnostic(
    code="spherical.radius-not-of-format",
    contract="A stored radius is a number of the radius format.",
    why="What is stated was never stored; the cache holds another number.",
    fix="State the rounded radius with all of its digits.",
)
RADIUS_VALUE = Diagnostic(
    code="spherical.radius-mismatch",
    contract="A stored radius is the norm of its key, rounded to nearest with ties to even.",
    why="The radius scales the logit: its error is multiplied by the norm of the query.",
    fix="Round the norm of the key once.",
)
VALUE_SHAPE = Diagnostic(
    code="spherical.value-shape",
    contract="There is one value row a key, all of one length.",
    why="Without them the bound on the output, which needs their diameter, says nothing.",
    fix="State the value row of each key.",
)
QUERY_DIMENSION = Diagnostic(
    code="spherical.query-dimension",
    contract="A query has as many coordinates as the tree has dimensions.",
    why="The leaves would combine codes with coordinates of other channels.",
    fix="State all d coordinates.",
)
LOGIT_COUNT = Diagnostic(
    code="spherical.logit-count",
    contract="A query has one direct logit a key.",
    why="The softmax would be taken over other rows than those that are stored.",
    fix="State one logit for each key, in the order of the keys.",
)
BOUND = Diagnostic(
    code="spherical.bound-violated",
    contract="A direct logit is within |q| (r sqrt(2 - 2P) + |r_hat - r|) of the dense one.",
    why="The bound is proved for every key and query: outside it the codes, the tables or the kernel are wrong.",
    fix="Look at the codes of that key first, then at the order in which the kernel reads them.",
)
LOGIT_VALUE = Diagnostic(
    code="spherical.logit-mismatch",
    contract="A direct logit is the product of the query with the decoded key.",
    why="It is within the bound by luck: this is the logit of other codes.",
    fix="Evaluate the tree with the tables and codes that are stated.",
)
NODE_UNKNOWN = Diagnostic(
    code="spherical.node-unknown",
    contract="The evaluation visits nodes of the tree.",
    why="A kernel that reads another node reads bytes of the next page.",
    fix="Use levels 0 to log2(d) - 1, and nodes 0 to d / 2^(l+1) - 1.",
)
NODE_REPEATED = Diagnostic(
    code="spherical.node-repeated",
    contract="The evaluation visits every node once.",
    why="A second visit reads the same codes from memory again.",
    fix="Keep the value of the node until its parent has used it.",
)
NODE_ORDER = Diagnostic(
    code="spherical.node-before-children",
    contract="A node is visited after both of its children.",
    why="There is no value to combine yet.",
    fix="Evaluate left child, right child, node.",
)
NODE_MISSING = Diagnostic(
    code="spherical.node-not-visited",
    contract="The evaluation visits every node of the tree.",
    why="The part of the key below that node is left out of the logit.",
    fix="Visit all d - 1 nodes, the root last.",
)
LIVE_PARTIALS = Diagnostic(
    code="spherical.live-partials-exceeded",
    contract="At most log2(d) partial values of a key live at once.",
    why="Level by level d/2 values live at once: half a dense key is in registers or spilled, and the claim of no "
    "reconstruction is gone.",
    fix="Evaluate depth first.",
)
PAGE_ROWS = Diagnostic(
    code="spherical.page-rows",
    contract="Every page but the last is full, and all rows are on a page.",
    why="A token is found by dividing its row by the page size.",
    fix="Fill the pages in the order of the keys.",
)
PAGE_PACKING = Diagnostic(
    code="spherical.page-packing",
    contract="The planes of a page hold the codes node by node, in planes of 8, 4, 2 and 1 bits, spare slots zero.",
    why="A field in another place is the code of another token or node, and no check at run time can see it.",
    fix="Pack with the low fields for the first tokens of the page.",
)
PAGE_UNKNOWN = Diagnostic(
    code="spherical.page-unknown",
    contract="A decode step reads pages of the pointer table.",
    why="The pointer is whatever stands behind the table.",
    fix="Read pages 0 to the number of pages - 1.",
)
PAGE_TWICE = Diagnostic(
    code="spherical.page-read-twice",
    contract="A decode step reads every page once.",
    why="The traffic that the codes save is paid again.",
    fix="Serve all query heads of a K/V head from one read of the page.",
)
PAGE_UNREAD = Diagnostic(
    code="spherical.page-not-read",
    contract="A decode step reads every page.",
    why="The rows of that page are dropped without anybody having decided it.",
    fix="Read all pages, or drop their rows by retention.",
)
SHAPE_NAME = Diagnostic(
    code="spherical.shape-name",
    contract="Shapes have different names, and a claim names one of them.",
    why="A claim about an unknown shape cannot be checked.",
    fix="Name a shape that is stated, once.",
)
CLAIM = Diagnostic(
    code="spherical.traffic-claim-past-limit",
    contract="With every row kept and values stored densely, traffic shrinks at most by dense row over coded row.",
    why="Keys are half of the traffic; a larger factor comes from dropped rows or coded values and must say so.",
    fix="State what else was dropped or coded, or lower the claim.",
)

ANGLE = (
    ROPE_STAGE,
    DIMENSION,
    LEVEL_COUNT,
    WIDTH,
    TABLE_SET,
    TABLE_LENGTH,
    TABLE_ENTRY,
    KEY_DIMENSION,
    KEY_ORDER,
    CODE_SHAPE,
    CODE_RANGE,
    RADIUS_OVERFLOW,
    RADIUS_UNDERFLOW,
    CODE_VALUE,
    RADIUS_NEGATIVE,
    RADIUS_FORMAT,
    RADIUS_VALUE,
    VALUE_SHAPE,
    QUERY_DIMENSION,
    LOGIT_COUNT,
    BOUND,
    LOGIT_VALUE,
    NODE_UNKNOWN,
    NODE_REPEATED,
    NODE_ORDER,
    NODE_MISSING,
    LIVE_PARTIALS,
    PAGE_TOKENS,
    PAGE_ROWS,
    PAGE_PACKING,
    PAGE_UNKNOWN,
    PAGE_TWICE,
    PAGE_UNREAD,
    SHAPE_NAME,
    CLAIM,
)

TIER_ORDER = Diagnostic(
    code="spherical.tier-order",
    contract="Tiers stand safest first: every tier has fewer row bits than the one before.",
    why="A step down that saves nothing, or costs bits, has no price, and the greedy would never end.",
    fix="Sort the tiers by row bits and leave out those that save nothing.",
)
PHASE_ORDER = Diagnostic(
    code="spherical.phase-order",
    contract="Retention runs in one order: protect, score, lower, drop, pack.",
    why="Scoring before protecting lets a protected row be lowered first; dropping before lowering loses a row that "
    "a cheaper tier would have kept.",
    fix="Follow the order.",
)
STATE_ORDER = Diagnostic(
    code="spherical.state-order",
    contract="There is one state for each layer, K/V head and token, in that order.",
    why="Ties are settled by this order; another order is another allocation.",
    fix="List every state, layer by layer, K/V head by K/V head, token by token.",
)
PROTECTION = Diagnostic(
    code="spherical.protection-mismatch",
    contract="Sink tokens and the most recent tokens of every owner are protected, and no others.",
    why="An unprotected sink or newest row breaks decoding at once; a protected row more eats the budget unseen.",
    fix="Mark the rows that the protection rule names.",
)
DISTORTION_COUNT = Diagnostic(
    code="spherical.distortion-count",
    contract="A state has one distortion a tier.",
    why="The price of a step is read from the wrong tier.",
    fix="State the distortion at each tier, safest first.",
)
DISTORTION_ORDER = Diagnostic(
    code="spherical.distortion-falls",
    contract="The distortion of a state does not fall from a tier to the next.",
    why="A step with a negative price would be taken although nothing is over the budget.",
    fix="Measure again, or take the tier with fewer bits as the safe one.",
)
DROP_DISTORTION = Diagnostic(
    code="spherical.drop-cheaper-than-keeping",
    contract="Dropping a state costs at least as much distortion as its last tier.",
    why="A row whose code harms more than its absence is not a matter of tiers.",
    fix="Drop the row before allocation, or measure the distortion again.",
)
BELOW_PROTECTED = Diagnostic(
    code="spherical.budget-below-protected",
    contract="The pages of the protected rows at the safe tier fit the budget.",
    why="The budget is hard and protected rows may neither be lowered nor dropped: no allocation exists.",
    fix="Raise the budget or protect fewer rows.",
)
STATE_UNKNOWN = Diagnostic(
    code="spherical.step-state-unknown",
    contract="A step names a state by its index.",
    why="Nobody can say which row was lowered.",
    fix="Use an index of the list of states.",
)
PROTECTED_STEP = Diagnostic(
    code="spherical.protected-state-lowered",
    contract="A protected state is neither lowered nor dropped.",
    why="Protection that gives way under pressure protects nothing when it matters.",
    fix="Take the step from another state.",
)
STEP_SOURCE = Diagnostic(
    code="spherical.step-source-mismatch",
    contract="A step starts at the tier at which the steps before it left the state.",
    why="The price and the saving are those of another step.",
    fix="Replay the steps and state the tier that the state has.",
)
RAISED = Diagnostic(
    code="spherical.state-raised",
    contract="A step goes down; nothing is raised again.",
    why="Bits that were given back cannot be written: the finer code is gone once the coarser one is stored.",
    fix="Leave the state at its tier.",
)
SKIPPED = Diagnostic(
    code="spherical.tier-skipped",
    contract="A step goes down by one tier.",
    why="The price of two steps at once hides that the second was not worth it.",
    fix="State one step a tier.",
)
DROP_FIRST = Diagnostic(
    code="spherical.dropped-before-lowered",
    contract="A state is dropped only once no state can be lowered.",
    why="A row is lost for good where fewer bits would have kept it.",
    fix="Lower every unprotected state to the last tier first.",
)
PAST_BUDGET = Diagnostic(
    code="spherical.step-past-budget",
    contract="Lowering and dropping stop at the first assignment whose pages fit the budget.",
    why="Precision is given away that the budget would have paid for.",
    fix="End the steps there.",
)
TIE = Diagnostic(
    code="spherical.step-tie-break",
    contract="Of steps with one price, that of the lowest state goes first.",
    why="Two runs of one request would keep different rows.",
    fix="Sort stably by price, then by state.",
)
NOT_CHEAPEST = Diagnostic(
    code="spherical.step-not-cheapest",
    contract="Each step has the least added distortion per row bit saved.",
    why="The same bytes could have been saved with less distortion.",
    fix="Price the steps in row bits, again after each one.",
)
BUDGET = Diagnostic(
    code="spherical.budget-exceeded",
    contract="The pages of the final assignment fit the budget.",
    why="Row bytes alone fit earlier; headers, padding and pages that are not full overrun the reserved memory.",
    fix="Pack after each step, and go on until page bytes fit.",
)
PAGE_STATE = Diagnostic(
    code="spherical.page-state",
    contract="A kept state stands on exactly one page, a dropped one on none.",
    why="A row on no page is dropped in secret; a row on two is counted twice by the softmax.",
    fix="Pack each kept state once.",
)
PAGE_MIXED = Diagnostic(
    code="spherical.page-mixed-tiers",
    contract="All rows of a page have the tier of the page.",
    why="A kernel reads the tier once a page; another tier's row is decoded with the wrong widths and tables.",
    fix="Move the row to a page of its tier.",
)
PAGE_OVERFULL = Diagnostic(
    code="spherical.page-overfull",
    contract="A page holds at most its number of rows.",
    why="The row after the last slot overwrites the next page.",
    fix="Open another page.",
)
PAGE_ORDER = Diagnostic(
    code="spherical.page-order",
    contract="Pages stand safest tier first, their states ascending, and only the last page of a tier may have room.",
    why="More pages than needed break the byte account, and another order is another pointer table.",
    fix="Pack each tier from the lowest state on.",
)
PAGE_BYTES = Diagnostic(
    code="spherical.page-bytes-mismatch",
    contract="Page bytes are full pages: header, all slots and padding, whether used or not.",
    why="Memory is reserved by the page; row bytes alone understate it.",
    fix="Multiply the pages of each tier by the bytes of its page.",
)
SWEEP = Diagnostic(
    code="spherical.sweep-order",
    contract="The budgets of a sweep ascend, none twice.",
    why="A budget index names a point of the frontier; it must not move between runs.",
    fix="Sort the budgets.",
)
ARM_SET = Diagnostic(
    code="spherical.arm-set",
    contract="The ablation has the arms A0 to A5, in order, each once.",
    why="An effect without its arm is not separated from the others.",
    fix="State all six arms.",
)
ARM_CONFIGURATION = Diagnostic(
    code="spherical.arm-incoherent",
    contract="Direct and reconstructed logits are of coded keys, dense logits of dense keys; dense keys have no tiers.",
    why="Such a system cannot be built, so its arm measures another one.",
    fix="Change the configuration so that its parts fit.",
)
ARM_LEVER = Diagnostic(
    code="spherical.arm-changes-another-lever",
    contract="A control of an arm differs from the arm in that arm's lever alone.",
    why="With two levers moved at once the difference is certified for neither.",
    fix="Change the lever that the arm is about, and nothing else.",
)
ARM_CONTROL = Diagnostic(
    code="spherical.arm-without-control",
    contract="Every arm but the dense reference has a control, and no two of its controls are equal.",
    why="Without the other setting of the lever there is nothing to compare with.",
    fix="State the system with the lever at its other settings, each once.",
)

RETENTION = (
    TIER_ORDER,
    PHASE_ORDER,
    STATE_ORDER,
    PROTECTION,
    DISTORTION_COUNT,
    DISTORTION_ORDER,
    DROP_DISTORTION,
    BELOW_PROTECTED,
    STATE_UNKNOWN,
    PROTECTED_STEP,
    STEP_SOURCE,
    RAISED,
    SKIPPED,
    DROP_FIRST,
    PAST_BUDGET,
    TIE,
    NOT_CHEAPEST,
    BUDGET,
    PAGE_STATE,
    PAGE_MIXED,
    PAGE_OVERFULL,
    PAGE_ORDER,
    PAGE_BYTES,
    SWEEP,
    ARM_SET,
    ARM_CONFIGURATION,
    ARM_LEVER,
    ARM_CONTROL,
)

DRIFT = Diagnostic(
    code="spherical.declared-result-drift",
    contract="Every declared result and ledger row equals what the oracle recomputes.",
    why="A number that nobody recomputes may have changed since it was written.",
    fix="Correct the input, or run `kvaudit regenerate --redeclare` and read the difference.",
)
