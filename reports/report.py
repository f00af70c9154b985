"""The folder of a report: written beside as DIR.tmp, then renamed, so that DIR is complete or as it was."""
import os
import shutil
from pathlib import Path

from reports import figures, page, status
from reports.merge import merge
from reports.read import BadFile, read

__all__ = ["BadFile", "FolderTaken", "build"]
MARKER = ".megatoken-report"  # in a report: the list of its files, so that nothing else is ever removed with it


class FolderTaken(Exception):
    """The output folder holds something that this program did not write."""


def build(paths, output):
    """Writes the report of these result files into the folder `output`; returns the summary with the path of the page."""
    folder = Path(output).resolve()
    _check_replaceable(folder, output)
    merged = merge([read(path) for path in paths])
    part = folder.with_name(folder.name + ".tmp")
    try:
        if (part / MARKER).exists():  # of a run that was killed
            shutil.rmtree(part)
        _write(merged, part)
        _replace(folder, part)
    except BaseException:
        if (part / MARKER).exists():
            shutil.rmtree(part, ignore_errors=True)
        raise
    return _summary(merged, Path(output) / "index.html").rstrip()


def _write(merged, part):
    part.mkdir(parents=True)
    (part / MARKER).touch()
    (part / "figures").mkdir()
    drawn = [(figure, figure.draw(merged, part / "figures" / figure.NAME)) for figure in figures.modules() if figure.applies(merged)]
    (part / "index.html").write_text(page.render(merged, drawn), encoding="utf-8")
    (part / "summary.txt").write_text(_summary(merged, "index.html"), encoding="utf-8")
    (part / MARKER).write_text("".join(f"{name}\n" for name in _files(part)), encoding="utf-8")


def _summary(merged, where):
    lines = status.summary(merged) + [("report", str(where))]
    return "".join(f"{label:<16}{text}\n" for label, text in lines)


def _check_replaceable(folder, name):
    """Nothing that we did not write may be lost: the folder is absent, empty, or a report to which nothing was added."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderTaken(f"{name}: exists and is not a folder; give another -o DIR")
    files = _files(folder)
    if files and not (folder / MARKER).exists():
        raise FolderTaken(f"{name}: exists and is not a report; give another -o DIR")
    if files:
        foreign = sorted(set(files) - set((folder / MARKER).read_text(encoding="utf-8").splitlines()))
        if foreign:
            raise FolderTaken(f"{name}: holds {foreign[0]}, which is not part of the report there; move it, or give another -o DIR")


def _files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.name != MARKER)


def _replace(folder, part):
    if not folder.exists():
        os.rename(part, folder)
        return
    old = folder.with_name(folder.name + ".old.tmp")
    os.rename(folder, old)
    os.rename(part, folder)
    shutil.rmtree(old)
