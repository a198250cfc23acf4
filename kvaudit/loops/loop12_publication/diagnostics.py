"""What loop 12 may raise, in the order in which the oracle judges it."""

from kvaudit.model import Diagnostic

# boundary: owners of report fields, receipts and diagnostics
ENTRY_UNOWNED = Diagnostic(
    code="publication.entry-unowned",
    contract="Every entry that the publication needs has owners for its report.",
    why="Whatever that report claims is nobody's: when it is wrong, nobody can be asked.",
    fix="Add the entry under report_fields in the ownership registry.",
)
FIELD_UNKNOWN = Diagnostic(
    code="publication.field-unknown",
    contract="An owned pointer leads to a value of its report.",
    why="The rule guards nothing; the field that it meant has another name now, and another owner.",
    fix="Correct the pointer, or delete the rule.",
)
FIELD_UNOWNED = Diagnostic(
    code="publication.field-unowned",
    contract="Every result and every ledger of a needed report has exactly one owner.",
    why="A claim without an owner cannot be repaired: everybody may compute it, nobody must.",
    fix="Name an owner for the field under report_fields.",
)
INPUT_NEEDLESS = Diagnostic(
    code="publication.policy-fact-as-input",
    contract="Only a fact of a foreign owner names where it enters as an input.",
    why="A fact that the policy computes and also takes as given can contradict itself.",
    fix="Delete `input`, or name the owner that supplies the fact.",
)
FOREIGN_COMPUTED = Diagnostic(
    code="publication.foreign-fact-computed",
    contract="A fact of a foreign owner is an input of the fixture, and the report repeats one that was supplied.",
    why="A policy that computes what an allocator, a kernel or a scheduler decides reports a wish as a fact.",
    fix="Take the fact from a receipt of its owner, and name that receipt as `input`.",
)
INPUT_UNMATCHED = Diagnostic(
    code="publication.input-unmatched",
    contract="A pattern of the ownership registry matches a place in the fixture that it is about.",
    why="The receipt that it guards is gone or renamed, so that nothing is guarded.",
    fix="Correct the pattern, or delete it.",
)
INPUT_UNREADABLE = Diagnostic(
    code="publication.input-without-fixture",
    contract="An entry with receipts or inputs has its fixture among the documents of the publication.",
    why="Whether a fact was supplied cannot be looked up.",
    fix="Name the fixture under documents.fixtures in kvaudit.yaml.",
)
RECEIPT_UNOWNED = Diagnostic(
    code="publication.receipt-unowned",
    contract="Every record of a fixture that is listed under receipts has an owner.",
    why="A receipt that nobody signs for is a comment.",
    fix="Name the owner of the record under receipts.",
)
DIAGNOSTIC_UNOWNED = Diagnostic(
    code="publication.diagnostic-unowned",
    contract="Every code that an invalid suite has proved belongs to an oracle with an owner.",
    why="The finding would be sent to nobody.",
    fix="Add the oracle under diagnostics in the ownership registry.",
)
DIAGNOSTIC_UNKNOWN = Diagnostic(
    code="publication.diagnostic-unknown",
    contract="A code that is given an owner of its own is one that an invalid suite proves.",
    why="A misspelt code keeps the owner of its oracle, and the one that was meant is never asked.",
    fix="Correct the code; `kvaudit rule` lists them.",
)
DIAGNOSTIC_TWICE = Diagnostic(
    code="publication.diagnostic-owned-twice",
    contract="A code has one owner.",
    why="Two owners each wait for the other.",
    fix="Keep the code under the owner that must supply or repair the fact.",
)

# sources: papers, commits, implementations, statements
KINDS_MIXED = Diagnostic(
    code="publication.statement-kinds-mixed",
    contract="An evidence class belongs to one kind of statement.",
    why="What a paper says, what code does and what a fixture shows would be cited alike.",
    fix="Keep each evidence class under one kind.",
)
RUNTIME_CLAIMED = Diagnostic(
    code="publication.runtime-claimed",
    contract="No statement of an unclaimed kind is made: no runtime, memory traffic or task quality was measured.",
    why="A reader would take a synthetic trace for a benchmark.",
    fix="Leave the value null; measurements are records of their own, with coordinates.",
)
KIND_MISMATCH = Diagnostic(
    code="publication.statement-kind-mismatch",
    contract="A record rests on the kind of evidence that its place in the registry stands for.",
    why="An implementation detail is cited as a claim of the paper, or the other way round.",
    fix="Name the evidence that the record really rests on.",
)
PAPER_TWICE = Diagnostic(
    code="publication.paper-repeated",
    contract="An arXiv number names one paper of the registry.",
    why="One paper counts twice, and results of the one are read as results of the other.",
    fix="Delete the double, or correct the number.",
)
PAPER_UNSOURCED = Diagnostic(
    code="publication.paper-without-source-state",
    contract="A paper has an implementation record, or says why it has none; never both.",
    why="A reader cannot tell whether code was read and agrees, or was never looked for.",
    fix="Write no_implementation, or add the record.",
)
COMMIT_ABBREVIATED = Diagnostic(
    code="publication.commit-abbreviated",
    contract="A commit that was resolved has its full hash of 40 digits.",
    why="A short hash can name another commit tomorrow, or none.",
    fix="Write the full hash, or the status not_found.",
)
COMMIT_UNEXPLAINED = Diagnostic(
    code="publication.commit-unexplained",
    contract="A commit that was not found says where it was looked for and what was read instead; no other does.",
    why="A pin to nowhere looks like a pin.",
    fix="Write reason and read_instead, or resolve the commit.",
)
COMMIT_PRINTED = Diagnostic(
    code="publication.commit-print-mismatch",
    contract="The hash that the specification prints begins the one of the registry.",
    why="The registry pins another version than the document speaks of.",
    fix="Correct the hash that is wrong.",
)
COMMIT_TWICE = Diagnostic(
    code="publication.commit-repeated",
    contract="A commit of a repository is pinned once.",
    why="Counting pins counts the same source twice.",
    fix="Let both implementation records name one pin.",
)
COMMIT_UNUSED = Diagnostic(
    code="publication.commit-unused",
    contract="Every pinned commit is the version of an implementation record.",
    why="A pin that nothing was read at proves nothing.",
    fix="Add the record, or delete the pin.",
)
IMPLEMENTATION_UNPINNED = Diagnostic(
    code="publication.implementation-unpinned",
    contract="An implementation record names a paper and a pinned commit of the registry.",
    why="What was observed cannot be looked up, and may be gone tomorrow.",
    fix="Name the commit, or move the record to unpinned.",
)
PATH_FOREIGN = Diagnostic(
    code="publication.path-outside-record",
    contract="A difference names files of its own record.",
    why="The path was read at no version, or at another one.",
    fix="Correct the path, or list it in the record.",
)
NO_PATH = Diagnostic(
    code="publication.result-without-path",
    contract="A difference that code shows names the code: its files, or for another repository that repository.",
    why="A finding without a place cannot be checked by anyone.",
    fix="Name the files, or the repository.",
)
NOT_RUN = Diagnostic(
    code="publication.behaviour-not-run",
    contract="Behaviour was observed only where the record says that code was run.",
    why="Reading code and seeing it run are different evidence.",
    fix="Name the evidence source_observed, or record the run.",
)
DEVIATION_TWICE = Diagnostic(
    code="publication.deviation-repeated",
    contract="A difference between paper and code has an id of its own.",
    why="A check that points at the id points at two things.",
    fix="Give one of the two another id.",
)
REPORTED_PAPER = Diagnostic(
    code="publication.reported-paper-unknown",
    contract="A reported result belongs to a policy paper of the registry.",
    why="Its source cannot be cited.",
    fix="Correct the paper's id.",
)
REPORTED_COUNT = Diagnostic(
    code="publication.reported-result-count",
    contract="Every policy paper has exactly one primary reported result.",
    why="A policy without one drops out of every count; a second one makes it count twice.",
    fix="Add the record, or keep the further ones out of this registry.",
)
LOCAL_MISMATCH = Diagnostic(
    code="publication.local-evidence-mismatch",
    contract="Local evidence is that of the needed entries, and rests on code that the fixture lists.",
    why="A report is cited whose oracle nobody named, or an oracle that no report comes from.",
    fix="List exactly the needed entries, each with its module.",
)
SOURCE_COUNT = Diagnostic(
    code="publication.source-count",
    contract="Papers, policies, boundaries, commits and implementation records are as many as the fixture says.",
    why="A source that was dropped would otherwise leave no trace.",
    fix="Restore the record, or change the number in the fixture knowingly.",
)

# pages: what one page must keep by itself
FENCE_OPEN = Diagnostic(
    code="publication.fence-open",
    contract="A code fence is closed.",
    why="Everything below it is shown as code and checked by nothing.",
    fix="Close the fence.",
)
COMMENT_OPEN = Diagnostic(
    code="publication.comment-open",
    contract="A comment is closed.",
    why="Everything below it vanishes from the rendered page.",
    fix="Close the comment with -->.",
)
DELIMITER = Diagnostic(
    code="publication.delimiter-unbalanced",
    contract="Display delimiters are pairs, each on a line of its own.",
    why="Prose and formulas change places from there on.",
    fix="Put $$ on a line of its own before and after the formula.",
)
EMPTY_FORMULA = Diagnostic(
    code="publication.formula-empty",
    contract="A formula is not empty.",
    why="A reader sees a gap where a definition should be.",
    fix="Write the formula, or delete the delimiters.",
)
FORMULA_UNBALANCED = Diagnostic(
    code="publication.formula-unbalanced",
    contract="Braces, \\left and \\right, and environments of a formula balance; an inline formula ends on its line.",
    why="The converter drops or misplaces what follows.",
    fix="Close what is open.",
)
FORMULA_UNCOMMENTED = Diagnostic(
    code="publication.formula-uncommented",
    contract="A display formula follows a line with its family, owner and guard.",
    why="It is in no family, nobody owns it, and nothing says where it is defined.",
    fix='Write `<!-- formula: family=... owner=... guard="..." -->` on the line before it.',
)
COMMENT_ALONE = Diagnostic(
    code="publication.comment-alone",
    contract="A formula comment stands before a formula, a figure comment behind an image.",
    why="The comment describes nothing; what it described was moved or deleted.",
    fix="Move the comment, or delete it.",
)
FAMILY_UNKNOWN = Diagnostic(
    code="publication.family-unknown",
    contract="The family of a formula is one of the ownership registry.",
    why="A formula of no family is found by no one who looks for its kind.",
    fix="Use a family of the registry, or add one with its owners.",
)
FORMULA_OWNER = Diagnostic(
    code="publication.formula-owner",
    contract="The owner of a formula is one of those that its family allows.",
    why="The policy would define what another owner decides, or the other way round.",
    fix="Name the owner of the quantity, or let the family allow it.",
)
GUARD_MISSING = Diagnostic(
    code="publication.guard-missing",
    contract="A formula says in words where it is defined.",
    why="It is applied where a denominator is empty, and an implementer returns zero for null.",
    fix='Write guard="...".',
)
TITLE_MISSING = Diagnostic(
    code="publication.title-missing",
    contract="A page begins its headings with one title of level one, and has no second.",
    why="It cannot be named in a contents list.",
    fix="Start the page with `# Title`.",
)
HEADING_LEVEL = Diagnostic(
    code="publication.heading-level-skipped",
    contract="A heading is at most one level below the one before it.",
    why="Readers who move by headings meet a gap.",
    fix="Use the next level.",
)
HEADING_TWICE = Diagnostic(
    code="publication.heading-repeated",
    contract="Headings of a page have different anchors.",
    why="A link to the anchor leads to the first of them only.",
    fix="Rename one heading.",
)
RAW_HTML = Diagnostic(
    code="publication.raw-html",
    contract="A page is Markdown without raw HTML, comments apart.",
    why="It could load what is not in the page, and it is checked by nothing here.",
    fix="Write it in Markdown, or leave it out.",
)
FIGURE_UNCOMMENTED = Diagnostic(
    code="publication.figure-without-provenance",
    contract="An image is followed by a line that names its source and what it does not show.",
    why="A drawing without a scope is read as evidence; one without a source cannot be kept.",
    fix='Write `<!-- figure: source=own scope="..." -->` on the line after it.',
)
ALT_MISSING = Diagnostic(
    code="publication.alt-missing",
    contract="An image has an alternative text.",
    why="Who cannot see the image is told nothing.",
    fix="Describe what the image shows between the square brackets.",
)
IMAGE_MISSING = Diagnostic(
    code="publication.image-missing",
    contract="An image of a page is one of the drawings that the publication lists.",
    why="The page shows a broken frame, or a file that nobody pinned.",
    fix="Add the drawing under documents.figures in kvaudit.yaml, or correct the path.",
)
LINK_INSECURE = Diagnostic(
    code="publication.link-insecure",
    contract="A link to another site uses https.",
    why="It can be changed on the way to the reader.",
    fix="Use https, or name the source in words.",
)
LINK_UNRESOLVED = Diagnostic(
    code="publication.link-unresolved",
    contract="A link within the repository leads to a page, a pinned file, or a file that the fixture lists.",
    why="The reader is led nowhere.",
    fix="Correct the path, or list the file under linked_files in the fixture.",
)
ANCHOR_UNRESOLVED = Diagnostic(
    code="publication.anchor-unresolved",
    contract="A link to an anchor leads to a heading of a page.",
    why="The reader is left at the top of the page, or nowhere.",
    fix="Use the anchor of the heading: lower case, words joined by hyphens.",
)
MARKER_ALONE = Diagnostic(
    code="publication.marker-alone",
    contract="A marker stands directly behind a number or a list of numbers.",
    why="It ties nothing to the report, and the number beside it can drift.",
    fix="Write the number immediately before the marker.",
)
MARKER_ENTRY = Diagnostic(
    code="publication.number-of-unknown-entry",
    contract="A number comes from an entry that the publication needs, or from the publication itself.",
    why="There is no report to compare it with.",
    fix="Name the entry that the number comes from.",
)
MARKER_PLACE = Diagnostic(
    code="publication.number-of-unknown-place",
    contract="The pointer of a number leads to a value of the report.",
    why="The number has lost its source.",
    fix="Correct the pointer.",
)
NUMBER_MISMATCH = Diagnostic(
    code="publication.number-mismatch",
    contract="A number equals what the report says, rounded to the digits that are written.",
    why="The prose claims what the evidence no longer gives.",
    fix="Correct the number, or the fixture that it should follow from.",
)
BARE_NUMBER = Diagnostic(
    code="publication.bare-number",
    contract="A number in prose is tied to a report; one that is none of a report is written as a word, or as code.",
    why="A figure can be typed in without a source, and nothing notices when it becomes wrong.",
    fix="Add the marker `<!-- =ENTRY POINTER -->`, or write the number as a word.",
)
CODE_UNKNOWN = Diagnostic(
    code="publication.cited-code-unknown",
    contract="A diagnostic that a page cites exists.",
    why="`kvaudit rule` knows nothing of it; the contract was renamed or never enforced.",
    fix="Correct the code; `kvaudit rule` lists them.",
)
DEVIATION_UNKNOWN = Diagnostic(
    code="publication.cited-deviation-unknown",
    contract="A difference from a paper that a page cites is a record of the source registry.",
    why="The claim has no source.",
    fix="Correct the id, or add the record.",
)

# the document as a whole
DRAWING_UNUSED = Diagnostic(
    code="publication.drawing-unreferenced",
    contract="A drawing that the publication lists is shown by a page.",
    why="It stays in the document because its file exists, and nobody reviews it.",
    fix="Show it, or delete it.",
)
DRAWING_UNDESCRIBED = Diagnostic(
    code="publication.drawing-undescribed",
    contract="A drawing has a title and a description.",
    why="Who opens it alone, or cannot see it, is told nothing.",
    fix="Add <title> and <desc>.",
)
DRAWING_FOREIGN = Diagnostic(
    code="publication.drawing-not-self-contained",
    contract="A drawing has no script, no embedded image, no style from elsewhere and no gradient.",
    why="It needs a network or a program to be seen, or hides what it shows.",
    fix="Draw it with shapes and text alone.",
)
PAGE_LIST = Diagnostic(
    code="publication.page-list-mismatch",
    contract="The pages that are published are those that the fixture lists, in its order.",
    why="A page would be published unread, or dropped unnoticed.",
    fix="Make documents.pages in kvaudit.yaml and pages in the fixture agree.",
)
FORMULA_COUNT = Diagnostic(
    code="publication.formula-count",
    contract="Each set of pages has as many display formulas as the fixture says.",
    why="A definition that was dropped would otherwise leave no trace.",
    fix="Restore the formula, or change the number in the fixture knowingly.",
)
FORMULA_DRIFT = Diagnostic(
    code="publication.formula-drift",
    contract="The registry of formulas is what the pages hold: page, heading, LaTeX, hash, family, owner and guard, in "
    "order.",
    why="A definition was changed, moved or inserted without anybody agreeing to it.",
    fix="Read the difference; if it is meant, run `kvaudit regenerate --redeclare publication`.",
)
DRIFT = Diagnostic(
    code="publication.declared-drift",
    contract="A declared result equals the recomputed one.",
    why="The fixture claims a publication that its pages and registries do not give.",
    fix="Correct the document, or run `kvaudit regenerate --redeclare publication` and read the difference.",
)

DIAGNOSTICS = (
    ENTRY_UNOWNED,
    FIELD_UNKNOWN,
    FIELD_UNOWNED,
    INPUT_NEEDLESS,
    FOREIGN_COMPUTED,
    INPUT_UNMATCHED,
    INPUT_UNREADABLE,
    RECEIPT_UNOWNED,
    DIAGNOSTIC_UNOWNED,
    DIAGNOSTIC_UNKNOWN,
    DIAGNOSTIC_TWICE,
    KINDS_MIXED,
    RUNTIME_CLAIMED,
    KIND_MISMATCH,
    PAPER_TWICE,
    PAPER_UNSOURCED,
    COMMIT_ABBREVIATED,
    COMMIT_UNEXPLAINED,
    COMMIT_PRINTED,
    COMMIT_TWICE,
    COMMIT_UNUSED,
    IMPLEMENTATION_UNPINNED,
    PATH_FOREIGN,
    NO_PATH,
    NOT_RUN,
    DEVIATION_TWICE,
    REPORTED_PAPER,
    REPORTED_COUNT,
    LOCAL_MISMATCH,
    SOURCE_COUNT,
    FENCE_OPEN,
    COMMENT_OPEN,
    DELIMITER,
    EMPTY_FORMULA,
    FORMULA_UNBALANCED,
    FORMULA_UNCOMMENTED,
    COMMENT_ALONE,
    FAMILY_UNKNOWN,
    FORMULA_OWNER,
    GUARD_MISSING,
    TITLE_MISSING,
    HEADING_LEVEL,
    HEADING_TWICE,
    RAW_HTML,
    FIGURE_UNCOMMENTED,
    ALT_MISSING,
    IMAGE_MISSING,
    LINK_INSECURE,
    LINK_UNRESOLVED,
    ANCHOR_UNRESOLVED,
    MARKER_ALONE,
    MARKER_ENTRY,
    MARKER_PLACE,
    NUMBER_MISMATCH,
    BARE_NUMBER,
    CODE_UNKNOWN,
    DEVIATION_UNKNOWN,
    DRAWING_UNUSED,
    DRAWING_UNDESCRIBED,
    DRAWING_FOREIGN,
    PAGE_LIST,
    FORMULA_COUNT,
    FORMULA_DRIFT,
    DRIFT,
)
