"""The diagnostics of loop 10, in the order in which its contracts are judged."""

from kvaudit.model import Diagnostic

NOT_RECONCILER = Diagnostic(
    code="reconcile.owner-not-reconciler",
    contract="What reconciles reports owns receipts and nothing else.",
    why="A reconciler that also owns a selector or an allocator can make its own number fit, and nobody checks it.",
    fix="Leave policies to their loops; say `name: reconciler` in `owner`.",
)
EXECUTES_POLICY = Diagnostic(
    code="reconcile.executes-policy",
    contract="The reconciler consumes finished reports and runs no policy.",
    why="A second execution in another environment replaces the report that was cited by one that nobody has seen.",
    fix="Regenerate the report with the loop that owns it, then reconcile.",
)
FAILS_OPEN = Diagnostic(
    code="reconcile.fails-open",
    contract="The reconciler fails closed: what it cannot establish is a finding.",
    why="Evidence that is passed over for lack of a rule looks, afterwards, like evidence that was checked.",
    fix="Set `fails_closed` to true and mend what it finds.",
)
RANKS = Diagnostic(
    code="reconcile.ranks",
    contract="The reconciler orders nothing by value.",
    why="A table sorted by a ratio is read as a ranking of policies, whatever its caption says about cohorts.",
    fix="Set `ranks` to false; reports stand in the order of the manifest.",
)
REPEATED = Diagnostic(
    code="reconcile.report-repeated",
    contract="The order lists each report once.",
    why="A report that is counted twice doubles its snapshots, its ledger rows and its pairs.",
    fix="Delete the second mention.",
)
UNKNOWN_REPORT = Diagnostic(
    code="reconcile.report-unknown",
    contract="The order lists reports that the manifest needs, and legacy documents that the fixture declares.",
    why="A name without a report contributes counts that no file stands behind.",
    fix="Add the entry to `needs` in kvaudit.yaml, or take the name out of the order.",
)
NOT_LISTED = Diagnostic(
    code="reconcile.report-not-listed",
    contract="Every report that the manifest needs, and every legacy document, is in the order.",
    why="A report that is left out is hidden: its failures and its pairs would not be seen.",
    fix="Add its id to `order`, at the place that the manifest gives it.",
)
ORDER = Diagnostic(
    code="reconcile.report-order",
    contract="Reports are read in the order of the manifest.",
    why="The digest of what was consumed binds an order; another one gives another digest for the same files.",
    fix="Write `order` in the order of kvaudit.yaml.",
)
ESCAPES = Diagnostic(
    code="reconcile.path-escapes",
    contract="A fixture or report that is reconciled lies inside the bundle: a relative path without `..`.",
    why="Otherwise a receipt can bind a file that changes without the bundle changing, or one that should not be read.",
    fix="Move the file into the bundle and name it from the folder of kvaudit.yaml.",
)
PATH_DIFFERS = Diagnostic(
    code="reconcile.path-differs",
    contract="The file that was read is the one that the manifest names.",
    why="A receipt for one file would vouch for another.",
    fix="Read what the manifest names, or correct the manifest.",
)
PATH_SHARED = Diagnostic(
    code="reconcile.path-shared",
    contract="No two entries share a report.",
    why="One file would be two pieces of evidence, and comparable with itself under two names.",
    fix="Give each entry a report of its own.",
)
UNPINNED = Diagnostic(
    code="reconcile.unpinned",
    contract="Every fixture, report and suite that is reconciled is pinned by the lock.",
    why="Without a pin nothing says that the file of today is the file that was reviewed.",
    fix="Run `kvaudit regenerate`, and commit the lock.",
)
FIXTURE_HASH = Diagnostic(
    code="reconcile.fixture-hash",
    contract="A fixture has the bytes that the lock pins; they are hashed before they are parsed.",
    why="A fixture that was edited after its report was written no longer supports the report.",
    fix="Restore the fixture, or run `kvaudit regenerate` and review the difference.",
)
REPORT_HASH = Diagnostic(
    code="reconcile.report-hash",
    contract="A report has the bytes that the lock pins; they are hashed before they are parsed.",
    why="Parsing first would let an edit of white space or of a number slip past the identity that was published.",
    fix="Restore the report, or run `kvaudit regenerate`.",
)
SUITE_HASH = Diagnostic(
    code="reconcile.suite-hash",
    contract="A report closed the suite of invalid cases that the lock pins.",
    why="A suite can be weakened after the report says that it closed.",
    fix="Run `kvaudit regenerate`, so that the report judges the suite as it is now.",
)
NO_ADAPTER = Diagnostic(
    code="reconcile.adapter-missing",
    contract="Every report has one adapter, which names the shape that it reads.",
    why="A report read without a stated shape is guessed at: a renamed member becomes a missing row.",
    fix="Describe the report under `entries`.",
)
UNUSED_ADAPTER = Diagnostic(
    code="reconcile.adapter-unused",
    contract="Every adapter belongs to a report that is reconciled.",
    why="An adapter without a report hides that the report was removed.",
    fix="Delete the adapter, or add the report to `needs` and to the order.",
)
ADAPTER_VERSION = Diagnostic(
    code="reconcile.adapter-version",
    contract="The version of an adapter is the version of the shape that the oracle writes.",
    why="A report of a new shape read by an old adapter gives old numbers under a new name.",
    fix="Adapt the entry to the new shape, then write its version.",
)
REPORT_SCHEMA = Diagnostic(
    code="reconcile.report-schema",
    contract="A report states the schema that its adapter reads.",
    why="A change of shape, were it only an added schema member, needs a new adapter or a new manifest.",
    fix="Regenerate the report, or state the new schema in `entries` after reading what changed.",
)
ENTRY_IDENTITY = Diagnostic(
    code="reconcile.entry-identity",
    contract="A report says which entry and which oracle it belongs to, and they are those of the manifest.",
    why="Two reports that were exchanged would each be read with the coordinates of the other.",
    fix="Regenerate the report of this entry.",
)
LEGACY_HASH = Diagnostic(
    code="reconcile.legacy-hash",
    contract="A document with an integer schema version, or with none, is read only if its exact bytes are pinned.",
    why="Nothing in such a document says when its meaning changes, so only bytes that were read can be trusted.",
    fix="Read the new document, adapt the pointers, then pin its hash in `legacy`.",
)
LEGACY_SCHEMA = Diagnostic(
    code="reconcile.legacy-schema",
    contract="A legacy document has the integer schema version that is declared for it, or no schema member at all.",
    why="A document that has gained a schema has a shape of its own, which the legacy adapter does not know.",
    fix="Write an adapter for the named schema, or declare the version that the document has.",
)
LEGACY_POINTER = Diagnostic(
    code="reconcile.legacy-pointer",
    contract="A ledger row of a legacy document is a number at the JSON pointer that is declared for it.",
    why="A pointer into nowhere would turn a missing number into null, which means that the quantity does not exist.",
    fix="Correct the pointer, or declare no such row.",
)
FIXTURE_SCHEMA = Diagnostic(
    code="reconcile.fixture-schema",
    contract="The fixture of a report has the schema that the adapter names.",
    why="The same numbers in another shape mean other inputs.",
    fix="Restore the fixture, or state its new schema in `entries`.",
)
FIXTURE_IDENTITY = Diagnostic(
    code="reconcile.fixture-identity",
    contract="A report names its fixture by path, schema and hash of its raw bytes, and that fixture is the one here.",
    why="A report may be intact and its fixture may be intact while the one was not made from the other.",
    fix="Run `kvaudit regenerate` for the entry.",
)
SUITE_MISSING = Diagnostic(
    code="reconcile.suite-missing",
    contract="A report says how every suite of its entry closed, and of no other suite.",
    why="A suite that the report does not mention was perhaps never run.",
    fix="Run `kvaudit regenerate` for the entry.",
)
SUITE_COUNT = Diagnostic(
    code="reconcile.suite-count",
    contract="A suite has as many cases as the manifest, the fixture here and its own report say.",
    why="A case that was dropped takes the contract that it proved with it.",
    fix="Restore the case, or change the number in all places knowingly.",
)
SUITE_OPEN = Diagnostic(
    code="reconcile.suite-open",
    contract="Every invalid case of a report was rejected for its expected reason.",
    why="A report whose oracle accepts broken input proves less than it says.",
    fix="Run `kvaudit check` on the entry and close the case.",
)
EVIDENCE_CLASS = Diagnostic(
    code="reconcile.evidence-class",
    contract="A report rests on the evidence class that is declared for it.",
    why="A synthetic count that calls itself measured is quoted as a measurement.",
    fix="Correct the report; if it does rest on other evidence, declare so in `entries`.",
)
MEASUREMENT_CLAIMED = Diagnostic(
    code="reconcile.measurement-claimed",
    contract="A report that executed no model claims no latency, no memory traffic and no task quality.",
    why="Arithmetic over a toy tensor is no measurement, however plausible the number.",
    fix="Leave the member null, and publish the measurement as a measurement record.",
)
SCOPE_MISSING = Diagnostic(
    code="reconcile.scope-missing",
    contract="A report says what was not executed for it, at least each thing that is required of every report here.",
    why="What is not excluded is assumed: a reader takes a missing `model` for a model that was run.",
    fix="Name it in the evidence boundary of the report.",
)
SCOPE_CONTRADICTION = Diagnostic(
    code="reconcile.scope-contradiction",
    contract="Nothing is both executed and not executed for a report.",
    why="Either reading can be quoted.",
    fix="Correct the evidence boundary of the report.",
)
REQUIRED_COORDINATES = Diagnostic(
    code="reconcile.required-coordinates",
    contract="The coordinates that are required are those of the coordinate system of reports, all of them.",
    why="Each key that is not required makes unlike values comparable.",
    fix="List every key of the system report/1, in its order.",
)
COORDINATE_MISSING = Diagnostic(
    code="reconcile.coordinate-missing",
    contract="A report declares every required coordinate.",
    why="A key that nobody stated is not a key that agrees.",
    fix="State it in kvaudit.yaml, and regenerate.",
)
COORDINATE_DIFFERS = Diagnostic(
    code="reconcile.coordinate-differs",
    contract="The coordinates of a report are those that the manifest declares for it.",
    why="The relation of two reports would depend on which of the two statements is read.",
    fix="Run `kvaudit regenerate` for the entry.",
)
SNAPSHOT_COUNT = Diagnostic(
    code="reconcile.snapshot-count",
    contract="A report has as many state snapshots as are expected of it.",
    why="A state that is missing would have to be inferred, and an inferred state was never observed.",
    fix="Regenerate the report with the loop that owns it, or expect another number knowingly.",
)
SNAPSHOT_ROWS = Diagnostic(
    code="reconcile.snapshot-rows",
    contract="A snapshot that lists its selected positions lists as many as it counts.",
    why="One of the two is wrong, and byte counts follow from the other.",
    fix="Regenerate the report with the loop that owns it.",
)
SNAPSHOT_GENERATION = Diagnostic(
    code="reconcile.snapshot-generation",
    contract="A published state has a generation.",
    why="Without one nobody can say whether two observations are of the same state.",
    fix="Regenerate the report with the loop that owns it.",
)
LEDGER_MISSING = Diagnostic(
    code="reconcile.ledger-missing",
    contract="A report has every ledger row that is expected of it.",
    why="A total whose parts are gone can no longer be checked.",
    fix="Regenerate the report with the loop that owns it, or expect other rows knowingly.",
)
LEDGER_UNEXPECTED = Diagnostic(
    code="reconcile.ledger-unexpected",
    contract="A report has no ledger row that is not expected of it.",
    why="A row that appears without notice is a claim that nobody has reviewed.",
    fix="Add the row to `ledger_rows` after reading it.",
)
LEDGER_UNIT = Diagnostic(
    code="reconcile.ledger-unit",
    contract="A ledger row has a unit that the coordinate system of reports knows.",
    why="A unit in a spelling of its own equals no other, and belongs to no kind of metric.",
    fix="Use the unit that the system names.",
)
GROUP_NAMES = Diagnostic(
    code="reconcile.group-names",
    contract="A report has the comparison groups that are expected of it, and no other.",
    why="Each group is a permission to set values side by side.",
    fix="Regenerate the report, or expect other groups knowingly.",
)
GROUP_MEMBER = Diagnostic(
    code="reconcile.group-member",
    contract="A comparison group has members that are ledger rows of its own report.",
    why="A value from elsewhere would be compared without its coordinates.",
    fix="Name rows of this report only.",
)
GROUP_UNIT = Diagnostic(
    code="reconcile.group-unit",
    contract="The members of a comparison group have the unit of the group.",
    why="Bytes beside rows is a sum of unlike things.",
    fix="Take the member out of the group.",
)
LINK_TARGET = Diagnostic(
    code="reconcile.link-target",
    contract="A link joins a report to another report that is reconciled with it.",
    why="A link to nowhere, or to itself, proves no lineage.",
    fix="Correct the target in kvaudit.yaml.",
)
LINK_UNDECLARED = Diagnostic(
    code="reconcile.link-undeclared",
    contract="The links of the manifest are those that are expected here, in kind and direction.",
    why="A link that appears later turns an incompatible pair into a related one without review.",
    fix="Add the link to `links` after reading what it rests on.",
)
LINK_MISSING = Diagnostic(
    code="reconcile.link-missing",
    contract="Every link that is expected is declared by the manifest.",
    why="Lineage that is no longer declared is no longer checked.",
    fix="Restore the link in kvaudit.yaml, or stop expecting it.",
)
LINK_WITHOUT_FACTS = Diagnostic(
    code="reconcile.link-without-facts",
    contract="A link names at least one pair of values that must agree.",
    why="A basis in words alone cannot fail.",
    fix="Add `agrees` to the link in kvaudit.yaml: pointers into the two reports.",
)
LINK_FACT_ABSENT = Diagnostic(
    code="reconcile.link-fact-absent",
    contract="The values that a link rests on exist in both reports.",
    why="Two values that are both absent are equal, and prove nothing.",
    fix="Correct the pointer under `agrees`.",
)
LINK_FACTS = Diagnostic(
    code="reconcile.link-facts",
    contract="The values that a link rests on agree.",
    why="A lineage that was true once is quoted as if it still were.",
    fix="Mend the report that moved, or remove the link.",
)
FORBIDDEN_METRICS = Diagnostic(
    code="reconcile.forbidden-metric-missing",
    contract="Every kind of metric that tempts to a comparison across reports is forbidden by name.",
    why="A kind that is missing from the list is the one that the next table will be made of.",
    fix="Restore the kind in `forbidden_metrics`.",
)
COMPARISON_OPERAND = Diagnostic(
    code="reconcile.comparison-operand",
    contract="A comparison across reports names a ledger row of each of two different reports.",
    why="A comparison of what does not exist, or within one report, is not one across reports.",
    fix="Name existing rows of two reports; within one report use its comparison groups.",
)
FORBIDDEN_COMPARISON = Diagnostic(
    code="reconcile.forbidden-metric",
    contract="No metric of a forbidden kind is compared across reports.",
    why="Bytes, traffic, error, ratio, latency and quality of unlike fixtures differ for other reasons than policies.",
    fix="Take the comparison out; `kvaudit explain` says what separates the two.",
)
NOT_COMPARABLE = Diagnostic(
    code="reconcile.not-comparable",
    contract="A comparison across reports needs every coordinate of the metric equal on both sides.",
    why="Equal units are not equal coordinates.",
    fix="Bring both values into one cohort, or take the comparison out.",
)
DRIFT = Diagnostic(
    code="reconcile.declared-results",
    contract="The declared results are those that follow from the reports.",
    why="A number that was copied once and never recomputed is a memory, not evidence.",
    fix="Run `kvaudit regenerate --redeclare` for this entry and read the difference.",
)
DIAGNOSTICS = (
    NOT_RECONCILER,
    EXECUTES_POLICY,
    FAILS_OPEN,
    RANKS,
    REPEATED,
    UNKNOWN_REPORT,
    NOT_LISTED,
    ORDER,
    ESCAPES,
    PATH_DIFFERS,
    PATH_SHARED,
    UNPINNED,
    FIXTURE_HASH,
    REPORT_HASH,
    SUITE_HASH,
    NO_ADAPTER,
    UNUSED_ADAPTER,
    ADAPTER_VERSION,
    REPORT_SCHEMA,
    ENTRY_IDENTITY,
    LEGACY_HASH,
    LEGACY_SCHEMA,
    LEGACY_POINTER,
    FIXTURE_SCHEMA,
    FIXTURE_IDENTITY,
    SUITE_MISSING,
    SUITE_COUNT,
    SUITE_OPEN,
    EVIDENCE_CLASS,
    MEASUREMENT_CLAIMED,
    SCOPE_MISSING,
    SCOPE_CONTRADICTION,
    REQUIRED_COORDINATES,
    COORDINATE_MISSING,
    COORDINATE_DIFFERS,
    SNAPSHOT_COUNT,
    SNAPSHOT_ROWS,
    SNAPSHOT_GENERATION,
    LEDGER_MISSING,
    LEDGER_UNEXPECTED,
    LEDGER_UNIT,
    GROUP_NAMES,
    GROUP_MEMBER,
    GROUP_UNIT,
    LINK_TARGET,
    LINK_UNDECLARED,
    LINK_MISSING,
    LINK_WITHOUT_FACTS,
    LINK_FACT_ABSENT,
    LINK_FACTS,
    FORBIDDEN_METRICS,
    COMPARISON_OPERAND,
    FORBIDDEN_COMPARISON,
    NOT_COMPARABLE,
    DRIFT,
)
