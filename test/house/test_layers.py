# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, checked on the source text: layers, no hidden state, one list of everything."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
PACKAGE = ROOT / "mskpp"

# Each may include what stands before it, and itself. The public headers count as the folder that implements them.
LAYERS = [
    "base",
    "chip",
    "prof_data",
    "instr",
    "program",
    "schedule",
    "lint",
    "analysis",
    "trace",
    "metrics",
    "bindings",
]
HEADER_LAYER = {
    "error.h": "base",
    "chunked_vector.h": "base",
    "types.h": "chip",
    "chip.h": "chip",
    "cost.h": "prof_data",
    "instruction.h": "instr",
    "tensor.h": "program",
    "program.h": "program",
    "schedule.h": "schedule",
    "lint.h": "lint",
    "analysis.h": "analysis",
    "memory_use.h": "analysis",
    "roofline.h": "analysis",
    "trace.h": "trace",
    "metrics.h": "metrics",
    "mskpp.h": "bindings",
}
SOURCES = sorted(p for p in CSRC.rglob("*") if p.suffix in (".h", ".cpp"))
PYTHON = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> int:
    folder = path.relative_to(CSRC).parts[0]
    return LAYERS.index(HEADER_LAYER[path.name] if folder == "include" else folder)


def includes(path: Path) -> list[Path]:
    found = []
    for name in re.findall(r'#include "([^"]+)"', path.read_text()):
        candidates = [CSRC / name, CSRC / "include" / name]
        assert any(c.exists() for c in candidates), f"{path} includes {name}, which is nowhere"
        found.append(next(c for c in candidates if c.exists()))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(CSRC)))
def test_cpp_includes_go_downward(path: Path) -> None:
    for included in includes(path):
        # trace and metrics stand beside each other.
        same = {layer_of(path), layer_of(included)} == {LAYERS.index("trace"), LAYERS.index("metrics")}
        assert layer_of(included) <= layer_of(path) and not same, f"{included.name} is above {path.name}"


@pytest.mark.parametrize("path", [p for p in SOURCES if "bindings" not in p.parts], ids=lambda p: p.name)
def test_core_knows_no_python(path: Path) -> None:
    assert not re.search(r"Python\.h|nanobind|PyObject", path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_no_mutable_globals_in_cpp(path: Path) -> None:
    """Statics are constant. The bindings have one place for what Python hands over, and their two C types."""
    allowed = {
        "static State* the_state = new State();  // never destroyed: it holds Python objects beyond main()",
        "static LineCache cache;",
        "PyTypeObject* instruction_type = nullptr;",
        "PyTypeObject* launch_type = nullptr;",
    }
    for line in path.read_text().splitlines():
        text = line.strip()
        if text in allowed and "bindings" in path.parts:
            continue
        if re.match(r"static\s", text) and not re.match(r"static (const|constexpr)\b", text):
            assert "(" in text, f"{path.name}: {text}"  # a function
        if re.match(r"thread_local\b", text):
            pytest.fail(f"{path.name}: {text}")


def test_macros_are_include_guards_or_bindings() -> None:
    for path in SOURCES:
        for line in path.read_text().splitlines():
            assert not line.startswith("#define"), f"{path.name}: {line}"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", [p for p in PYTHON if "core" in p.parts], ids=lambda p: p.name)
def test_dsl_does_not_know_the_reports_at_import(path: Path) -> None:
    """Only chip.py, inside the functions that end a block, reaches for the reports."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            assert not node.module.startswith("mskpp.report"), f"{path.name} imports {node.module} at the top"


@pytest.mark.parametrize("path", [p for p in PYTHON if "launcher" in p.parts], ids=lambda p: p.name)
def test_launching_and_modelling_do_not_know_each_other(path: Path) -> None:
    """The launcher shares the errors, the log and the version with the model, and nothing else."""
    used = {name for name in imports(path) if name.startswith("mskpp.") and not name.startswith("mskpp.launcher")}
    assert {name.split(".")[1] for name in used} <= {"errors", "log", "__version__", "core"}, used
    assert not {name for name in used if name.startswith("mskpp.core")} or path.name == "tiling.py", used


@pytest.mark.parametrize(
    "path", [p for p in PYTHON if not {"launcher", "optune", "command"} & set(p.parts)], ids=module_of
)
def test_modelling_never_imports_the_launcher(path: Path) -> None:
    assert not {name for name in imports(path) if name.startswith("mskpp.launcher")}


@pytest.mark.parametrize("path", [p for p in PYTHON if "command" not in p.parts], ids=module_of)
def test_nothing_knows_the_command(path: Path) -> None:
    """It stands above everything; ``python -m mskpp`` starts it."""
    used = {name for name in imports(path) if name.startswith("mskpp.command")}
    assert not used or path == PACKAGE / "__main__.py"


@pytest.mark.parametrize("path", [p for p in PYTHON if "command" in p.parts], ids=module_of)
def test_commands_load_what_is_slow_when_they_run(path: Path) -> None:
    """Every call of ``mskpp`` imports the modules of all subcommands."""
    for node in ast.parse(path.read_text()).body:
        names = {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
        names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        slow = {name for name in names if re.match(r"(numpy|plotly|rich|mskpp\.(launcher|optune|report))\b", name)}
        assert not slow, f"{path.name} imports {slow} at the top"


def test_importing_the_package_loads_nothing_optional() -> None:
    optional = ("plotly", "rich", "numpy", "pandas", "elftools", "tree_sitter", "tree_sitter_cpp", "tree_sitter_bash")
    code = (
        "import sys, mskpp\n"
        f"print([m for m in sys.modules if m.split('.')[0] in {optional} or m.startswith('mskpp.launcher')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_no_chip_is_named_in_code() -> None:
    """The data folder is the only list. The default chip of what is outside any block is the exception."""
    chips = {p.name for p in (PACKAGE / "data" / "chips").iterdir()}
    for path in [*SOURCES, *PYTHON]:
        code = re.sub(r'"""(?:.|\n)*?"""|//[^\n]*|#[^\n]*|R"\((?:.|\n)*?\)"', "", path.read_text())
        named = {chip for chip in chips if re.search(rf'"{re.escape(chip)}"', code)}
        assert named <= ({"Ascend910B1"} if path.name == "data.py" else set()), f"{path} names {named}"


def test_no_instruction_is_listed_twice() -> None:
    from mskpp.core.instructions import BUILT_IN

    assert len(BUILT_IN) == 63
    for path in [*SOURCES, *PYTHON]:
        code = re.sub(r'"""(?:.|\n)*?"""|//[^\n]*|#[^\n]*', "", path.read_text())
        named = {name for name in BUILT_IN if name != "mmad" and re.search(rf'"{name}"', code)}
        assert not named, f"{path} names {named}"


@pytest.mark.parametrize("path", PYTHON, ids=module_of)
def test_nothing_is_swallowed(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path.name}:{node.lineno}: a bare except"
            empty = all(isinstance(s, ast.Pass) for s in node.body)
            assert not empty, f"{path.name}:{node.lineno}: an exception is dropped"


TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60).stdout.split()
CODE = [f for f in TRACKED if f.endswith((".py", ".cpp", ".h", ".txt", ".toml")) and "golden" not in f]


@pytest.mark.skipif(not TRACKED, reason="not a git checkout")
def test_every_source_names_its_licence() -> None:
    for name in CODE:
        if (ROOT / name).exists():
            head = (ROOT / name).read_text(encoding="utf-8")[:200]
            assert "SPDX-License-Identifier: Apache-2.0" in head, name


def test_one_version() -> None:
    import mskpp

    assert re.search(rf'__version__ = "{re.escape(mskpp.__version__)}"', (PACKAGE / "__init__.py").read_text())
    assert f"## [{mskpp.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
