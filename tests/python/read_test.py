"""Reading a result file: tables as columns and rows, and one clear line for everything that is not a result file."""
import math
import tempfile
import unittest
from pathlib import Path

import h5py
import numpy
import sample
from reports.read import BadFile, read, rows


class Read(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = sample.write(self.folder / "x.h5", sample.tables())

    def refuse(self, path, *words):
        with self.assertRaises(BadFile) as caught:
            read(path)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        for word in (str(path), ";") + words:
            self.assertIn(word, message)

    def test_a_table_is_a_dict_of_columns(self):
        tables = read(self.file)
        results = tables["results"]
        self.assertEqual(len(results["key"]), len(sample.tables()["results"]))
        self.assertAlmostEqual(results["time_median"][results["variant"] == "online_softmax"][0], 0.03)
        self.assertIsInstance(results["key"][0], str)
        self.assertEqual(results["t"].dtype, numpy.int64)

    def test_missing_values_are_nan_minus_one_and_empty(self):
        results = read(self.file)["results"]
        row = list(results["status"]).index("timeout")
        self.assertTrue(math.isnan(results["time_median"][row]))
        self.assertEqual(results["comm_bytes"][row], -1)
        self.assertEqual(results["scheme"][row], "")

    def test_rows_are_dicts_of_plain_values(self):
        first = rows(read(self.file)["results"])[0]
        self.assertEqual((first["component"], first["t"], type(first["t"])), ("attention", 1024, int))

    def test_attributes_of_the_file_and_its_provenance_come_along(self):
        tables = read(self.file)
        self.assertEqual(tables.file["run_id"], sample.RUN_ID)
        self.assertEqual(list(tables.file["argv"]), ["megatoken", "sweep", "--suite", "demo"])
        self.assertTrue(tables.provenance["git_commit"].startswith("0123456789"))

    def test_every_table_of_the_schema_is_there_even_without_rows(self):
        tables = read(self.file)
        self.assertEqual(set(tables), set(sample.TABLES))
        self.assertEqual(rows(tables["timeline"]), [])

    def test_reduced_floats_and_other_groups_do_not_disturb(self):
        with h5py.File(self.file, "a") as file:
            file.create_group("tensors/0").create_dataset("q", data=numpy.zeros((4, 4), numpy.float16))
        self.assertNotIn("tensors", read(self.file))

    def test_a_newer_minor_version_is_read(self):
        self.assertIn("results", read(sample.write(self.folder / "minor.h5", sample.tables(), version="1.7")))

    def test_a_newer_major_version_is_refused(self):
        self.refuse(sample.write(self.folder / "major.h5", {}, version="2.0"), "2.0", "update Megatoken")

    def test_a_file_of_another_program_is_refused(self):
        with h5py.File(self.folder / "other.h5", "w") as file:
            file["x"] = 1
        self.refuse(self.folder / "other.h5", "not a Megatoken result file")
        self.refuse(sample.write(self.folder / "foreign.h5", {}, schema="somebody-else"), "not a Megatoken result file")

    def test_a_broken_version_is_refused(self):
        self.refuse(sample.write(self.folder / "broken.h5", {}, version="one"), "damaged")

    def test_missing_files_folders_and_texts_are_refused(self):
        (self.folder / "text.h5").write_text("time,tokens\n1,2\n")
        (self.folder / "empty.h5").touch()
        self.refuse(self.folder / "absent.h5", "no such file")
        self.refuse(self.folder, "directory")
        self.refuse(self.folder / "text.h5", "not an HDF5 file")
        self.refuse(self.folder / "empty.h5", "not an HDF5 file")

    def test_a_file_cut_anywhere_is_refused(self):
        whole = self.file.read_bytes()
        for cut in range(8, len(whole), len(whole) // 40):
            (self.folder / "cut.h5").write_bytes(whole[:cut])
            self.refuse(self.folder / "cut.h5", "damaged")

    def test_a_flipped_number_is_refused_by_its_checksum(self):
        with h5py.File(self.file) as file:
            data = file["results/time_median"].id
            place, size = data.get_chunk_info(0).byte_offset, data.get_chunk_info(0).size
        bad = bytearray(self.file.read_bytes())
        bad[place + size // 2] ^= 0x40
        (self.folder / "flipped.h5").write_bytes(bad)
        self.refuse(self.folder / "flipped.h5", "damaged")

    def test_columns_of_different_length_are_refused(self):
        with h5py.File(self.file, "a") as file:
            file["results/seed"].resize((3,))
        self.refuse(self.file, "results", "differ in length")

    def test_a_listed_column_that_is_gone_is_refused(self):
        with h5py.File(self.file, "a") as file:
            del file["results/seed"]
        self.refuse(self.file, "damaged", "seed")


if __name__ == "__main__":
    unittest.main()
