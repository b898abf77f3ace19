# SPDX-License-Identifier: Apache-2.0
"""Every example runs, prints what its golden file says, and is short; the C++ one agrees with its Python twin."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(
    path for pattern in ("[0-9][0-9]_*.py", "[0-9][0-9]_*/*.py") for path in (ROOT / "example").glob(pattern)
)
LONGEST = 60


def environment() -> dict[str, str]:
    """Nothing of the caller's that changes what an example prints; the tools of the virtual environment first."""
    ours = {n: v for n, v in os.environ.items() if not n.startswith("MSKPP_") or n == "MSKPP_CACHE_DIR"}
    path = str(Path(sys.executable).parent) + os.pathsep + ours.get("PATH", os.defpath)
    return {**ours, "PYTHONUTF8": "1", "PATH": path}


def run(*command: str | Path) -> str:
    """The standard output of a command that has to succeed."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, env=environment(), capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{parts} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def number(example: Path) -> str:
    return example.relative_to(ROOT / "example").parts[0][:2]


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_prints_its_golden(example: Path, golden: Callable[[str, str], None]) -> None:
    output = run(sys.executable, example)
    folders = set(re.findall(r"\S*MSKPP\d{14}(?:_\d+)?", output))
    assert {Path(folder).parent for folder in folders} <= {Path.cwd()}
    for folder in folders:
        output = output.replace(folder, "<output folder>")
    golden(f"example_{number(example)}.txt", output)


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_is_short_and_explained(example: Path) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# SPDX-License-Identifier: Apache-2.0"
    assert lines[1].startswith('"""')
    assert len(lines) < LONGEST


def test_every_example_is_in_the_table() -> None:
    table = (ROOT / "example" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[([\w/.]+)\]\(\1\)", table, re.MULTILINE)
    cpp = sorted((ROOT / "example" / "cpp").glob("*.cpp"))
    assert listed == [str(path.relative_to(ROOT / "example")) for path in (*EXAMPLES, *cpp)]
    numbers = [number(path) for path in EXAMPLES]
    assert numbers == [f"{i:02}" for i in range(1, len(EXAMPLES) + 1)]


def test_demo_files_are_written() -> None:
    output = run(sys.executable, ROOT / "example" / "01_matmul.py")
    folder = Path(re.findall(r"\S*MSKPP\d{14}(?:_\d+)?", output)[0])
    written = {file.name: file.stat().st_size for file in folder.iterdir()}
    assert set(re.findall(r"^  (\S+)$", output, re.MULTILINE)) == set(written)
    assert len(written) == 4 and min(written.values()) > 100


def blocks_of_cpp_page() -> dict[str, str]:
    """The files that docs/cpp.md shows."""
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_docs"] = module
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "cpp.md").read_text(encoding="utf-8")
    return {block.file: block.text for block in module.read_blocks(page) if block.file is not None}


# Debug compiles fastest; both halves in one test, so that the library is compiled once.
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake", path=environment()["PATH"]) is None, reason="needs cmake")
def test_cpp_example_and_installed_library(tmp_path: Path) -> None:
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=environment()["PATH"]) else []
    build, prefix, user = tmp_path / "build", tmp_path / "prefix", tmp_path / "user"
    options = ["-DMSKPP_BUILD_EXAMPLES=ON", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_INSTALL_PREFIX={prefix}"]
    run("cmake", "-S", ROOT, "-B", build, *generator, *options)
    run("cmake", "--build", build)
    output = run(build / "bin" / "example" / "matmul", ROOT / "mskpp" / "data")
    total = re.search(r"([\d,]+) cycles, 750 instructions", run(sys.executable, ROOT / "example" / "01_matmul.py"))
    assert total is not None
    assert output.splitlines()[0] == f"Ascend910B1: {total[1].replace(',', '')} cycles"

    run("cmake", "--install", build)
    user.mkdir()
    for name, text in blocks_of_cpp_page().items():
        (user / name).write_text(text, encoding="utf-8")
    run("cmake", "-S", user, "-B", user / "build", *generator, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", user / "build")
    printed = run(user / "build" / "my_model", prefix / "share" / "mskpp" / "data").strip()
    page = (ROOT / "docs" / "cpp.md").read_text(encoding="utf-8")
    assert f"prints `{printed}`" in page
    assert f"{int(printed.split()[0]):,} cycles" in (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
