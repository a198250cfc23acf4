"""Tables of records: what stands beside what, in which order, and what a missing value looks like."""

from fractions import Fraction

from kvaudit.render import measurements as render
from kvaudit.render.tables import PIPE
from tests.reconcile.test_measurements import other_policy, record, referenced, stopped


def rows(page, policy):
    return [line for line in page.splitlines() if line.startswith(f"| {policy} ")]


def test_a_page_has_a_table_a_cohort_in_the_order_given():
    inside = record(workload__query_visibility="inside_compressed_prompt")
    page = render.markdown([other_policy("window"), other_policy("adakv"), inside], "A sweep")
    assert page.startswith("# A sweep\n\nOne table a cohort")
    first, second = page.split("## Cohort ")[1:]
    assert first.index("| window |") < first.index("| adakv |")
    assert "- `workload.query_visibility`: outside_compressed_prompt" in first
    assert "- `workload.query_visibility`: inside_compressed_prompt" in second


def test_what_a_sweep_does_not_show_stands_before_the_numbers():
    page = render.markdown([record()], "A sweep", "One model only.\n\nNo order of policies.")
    assert page.index("One model only.") < page.index("No order of policies.") < page.index("## Cohort 1")


def test_one_cohort_names_no_difference():
    assert "It differs" not in render.markdown([record()], "A sweep")


def test_parameters_that_tell_two_records_apart_are_shown():
    one, other = record(), record()
    one["request"]["parameters"] = {"sink_rows": 4, "recent_rows": 32}
    other["request"]["parameters"] = {"sink_rows": 8, "recent_rows": 32}
    page = render.markdown([one, other], "A sweep")
    assert rows(page, "window (sink_rows 4)")
    assert rows(page, "window (sink_rows 8)")


def test_references_have_a_column_a_distance():
    page = render.markdown([referenced((900, Fraction(-9, 2)), (80, None))], "A sweep")
    header = next(line for line in page.splitlines() if line.startswith("| policy"))
    assert header.endswith("| reference 900 | reference 80 |")
    assert rows(page, "window")[0].endswith("| -4.5 | - |")


def test_a_record_without_a_result_says_why():
    page = render.markdown([record(), stopped()], "A sweep")
    assert "## Of no cohort" in page
    assert "| unmeasured | model.missing | no |" in page


def test_the_text_names_what_sets_a_cohort_apart():
    inside = record(workload__query_visibility="inside_compressed_prompt")
    text = render.text([record(), inside], PIPE)
    assert "Cohort 2: workload.query_visibility inside_compressed_prompt\n" in text


def test_numbers():
    assert render.number(None) == "-"
    assert render.number(Fraction(1, 3)) == "0.3333"
    assert render.number(3 * 1024, Fraction(1024)) == "3"
