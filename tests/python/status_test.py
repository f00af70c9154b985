"""The status table, the failures, the planted-fault table and the summary say what the rows say."""
import unittest

import sample
from reports import status
from series_test import merged, power_law


class Status(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tables = merged(sample.tables())

    def counts(self, component, variant, scheme=""):
        wanted = component, variant, scheme
        (row,) = [row for row in status.counts(self.tables) if (row["component"], row["variant"], row["scheme"]) == wanted]
        return dict(row["counts"])

    def test_it_counts_each_status_of_each_variant(self):
        self.assertEqual(self.counts("attention", "cpu"), {"pass": 10, "timeout": 2})
        self.assertEqual(self.counts("attention", "online_softmax", "ring"), {"pass": 28})
        self.assertEqual(self.counts("kda", "chunk_wy"), {"pass": 10, "fail": 1, "oom": 1})

    def test_compiled_never_run_is_a_state_of_its_own(self):
        self.assertEqual(self.counts("attention", "tcgen05_sm100"), {"not_run": 1})
        self.assertEqual(self.counts("attention", "gpu"), {"skipped": 1})
        self.assertEqual(status.states(status.counts(self.tables))["not_run"], "compiled, never run")

    def test_all_rows_are_counted(self):
        total = sum(sum(row["counts"].values()) for row in status.counts(self.tables))
        self.assertEqual(total, len(sample.tables()["results"]))

    def test_a_status_it_does_not_know_is_shown_all_the_same(self):
        table = status.counts(merged([sample.result("a", "v", 1024, status="melted")]))
        self.assertEqual(status.states(table)["melted"], "melted")

    def test_a_failure_has_reason_worst_check_and_command(self):
        (failure,) = status.failures(self.tables, status.FAILURES)
        self.assertIn("o rel_rms 3.1e-03", failure["reason"])
        self.assertIn("o by full: rel_rms 0.0031 >", failure["check"])
        self.assertIn("t=4094", failure["check"])
        self.assertEqual(failure["repro"], f"megatoken check '{failure['key']}'")

    def test_a_failure_of_a_rule_says_what_was_broken(self):
        check = dict(result=0, output="o", strategy="hygiene", metric="rule", passed=0, reason="1 canary byte after the end changed")
        (failure,) = status.failures(merged(dict(results=[sample.result("a", "v", 8, status="fail")], checks=[check])), status.FAILURES)
        self.assertEqual(failure["check"], "o by hygiene: 1 canary byte after the end changed")

    def test_the_ends_of_sweeps_are_no_failures(self):
        self.assertEqual(sorted(row["status"] for row in status.failures(self.tables, status.LIMITS)), ["oom", "timeout", "timeout"])

    def test_skips_are_counted_by_reason(self):
        self.assertEqual(status.skips(self.tables), [("no_device", 2), ("compiled, never run", 1)])

    def test_faults_name_who_saw_them(self):
        seen = {fault["fault"]: fault for fault in status.faults(self.tables)}
        self.assertEqual(seen["old_output"]["rejected"], ["repeat (normal)"])
        self.assertEqual(seen["mask_off_by_one"]["rejected"], ["full (aimed)", "rows (aimed)"])
        self.assertIn("full (normal)", seen["mask_off_by_one"]["accepted"])

    def test_a_strategy_that_could_not_look_is_on_neither_side(self):
        (fault,) = status.faults(merged(dict(faults=[dict(sample.faults()[0], rejected=-1)])))
        self.assertEqual((fault["rejected"], fault["accepted"]), ([], []))

    def test_the_summary_counts_and_fits(self):
        lines = status.summary(self.tables)
        total = len(sample.tables()["results"])
        self.assertIn(("results", f"{total - 7} of {total - 3} that ran passed, 1 failed, 1 out of memory, 2 timed out, 2 skipped, "
                                  "1 compiled, never run"), lines)
        self.assertIn(("planted faults", "6 of 6 rejected"), lines)
        self.assertIn(("time", "attention/online_softmax fwd_bwd fp32: ∝ T^2.00 up to 64Ki tokens"), lines)
        self.assertIn(("speed-up", "attention/online_softmax fwd_bwd fp32: 30× over cpu at 16Ki tokens"), lines)

    def test_the_summary_names_a_fault_that_nobody_saw(self):
        faults = [dict(row, rejected=0) if row["fault"] == "int32_offset" else row for row in sample.faults()]
        self.assertIn(("planted faults", "5 of 6 rejected; NOT SEEN: int32_offset"), status.summary(merged(dict(faults=faults))))

    def test_checks_of_replaced_rows_are_not_counted(self):
        again = power_law(2)
        check = dict(output="o", strategy="full", oracle="cpu", metric="rel_rms", value=1.0, limit=0.5)
        first = dict(devices=sample.CPU, results=again, checks=[dict(check, result=0, passed=0)])
        second = dict(devices=sample.CPU, results=again, checks=[dict(check, result=0, passed=1, limit=2.0)])
        self.assertIn(("comparisons", "1 of 1 within their limits"), status.summary(merged(first, second)))


if __name__ == "__main__":
    unittest.main()
