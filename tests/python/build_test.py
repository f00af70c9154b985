"""The report as a program: same input, same bytes; one clear line and the right exit code for bad input; nothing lost or half-written."""
import html.parser
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import sample

BUILD = sample.ROOT / "reports/build.py"


class Page(html.parser.HTMLParser):
    """What a page refers to, its headings in order and its text."""

    def __init__(self, path):
        super().__init__()
        self.references, self.headings, self.tags, self.words, self.inside = [], [], [], [], ""
        self.feed(Path(path).read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        self.tags.append(tag)
        self.references += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data):
        if self.inside == "style":
            return
        self.words.append(data)
        if self.inside == "h2":
            self.headings.append(data.strip())

    def handle_endtag(self, tag):
        self.inside = ""


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.small = sample.write(self.folder / "small.h5", dict(devices=sample.CPU, balance=sample.balance(), faults=sample.faults()))

    def run_build(self, *arguments, **more):
        return subprocess.run([sys.executable, BUILD, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, **more)

    def refuse(self, code, *arguments, says=(), **more):
        before = self.bytes(self.folder)
        done = self.run_build(*arguments, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in says:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(self.bytes(self.folder), before)

    def bytes(self, folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}

    def test_the_same_files_give_the_same_bytes(self):
        files = [sample.write(self.folder / f"{name}.h5", tables) for name, tables in
                 (("a", sample.tables()), ("g", sample.gpu_tables()), ("p", sample.plan_tables()))]
        for output in ("one", "deeper/two"):
            self.assertEqual(self.run_build(*files, "-o", self.folder / output, env={**os.environ, "TZ": "Asia/Tokyo"}).returncode, 0)
        one, two = self.bytes(self.folder / "one"), self.bytes(self.folder / "deeper/two")
        self.assertEqual(sorted(one), sorted(two))
        self.assertEqual([name for name in one if one[name] != two[name]], [])
        self.assertGreater(len([name for name in one if name.endswith(".svg")]), 10)

    def test_the_page_starts_with_the_status_and_needs_nothing_else(self):
        done = self.run_build(sample.write(self.folder / "a.h5", sample.tables()), "-o", "report")
        self.assertEqual(done.returncode, 0, done.stderr)
        page = Page(self.folder / "report/index.html")
        self.assertEqual(page.headings, ["Status", "Failures", "Where sweeps ended", "Figures", "Provenance",
                                         "Planted faults: what the checks can see"])
        for reference in page.references:
            inside = reference.startswith(("#", "data:image/svg+xml;base64,"))
            self.assertTrue(inside or (self.folder / "report" / reference).is_file(), reference[:80])
        self.assertNotIn("script", page.tags)
        self.assertIn("compiled, never run", page.text)
        self.assertIn("megatoken check 'kda/chunk_wy fwd fp32 ranks=1 b=1 t=4095", page.text)

    def test_the_summary_is_printed_and_kept(self):
        done = self.run_build(self.small, "-o", "report")
        self.assertIn("planted faults  6 of 6 rejected", done.stdout)
        self.assertIn("report          report/index.html", done.stdout)
        self.assertEqual((self.folder / "report/summary.txt").read_text(), done.stdout.replace("report/index.html", "index.html"))
        self.assertEqual(done.stderr, "")

    def test_words_of_a_file_are_text_on_the_page(self):
        row = sample.result("<script>alert(1)</script>", "v&w", 1024, status="fail", reason="x < y")
        self.run_build(sample.write(self.folder / "odd.h5", dict(results=[row])), "-o", "report")
        page = Page(self.folder / "report/index.html")
        self.assertNotIn("script", page.tags)
        self.assertIn("<script>alert(1)</script>", page.text)

    def test_a_run_that_was_aborted_is_reported_as_such(self):
        self.run_build(sample.write(self.folder / "half.h5", dict(devices=sample.CPU), status="aborted"), "-o", "report")
        self.assertIn("aborted: rows up to then", Page(self.folder / "report/index.html").text)

    def test_a_file_without_rows_gives_a_page_that_says_so(self):
        self.assertEqual(self.run_build(sample.write(self.folder / "none.h5", {}), "-o", "report").returncode, 0)
        self.assertIn("no checked or measured rows", Page(self.folder / "report/index.html").text)

    def test_a_report_is_replaced_by_a_newer_one(self):
        self.run_build(sample.write(self.folder / "p.h5", sample.plan_tables()), "-o", "report")
        self.assertTrue((self.folder / "report/figures/plan_memory.png").exists())
        self.assertEqual(self.run_build(self.small, "-o", "report").returncode, 0)
        self.assertFalse((self.folder / "report/figures/plan_memory.png").exists())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["p.h5", "report", "small.h5"])

    def test_an_empty_folder_and_a_link_to_one_may_be_filled(self):
        (self.folder / "empty").mkdir()
        (self.folder / "link").symlink_to("empty")
        self.assertEqual(self.run_build(self.small, "-o", "link").returncode, 0)
        self.assertTrue((self.folder / "empty/index.html").exists() and (self.folder / "link").is_symlink())

    def test_what_others_wrote_is_never_replaced(self):
        (self.folder / "work").mkdir()
        (self.folder / "work/thesis.txt").write_text("years")
        self.refuse(2, self.small, "-o", "work", says=["work", "not a report", "another -o DIR"])
        self.refuse(2, self.small, "-o", self.small, says=["not a folder"])
        self.run_build(self.small, "-o", "report")
        (self.folder / "report/notes.txt").write_text("mine")
        self.refuse(2, self.small, "-o", "report", says=["report", "notes.txt", "move it"])

    def test_a_half_written_folder_of_somebody_else_is_kept(self):
        (self.folder / "report.tmp").mkdir()
        (self.folder / "report.tmp/data").write_text("x")
        self.refuse(5, self.small, "-o", "report", says=["report.tmp"])

    def test_what_a_killed_build_left_is_cleared(self):
        (self.folder / "report.tmp/figures").mkdir(parents=True)
        (self.folder / "report.tmp/.megatoken-report").touch()
        self.assertEqual(self.run_build(self.small, "-o", "report").returncode, 0)
        self.assertFalse((self.folder / "report.tmp").exists())

    def test_bad_files_are_refused_with_their_name(self):
        (self.folder / "text.h5").write_text("hello")
        (self.folder / "cut.h5").write_bytes(self.small.read_bytes()[:3000])
        self.refuse(2, "text.h5", "-o", "report", says=["text.h5", "not an HDF5 file"])
        self.refuse(2, self.small, "cut.h5", "-o", "report", says=["cut.h5", "damaged"])
        self.refuse(2, "absent.h5", "-o", "report", says=["absent.h5", "no such file"])
        self.refuse(2, sample.write(self.folder / "new.h5", {}, version="9.0"), "-o", "report", says=["new.h5", "9.0", "update"])

    def test_wrong_arguments_are_refused(self):
        self.refuse(2, self.small, says=["-o"])
        self.refuse(2, "-o", "report", says=["RESULT.h5"])
        self.refuse(2, self.small, "-o", "report", "--colour", says=["--colour"])

    def test_a_place_that_cannot_be_written_is_an_environment_error(self):
        self.refuse(5, self.small, "-o", "/proc/report", says=["/proc/report", "cannot write"])

    def test_a_full_disk_leaves_nothing_and_the_old_report_whole(self):
        def no_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        self.refuse(5, self.small, "-o", "report", says=["cannot write"], preexec_fn=no_room)
        self.run_build(self.small, "-o", "report")
        self.refuse(5, self.small, "-o", "report", says=["cannot write"], preexec_fn=no_room)

    def test_a_missing_package_is_named(self):
        (self.folder / "broken").mkdir()
        (self.folder / "broken/h5py.py").write_text("raise ModuleNotFoundError('no', name='h5py')\n")
        self.refuse(5, self.small, "-o", "report", says=["h5py", "./run deps"],
                    env={**os.environ, "PYTHONPATH": str(self.folder / "broken"), "PYTHONDONTWRITEBYTECODE": "1"})


if __name__ == "__main__":
    unittest.main()
