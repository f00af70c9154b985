"""Every figure is drawn from sample files; what it says in its CSV and in words is held against the numbers put in."""
import csv
import struct
import tempfile
import unittest
from pathlib import Path

import numpy
import sample
from matplotlib.colors import to_rgb
from reports import figures, look, page
from series_test import merged, power_law

FIGURES = {figure.NAME: figure for figure in figures.modules()}


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.tables = merged(sample.tables(), sample.gpu_tables(), sample.plan_tables())
        cls.drawings = {name: figure.draw(cls.tables, cls.folder / name) for name, figure in FIGURES.items() if figure.applies(cls.tables)}

    def rows(self, stem):
        with open(self.folder / f"{stem}.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def svg(self, stem):
        return (self.folder / f"{stem}.svg").read_text(encoding="utf-8")

    def test_each_applies_to_some_sample(self):
        self.assertEqual(set(self.drawings), set(FIGURES))
        self.assertEqual({path.stem for path in (sample.ROOT / "reports/figures").glob("*.py")} - {"__init__"}, set(FIGURES))

    def test_none_applies_to_an_empty_file(self):
        for figure in FIGURES.values():
            self.assertFalse(figure.applies(merged({})), figure.NAME)

    def test_any_table_may_be_absent(self):
        for absent in sample.tables():
            tables = merged({name: rows for name, rows in sample.tables().items() if name != absent})
            applies = {figure.NAME for figure in FIGURES.values() if figure.applies(tables)}
            self.assertIn("<h2 id=\"status\">", page.render(tables, []))
            for name in applies & {"balance", "time_vs_tokens"}:
                self.assertTrue(FIGURES[name].draw(tables, self.folder / "absent"), f"{name} without {absent}")
            self.assertEqual("balance" in applies, absent != "balance")
            self.assertEqual("error_vs_tokens" in applies, absent not in ("results", "checks"))
            self.assertEqual("time_vs_tokens" in applies, absent != "results")

    def test_each_is_written_as_png_svg_and_csv(self):
        for drawings in self.drawings.values():
            self.assertTrue(drawings)
            for drawing in drawings:
                png = Path(f"{drawing.stem}.png").read_bytes()
                width, height = struct.unpack(">II", png[16:24])
                self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
                self.assertAlmostEqual(width, drawing.width * 150, delta=1)
                self.assertLess(drawing.width, look.Sheet.WIDEST + 0.01)
                self.assertGreater(height, 250)
                self.assertIn("<svg", Path(f"{drawing.stem}.svg").read_text(encoding="utf-8"))
                self.assertGreater(len(self.rows(drawing.stem.name)), 0)

    def test_no_picture_holds_a_date_or_a_version(self):
        for path in self.folder.glob("*.svg"):
            for word in ("dc:date", "dc:creator", "Matplotlib v"):
                self.assertNotIn(word, path.read_text(encoding="utf-8"), path.name)
        for path in self.folder.glob("*.png"):
            for word in (b"tEXt", b"tIME", b"Matplotlib"):
                self.assertNotIn(word, path.read_bytes(), path.name)

    def test_slopes_of_time_are_those_put_in(self):
        slopes = {(row["variant"], row["scheme"], row["phase"], row["dtype"]): float(row["slope"]) for stem in ("attention", "kda")
                  for row in self.rows(f"time_vs_tokens-{stem}") if row["slope"]}
        self.assertAlmostEqual(slopes["online_softmax", "", "fwd_bwd", "fp32"], 2.0, places=6)
        self.assertAlmostEqual(slopes["wgmma_sm90", "", "fwd_bwd", "bf16"], 2.0, places=6)
        self.assertAlmostEqual(slopes["chunk_wy", "", "bwd", "fp32"], 1.0, places=6)

    def test_the_table_of_slopes_has_time_memory_and_error_of_every_phase(self):
        rows = {(row["component"], row["variant"], row["scheme"], row["ranks"], row["phase"], row["dtype"]): row for row in self.rows("slopes")}
        row = rows["attention", "online_softmax", "", "1", "fwd_bwd", "fp32"]
        for name, slope in (("time", 2.0), ("memory", 1.0), ("error", 0.1)):
            self.assertAlmostEqual(float(row[f"{name}_slope"]), slope, places=4)
        self.assertEqual((row["tokens_from"], row["tokens_to"], row["lengths"]), ("4096", "65536", "5"))
        self.assertAlmostEqual(float(rows["attention", "cpu", "", "1", "fwd_bwd", "fp32"]["memory_slope"]), 2.0, places=4)
        self.assertAlmostEqual(float(rows["kda", "chunk_wy", "", "1", "bwd", "fp32"]["time_slope"]), 1.0, places=4)
        self.assertEqual(rows["kda", "chunk_wy", "", "1", "bwd", "fp32"]["memory_slope"], "")
        self.assertIn("<!-- attention/online_softmax fwd_bwd fp32 h=4 hk=2 d=64 -->".replace("fp32 ", "fp32  "), self.svg("slopes"))

    def test_errors_come_with_their_slopes(self):
        self.assertTrue(any("<!-- tokens  ·  slopes: " in self.svg(path.stem) for path in self.folder.glob("error_vs_tokens*.svg")))

    def test_the_reason_of_a_stop_is_written_beside_its_cross(self):
        for words in ("<!-- timeout at 32Ki -->", "<!-- slope 2.00 -->", "<!-- ∝T² -->"):
            self.assertIn(words, self.svg("time_vs_tokens-attention"))
        self.assertIn("<!-- oom at 4Mi -->", self.svg("time_vs_tokens-kda"))

    def test_errors_come_with_yardstick_limit_and_strategy(self):
        rows = self.rows("error_vs_tokens-attention-fp32")
        row = next(row for row in rows if (row["output"], row["variant"], row["scheme"]) == ("dk", "online_softmax", ""))
        tokens = int(row["tokens"])
        self.assertAlmostEqual(float(row["value"]), 1.5e-7 * tokens**0.1 * 1.6, delta=1e-12)
        self.assertAlmostEqual(float(row["yardstick"]), 2.4e-7 * 1.6 * tokens**0.1, delta=1e-12)
        self.assertEqual(row["strategy"], "full")
        for words in ("<!-- yardstick -->", "<!-- limit -->", "<!-- rows -->", "<!-- dk  ·  aimed inputs -->"):
            self.assertIn(words, self.svg("error_vs_tokens-attention-fp32"))

    def test_every_output_that_was_checked_is_in_the_csv(self):
        self.assertEqual({row["output"] for row in self.rows("error_vs_tokens-attention-fp32")}, {"o", "lse", "dq", "dk", "dv"})

    def test_speed_up_is_the_ratio_of_times(self):
        row = next(row for row in self.rows("speedup_vs_tokens-attention") if row["variant"] == "online_softmax" and not row["scheme"])
        self.assertAlmostEqual(float(row["value"]), 30.0, places=6)
        self.assertIn("<!-- mean 30× -->", self.svg("speedup_vs_tokens-attention"))

    def test_memory_says_how_far_the_prediction_is_off(self):
        self.assertIn("<!-- online_softmax  slope 1.00, 2 % off -->", self.svg("memory_vs_tokens-attention"))

    def test_balance_shows_the_known_pairs(self):
        picture = self.svg("balance")
        for words in ("slowest / mean: contiguous 1.71, zigzag 1.00", "sum: contiguous 58, zigzag 34", "sum: contiguous 122, zigzag 66"):
            self.assertIn(f"<!-- {words} -->", picture)
        for pairs in (10, 26, 42, 58, 34, 66, 74, 90, 106, 122):
            self.assertIn(f"<!-- {pairs} -->", picture)

    def test_balance_reads_totals_as_well_as_steps(self):
        rows = sample.balance()
        totals = {}
        for row in rows:
            place = tuple(row[name] for name in ("scheme", "tokens", "ranks", "rank"))
            totals[place] = totals.get(place, 0) + row["pairs"]
        rows += [dict(zip(("scheme", "tokens", "ranks", "rank"), place), step=-1, pairs=pairs) for place, pairs in totals.items()]
        FIGURES["balance"].draw(merged(dict(balance=rows)), self.folder / "totals")
        self.assertIn("<!-- slowest / mean: contiguous 1.71, zigzag 1.00 -->", self.svg("totals"))

    def test_a_ledger_that_differs_from_its_formula_is_said(self):
        def draw(extra):
            rows = [sample.result("attention", "online_softmax", 4096, scheme="ring", ranks=ranks, comm_predicted=1000 * ranks,
                                  comm_bytes=1000 * ranks + extra * (ranks == 4)) for ranks in (2, 4, 8)]
            FIGURES["comm_vs_ranks"].draw(merged(rows), self.folder / "ledger")
            return self.svg("ledger-attention")
        self.assertIn("<!-- equal, byte for byte -->", draw(0))
        self.assertIn("<!-- 1 of 3 differ -->", draw(1))

    def test_a_fault_that_nobody_rejects_stands_out(self):
        faults = [dict(row, rejected=0) if row["fault"] == "old_output" else row for row in sample.faults()]
        self.assertNotIn("NOT SEEN", self.svg("planted_faults-attention"))
        FIGURES["planted_faults"].draw(merged(dict(faults=faults)), self.folder / "unseen")
        self.assertIn("NOT SEEN", self.svg("unseen-attention"))
        self.assertIn("5 of 6 faults rejected", self.svg("unseen-attention"))

    def test_a_strategy_that_accepted_every_fault_is_named_instead_of_drawn(self):
        faults = [dict(row, strategy="hygiene", rejected=0) for row in sample.faults()[:1]] + sample.faults()
        FIGURES["planted_faults"].draw(merged(dict(faults=faults)), self.folder / "blind")
        self.assertIn("looked and accepted every fault: hygiene", self.svg("blind-attention"))
        self.assertNotIn("<!-- hygiene -->", self.svg("blind-attention"))

    def test_what_does_not_fit_is_above_the_capacity(self):
        picture = self.svg("plan_memory")
        self.assertIn("178 GiB -->", picture)
        self.assertIn("<!-- 193 GiB -->", picture)       # the sum at 1Mi tokens, without host memory
        self.assertIn("host", {row["category"] for row in self.rows("plan_memory")})

    def test_predictions_count_only_what_the_sources_allow(self):
        self.assertIn("2 of 3 measurements are predicted within 5 %", FIGURES["plan_published"].draw(self.tables, self.folder / "published")[0].says)
        self.assertEqual(len(self.rows("plan_published")), 4)  # the floor is in the CSV all the same

    def test_every_caption_names_run_commit_device_and_samples(self):
        for words in ("run 1run · commit 0123456789, 4 × NVIDIA H200", "AMD EPYC 9454 (2 cores), clocks as-is", "n = 15 samples a point"):
            self.assertIn(words, self.svg("time_vs_tokens-attention"))

    def test_hollow_markers_are_those_not_verified(self):
        def whites(distributions):
            rows = [row for name in distributions for row in power_law(2, distribution=name)]
            FIGURES["time_vs_tokens"].draw(merged(rows), self.folder / "hollow")
            return self.svg("hollow-attention").count("fill: #ffffff; stroke: #0072b2")
        self.assertEqual(whites(["normal", "aimed"]), 0)
        self.assertGreater(whites(["normal"]), 0)

    def test_a_large_sweep_of_many_shapes_stays_one_page(self):
        rows = [row for heads in range(1, 9) for row in power_law(2, axes=dict(h=heads, d=64))]
        rows += [row for ranks in range(2, 13) for row in power_law(2, axes=dict(h=1, d=64), scheme="ring", ranks=ranks)]
        (drawing,) = FIGURES["time_vs_tokens"].draw(merged(rows), self.folder / "large")
        self.assertIn("4 more shapes are in the CSV", self.svg("large-attention"))
        self.assertEqual(len({row["shape"] for row in self.rows("large-attention")}), 8)


def lab(linear):
    """CIELAB of linear RGB rows."""
    xyz = linear @ numpy.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T / (0.95047, 1, 1.08883)
    x, y, z = numpy.where(xyz > 0.008856, numpy.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    return numpy.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


class Look(unittest.TestCase):
    def test_colours_differ_within_a_component_and_keep_to_their_variant(self):
        members = (("a", 8), ("b", 3), ("c", 5))
        rows = [sample.result(component, f"v{number}", 1024) for component, count in members for number in range(count)]
        rows += [sample.result("c", "only_here", 1024), sample.result("a", "cpu", 1024), sample.result("a", "cublas_tn", 1024)]
        colours = look.variant_colours(merged(rows))
        self.assertEqual(len({colours[f"v{number}"] for number in range(8)}), 8)
        self.assertNotIn(colours["only_here"], {colours[f"v{number}"] for number in range(5)})
        self.assertEqual(len(set(colours[name].upper() for name in ("cpu", "cublas_tn")) & set(look.PALETTE)), 0)

    def test_colours_do_not_depend_on_the_order_of_rows(self):
        rows = [sample.result("a", f"v{number}", 1024) for number in range(6)]
        self.assertEqual(look.variant_colours(merged(rows)), look.variant_colours(merged(rows[::-1])))

    def test_colours_are_told_apart_without_one_kind_of_cone(self):
        missing = {  # what is left of linear RGB, after Machado, Oliveira and Fernandes 2009, at full severity
            "long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
            "middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
            "short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]}
        colours = numpy.array([to_rgb(colour) for colour in look.PALETTE + (look.GREY,)])
        linear = numpy.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
        for cone, left in {**missing, "none": numpy.eye(3)}.items():
            seen = lab(numpy.clip(linear @ numpy.array(left).T, 0, 1))
            distance = numpy.linalg.norm(seen[:, None] - seen[None], axis=-1) + 1000 * numpy.eye(len(seen))
            self.assertGreater(distance.min(), 14, f"without {cone}")

    def test_unknown_schemes_get_markers_of_their_own(self):
        together = merged([sample.result("a", "v", 1024, scheme=scheme) for scheme in ("ring", "x1", "x2")])
        self.assertEqual(len({look.scheme_marker(together, scheme) for scheme in ("ring", "x1", "x2")}), 3)

    def test_numbers_are_short(self):
        self.assertEqual([look.tokens(n) for n in (65536, 2**20, 3 * 2**19, 1000, 4095)], ["64Ki", "1Mi", "1.5Mi", "1000", "4095"])
        self.assertEqual([look.scaled(n, "s") for n in (0.0123, 5e-6, 2.0, 1e-3, 0)], ["12.3 ms", "5 µs", "2 s", "1 ms", "0"])
        self.assertEqual([look.size(n) for n in (0, 1, 1024, 178 * 2**30)], ["0", "1 B", "1 KiB", "178 GiB"])
        self.assertEqual([look.rounded_tokens(n) for n in (8675309, 500)], ["8.27Mi", "500"])


if __name__ == "__main__":
    unittest.main()
