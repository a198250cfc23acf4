"""What loop 5 may raise, in the order in which the oracle judges it."""

from kvaudit.model import Diagnostic

HEAD_MAP_LENGTH = Diagnostic(
    code="dynamic.head-map-length",
    contract="q_to_kv_head_map has one entry for each query head.",
    why="A query head without an entry votes for no row, and its own rows are evicted unheard.",
    fix="Give the map exactly query_heads entries.",
)
HEAD_MAP_RANGE = Diagnostic(
    code="dynamic.head-map-out-of-range",
    contract="Every entry of q_to_kv_head_map is a K/V head of the cache.",
    why="The vote of that query head would be counted for rows that do not exist.",
    fix="Use K/V heads 0 to kv_heads - 1.",
)
UNREAD_HEAD = Diagnostic(
    code="dynamic.kv-head-without-query-head",
    contract="Every K/V head is read by at least one query head.",
    why="No attention is ever observed for it, so its selection would rest on ties alone.",
    fix="Correct the map, or the number of K/V heads.",
)
AMBIGUOUS_OWNER = Diagnostic(
    code="dynamic.selection-owner-ambiguous",
    contract="A selection owned by a K/V head without a reduction has one query head a K/V head.",
    why="Under GQA several query heads attend differently to one stored row; nobody said whose vote counts. Pinned "
    "H2O code keeps one score row a query head and fails on the first GQA gather.",
    fix="Declare reduced_query_heads with a reduction, or query_head, which stores rows for each query head.",
)
REDUCTION = Diagnostic(
    code="dynamic.reduction-mismatch",
    contract="A reduction (sum, mean or max) is declared exactly where query heads are reduced to a K/V head.",
    why="Sum and max select different rows; an undeclared reduction is chosen by whichever kernel runs.",
    fix="Name the reduction with reduced_query_heads, and null otherwise.",
)
OWNER_COUNT = Diagnostic(
    code="dynamic.owner-count",
    contract="A list by owner has one item for each layer and selection owner, layer by layer.",
    why="With an item missing, every owner after it gets the positions or scores of its neighbour.",
    fix="Write one item for each owner.",
)
SOURCE_PIN = Diagnostic(
    code="dynamic.source-pin-mismatch",
    contract="H2O and Keyformer name the repository, commit and file whose deviations are recorded here; "
    "Scissorhands names none.",
    why="A labelled variant is the behaviour of one commit; under another name it is a guess about other code.",
    fix="Restore the pin, or read the other commit and record its variant.",
)
CLAIM = Diagnostic(
    code="dynamic.hypothesis-stated-as-proved",
    contract="Persistence of importance and the submodularity of attention are stated as hypotheses.",
    why="The papers measured or assumed them for their models; neither bounds what an eviction loses on yours.",
    fix="State a hypothesis, and measure quality on the checkpoint.",
)
RECENT_WIDTH = Diagnostic(
    code="dynamic.recent-width-exceeds-budget",
    contract="The recent rows of an owner are no more than its budget.",
    why="Protected rows alone overrun the reserved capacity, and nothing may be dropped.",
    fix="Narrow the recent width or raise the budget.",
)
PARTITION = Diagnostic(
    code="dynamic.budget-partition-mismatch",
    contract="Heavy (or key) rows and recent rows add up to the budget of an owner, the same for every method.",
    why="Three retained sets of different size answer different questions; shares floored one by one lose rows.",
    fix="Split the one budget, and state the rounding where a share is not whole.",
)
DECLARED_BUDGET = Diagnostic(
    code="dynamic.generation-length-redeclared",
    contract="New generation lengths are declared under beyond_schedule `recompute` only, in order of transactions.",
    why="A temperature that follows another T than the declared schedule cannot be replayed.",
    fix="Declare recompute, or remove the later lengths.",
)
LAYER_BUDGET = Diagnostic(
    code="dynamic.layer-budget-mismatch",
    contract="Scissorhands' layer budgets, one a layer, split evenly over the owners of the layer and add up to the "
    "common budget over all owners.",
    why="Later layers may get more rows, but rows that no owner can hold, or that nobody paid for, change the budget.",
    fix="Choose layer budgets that divide by the owners of a layer and keep the total.",
)
PARENT_STATE = Diagnostic(
    code="dynamic.parent-state-malformed",
    contract="A state has ascending positions below its frontier, none twice, and one score for each.",
    why="Scores are matched with rows by this order; a gap or repetition gives a row the score of another.",
    fix="Export positions and scores of the published rows together.",
)
PARENT_OVER_BUDGET = Diagnostic(
    code="dynamic.parent-over-budget",
    contract="A parent state holds at most the budget of each owner.",
    why="A one-entry successor drops one row a step and never gets back within the capacity.",
    fix="Compress the parent first, or raise the budget.",
)
HISTORY = Diagnostic(
    code="dynamic.attention-history-malformed",
    contract="History rows ascend by query position below the frontier, each over positions up to its own, ascending.",
    why="A row that names a later position would have seen the future; a position written as 0.0 before it existed "
    "counts as low.",
    fix="Leave positions out that a query could not see.",
)
EVIDENCE_SHAPE = Diagnostic(
    code="dynamic.evidence-shape",
    contract="Evidence has one list for each owner, mapped query head and query row, and a number for each row named.",
    why="A missing list shifts the votes of all heads after it.",
    fix="Write the evidence in the shape [owner][query head][query row][visible row].",
)
MASS = Diagnostic(
    code="dynamic.attention-mass",
    contract="The attention weights of a query over the rows that it sees sum to 1 (within the declared tolerance).",
    why="Weights from before the softmax, or from another candidate, give heavy scores to the wrong rows.",
    fix="Record the softmax over the rows that are in the cache at this step.",
)
REQUEST = Diagnostic(
    code="dynamic.request-mismatch",
    contract="A transaction belongs to the request of its run.",
    why="Scores depend on the queries of a request; another request's evidence evicts rows it never asked about.",
    fix="Keep score state by request.",
)
REQUEST_GENERATION = Diagnostic(
    code="dynamic.request-generation-stale",
    contract="A transaction carries the request generation of its run.",
    why="The request was cancelled, forked or recycled since; its scores must not live on in the next one.",
    fix="Discard the transaction, and clear score state with the request.",
)
PARENT_GENERATION = Diagnostic(
    code="dynamic.parent-generation-stale",
    contract="A transaction starts from the state and cache generation that are published.",
    why="It would score rows that are gone, or bring a discarded branch back.",
    fix="Begin again from the published state.",
)
GENERATION_REISSUED = Diagnostic(
    code="dynamic.generation-reissued",
    contract="State and cache generations increase and are issued once, cancelled and rolled-back ones included.",
    why="A late worker of the earlier transaction cannot be told from the current one.",
    fix="Take the next unused generation.",
)
PHASE_ORDER = Diagnostic(
    code="dynamic.phase-order",
    contract="A transaction runs append, attend, score, protect, select, gather, publish; nothing follows its end.",
    why="Scoring before the current attention ranks rows by old evidence and evicts another row; every phase reads "
    "what the one before it wrote.",
    fix="Run the phases in order; score only after the query has attended to the whole candidate.",
)
CANCELLED_PUBLISHED = Diagnostic(
    code="dynamic.cancelled-candidate-published",
    contract="A cancelled transaction publishes nothing.",
    why="A row that was never accepted becomes history, with a score from a query that never happened.",
    fix="Discard the candidate; begin a new transaction from the parent.",
)
INCOMPLETE = Diagnostic(
    code="dynamic.transaction-incomplete",
    contract="A transaction ends with publish or cancel.",
    why="Readers cannot tell whether parent or candidate is current, and the candidate's rows are never released.",
    fix="Publish or cancel it.",
)
APPEND_POSITION = Diagnostic(
    code="dynamic.append-not-at-frontier",
    contract="Appended positions continue the parent's frontier, one after the other.",
    why="A skipped or repeated position puts one token's K/V under another's number, for good.",
    fix="Append accepted tokens in order.",
)
SEVERAL_ROWS = Diagnostic(
    code="dynamic.several-rows-in-decode",
    contract="A decode transaction of H2O or Keyformer appends one row.",
    why="With several rows at once more than one row leaves before it was ever scored as a candidate of one.",
    fix="Run one transaction for each accepted row.",
)
BULK_DROP = Diagnostic(
    code="dynamic.bulk-drop-undeclared",
    contract="An H2O prompt past the budget is dropped in bulk only where prompt_handoff says bulk_drop.",
    why="The pinned code lets all prompt queries vote and drops all rows past k at once: another set than one in, "
    "one out.",
    fix="Declare bulk_drop, or feed the prompt a row at a time.",
)
DELETED_RETURNED = Diagnostic(
    code="dynamic.deleted-row-returned",
    contract="A position that was evicted is in no later candidate.",
    why="Its K/V rows are gone; what lies there now belongs to another token.",
    fix="Recompute or recall the row by a policy that can, or leave it out.",
)
CANDIDATE = Diagnostic(
    code="dynamic.candidate-mismatch",
    contract="The candidate is the published rows followed by the appended ones.",
    why="A row that is missing from the softmax gets no score, whatever it is worth.",
    fix="Attend over every published row and the new ones.",
)
QUERY = Diagnostic(
    code="dynamic.query-not-appended",
    contract="Query rows belong to appended positions, ascend, and end with the newest.",
    why="An earlier query votes twice, or the newest evidence is missing.",
    fix="Score with the queries of the rows that this transaction appends.",
)
NOT_OVER_CANDIDATE = Diagnostic(
    code="dynamic.attention-not-over-candidate",
    contract="A query row has one number for each candidate row up to its own position.",
    why="Attention over fewer rows is another distribution; over more, it has seen the future.",
    fix="Attend over the whole candidate under a causal mask by original position.",
)
SPREAD = Diagnostic(
    code="dynamic.logit-spread",
    contract="Logits over temperature lie within 300 of each other.",
    why="Past that the smaller share is zero in every format that a runtime scores in, and its order is lost.",
    fix="Check the logits for a mask value or an overflow; a masked row is absent, not very negative.",
)
CARRIED = Diagnostic(
    code="dynamic.score-carried-to-another-row",
    contract="Each candidate row carries the score of its own packed parent row; a new row carries none.",
    why="After compaction packed rows and positions differ; a score read by the wrong one credits another token.",
    fix="Align scores by row identity, with the index list by which K and V were gathered.",
)
TEMPERATURE_PAST = Diagnostic(
    code="dynamic.temperature-past-schedule",
    contract="Under `recompute`, a transaction past T follows a newly declared generation length.",
    why="The schedule says nothing there; a runtime that keeps heating flattens the evidence without end.",
    fix="Declare the new length, or declare clamp or continue_rising.",
)
TEMPERATURE_SIGN = Diagnostic(
    code="dynamic.temperature-not-positive",
    contract="Every temperature that is used is above zero.",
    why="At zero the softmax is undefined, below it the least relevant rows win.",
    fix="End the schedule before it falls to zero, or clamp it.",
)
TEMPERATURE = Diagnostic(
    code="dynamic.temperature-mismatch",
    contract="The temperature of a transaction is that of the declared schedule.",
    why="A step that is not divided by T, or a count that skips the prompt, scores with another distribution.",
    fix="Compute tau_init + t (tau_end - tau_init) / T with the prompt as t = 0.",
)
NOISE_SHAPE = Diagnostic(
    code="dynamic.noise-shape",
    contract="Every logit that is scored has one noise value.",
    why="Noise that is shared or missing correlates rows that the method treats as independent.",
    fix="Record one value for each query row and visible row.",
)
NOISE = Diagnostic(
    code="dynamic.noise-redrawn",
    contract="Where noise is drawn once, a retained position keeps its value.",
    why="The printed algorithm draws before the loop, code in every forward; the two keep different rows.",
    fix="Reuse the first value, or declare every_forward.",
)
SCORE_VALUE = Diagnostic(
    code="dynamic.score-mismatch",
    contract="The stated scores are those of the method's rule over the stated evidence (within the tolerance).",
    why="A raw attention sum under Keyformer's name, or a half-precision sum that has stalled, keeps other rows.",
    fix="Compute the score by the method's own rule, in at least single precision.",
)
PROTECTED = Diagnostic(
    code="dynamic.protected-set-mismatch",
    contract="The protected rows are the newest of the candidate, as many as the recent width; width 0 protects none.",
    why="Recent rows have had no chance to be scored; a slice from -0 protects everything.",
    fix="Protect by original position, from the newest down.",
)
DROP_COUNT = Diagnostic(
    code="dynamic.drop-count-out-of-range",
    contract="A Scissorhands compression of n rows drops m rows with n - B <= m <= n - r.",
    why="Fewer leave the cache over its budget; more must take protected rows. The printed bound excludes neither.",
    fix="Choose m within the bound for every candidate length that occurs.",
)
SELECTED = Diagnostic(
    code="dynamic.selected-set-mismatch",
    contract="The selected historical rows are those that the method's rule keeps, equal scores by lowest position.",
    why="One wrong row is evicted for good, and every later score is conditioned on it.",
    fix="Select from the scored candidate, outside the protected rows, with the stated tie rule.",
)
PERMUTATIONS = Diagnostic(
    code="dynamic.gather-permutations-differ",
    contract="K, V, score and position are gathered by one and the same list of packed rows.",
    why="Shapes stay right while a value or a score belongs to another token: nothing fails, and outputs are wrong.",
    fix="Build one index list and use it four times.",
)
GATHER_ROWS = Diagnostic(
    code="dynamic.gather-rows-mismatch",
    contract="The gathered packed rows are those at which the kept positions lie in the candidate.",
    why="Original positions used as packed rows read past the kept ones once anything has been evicted.",
    fix="Look the kept positions up in the candidate.",
)
PUBLISHED_GENERATION = Diagnostic(
    code="dynamic.published-generation-mismatch",
    contract="A transaction publishes the state generation that it was issued.",
    why="Readers would take the state for the one of another transaction.",
    fix="Publish under the issued generation.",
)
FRONTIER = Diagnostic(
    code="dynamic.frontier-mismatch",
    contract="Publication moves the frontier by the appended rows.",
    why="The frontier counts what was processed, not what is retained; the row count in its place shifts every "
    "later position.",
    fix="Add the appended rows to the parent's frontier.",
)
PUBLISHED_POSITIONS = Diagnostic(
    code="dynamic.published-positions-mismatch",
    contract="The published rows keep their original positions, selected and recent ones together, ascending.",
    why="Renumbered rows lose causality and rotary distance, and no later score finds its row.",
    fix="Publish the original positions of the gathered rows.",
)
PAYLOAD = Diagnostic(
    code="dynamic.payload-mismatch",
    contract="Payload is rows times row bytes over all owners: of the candidate, the published rows, and their scores.",
    why="Capacity that is reserved for the published rows alone is too small for the candidate that comes before them.",
    fix="Count d_h (b_K + b_V) a row, and the score width a retained row.",
)
UNRESOLVED = Diagnostic(
    code="dynamic.speculation-unresolved",
    contract="A speculative branch is resolved before a committed transaction and before the run ends.",
    why="Committed rows would be scored on top of evidence from draft tokens that may be rejected.",
    fix="Accept or roll back the branch first.",
)
RESOLUTION = Diagnostic(
    code="dynamic.resolution-without-branch",
    contract="A resolution accepts at most the transactions of the open branch.",
    why="Acceptance of a transaction that does not exist leaves the state undefined.",
    fix="Resolve an open branch, and accept a prefix of it.",
)
ROLLBACK = Diagnostic(
    code="dynamic.rolled-back-state-left",
    contract="After a resolution the state is that of the last accepted transaction, rows, scores and generation.",
    why="A score that a rejected draft token added stays in every later ranking.",
    fix="Restore positions and scores of the accepted state; fence score updates by generation.",
)
FRONTIERS_DIFFER = Diagnostic(
    code="dynamic.frontiers-differ",
    contract="The runs of the three methods end at one frontier.",
    why="Sets that were selected from different histories cannot stand side by side.",
    fix="Run all three over the same positions.",
)
PROBE_RANGE = Diagnostic(
    code="dynamic.probe-out-of-range",
    contract="A probe names an owner, transaction, query row and positions that exist in the runs.",
    why="A question about a row that never was has no answer, and silence would read as one.",
    fix="Probe what the runs contain.",
)
COVERAGE = Diagnostic(
    code="dynamic.coverage-mismatch",
    contract="Coverage is the share of the later pivotal set that was pivotal before, null if the later set is empty.",
    why="A coverage of 0 or 1 for an empty set enters an average as evidence that nobody has.",
    fix="Recompute it, with strict comparison against the threshold.",
)
ODDS = Diagnostic(
    code="dynamic.odds-misattributed",
    contract="Odds equal exp((y_i - y_j) / tau) for the increments of one query row, and for cumulative scores only "
    "where the carried odds already do.",
    why="Cumulative scores carry their history; read as temperatures they suggest a ranking that the step never gave.",
    fix="State the relation for the step's increments.",
)
VISIBILITY = Diagnostic(
    code="dynamic.deleted-row-claimed-visible",
    contract="A future query sees a position exactly under the methods whose final set retains it.",
    why="An evicted row gets no weight and no score, however relevant it turns out to be.",
    fix="List the methods that retain the position.",
)
BEAM_RANGE = Diagnostic(
    code="dynamic.beam-out-of-range",
    contract="A beam continues one of the beams before it.",
    why="The gather reads another request's rows.",
    fix="Use the indices of the existing beams.",
)
BEAM_PERMUTATION = Diagnostic(
    code="dynamic.beam-state-not-reordered-together",
    contract="A beam reorder moves K, V, score and position by one index.",
    why="Pinned Keyformer code reorders the K/V cache only, so that a beam goes on with the scores of another.",
    fix="Reorder the score state with the cache.",
)
SHARED_SCORES = Diagnostic(
    code="dynamic.score-state-shared",
    contract="Requests that share prefix rows have a score buffer each.",
    why="K and V of a prefix are the same for all; what each request's queries think of them is not.",
    fix="Copy or start the scores by request; share K and V only.",
)
SCORE_LEAK = Diagnostic(
    code="dynamic.score-leaked-between-requests",
    contract="A request's scores grow by its own attention only.",
    why="Rows are evicted from one request because another never looked at them.",
    fix="Accumulate by request.",
)
DRIFT = Diagnostic(
    code="dynamic.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the fixture's inputs are right, "
    "run `kvaudit regenerate --redeclare` and review the difference.",
)

DIAGNOSTICS = (
    HEAD_MAP_LENGTH,
    HEAD_MAP_RANGE,
    UNREAD_HEAD,
    AMBIGUOUS_OWNER,
    REDUCTION,
    OWNER_COUNT,
    SOURCE_PIN,
    CLAIM,
    RECENT_WIDTH,
    PARTITION,
    DECLARED_BUDGET,
    LAYER_BUDGET,
    PARENT_STATE,
    PARENT_OVER_BUDGET,
    HISTORY,
    EVIDENCE_SHAPE,
    MASS,
    REQUEST,
    REQUEST_GENERATION,
    PARENT_GENERATION,
    GENERATION_REISSUED,
    PHASE_ORDER,
    CANCELLED_PUBLISHED,
    INCOMPLETE,
    APPEND_POSITION,
    SEVERAL_ROWS,
    BULK_DROP,
    DELETED_RETURNED,
    CANDIDATE,
    QUERY,
    NOT_OVER_CANDIDATE,
    SPREAD,
    CARRIED,
    TEMPERATURE_PAST,
    TEMPERATURE_SIGN,
    TEMPERATURE,
    NOISE_SHAPE,
    NOISE,
    SCORE_VALUE,
    PROTECTED,
    DROP_COUNT,
    SELECTED,
    PERMUTATIONS,
    GATHER_ROWS,
    PUBLISHED_GENERATION,
    FRONTIER,
    PUBLISHED_POSITIONS,
    PAYLOAD,
    UNRESOLVED,
    RESOLUTION,
    ROLLBACK,
    FRONTIERS_DIFFER,
    PROBE_RANGE,
    COVERAGE,
    ODDS,
    VISIBILITY,
    BEAM_RANGE,
    BEAM_PERMUTATION,
    SHARED_SCORES,
    SCORE_LEAK,
    DRIFT,
)
