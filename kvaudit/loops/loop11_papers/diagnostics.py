"""What loop 11 may raise, in the order in which the oracle judges it."""

from kvaudit.model import Diagnostic

# Contracts: what a method is.
CONTRACT_MISSING = Diagnostic(
    code="papers.contract-missing",
    contract="Every contract that the fixture counts is in the registry.",
    why="A method that is cited without a contract is a name; its ratio can then be set beside any other.",
    fix="Write the contract, or take the id out of the counted ones knowingly.",
)
ROLE = Diagnostic(
    code="papers.boundary-counted-as-policy",
    contract="A counted contract has the role that it is counted under: a cache policy, or an architecture or training "
    "boundary.",
    why="A boundary changes the model or its training. Counted as a policy it looks like a switch that any checkpoint "
    "has, and its saving like one that can be had without training.",
    fix="Restore the role; a boundary stays outside the policies whatever it saves.",
)
UNCOUNTED = Diagnostic(
    code="papers.contract-uncounted",
    contract="A contract that is no addition is one of the counted contracts, and a counted one is no addition.",
    why="The counted set is what every number about it refers to; it may not grow or shrink by a flag.",
    fix="Mark the contract as an addition, or count it.",
)
COORDINATE_VALUE = Diagnostic(
    code="papers.coordinate-not-allowed",
    contract="A coordinate of a contract or of a result has the type of its key and one of its enumerated values.",
    why="Two spellings of one fact separate what belongs together, and a sentence in place of a value equals nothing.",
    fix="Use a value of the coordinate system, and put the sentence beside it in the details.",
)
INCOMPLETE = Diagnostic(
    code="papers.contract-incomplete",
    contract="A counted contract whose paper or code was read declares all twelve coordinates, or says that its kind "
    "has no such thing; of a coordinate with parts at least one part is declared.",
    why="Each coordinate blocks a false equivalence. One that is left out makes two different methods look alike.",
    fix="Read the source for the missing coordinate, or state not_applicable if the method has no such thing.",
)
COINCIDE = Diagnostic(
    code="papers.contracts-coincide",
    contract="No two counted contracts agree in every coordinate.",
    why="Either one method is counted under two names, or a coordinate that tells them apart was lost.",
    fix="State the coordinate in which the two differ, or keep one of them.",
)
RESTS_ON_NOTHING = Diagnostic(
    code="papers.contract-unread",
    contract="A counted contract rests on at least one source that was read: paper, abstract, code, secondary text.",
    why="General knowledge is remembered and not checked; a contract from memory is a rumour with twelve fields.",
    fix="Read a source and name it, or leave the coordinates undeclared.",
)
PIN = Diagnostic(
    code="papers.pin-inconsistent",
    contract="An exact or nearest pin has a full commit; a pin that no public history holds has none, and says what "
    "was stated; an unpinned repository has none.",
    why="A short hash, or one that no history holds, cannot be fetched: what was read there cannot be read again.",
    fix="Write the full commit, or the status that the pin really has.",
)
CODE_UNPINNED = Diagnostic(
    code="papers.code-without-pin",
    contract="A contract that rests on code names the implementation that was read or executed.",
    why="Code changes under one name; what was read there is the behaviour of one commit and of no other.",
    fix="Name the repository and the commit, or do not rest the contract on code.",
)
EXECUTED = Diagnostic(
    code="papers.executed-without-source",
    contract="An implementation is said to have been executed only where its repository holds the method's source.",
    why="A project page runs nothing; behaviour that is said to be observed there was observed elsewhere.",
    fix="State what was executed and where, or that the page was read.",
)
# Results: what a source says.
UNKNOWN_POLICY = Diagnostic(
    code="papers.result-of-unknown-policy",
    contract="Every result names a policy that has a contract.",
    why="A number without a contract says nothing about what was kept to reach it.",
    fix="Write the contract first, or correct the id.",
)
RESULT_OF_BOUNDARY = Diagnostic(
    code="papers.result-of-a-boundary",
    contract="No result is recorded for an architecture or training boundary.",
    why="Its number is that of another model. In one table with cache policies it reads as a saving that they missed.",
    fix="Record the result with the model that it belongs to.",
)
LOCATION = Diagnostic(
    code="papers.result-without-location",
    contract="A source-reported result says where in its source the value stands.",
    why="A value that cannot be looked up cannot be checked, and its conditions cannot be read beside it.",
    fix="Give the table, figure or section, or leave the record out.",
)
MEASURED = Diagnostic(
    code="papers.reported-as-measured",
    contract="The evidence class of every record in the registry of reported results is source_reported.",
    why="A number that was copied from a paper and is called measured is taken for a reproduction.",
    fix="Say source_reported; a measurement is a record of its own, with samples and environment.",
)
BUDGET_UNIT = Diagnostic(
    code="papers.budget-without-unit",
    contract="A budget value that is declared has a declared unit, and a fraction has a declared denominator.",
    why="A budget of 128 is rows or a percentage; a fraction of the prompt equals one of prompt and output at one "
    "length only. Without unit and denominator two equal numbers are two different caches.",
    fix="State unit and denominator as the source does, or leave the value undeclared.",
)
COMPOSITION = Diagnostic(
    code="papers.composition-undeclared",
    contract="A result whose cache is quantised or otherwise composed names the parts that it is composed of.",
    why="The combined number is then credited to the retention rule alone, which did not earn it.",
    fix="Name each part, and record the number of the rule alone where the source gives it.",
)
ONE_PART = Diagnostic(
    code="papers.composition-of-one-part",
    contract="A composition has at least two parts.",
    why="With one part named, the other keeps its share of the number unseen.",
    fix="Name the other part, or leave the list empty if nothing is composed.",
)
PRIMARY_REPEATED = Diagnostic(
    code="papers.primary-result-repeated",
    contract="A policy has one primary result.",
    why="The pairs that are examined are pairs of policies; with two records one policy is counted twice.",
    fix="Keep one record as primary, and mark the other as an addition.",
)
PRIMARY_MISSING = Diagnostic(
    code="papers.primary-result-missing",
    contract="Every counted policy has a primary result, and an addition has none among the counted ones.",
    why="A policy that is left out of the comparison is not shown to be incomparable; it is only not shown.",
    fix="Record what the source reports, with null for what it does not state.",
)
ADDITION = Diagnostic(
    code="papers.result-uncounted",
    contract="A record is an addition exactly if it is not primary.",
    why="The number of records would depend on which flag is read.",
    fix="Set the two flags against each other.",
)
INVENTED = Diagnostic(
    code="papers.value-not-printed",
    contract="A metric of a result is null or one of the values that its source prints.",
    why="A value that the source does not print was computed or remembered here and is published in its name.",
    fix="Write what is printed; put arithmetic on printed numbers under derived.",
)
CLAIMED_RESULT = Diagnostic(
    code="papers.claim-of-unknown-result",
    contract="A claim about results names records of the registry.",
    why="A claim about a number that is recorded nowhere cannot be looked up, and neither can its conditions.",
    fix="Record the result with its source, or correct the id.",
)
CROSS_COHORT = Diagnostic(
    code="papers.comparison-across-cohorts",
    contract="Two results are set beside each other only for a metric in which every required coordinate is declared "
    "and equal.",
    why="Of two numbers from two cohorts neither the difference nor the order means anything.",
    fix="Remove the comparison; `kvaudit explain A B` says what would have to agree.",
)
ATTRIBUTION = Diagnostic(
    code="papers.composition-credited-to-one-part",
    contract="A composed result is credited to all of its parts, and any other to its policy.",
    why="A combined number that is credited to the retention rule alone promises its users a share that the other "
    "part has earned.",
    fix="Credit all parts, or cite the record of the rule alone.",
)
# Boundaries of retention: what an omitted row can still be.
BOUNDARY_MISSING = Diagnostic(
    code="papers.boundary-missing",
    contract="Every boundary that the fixture counts is in the registry, under the kind that it is counted under.",
    why="Without it a hybrid's loss has no stage to be credited to: deletion, late transfer and a missed look-up look "
    "alike in the output.",
    fix="Restore the boundary, or its kind.",
)
SAVING = Diagnostic(
    code="papers.saving-contradicted",
    contract="No boundary both claims and denies a saving.",
    why="A reader takes the claim, a reviewer the denial, and both can cite the record.",
    fix="Keep the axis in one of the two lists.",
)
KEPT_ROWS_SAVED = Diagnostic(
    code="papers.saving-of-kept-rows",
    contract="Where an unselected row can be had again, no persistent capacity is saved.",
    why="A row that can be recalled is stored somewhere; what was saved is reads or device memory.",
    fix="Claim attention reads, transfer bytes or device capacity, whichever the design saves.",
)
LOST_ROWS_PRESERVED = Diagnostic(
    code="papers.lost-rows-called-preserved",
    contract="Where an unselected row cannot be had again, the dense attention set is changed.",
    why="Calling it preserved promises exactness for rows that no longer exist.",
    fix="State that the set is changed, or keep the rows.",
)
BRANCH = Diagnostic(
    code="papers.branch-of-unknown-contract",
    contract="A design branch names only methods that have a contract.",
    why="A recommendation for a bottleneck rests on what the method keeps, and that is in its contract.",
    fix="Write the contract, or correct the id.",
)
# Sensitivities: one control, and what follows from it.
ATTENTION_ORDER = Diagnostic(
    code="papers.attention-not-causal",
    contract="The history of an observed query names positions before it, each once.",
    why="A later position does not exist yet when the query attends; its weight is a leak from the future.",
    fix="Name earlier positions only, and the query's own row as own.",
)
ATTENTION_MASS = Diagnostic(
    code="papers.attention-not-normalised",
    contract="The weights of one query sum to one, exactly.",
    why="Scores are sums of these weights; lost mass favours whatever was not lost.",
    fix="Give every weight, the query's own row included.",
)
BASE_REFUSED = Diagnostic(
    code="papers.base-refused",
    contract="The base case is admitted by checkpoint and backend.",
    why="A case is understood by its difference from the base, and a refused base has no ledger to differ from.",
    fix="Start from a checkpoint and a backend that can run the policy.",
)
AXIS_REPEATED = Diagnostic(
    code="papers.axis-repeated",
    contract="In one group of cases each moves a control of its own.",
    why="A count of cases would pass for a count of axes.",
    fix="Put the second case of an axis into the further cases, or drop it.",
)
CONTROL_UNCHANGED = Diagnostic(
    code="papers.control-unchanged",
    contract="A case moves one control away from the base.",
    why="A case that moves nothing shows that nothing changes, whatever it is named after.",
    fix="Set the control that the case is about.",
)
SEVERAL_CONTROLS = Diagnostic(
    code="papers.several-controls-changed",
    contract="A case moves one control, and every other input is that of the base.",
    why="With two controls moved no term that changed can be credited to either.",
    fix="Restore the other inputs, or make a case of each.",
)
CONTROL_MISNAMED = Diagnostic(
    code="papers.control-misnamed",
    contract="A case names the control that it moves.",
    why="What was found would be published under another control.",
    fix="Name the input that differs from the base.",
)
WINDOW = Diagnostic(
    code="papers.window-exceeds-attention",
    contract="The observation window is no longer than the attention that was observed.",
    why="Scores over queries that nobody observed are sums over fewer queries than stated.",
    fix="Give the attention of more queries, or narrow the window.",
)
REFERENCE = Diagnostic(
    code="papers.reference-out-of-range",
    contract="The delayed reference is a position of the prompt.",
    why="Generated rows are all kept, so a reference there is visible under every budget and probes none.",
    fix="Ask for a prompt position.",
)
LAYER_BUDGET = Diagnostic(
    code="papers.layer-budget-not-conserved",
    contract="Layer budgets, one a layer, add up to K rows for every owner and, under a uniform head budget, split "
    "evenly over the heads.",
    why="Layers with another total are another budget: the case would move two controls under one name.",
    fix="Give what one layer gains to another, in multiples of the K/V heads.",
)
HEAD_BUDGET = Diagnostic(
    code="papers.head-budget-not-conserved",
    contract="Head budgets, one a K/V head in each layer, add up to the budget of the layer.",
    why="Heads with another total change the layer's budget too.",
    fix="Give what one head gains to another of the same layer.",
)
BUDGET_ABOVE_PROMPT = Diagnostic(
    code="papers.budget-above-prompt",
    contract="No owner keeps more prompt rows than the prompt has.",
    why="Rows that do not exist would be counted as kept, and the ratio would fall below one.",
    fix="Lower the budget, or lengthen the prompt.",
)
PROTECTED_ROWS = Diagnostic(
    code="papers.protected-rows-exceed-budget",
    contract="Sink and recent rows fit into the budget of every owner.",
    why="K_score = K - K_sink - K_recent would be negative: protected rows are not free, they take scored slots.",
    fix="Protect fewer rows, or raise the budget of the smallest owner.",
)
UNMEASURED_QUALITY = Diagnostic(
    code="papers.quality-without-measurement",
    contract="An admitted case is unmeasured: no ledger makes a quality outcome.",
    why="Bytes and visible rows are published as quality, which no model was run for.",
    fix="Say unmeasured, and measure quality on the checkpoint.",
)
OUTCOME = Diagnostic(
    code="papers.outcome-mismatch",
    contract="A case fails closed: an incompatible checkpoint, and then an incompatible backend, is its outcome; no "
    "other case is refused.",
    why="A case that runs where it cannot, or is left out where it can, makes a method look universally deployable.",
    fix="State the outcome that follows from the two admissions.",
)
LEDGER_OF_REFUSED = Diagnostic(
    code="papers.refused-case-with-ledger",
    contract="A refused case has no ledger: null, not zero and not the base's.",
    why="Bytes of a run that cannot happen would be counted as a saving.",
    fix="Write null in place of the ledger.",
)
LEDGER_MISSING = Diagnostic(
    code="papers.admitted-case-without-ledger",
    contract="An admitted case states its ledger.",
    why="A case without a ledger shows nothing about the control that it moves.",
    fix="State payloads, visible rows and the owners that see the reference.",
)
PAYLOAD = Diagnostic(
    code="papers.payload-mismatch",
    contract="The stated payloads are those of the inputs: N_o (S + G) r and r (sum of K_lh + N_o G).",
    why="A payload of other inputs is a ratio of another workload.",
    fix="Recompute both from the inputs of the case.",
)
VISIBILITY = Diagnostic(
    code="papers.visibility-mismatch",
    contract="The stated rows of the first owner, and the owners that see the reference, are those of the inputs.",
    why="Bytes do not tell which rows survive; the visibility is what the case is made to show.",
    fix="Select anew: sinks, recent rows, and the best scored rows with ties to the lowest position.",
)
CHANGED_TERMS = Diagnostic(
    code="papers.changed-terms-mismatch",
    contract="A case lists the terms of the ledger that its control changes, all of them, in the ledger's order.",
    why="Which term changed is the question that the case answers; a term left out is credited to nothing.",
    fix="List every term that differs from the base.",
)
# Prior rejections and failure classes.
FIXTURE_UNBOUND = Diagnostic(
    code="papers.fixture-not-bound",
    contract="A report that is consumed names the fixture hash that the lock pins.",
    why="Its rejections would be those of another fixture.",
    fix="Run `kvaudit regenerate` and review the difference.",
)
REPORT_UNBOUND = Diagnostic(
    code="papers.report-not-bound",
    contract="A report that is consumed, and the report of each of its suites, has the hash that the lock pins.",
    why="A report that changed after its review brings counts that nobody reviewed.",
    fix="Restore the report, or regenerate and review it.",
)
SUITE_UNBOUND = Diagnostic(
    code="papers.suite-not-bound",
    contract="A report names each suite of its entry with the hash that the lock pins.",
    why="Rejections are counted for a suite that may since have lost a case.",
    fix="Run `kvaudit regenerate`; never edit the hash.",
)
PRIOR_COUNT = Diagnostic(
    code="papers.prior-count-mismatch",
    contract="Manifest, report and suite report agree on the number of cases of a suite, and there is a suite.",
    why="A count that only one of them has cannot be added up: cases vanish or are counted twice.",
    fix="Restore the case, or change the number in kvaudit.yaml knowingly.",
)
PRIOR_SURVIVED = Diagnostic(
    code="papers.prior-case-survived",
    contract="Every case of a prior suite was rejected as expected.",
    why="A case that survives is a contract that is not enforced, and the class that it closes is open.",
    fix="Repair the loop that should reject it; its own check names the case.",
)
NO_CLOSURE = Diagnostic(
    code="papers.class-without-case",
    contract="A failure class is closed by at least one invalid case.",
    why="A class that nothing rejects is a warning in prose.",
    fix="Name the case that breaks it, with its code.",
)
CASE_UNPROVED = Diagnostic(
    code="papers.closing-case-unknown",
    contract="A case that closes a failure class is one that a suite of the code's loop in fact rejects.",
    why="A case that does not exist, or that was not rejected, closes nothing.",
    fix="Name a case of a suite of a needed entry, or of this loop's own suites.",
)
CASE_CODE = Diagnostic(
    code="papers.closing-code-mismatch",
    contract="A closing case is rejected with the code that the class names.",
    why="Closed for another reason, the class may be open for its own.",
    fix="Name the code that the case is rejected with, or another case.",
)
CLOSES_ELSEWHERE = Diagnostic(
    code="papers.class-closes-elsewhere",
    contract="The loop in which a class is said to close raises at least one of its codes.",
    why="Whoever repairs the failure would look in the wrong loop.",
    fix="Name the loop whose code closes the class.",
)
CASE_SHARED = Diagnostic(
    code="papers.case-closes-two-classes",
    contract="A case closes one failure class.",
    why="Two classes with one proof are one class, and the count of classes is larger than what is proved.",
    fix="Find a case of its own for the second class, or merge the two.",
)
RULE_CODE = Diagnostic(
    code="papers.rule-of-unknown-code",
    contract="A validator rule names diagnostics of this loop.",
    why="A rule without a diagnostic is never applied.",
    fix="Run `kvaudit rule` for the codes.",
)
RULE_SHARED = Diagnostic(
    code="papers.code-in-two-rules",
    contract="Every diagnostic of this loop, the comparison of declared results apart, belongs to one validator rule.",
    why="With two owners neither rule says when it is met.",
    fix="Keep the code where its contract belongs.",
)
RULE_MISSING = Diagnostic(
    code="papers.code-without-rule",
    contract="Every diagnostic of this loop, the comparison of declared results apart, belongs to a validator rule.",
    why="A check that no rule names is one that nobody knows of when the rules are reviewed.",
    fix="Add the code to the rule that it enforces.",
)
DRIFT = Diagnostic(
    code="papers.declared-drift",
    contract="The declared results are what the oracle recomputes from registries, sensitivities and prior suites.",
    why="A number that is quoted from the fixture would no longer follow from its inputs.",
    fix="Run `kvaudit regenerate --redeclare` for the entry and review the difference.",
)

DIAGNOSTICS = (
    CONTRACT_MISSING,
    ROLE,
    UNCOUNTED,
    COORDINATE_VALUE,
    PIN,
    EXECUTED,
    CODE_UNPINNED,
    RESTS_ON_NOTHING,
    INCOMPLETE,
    COINCIDE,
    UNKNOWN_POLICY,
    RESULT_OF_BOUNDARY,
    LOCATION,
    MEASURED,
    BUDGET_UNIT,
    COMPOSITION,
    ONE_PART,
    PRIMARY_REPEATED,
    PRIMARY_MISSING,
    ADDITION,
    INVENTED,
    CLAIMED_RESULT,
    CROSS_COHORT,
    ATTRIBUTION,
    BOUNDARY_MISSING,
    SAVING,
    KEPT_ROWS_SAVED,
    LOST_ROWS_PRESERVED,
    BRANCH,
    ATTENTION_ORDER,
    ATTENTION_MASS,
    BASE_REFUSED,
    CONTROL_UNCHANGED,
    SEVERAL_CONTROLS,
    CONTROL_MISNAMED,
    AXIS_REPEATED,
    WINDOW,
    REFERENCE,
    LAYER_BUDGET,
    HEAD_BUDGET,
    BUDGET_ABOVE_PROMPT,
    PROTECTED_ROWS,
    UNMEASURED_QUALITY,
    OUTCOME,
    LEDGER_OF_REFUSED,
    LEDGER_MISSING,
    PAYLOAD,
    VISIBILITY,
    CHANGED_TERMS,
    FIXTURE_UNBOUND,
    REPORT_UNBOUND,
    SUITE_UNBOUND,
    PRIOR_COUNT,
    PRIOR_SURVIVED,
    NO_CLOSURE,
    CASE_UNPROVED,
    CASE_CODE,
    CLOSES_ELSEWHERE,
    CASE_SHARED,
    RULE_CODE,
    RULE_SHARED,
    RULE_MISSING,
    DRIFT,
)
