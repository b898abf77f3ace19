# SPDX-License-Identifier: Apache-2.0
"""The pages tell the truth: blocks print what is shown, generated pages are up to date, links lead somewhere."""

from __future__ import annotations

import csv
import importlib.util
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mskpp
from mskpp import (
    Chip,
    Core,
    PrefModel,
    RegisterOf,
    RegisterPrefOf,
    Tensor,
    VecScope,
    errors,
    set_flag,
    vbrcb,
    vcadd,
    wait_flag,
)
from mskpp.optune.plan import Plan
from mskpp.optune.space import Space

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "mskpp" / "data"


def load_make_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_docs"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


docs = load_make_docs()
PAGES = docs.pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_blocks_print_what_the_page_shows(page: Path) -> None:
    blocks = docs.read_blocks(page.read_text(encoding="utf-8"))
    pairs = docs.outputs_of(blocks)
    shown = [id(text) for _, text in pairs if text is not None]
    lost = [block.line for block in blocks if block.language == "text" and id(block) not in shown]
    assert not lost, f"{page.name}: text blocks that follow no python block, in lines {lost}"
    for (block, text), run in zip(pairs, docs.run_blocks(blocks), strict=True):
        where = f"{page.name}:{block.line}"
        assert text is not None or not run.raised, (
            f"{where} ends with an error that the page does not show:\n{run.output}"
        )
        if text is not None:
            assert docs.normal(text.text, text.marks) == docs.normal(run.output, text.marks), (
                f"{where} prints something else; build.py docs --outputs"
            )


@pytest.mark.parametrize("name", docs.GENERATED)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert text_of(name) == docs.GENERATED[name](), f"{name} is old; python3 build.py docs"


@pytest.mark.parametrize("name", ["README", "docs/start"])
def test_translations_show_the_same_blocks(name: str) -> None:
    def code(page: str) -> list[str]:
        """The blocks without their comments, which are translated."""
        blocks = [block for block in docs.read_blocks(text_of(page)) if block.language in ("python", "text", "console")]
        return [re.sub(r" *#.*", "", block.text) for block in blocks]

    assert code(f"{name}.md") == code(f"{name}_zh.md")
    rows = [len(re.findall(r"^\|", text_of(f"{name}{language}.md"), re.MULTILINE)) for language in ("", "_zh")]
    assert rows[0] == rows[1]


def anchors(page: Path) -> set[str]:
    """The names that headings of a page can be linked by, as GitHub makes them."""
    found = set()
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])(?:csrc|mskpp|docs|example|test)/[\w./-]*\w", text)) - {"test/case/test_x.py"}
    headers = {"csrc/include/" + name for name in re.findall(r"`(mskpp/\w+\.h)`", text)}
    named = {name for name in named if not re.fullmatch(r"mskpp/\w+\.h", name)} | headers
    assert not sorted(name for name in named if not (ROOT / name).exists())


def test_pages_that_messages_name_exist() -> None:
    sources = [*(ROOT / "csrc").rglob("*.cpp"), *(ROOT / "csrc").rglob("*.h"), *(ROOT / "mskpp").rglob("*.py")]
    named = {name for source in sources for name in re.findall(r"docs/\w+\.md", source.read_text(encoding="utf-8"))}
    assert named and not sorted(name for name in named if not (ROOT / name).exists())


def test_every_page_is_in_the_readme() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in text_of("README.md"), page.name


def test_every_error_is_documented() -> None:
    page = text_of("docs/errors.md")
    known = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MskppError)]
    kinds = [kind for kind in known if kind is not errors.MskppError]
    assert len(kinds) >= 14 and set(errors.BY_KIND) < set(kinds)
    for kind in kinds:
        base = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        assert f"| [`{kind.__name__}`](#{kind.__name__.lower()}) | `{base.__name__}` |" in page
        section = page.split(f"\n## {kind.__name__}\n")[1].split("\n## ")[0]
        assert f"```text\n{kind.__name__}: " in section, f"no example of {kind.__name__}"
        assert "Cure: " in section


def test_every_verb_is_documented() -> None:
    verbs = re.findall(r'add\("(\w+)", verb_', text_of("build.py"))
    assert verbs
    for verb in verbs:
        assert f"`python3 build.py {verb}" in text_of("docs/develop.md"), verb


def test_every_key_and_column_is_documented() -> None:
    page = text_of("docs/add_a_chip.md")
    for folder in (DATA / "chips").iterdir():
        for file in folder.glob("*.csv"):
            assert f"### {file.name}\n" in page, file.name
            rows = docs.rows_of(file)
            for column in rows[0]:
                assert f"`{column}`" in page, f"{file.name}: {column}"
            for key in {row["key"] for row in rows} if file.name == "chip.csv" else ():
                plain = re.sub(r"^(mmad_\w+)\..*", r"\1.DTYPE", key)
                assert f"`{plain}`" in page, key


def test_every_rule_of_the_instruction_table_is_documented() -> None:
    page = text_of("docs/add_an_instruction.md").split("## Columns")[1]
    documented = {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)` \|.*$", page, re.MULTILINE)}
    for row in docs.rows_of(DATA / "instructions.csv"):
        assert set(row) <= set(documented)
        for column in ("pipe", "work", "out_dtype", "out_shape"):
            assert f"`{row[column]}`" in documented[column], row[column]
        assert f"`{row['cost'].split()[0]}" in documented["cost"]
        for argument in row["arguments"].split():
            if argument not in ("x", "y", "z", "b"):
                assert f"`{argument}`" in documented["arguments"], argument


def test_instructions_page_has_every_instruction() -> None:
    rows = list(csv.reader(re.findall(r"^\| `(\w+)\(", text_of("docs/instructions.md"), re.MULTILINE)))
    assert [row[0] for row in rows] == [name for name in mskpp.__all__ if name in mskpp.core.instructions.BUILT_IN]


# --------------------------------------------------------------------------- ranges.md
# Each row of the page with a number: the largest that is allowed passes, the next one does not.


def in_chip(action: Callable[[Chip], Any], chip: str = "Ascend910B1") -> Callable[[], None]:
    def run() -> None:
        with Chip(chip) as opened:
            action(opened)

    return run


def gm(size: Any, dtype: str = "FP16") -> Tensor:
    return Tensor("GM", dtype, size)


def flags(event: int) -> None:
    set_flag("PIPE-MTE2", "PIPE-V", event)
    wait_flag("PIPE-MTE2", "PIPE-V", event)


def plan(**given: Any) -> Plan:
    return Plan("autotune", predict=print if "top_k" in given else None, **given)


def values_of(*values: Any) -> Space:
    return Space(None, {"name": list(values)}, None, "autotune")


def refused_in_a_row(count: int) -> None:
    """Before one that is allowed."""
    assert next(Space(None, {"a": range(2 * 10**6)}, lambda a: a >= count, "autotune").numbers("in order", 0)) == count


def marked(value: int) -> None:
    x = Tensor("UB")
    x.load(gm([64]), set_value=value)
    Tensor("UB").load(x, expect_value=value)


def reserve(count: int) -> None:
    x = Tensor("UB", "UINT16", [64], is_inited=True)
    mskpp.vreduce(x, x, Tensor("UB"), count)()


def own_cost(answer: Any) -> None:
    @RegisterPrefOf("VEXP")
    class Cost(PrefModel):
        def time(self) -> Any:
            return answer

    mskpp.vexp(Tensor("UB", "FP16", [64], is_inited=True), Tensor("UB"))()


def own_name(name: str) -> None:
    @RegisterOf(name)
    class Own:
        pipe = "PIPE-V"

        def infer_shape(self, inputs: Any, outputs: Any, attr: Any) -> None: ...


def cores(count: int) -> None:
    for number in range(count):
        with Core(f"aiv{number}"):
            pass


def folder_with(**files: str) -> Chip:
    folder = Path("Chip")
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)
    return Chip(folder.resolve())


def chip_with(key: str, value: float) -> Chip:
    return folder_with(chip=f"key,value\nbase,Ascend910B1\n{key},{value}\n")


def rate(value: str) -> Chip:
    mov = f"path,bytes,gib_per_s\nGM_TO_UB,1024,{value}\n"
    return folder_with(chip="key,value\nbase,Ascend910B1\n", mov=mov)


def arguments(count: int) -> Chip:
    names = " ".join(["x", "y", *(f"a{i}" for i in range(count - 2))])
    head = "function,instruction,arguments,reads,writes,accumulates,pipe,work,cost,out_dtype,out_shape,summary\n"
    row = f"vlong,VLONG,{names},x,y,,PIPE-V,x,fixed 1,x,x,many\n"
    return folder_with(chip="key,value\nbase,Ascend910B1\n", instructions=head + row)


def transposed(elements: int) -> None:
    mskpp.vtranspose(Tensor("UB", "FP16", [elements], is_inited=True), Tensor("UB"))()


def hit_ratio(ratio: float) -> Callable[[], None]:
    return in_chip(lambda chip: chip.set_cache_hit_ratio({"cache_hit_ratio": ratio}))


def ub(dtype: str = "FP16") -> Tensor:
    return Tensor("UB", dtype, [64], is_inited=True)


MOST = 2**31 - 1
Case = tuple[str, Callable[[], Any], Callable[[], Any], type[Exception]]
RANGES: list[Case] = [
    ("axes | 1 to 8", lambda: gm([1] * 8), lambda: gm([1] * 9), errors.InputError),
    ("axes | 1 to 8", lambda: gm([1]), lambda: gm([]), errors.InputError),
    ("extent of an axis | 1 to 2147483647", lambda: gm([MOST]), lambda: gm([MOST + 1]), errors.InputError),
    ("extent of an axis | 1 to 2147483647", lambda: gm([1]), lambda: gm([0]), errors.InputError),
    ("elements | at most 2147483647", lambda: gm([46340, 46340]), lambda: gm([46341, 46341]), errors.InputError),
    ("`size` | list or tuple", lambda: gm((2, 2)), lambda: gm([True]), errors.ArgumentError),
    ("`mem_type` | GM, L1", lambda: Tensor("ub"), lambda: Tensor("L2"), errors.InputError),
    ("`dtype` | BOOL", lambda: gm([1], "half"), lambda: gm([1], "FP8"), errors.InputError),
    ("`format` | ND", lambda: Tensor("GM", format="5hd"), lambda: Tensor("GM", format="ZN"), errors.InputError),
    ("`is_inited` |", lambda: Tensor("GM", is_inited=True), lambda: Tensor("GM", is_inited=1), errors.ArgumentError),
    ("an index | -n to n-1", lambda: gm([8])[7], lambda: gm([8])[8], errors.SubscriptError),
    ("an index | -n to n-1", lambda: gm([8])[-8], lambda: gm([8])[-9], errors.SubscriptError),
    ("a slice | selects at least one", lambda: gm([8])[7:99], lambda: gm([8])[8:], errors.InputError),
    ("its step is not 0", lambda: gm([8])[::-3], lambda: gm([8])[::0], errors.InputError),
    (
        "`repeat` | 1 to 2^63-1",
        in_chip(lambda _: Tensor("UB").load(gm([64]), repeat=2**63 - 1)),
        in_chip(lambda _: Tensor("UB").load(gm([64]), repeat=2**63)),
        errors.InputError,
    ),
    (
        "`repeat` | 1 to 2^63-1",
        in_chip(lambda _: Tensor("UB").load(gm([64]), repeat=1)),
        in_chip(lambda _: Tensor("UB").load(gm([64]), repeat=0)),
        errors.InputError,
    ),
    ("`expect_value` | -1 (none)", in_chip(lambda _: marked(-1)), in_chip(lambda _: marked(-2)), errors.InputError),
    ("to 2^63-1", in_chip(lambda _: marked(2**63 - 1)), in_chip(lambda _: marked(2**63)), errors.InputError),
    (
        "`broadcast_num`",
        in_chip(lambda _: vbrcb(ub("UINT16"), Tensor("UB"), 1)()),
        in_chip(lambda _: vbrcb(ub("UINT16"), Tensor("UB"), 0)()),
        errors.InputError,
    ),
    (
        "`reduce_num`",
        in_chip(lambda _: vcadd(ub(), Tensor("UB"), MOST)()),
        in_chip(lambda _: vcadd(ub(), Tensor("UB"), MOST + 1)()),
        errors.InputError,
    ),
    (
        "`reserve_num` | 1 to 2147483647",
        in_chip(lambda _: reserve(MOST)),
        in_chip(lambda _: reserve(MOST + 1)),
        errors.InputError,
    ),
    ("flag id | 0 to 65535", in_chip(lambda _: flags(65535)), in_chip(lambda _: flags(65536)), errors.InputError),
    ("flag id | 0 to 65535", in_chip(lambda _: flags(0)), in_chip(lambda _: flags(-1)), errors.InputError),
    (
        "elements of `vtranspose` | 256",
        in_chip(lambda _: transposed(256)),
        in_chip(lambda _: transposed(255)),
        errors.InputError,
    ),
    ("`cache_hit_ratio` | 0 to 1", hit_ratio(1), hit_ratio(math.nextafter(1, 2)), errors.InputError),
    ("`cache_hit_ratio` | 0 to 1", hit_ratio(0), hit_ratio(-0.1), errors.InputError),
    ("core name | 1 to 128 of A-Z a-z 0-9", lambda: Core("a" * 128), lambda: Core("a" * 129), errors.InputError),
    ("core name | 1 to 128 of A-Z a-z 0-9", lambda: Core("Z9"), lambda: Core("a_0"), errors.InputError),
    ("cores in one program | 4095", in_chip(lambda _: cores(4095)), in_chip(lambda _: cores(4096)), errors.InputError),
    ("name of a VecScope | 1 to 128", lambda: VecScope("x" * 128), lambda: VecScope("x" * 129), errors.InputError),
    ("printable characters", lambda: VecScope("a b"), lambda: VecScope("a\n"), errors.InputError),
    (
        "`clock_mhz` | 1 to 1000000",
        lambda: chip_with("clock_mhz", 1e6),
        lambda: chip_with("clock_mhz", 1e6 + 1),
        errors.DataError,
    ),
    (
        "`clock_mhz` | 1 to 1000000",
        lambda: chip_with("clock_mhz", 1),
        lambda: chip_with("clock_mhz", 0.9),
        errors.DataError,
    ),
    (
        "`cache_miss_slowdown` | at least 1",
        lambda: chip_with("cache_miss_slowdown", 1),
        lambda: chip_with("cache_miss_slowdown", 0.9),
        errors.DataError,
    ),
    ("a rate or size in a table", lambda: rate("0.001"), lambda: rate("0"), errors.DataError),
    ("a finite number above 0", lambda: rate("1e300"), lambda: rate("inf"), errors.DataError),
    ("name of an instruction | 1 to 128", lambda: own_name("v" * 128), lambda: own_name("v" * 129), errors.InputError),
    ("a letter first", lambda: own_name("V_9"), lambda: own_name("9V"), errors.InputError),
    (
        "what `time()` and `size()` return",
        in_chip(lambda _: own_cost(0)),
        in_chip(lambda _: own_cost(-1)),
        errors.InputError,
    ),
    (
        "ArgumentError for no number",
        in_chip(lambda _: own_cost(1.5)),
        in_chip(lambda _: own_cost("1")),
        errors.ArgumentError,
    ),
    (
        "4611686018427387904 (2^62)",
        in_chip(lambda _: own_cost(2**62)),
        in_chip(lambda _: own_cost(2**62 + 1)),
        errors.CountOverflowError,
    ),
    ("arguments in a row of `instructions.csv` | 8", lambda: arguments(8), lambda: arguments(9), errors.DataError),
    ("`warmup` | 1 to 100000", lambda: plan(warmup=100000), lambda: plan(warmup=100001), errors.InputError),
    ("`warmup` | 1 to 100000", lambda: plan(warmup=1), lambda: plan(warmup=0), errors.InputError),
    ("`repeat` of a tuning | 1 to 10000", lambda: plan(repeat=10000), lambda: plan(repeat=10001), errors.InputError),
    ("`warmup_times` | 0 to 500", lambda: plan(warmup_times=500), lambda: plan(warmup_times=501), errors.InputError),
    ("`warmup_times` | 0 to 500", lambda: plan(warmup_times=0), lambda: plan(warmup_times=-1), errors.InputError),
    (
        "`device_ids` | 1 to 100 ints",
        lambda: plan(device_ids=range(100)),
        lambda: plan(device_ids=range(101)),
        errors.InputError,
    ),
    ("from 0 to 1023", lambda: plan(device_ids=[1023]), lambda: plan(device_ids=[1024]), errors.InputError),
    ("each once | InputError", lambda: plan(device_ids=[1, 2]), lambda: plan(device_ids=[1, 1]), errors.InputError),
    ("`trials` | 1 to 2^63-1", lambda: plan(trials=2**63 - 1), lambda: plan(trials=2**63), errors.InputError),
    ("`trials` | 1 to 2^63-1", lambda: plan(trials=1), lambda: plan(trials=0), errors.InputError),
    ("`seed` | 0 to 2^63-1", lambda: plan(seed=2**63 - 1), lambda: plan(seed=2**63), errors.InputError),
    ("`seconds` | above 0", lambda: plan(seconds=1e-9), lambda: plan(seconds=0), errors.InputError),
    ("at most 2^63-1 | InputError", lambda: plan(seconds=2**63 - 1), lambda: plan(seconds=2**63), errors.InputError),
    (
        "`memory_bytes` | 1048576",
        lambda: plan(memory_bytes=1048576),
        lambda: plan(memory_bytes=1048575),
        errors.InputError,
    ),
    ("to 2^62 | InputError", lambda: plan(memory_bytes=2**62), lambda: plan(memory_bytes=2**62 + 1), errors.InputError),
    ("`top_k` as an int | 1", lambda: plan(top_k=1), lambda: plan(top_k=0), errors.InputError),
    ("`top_k` as an int | 1 to 2^63-1", lambda: plan(top_k=2**63 - 1), lambda: plan(top_k=2**63), errors.InputError),
    ("`top_k` as a share | above 0.0", lambda: plan(top_k=0.999), lambda: plan(top_k=1.0), errors.InputError),
    ("`top_k` as a share | above 0.0", lambda: plan(top_k=0.001), lambda: plan(top_k=0.0), errors.InputError),
    ("values of a name in `space`", lambda: values_of(1), lambda: values_of(), errors.InputError),
    ("at least one, each once", lambda: values_of(1, 2), lambda: values_of(1, 1), errors.InputError),
    ("goes into a source | -2^63 to", lambda: values_of(2**64 - 1), lambda: values_of(2**64), errors.InputError),
    ("to 2^64-1", lambda: values_of(-(2**63)), lambda: values_of(-(2**63) - 1), errors.InputError),
    ("a value that goes into a source", lambda: values_of("x", True), lambda: values_of((1,)), errors.ArgumentError),
    ("`where` in a row | 1000000", lambda: refused_in_a_row(10), lambda: refused_in_a_row(10**6), errors.InputError),
    (
        "and the makespan | 2^62",
        in_chip(lambda _: [own_cost(2**61) for _ in range(2)]),
        in_chip(lambda _: [own_cost(2**61) for _ in range(3)]),
        errors.CountOverflowError,
    ),
]


@pytest.mark.parametrize(
    ("row", "inside", "outside", "error"), RANGES, ids=[f"{i}-{case[0]}" for i, case in enumerate(RANGES)]
)
def test_ranges_are_as_documented(
    row: str, inside: Callable[[], Any], outside: Callable[[], Any], error: type[Exception]
) -> None:
    page = text_of("docs/ranges.md")
    lines = [line for line in page.splitlines() if row in line]
    assert lines and (
        error.__name__ in lines[0] or row in ("its step is not 0", "printable characters", "a letter first")
    )
    inside()
    with pytest.raises(error):
        outside()
