"""Result files -> one folder with a page, its figures as PNG, SVG and CSV, and a summary in a few lines.

    python3 reports/build.py RESULT.h5 [MORE.h5 ...] -o DIR

The same files give the same bytes. DIR appears complete or not at all, and nothing that is not an older report is replaced.
Exit code: 0 written, 2 wrong arguments or input files, 5 the machine failed (disk, missing Python package).
"""
import argparse
import logging
import sys
from pathlib import Path

WRITTEN, USAGE, ENVIRONMENT = 0, 2, 5


class WrongArguments(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise WrongArguments(f"{message}; usage: {self.format_usage().removeprefix('usage: ').strip()}")


def main(arguments):
    parser = Parser(prog="megatoken report", description="result files -> HTML, PNG, SVG, CSV")
    parser.add_argument("results", nargs="+", metavar="RESULT.h5", help="files that check, bench, sweep or plan wrote")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to make; an older report there is replaced")
    try:
        options = parser.parse_args(arguments)
    except WrongArguments as error:
        return refuse(error, USAGE)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no words about its caches
    try:
        from reports import report
    except ImportError as error:
        return refuse(f"{sys.executable} has no package {error.name}; install python3-numpy, python3-matplotlib, python3-h5py and "
                      "python3-jinja2, as ./run deps does", ENVIRONMENT)
    try:
        print(report.build(options.results, options.output))
    except (report.BadFile, report.FolderTaken) as error:
        return refuse(error, USAGE)
    except OSError as error:
        return refuse(f"{error.filename or options.output}: cannot write ({error.strerror or error}); free space, or give another -o DIR",
                      ENVIRONMENT)
    return WRITTEN


def refuse(message, code):
    print(f"megatoken: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the folder of the package
    sys.exit(main(sys.argv[1:]))
