"""Curves from rows: slopes, which rows count, what is verified, what a speed-up is over; several files as one."""
import math
import tempfile
import unittest
from pathlib import Path

import numpy
import sample
from reports import series
from reports.curves import spread
from reports.merge import merge
from reports.read import read


def merged(*lists, **attributes):
    """One file a list of result rows, merged; rows may also be whole dicts of tables."""
    tables = [rows if isinstance(rows, dict) else dict(devices=sample.CPU, results=rows) for rows in lists]
    with tempfile.TemporaryDirectory() as folder:
        files = [read(sample.write(Path(folder) / f"{number}.h5", content, run_id=f"{number}run", **attributes))
                 for number, content in enumerate(tables)]
    return merge(files)


def power_law(power, lengths=range(10, 17), **more):
    return [sample.result("attention", "online_softmax", 2**k, seconds=1e-6 * (2**k / 1024) ** power, **more) for k in lengths]


class Slopes(unittest.TestCase):
    def test_a_power_law_gives_its_power(self):
        x = 2.0 ** numpy.arange(10, 21)
        for power in (0.0, 0.5, 1.0, 1.5, 2.0):
            self.assertAlmostEqual(series.slope(x, 3e-7 * x**power), power, places=10)

    def test_the_constant_cost_of_short_lengths_does_not_flatten_it(self):
        x = 2.0 ** numpy.arange(4, 21)
        self.assertGreater(series.slope(x, 1e-3 + 1e-10 * x**2), 1.99)

    def test_it_is_fitted_over_the_longest_factor_of_sixteen(self):
        x = numpy.array([1.0, 2, 4, 8, 16, 32, 64])
        y = numpy.array([9.0, 7, 4, 8, 16, 32, 64])  # linear from 4 on
        self.assertAlmostEqual(series.slope(x, y), 1.0, places=10)
        y[2] = 5
        self.assertNotAlmostEqual(series.slope(x, y), 1.0, places=3)

    def test_fewer_than_three_lengths_have_none(self):
        self.assertTrue(math.isnan(series.slope([1, 2], [1, 4])))
        self.assertTrue(math.isnan(series.slope([1, 2, 1024], [1, 4, 9])))

    def test_noise_of_a_few_percent_moves_it_little(self):
        x = 2.0 ** numpy.arange(10, 17)
        y = x**2 * (1 + 0.03 * numpy.sin(numpy.arange(7) * 2.4))
        self.assertAlmostEqual(series.slope(x, y), 2.0, delta=0.02)


class Panels(unittest.TestCase):
    TIME = staticmethod(series.positive("time_median"))

    def test_a_curve_holds_its_lengths_in_order_and_its_slope(self):
        (panel,) = series.panels(merged(power_law(2)[::-1]), "attention", self.TIME)
        (curve,) = panel.curves
        self.assertEqual(curve.x.tolist(), [2**k for k in range(10, 17)])
        self.assertAlmostEqual(curve.slope, 2.0, places=6)
        self.assertEqual(panel.shape, "b=1 h=4 hk=2 d=64")

    def test_shapes_and_dtypes_are_panels_of_their_own(self):
        rows = power_law(2) + power_law(2, dtype="bf16") + power_law(2, axes=dict(h=8, hk=8, d=64))
        self.assertEqual(len(series.panels(merged(rows), "attention", self.TIME)), 3)

    def test_who_did_the_work_makes_curves_of_one_panel(self):
        rows = power_law(2) + power_law(2, scheme="ring", ranks=2) + power_law(2, scheme="ring", ranks=4) + power_law(2, phase="fwd")
        (panel,) = series.panels(merged(rows), "attention", self.TIME)
        self.assertEqual(sorted(curve.name for curve in panel.curves),
                         ["online_softmax", "online_softmax", "online_softmax@ring ×2", "online_softmax@ring ×4"])

    def test_a_single_length_is_no_curve(self):
        self.assertEqual(series.panels(merged(power_law(2)[:1]), "attention", self.TIME), [])

    def test_rows_without_a_value_are_left_out(self):
        rows = power_law(2) + [sample.result("attention", "online_softmax", 2**17)]
        (panel,) = series.panels(merged(rows), "attention", self.TIME)
        self.assertEqual(panel.curves[0].x[-1], 2**16)

    def test_normal_inputs_are_preferred(self):
        rows = power_law(2, distribution="extreme") + [dict(row, time_median=1.0) for row in power_law(2)[:1]]
        (panel,) = series.panels(merged(rows), "attention", self.TIME)
        self.assertEqual(panel.curves[0].y[0], 1.0)

    def test_the_first_length_without_an_end_stops_the_curve(self):
        ends = ((18, "oom"), (17, "timeout"))
        rows = power_law(2) + [sample.result("attention", "online_softmax", 2**k, status=status) for k, status in ends]
        (panel,) = series.panels(merged(rows), "attention", self.TIME)
        self.assertEqual((panel.curves[0].stop["status"], panel.curves[0].stop["t"]), ("timeout", 2**17))

    def test_a_stop_below_the_end_is_none(self):
        rows = power_law(2) + [sample.result("attention", "online_softmax", 2**12, status="timeout", distribution="aimed")]
        (panel,) = series.panels(merged(rows), "attention", self.TIME)
        self.assertIsNone(panel.curves[0].stop)

    def test_axes_that_follow_from_others_make_no_panels(self):
        rows = [dict(row, s=row["t"], scale=0.0) for row in power_law(2)]  # columns that the key leaves out
        self.assertEqual(len(series.panels(merged(rows), "attention", self.TIME)), 1)


class Verified(unittest.TestCase):
    def verified(self, rows):
        together = merged(rows)
        return [series.is_verified(together)(row) for row in together.rows("results")]

    def row(self, distribution, **more):
        return sample.result("attention", more.pop("variant", "online_softmax"), 1024, distribution=distribution, **more)

    def test_it_takes_normal_and_aimed_inputs(self):
        self.assertEqual(self.verified([self.row("normal"), self.row("aimed")]), [True, True])
        self.assertEqual(self.verified([self.row("normal"), self.row("extreme")]), [False, False])

    def test_a_failure_with_either_is_not_verified(self):
        self.assertEqual(self.verified([self.row("normal"), self.row("aimed", status="fail")]), [False, False])

    def test_other_cases_do_not_help(self):
        self.assertEqual(self.verified([self.row("normal"), self.row("aimed", dtype="bf16"), self.row("aimed", ranks=2, scheme="ring")]),
                         [False, False, False])

    def test_naive_variants_only_have_to_pass(self):
        self.assertEqual(self.verified([self.row("normal", variant="cpu"), self.row("aimed", variant="cpu", status="fail")]), [True, False])


class SpeedUp(unittest.TestCase):
    def speedups(self, rows):
        together = merged(dict(devices=sample.H200[:1] + sample.CPU, results=rows))
        return [series.against_naive(together)(row) for row in together.rows("results")]

    def test_it_is_over_the_naive_variant_of_the_same_device_and_inputs(self):
        row = dict(dtype="bf16", tokens=1024)
        naive_cpu, naive_gpu, fast_cpu, fast_gpu, other = self.speedups([
            sample.result("attention", "cpu", seconds=8.0, **row), sample.result("attention", "gpu", seconds=2.0, device="gpu", **row),
            sample.result("attention", "online_softmax", seconds=1.0, **row),
            sample.result("attention", "wgmma_sm90", seconds=0.5, device="gpu", **row),
            sample.result("attention", "online_softmax", seconds=1.0, distribution="aimed", **row)])
        self.assertEqual((fast_cpu, fast_gpu), ((8.0, "cpu"), (4.0, "gpu")))
        for factor, name in (naive_cpu, naive_gpu, other):
            self.assertTrue(math.isnan(factor) and name == "")


class Merge(unittest.TestCase):
    def test_checks_follow_their_results(self):
        together = merged(sample.tables(), sample.gpu_tables(), sample.tables())
        keys = together["results"]["key"]
        for check in together.rows("checks")[:: 37]:
            self.assertEqual(together["results"]["run"][check["result"]], check["run"])
            self.assertIn(f"t={int(check['worst_index'].split('t=')[1].split(',')[0]) + 1} ", keys[check["result"]])

    def test_a_case_measured_again_counts_once_and_the_last_file_wins(self):
        together = merged(power_law(2), [dict(row, time_median=7.0) for row in power_law(2)[:1]])
        self.assertEqual(len(together.rows("results")), 7)
        self.assertEqual([row["time_median"] for row in together.rows("results") if row["t"] == 1024], [7.0])

    def test_the_same_case_on_another_device_counts_by_itself(self):
        other = [dict(sample.CPU[0], name="Another CPU")]
        together = merged(power_law(2), dict(devices=other, results=power_law(2)))
        self.assertEqual(len(together.rows("results")), 14)

    def test_columns_that_one_file_lacks_are_missing_there(self):
        together = merged(power_law(2), power_law(2, axes=dict(c=512)))
        self.assertEqual({row["c"] for row in together.rows("results")}, {-1, 512})
        self.assertEqual(len(series.panels(together, "attention", Panels.TIME)), 2)

    def test_a_balance_counted_without_a_run_keeps_no_result(self):
        self.assertEqual(set(merged(sample.tables(), sample.tables())["balance"]["result"]), {-1})

    def test_devices_are_counted_once(self):
        shared = [dict(sample.CPU[0], rank=rank) for rank in range(4)]
        (run,) = merged(dict(devices=shared + sample.H200)).runs
        self.assertEqual((run.cpus, run.gpus), ("AMD EPYC 9454 (2 cores)", "4 × NVIDIA H200"))
        self.assertEqual(merged(dict(devices=sample.CPU)).runs[0].device("gpu"), "no GPU")


class Labels(unittest.TestCase):
    def test_they_keep_their_order_do_not_overlap_and_stay_inside(self):
        random = numpy.random.default_rng(1)
        for _ in range(300):
            count = random.integers(1, 8)
            wanted, heights = random.uniform(-20, 220, count), random.uniform(10, 24, count)
            places = numpy.array(spread(list(wanted), list(heights), 200.0))
            order = numpy.argsort(wanted, kind="stable")
            gaps = numpy.diff(places[order]) - (heights[order][1:] + heights[order][:-1]) / 2
            self.assertTrue((gaps > -1e-9).all())
            self.assertGreaterEqual((places - heights / 2).min(), -1e-9)
            self.assertLessEqual((places + heights / 2).max(), 200 + 1e-9)

    def test_labels_with_room_stay_where_they_want_to_be(self):
        self.assertEqual(spread([150.0, 50.0], [20.0, 20.0], 200.0), [150.0, 50.0])


if __name__ == "__main__":
    unittest.main()
