# SPDX-License-Identifier: Apache-2.0
"""Digests of what compilations read: each file, name, variable and option that can matter changes them, and what cannot
be followed makes them unknown, with its reason."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from utils.kernels import write

from mskpp.errors import CompileError
from mskpp.launcher import backend as backends
from mskpp.launcher import compiler, process, record
from mskpp.optune import closure, reads, script_reads
from mskpp.optune.reads import OUTPUT, SOURCE, Command, Manifest, Observation, Readings, Reads, Script, State

KERNEL = """
    #include "near.h"
    #include <far.h>
    #ifdef NEVER
    #include "never.h"
    #endif
    extern "C" int work() { return NEAR + FAR; }
"""
SCRIPT = """
    #!/bin/bash
    set -e
    HERE=$(cd "$(dirname "$0")" && pwd)
    bisheng -O0 -fPIC --shared -I"$HERE/first" -I$HERE/second "$1" -o "$2"
"""


class Project:
    """A kernel, headers, a build script, and compilations of it as a tuner makes them."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder = folder
        self.backend = backends.chosen(backend)
        self.kernel = write(folder / "kernel.cpp", KERNEL)
        self.near = write(folder / "near.h", "#define NEAR 1\n")
        (folder / "first").mkdir()
        self.far = write(folder / "second" / "far.h", '#include "deep.h"\n#define FAR DEEP\n')
        self.deep = write(folder / "second" / "deep.h", "#define DEEP 2\n")
        self.script: Path | None = self.written(SCRIPT)
        self.options: list[str] = []
        self.manifest = Manifest(folder / "cache" / "reads")
        self.count = 0
        self.identity = self.backend.identity()
        (folder / "cache").mkdir()
        (folder / "candidates").mkdir()

    def written(self, script: str) -> Path:
        self.script = write(self.folder / "build.sh", script)
        self.script.chmod(0o700)
        return self.script

    def readings(self) -> Readings:
        return Readings(
            self.backend, self.script, self.options, self.kernel, self.manifest, compiler=self.identity, names=()
        )

    def state(self) -> State:
        return self.readings().state()

    def known(self) -> str:
        """The digest, which must be known."""
        found = self.state()
        assert found.digest is not None, found.why
        return found.digest

    def compiled(self, meanwhile: Callable[[], object] = lambda: None) -> State:
        """Compiles one candidate; what was learned of it."""
        self.count += 1
        readings = self.readings()
        private = self.folder / "candidates" / str(self.count)
        began = record.Moment.now()
        launch = write(private / "launch.cpp", f'#include "{self.kernel}"\n')
        (private / "tmp").mkdir()
        observed = readings.observation(private, launch, private / "kernel.so")
        compiler.compile_alone(
            "autotune",
            None if self.script is None else str(self.script),
            launch,
            private / "kernel.so",
            options=self.options,
            backend=self.backend,
            timeout=120.0,
            folder=private / "tmp",
            limits=process.Limits(),
            observed=observed.environment,
        )
        meanwhile()
        return readings.learned(observed, began)

    def known_after_one(self) -> str:
        found = self.compiled()
        assert found.digest is not None, found.why
        assert found.digest == self.known()
        return found.digest


@pytest.fixture(params=["host", "ascend"])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulated_cann: dict[str, str]
) -> Project:
    if request.param == "ascend":
        for name, value in emulated_cann.items():
            monkeypatch.setenv(name, value)
    return Project(tmp_path, request.param)


@pytest.fixture
def host(tmp_path: Path) -> Project:
    return Project(tmp_path, "host")


# --- a script, once and again ---


def test_a_new_script_is_not_known_and_then_it_is(project: Project) -> None:
    before = project.state()
    assert before.digest is None and "not been seen yet" in before.why
    first = project.compiled()
    assert first.digest is not None, first.why
    assert project.known() == first.digest
    project.manifest = Manifest(project.folder / "cache" / "reads")  # another process
    assert project.known() == first.digest
    assert project.compiled().digest == first.digest  # another candidate


def test_every_file_and_name_counts(project: Project) -> None:
    seen = [project.known_after_one()]

    def changed(path: Path, text: str, again: bool = False) -> None:
        write(path, text)
        found = project.known()
        assert (found in seen) == again, path
        seen.append(found)

    changed(project.deep, "#define DEEP 3\n")  # found only by -I, from a header that is found only by -I
    changed(project.deep, "#define DEEP 2\n", again=True)
    changed(project.near, "#define NEAR 2\n")
    changed(project.folder / "first" / "far.h", "#define FAR 9\n")  # it shadows the one in second
    changed(project.folder / "never.h", "")  # in a branch that is not compiled, and not there before
    changed(project.folder / "second" / "never.h", "")
    changed(project.folder / "first" / "deep.h", "#define DEEP 4\n")
    changed(project.folder / "second" / "other.h", "#define OTHER 1\n", again=True)  # nobody includes it
    (project.folder / "first" / "far.h").unlink()
    assert project.known() not in seen


def test_the_script_and_its_variables_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.written(SCRIPT.replace("-O0", "-O0 ${MORE_FLAGS:-}"))
    first = project.known_after_one()
    monkeypatch.setenv("UNRELATED", "1")
    assert project.known() == first
    monkeypatch.setenv("MORE_FLAGS", "-DX")
    assert project.state().digest is None  # what it does now has not been seen
    assert project.known_after_one() != first
    monkeypatch.delenv("MORE_FLAGS")
    assert project.known() == first
    project.written(SCRIPT.replace("-O0", "-O0 ${MORE_FLAGS:-} -DY"))
    assert project.state().digest is None


def test_include_variables_of_the_compiler(host: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = write(host.folder / "extra" / "never.h", "")
    first = host.known_after_one()
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", f"{host.folder / 'extra'}")
    assert host.state().digest is None
    second = host.known_after_one()
    assert second != first
    extra.write_text("// changed\n")
    assert host.known() not in (first, second)


def test_response_files(project: Project) -> None:
    options = write(project.folder / "options.txt", f"-I{project.folder}/first -I{project.folder}/second\n")
    project.written(f'g++ -O0 -fPIC -shared @{options} "$1" -o "$2"\n')
    assert "it runs g++" in project.compiled().why
    front = write(
        project.folder / "build.sh", f'bisheng -O0 -fPIC --shared $(cat {options} | tr -d "\'") "$1" -o "$2"\n'
    )
    assert front == project.script
    first = project.known_after_one()
    project.deep.write_text("#define DEEP 8\n")
    assert project.known() != first
    options.write_text(options.read_text() + " -DX=1")
    assert project.state().digest is None  # what the script reads counts before it runs
    assert project.known_after_one() != first


def test_response_files_of_commands(host: Project) -> None:
    """Whether or not the compiler behind the front understands them."""
    response = write(host.folder / "more.rsp", f'-I "{host.folder}/second" -DX="a b"\n')
    given = Reads((Command("", str(host.folder), ("", "", ""), (f"@{response}", SOURCE, "-o", OUTPUT)),))
    first = given.state(host.kernel).digest
    assert first is not None
    host.deep.write_text("#define DEEP 8\n")
    second = given.state(host.kernel).digest
    response.write_text("")
    assert len({first, second, given.state(host.kernel).digest}) == 3
    missing = Reads((Command("", str(host.folder), ("", "", ""), ("@none.rsp", SOURCE, "-o", OUTPUT)),))
    before = missing.state(host.kernel).digest
    write(host.folder / "none.rsp", "")
    assert missing.state(host.kernel).digest != before


def test_other_inputs_objects_and_libraries(host: Project) -> None:
    more = write(host.folder / "more.cpp", '#include "more.h"\nint more() { return 1; }\n')
    header = write(host.folder / "more.h", "")
    host.written(
        'set -e\nmskpp-cc -O0 -c "$1" -Ifirst -Isecond -o "$2.o"\n'
        'mskpp-cc -O0 -c more.cpp -o "$2.more.o"\nmskpp-cc -shared "$2.o" "$2.more.o" -Llibs -lown -o "$2"\n'
    )
    os.mkdir("libs")
    subprocess.run(["ar", "rc", "libs/libown.a"], check=True)
    seen = {host.known_after_one()}
    for path, text in ((header, "// x"), (more, '#include "more.h"\nint more() { return 2; }\n')):
        path.write_text(text)
        seen.add(host.known())
    Path("libs/libown.so").write_text("")
    seen.add(host.known())
    Path("libs/libown.a").unlink()
    seen.add(host.known())
    assert len(seen) == 5


def test_without_a_script_all_is_known_beforehand(host: Project) -> None:
    host.script = None
    host.options = ["-O0", f"-I{host.folder / 'first'}", "-isystem", f"{host.folder / 'second'}"]
    first = host.known()
    assert host.compiled().digest == first
    host.deep.write_text("#define DEEP 7\n")
    assert host.known() != first
    host.options.append("-DX")
    second = host.known()
    host.options[-1] = "-DY"
    assert host.known() != second
    assert Reads.of_command(host.backend, []) != Reads.of_command(host.backend, [], shared=False)


def test_without_a_script_on_ascend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulated_cann: dict[str, str]
) -> None:
    for name, value in emulated_cann.items():
        monkeypatch.setenv(name, value)
    one = Project(tmp_path, "ascend")
    one.script = None
    one.options = ["--cce-aicore-arch=dav-c220", "-O0", f"-I{one.folder / 'second'}"]
    first = one.known()
    assert one.compiled().digest == first
    write(one.folder / "second" / "near.h", "")
    assert one.known() != first


def test_the_toolkits_version_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulated_cann: dict[str, str]
) -> None:
    for name, value in emulated_cann.items():
        monkeypatch.setenv(name, value)
    own = tmp_path / "toolkit"
    own.mkdir()
    for part in Path(emulated_cann["ASCEND_HOME_PATH"]).iterdir():
        (own / part.name).symlink_to(part)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(own))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    one = Project(tmp_path / "project", "ascend")
    one.script = None
    one.options = ["--cce-aicore-arch=dav-c220"]
    first = one.known()
    (own / "version.info").write_text("Version=8.1")
    assert one.known() != first


# --- changes meanwhile ---


@pytest.mark.parametrize("what", ["edited", "appears", "gone", "turned"])
def test_what_changes_during_a_compilation_is_not_kept(host: Project, what: str) -> None:
    if what == "gone":
        write(host.folder / "first" / "deep.h", "#define DEEP 2\n")
    if what == "turned":
        host.deep.rename(host.folder / "deep_1.h")
        write(host.folder / "deep_2.h", host.folder.joinpath("deep_1.h").read_text())
        host.deep.symlink_to(host.folder / "deep_1.h")

    def meanwhile() -> None:
        if what == "edited":
            host.deep.write_text(host.deep.read_text())
        elif what == "appears":
            write(host.folder / "first" / "far.h", "#define FAR 1\n")
        elif what == "gone":
            (host.folder / "first" / "deep.h").unlink()
        else:
            host.deep.unlink()
            host.deep.symlink_to(host.folder / "deep_2.h")

    found = host.compiled(meanwhile)
    assert found.digest is None and "has changed since the compilation began" in found.why
    after = host.compiled()
    assert after.digest is not None, after.why


def test_files_that_come_and_go_beside(host: Project) -> None:
    """A new file in a folder where names were looked for in vain: the first time nobody knows what was there before."""

    def meanwhile() -> None:
        write(host.folder / "first" / f"other{host.count}.h", "")

    assert "first has changed" in host.compiled(meanwhile).why
    found = host.compiled(meanwhile)
    assert found.digest is not None, found.why


def test_a_file_that_the_compiler_read_and_nobody_foresaw(host: Project) -> None:
    """A header of the user's that shadows one of the compiler's, and that only the compiler's own include."""
    write(host.folder / "second" / "bits" / "c++config.h", "#include_next <bits/c++config.h>\n")
    host.kernel.write_text(host.kernel.read_text() + "#include <vector>\n")
    write(host.folder / "second" / "far.h", "#define FAR 1\n#if 0\n#include <bits/nothing.h>\n#endif\n")
    found = host.compiled()
    assert found.digest is None and re.search("c..config.h .*was not foreseen", found.why)


# --- what is not known, and why ---


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("cmake -B x", "line 2: it runs cmake, of which it is not known what it reads"),
        ("make", "it runs make"),
        ("python3 gen.py", "it runs python3"),
        ("eval $X", "it runs eval"),
        ("bash other.sh", "it runs bash"),
        ("$TOOL x", "it runs $TOOL"),
        ("/opt/cann/bin/bisheng x.cpp", "is called by its path (/opt/cann/bin/bisheng) and not seen"),
        ("B=/opt/bin; $B/bisheng x.cpp", "is called by its path (/opt/bin/bisheng)"),
        ("exec ccache bisheng x.cpp", "it runs ccache"),
        ("bisheng *.cpp", "*.cpp may match other files each time"),
        ("FILES=(src/*.cpp)", "may match other files each time"),
        ("for f in src/*; do echo $f; done", "may match other files each time"),
        ("cat $(ls)", "names is known only when it runs"),
        ("cat <(date)", "names is known only when it runs"),
        ("echo <(echo a) b", "<( ) and >( ) are not followed"),
        ("X=${!Y}", "by names that are made when it runs"),
        ("echo $RANDOM", "it uses $RANDOM, which is another one each time"),
        ("source $(find .)", "names is known only when it runs"),
        ("[ a -nt b ]", "it compares times of files"),
        ("trap 'make clean' EXIT", "what trap runs is not followed"),
        ("set", "set lists all variables"),
        ("export", "export lists all variables"),
        ("if then", "its syntax is not understood as a whole"),
        ("read NAME; cat $NAME", "names is known only when it runs"),
        ("shift; cat $1", "names is known only when it runs"),
        ('cat x; cd "$@"', "x is looked for in a folder that is not known"),
        ("cmake() { command cmake x; }; cmake", "it runs cmake"),
        ("HERE=$(dirname $(which bisheng))", "it asks where the compiler is"),
        ("command -v bisheng", "it asks where the compiler is"),
        ("command -v $(ls)", "which program is looked for is known only when it runs"),
    ],
)
def test_scripts_that_cannot_be_followed(tmp_path: Path, line: str, why: str) -> None:
    found = Script(write(tmp_path / "build.sh", f"set -e\n{line}\n"))
    assert found.digest is None and why in found.why, found.why


@pytest.mark.parametrize(
    "line",
    [
        'rm -f "$2" *.tmp',
        'if [ -z "$X" ]; then X=3; fi',
        '[[ $X == *.cpp ]] && echo "$X"',
        "case $X in *.cpp) echo 1;; esac",
        "echo ${X%.*}",
        "trap 'rm -rf $Y' EXIT",
        'cat "$1" > /dev/null',
        'D=$(dirname "$1"); cat "$D/launch.cpp"',
        "command -v bisheng > /dev/null || exit 1",
        "if ! which bisheng >/dev/null 2>&1; then exit 1; fi",
        "type bisheng &>/dev/null",
        'build() { local A=1; bisheng "$@"; }; build "$1" -o "$2"',
        "set -euo pipefail; cat $1",
        "A=(-I a); A+=(-O2); bisheng ${A[@]} $1 -o $2",
        "exec bisheng $1 -o $2",
        "cat <<E\n$HOME\nE",
        "# cmake python3 *",
    ],
)
def test_scripts_that_can_be_followed(tmp_path: Path, line: str) -> None:
    found = Script(write(tmp_path / "build.sh", f"{line}\n"))
    assert found.digest is not None, found.why


@pytest.mark.parametrize(
    "line",
    [
        "cat flags.txt",
        'cat "$(dirname "$0")/flags.txt"',
        "H=$(cd $(dirname ${BASH_SOURCE[0]}) && pwd)\ncat $H/flags.txt",
        "F=flags.txt; if [ -f $F ]; then echo; fi",
        "[[ -e flags.txt ]]",
        "test -s flags.txt",
        "while read X; do echo; done < flags.txt",
        "echo $(<flags.txt)",
        "source flags.txt",
        ". ./flags.txt",
        "cat ${FLAGS_FILE:-flags.txt}",
        "for F in a flags.txt; do cat $F; done",
        "cd ..; cd {here}; cat flags.txt",
        "command cat flags.txt",
    ],
)
def test_files_that_scripts_name(tmp_path: Path, line: str) -> None:
    script = write(tmp_path / "build.sh", line.replace("{here}", str(tmp_path)) + "\n")
    digests = [Script(script).digest]
    for text in ("", "X=1\n"):
        write(tmp_path / "flags.txt", text)
        digests.append(Script(script).digest)
    assert None not in digests and digests[1] != digests[0]
    if "-f" not in line and "-e" not in line:
        assert digests[2] not in digests[:2]


def test_sourced_scripts_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "inner.sh", "Y=$OUTER_VALUE\n")
    script = write(tmp_path / "build.sh", "source inner.sh\necho $Y\n")
    first = Script(script).digest
    monkeypatch.setenv("OUTER_VALUE", "2")
    assert None not in (first, Script(script).digest) and Script(script).digest != first
    write(tmp_path / "inner.sh", "make\n")
    assert "inner.sh line 1: it runs make" in Script(script).why
    write(tmp_path / "inner.sh", "source build.sh\n")  # in a circle
    assert Script(script).digest is not None
    toolkit = write(tmp_path / "toolkit" / "setenv.sh", "eval `python3 x`\n")
    write(tmp_path / "build.sh", f"source {toolkit}\n")
    assert Script(script).digest is None
    trusted = Script(script, str(tmp_path / "toolkit")).digest
    toolkit.write_text("eval `python3 y`\n")
    assert None not in (trusted, Script(script, str(tmp_path / "toolkit")).digest)
    assert Script(script, str(tmp_path / "toolkit")).digest != trusted
    write(tmp_path / "build.sh", f"source {toolkit}\ncat $SET_BY_IT\n")
    assert "names is known only when it runs" in Script(script, str(tmp_path / "toolkit")).why
    many = "".join(f"source s{number}.sh\n" for number in range(30))
    for number in range(30):
        write(tmp_path / f"s{number}.sh", "")
    assert "more than 20 scripts are sourced" in Script(write(tmp_path / "build.sh", many)).why


def test_programs_that_scripts_look_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write(tmp_path / "build.sh", "if command -v no_such_thing > /dev/null; then X=1; fi\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(closure, "MOST_FILE_BYTES", 1000)
    first = Script(script).digest
    program = write(tmp_path / "no_such_thing", b"x" * 10_000)  # programs may be large
    second = Script(script).digest
    program.write_bytes(b"y" * 10_000)
    assert None not in (first, second) and len({first, second, Script(script).digest}) == 3


def test_scripts_that_are_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = "".join(f"V{n}=$V{n + 1}$V{n + 1}$V{n + 1}\n" for n in range(30)) + "cat $V0\n"
    began = time.monotonic()
    assert Script(write(tmp_path / "build.sh", chain)).digest is None
    deep = "$(" * 3000 + "echo" + ")" * 3000
    found = Script(write(tmp_path / "build.sh", f"cat {deep}\n"))
    assert found.digest is None and found.why
    assert "more than" in Script(write(tmp_path / "build.sh", "#" * 300_000)).why
    assert time.monotonic() - began < 60
    monkeypatch.setattr(script_reads, "MOST_STEPS", 3)
    assert "too many variables" in Script(write(tmp_path / "build.sh", "A=1; B=$A; cat $B$A x y\n")).why


def test_a_variable_that_is_a_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write(tmp_path / "build.sh", "echo $SOME_FILES\n")
    assert Script(script).digest is not None
    monkeypatch.setenv("SOME_FILES", "*.cpp")
    assert "$SOME_FILES is a pattern" in Script(script).why


def test_no_current_folder(host: Project, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert host.state().why == "the current folder is gone"
    host.script = None
    assert host.state().why == "the current folder is gone"
    os.chdir(tmp_path)


def test_what_bash_reads_before_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write(tmp_path / "build.sh", "echo\n")
    first = Script(script).digest
    monkeypatch.setenv("BASH_FUNC_echo%%", "() { true; }")
    assert Script(script).digest not in (None, first)
    monkeypatch.setenv("BASH_ENV", "x")
    assert "BASH_ENV is set" in Script(script).why
    monkeypatch.delenv("BASH_ENV")
    script.unlink()
    assert "build.sh cannot be read" in Script(script).why


def test_a_script_that_keeps_a_log_beside_the_source(host: Project) -> None:
    host.written(SCRIPT.replace('-o "$2"', '-o "$2" 2>&1 | tee build.log'))
    assert "has changed" in host.compiled().why  # a new file there: what was gone, perhaps, is not known
    assert host.known_after_one() == host.known_after_one()


def test_a_compiler_called_by_its_path_or_behind_the_front_is_not_seen(host: Project) -> None:
    write(host.folder / "own" / "bisheng", '#!/bin/sh\nexec mskpp-cc "$@"\n').chmod(0o700)
    host.written(SCRIPT.replace("bisheng", f"{host.folder}/own/bisheng"))
    assert "is called by its path" in host.compiled().why
    host.written(SCRIPT.replace("set -e", f"PATH={host.folder}/own:$PATH").replace("bisheng", "bisheng"))
    assert host.compiled().digest is not None  # mskpp-cc behind it was seen
    write(host.folder / "own" / "bisheng", "#!/bin/sh\nfor O; do :; done\necho > $O\n")
    host.written(SCRIPT.replace("set -e", f"export PATH={host.folder}/own:$PATH # other"))
    found = host.compiled()
    assert found.digest is None and "no compiler was seen; call bisheng or mskpp-cc by its name" in found.why


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('cp "$1" "$2.cpp"; $B "$2.cpp" -o "$2"', "no compilation of the source"),
        ('$B "$1" -o "$2.so"; cp "$2.so" "$2"', "no compilation to the output"),
        ('echo "int x;" > "$2.cpp"; $B "$1" "$2.cpp" -o "$2"', "output.cpp holds, which the script made, is not known"),
    ],
)
def test_compilations_of_something_else(host: Project, body: str, why: str) -> None:
    host.written(body.replace("$B", "bisheng -O0 -shared -Ifirst -Isecond") + "\n")
    found = host.compiled()
    assert found.digest is None and why in found.why


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-I-"], "option -I- reads"),
        (["--sysroot=/x"], "--sysroot=/x"),
        (["-B/x"], "-B/x"),
        (["-fprofile-use=x"], "-fprofile-use=x"),
        (["-T", "x.ld"], "-T"),
        (["-I=/x"], "-I=/x"),
        (["-fsanitize-blacklist=."], "the folder . of an option is not followed"),
        (["{private}.cpp"], "which the script made"),
        (["@{private}.rsp"], "is made when the script runs"),
    ],
)
def test_options_that_cannot_be_followed(host: Project, options: list[str], why: str) -> None:
    words = [option.replace("{private}", reads.PRIVATE + "/x") for option in options]
    found = Reads((Command("", str(host.folder), ("", "", ""), (*words, SOURCE, "-o", OUTPUT)),)).state(host.kernel)
    assert found.digest is None and why in found.why


def test_many_response_files(host: Project) -> None:
    write(host.folder / "circle.rsp", "@circle.rsp @circle.rsp")
    found = Reads((Command("", str(host.folder), ("", "", ""), ("@circle.rsp", SOURCE, "-o", OUTPUT)),)).state(
        host.kernel
    )
    assert found.digest is None and "more than 20 response files" in found.why
    write(host.folder / "circle.rsp", "'")
    found = Reads((Command("", str(host.folder), ("", "", ""), ("@circle.rsp", SOURCE, "-o", OUTPUT)),)).state(
        host.kernel
    )
    assert found.digest is None and "the response file circle.rsp cannot be read" in found.why


# --- sources ---


def of(source: Path, *options: str) -> State:
    """The state of a source that is compiled with the options."""
    return Reads((Command("", os.getcwd(), ("", "", ""), (*options, SOURCE, "-o", OUTPUT)),)).state(source)


@pytest.mark.parametrize(
    "include",
    [
        '#include "x.h"',
        "#include <x.h>",
        '  #  include   "x.h" // y',
        '# /* a */ include /* b */ "x.h"',
        '/* a\n */ #include "x.h"',
        '#inc\\\nlude "x.h"',
        '%:include "x.h"',
        "#include_next <x.h>",
        '#import "x.h"',
        '#embed "x.h"',
        "#if __has_include(<x.h>)\n#endif",
        '#if defined(__has_include) && __has_include ( "x.h" )\n#endif',
        "#ifdef __has_include\n#if __has_include(<x.h>)\n#endif\n#endif",
        '\ufeff#include "x.h"',
        '\r\n#include "x.h"\r\n',
        '#include "sub/../x.h"',
    ],
)
def test_ways_to_include(tmp_path: Path, include: str) -> None:
    (tmp_path / "inc" / "sub").mkdir(parents=True)
    source = write(tmp_path / "a.cpp", include.encode())
    digests = [of(source, "-Iinc").digest]
    for text in ("", "// 1", "// 2"):
        write(tmp_path / "inc" / "x.h", text)
        digests.append(of(source, "-Iinc").digest)
    assert None not in digests and len(set(digests)) == 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#include HEADER\n", "line 1 includes what only its macros name"),
        ("\n# include  NAME(x)\n", "line 2 includes"),
        ("#if __has_include(HEADER)\n#endif\n", "line 1 asks for a file that only its macros name"),
        ("#define HAS __has_include\n#if HAS(<x>)\n#endif\n", "asks for a file"),
        ("#ifndef __has_include\n#define __has_include(x) 0\n#endif\n", ""),
        ("#if __has_include /**/ HEADER\n#endif\n", "asks for a file"),
        ('asm(".incbin \\"x\\"");\n', "it has an .incbin"),
        ("// words on #include and #import of headers\n", ""),
        ("#include\n", ""),
    ],
)
def test_includes_that_cannot_be_followed(tmp_path: Path, text: str, why: str) -> None:
    found = of(write(tmp_path / "a.cpp", text.encode()))
    assert (found.digest is None) == bool(why) and why in found.why


@pytest.mark.parametrize("kind", ["forced", "quoted folder", "after", "library folder", "mapped", "inner"])
def test_ways_to_name_files(tmp_path: Path, kind: str) -> None:
    source = write(tmp_path / "a.cpp", '#include "x.h"\n')
    words = {
        "forced": ["-include", "inc/x.h"],
        "quoted folder": ["-iquote", "inc"],
        "after": ["-idirafterinc"],
        "library folder": ["-Linc", "-l:x.h"],
        "mapped": ["-fsomething=inc/x.h"],
        "inner": ["-Xclang", "-Iinc", "-Wp,-Iother"],
    }[kind]
    (tmp_path / "inc").mkdir()
    first = of(source, *words).digest
    write(tmp_path / "inc" / "x.h", "")
    assert None not in (first, of(source, *words).digest) and of(source, *words).digest != first


def test_odd_files(tmp_path: Path) -> None:
    source = write(tmp_path / "a.cpp", '#include "x.h"\n')
    header = tmp_path / "x.h"
    os.mkfifo(header)
    began = time.monotonic()
    assert "'" in of(source).why and "is no regular file" in of(source).why
    assert time.monotonic() - began < 20
    header.unlink()
    header.symlink_to("x.h")
    assert "cannot be looked at: Too many levels" in of(source).why
    header.unlink()
    header.symlink_to("/proc/self/environ")
    assert of(source).digest is None or "proc" not in of(source).why
    header.unlink()
    header.mkdir()
    assert of(source).digest is not None  # compilers look on
    header.rmdir()
    header.symlink_to("nowhere.h")
    first = of(source).digest
    write(tmp_path / "nowhere.h", "")
    assert None not in (first, of(source).digest) and of(source).digest != first
    source.write_bytes(b'#include "\xff\xfe.h"\n')
    first = of(source).digest
    write(tmp_path / os.fsdecode(b"\xff\xfe.h"), "")
    assert None not in (first, of(source).digest) and of(source).digest != first
    source.write_bytes(b'#include "a\0b.h"\n')
    assert "is a name that no file can have" in of(source).why
    source.write_bytes(b'#include "' + b"a" * 300 + b'.h"\n')
    assert "cannot be looked at: File name too long" in of(source).why


def test_folders_that_are_links_and_circles(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name / "x.h", '#pragma once\n#include "loop/x.h"\n')
        (tmp_path / name / "loop").symlink_to(".")
    (tmp_path / "inc").symlink_to("one")
    source = write(tmp_path / "a.cpp", '#include "x.h"\n#include "a.cpp"\n')
    first = of(source, "-Iinc").digest
    (tmp_path / "inc").unlink()
    (tmp_path / "inc").symlink_to("two")
    assert None not in (first, of(source, "-Iinc").digest) and of(source, "-Iinc").digest != first


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        write(tmp_path / f"h{number}.h", f'#include "h{number + 1}.h"\n')
    source = write(tmp_path / "a.cpp", '#include "h0.h"\n')
    for name, value, why in (
        ("MOST_FILES", 10, "more than 10 files would have to be read"),
        ("MOST_BYTES", 100, "more than 100 bytes would have to be read"),
        ("MOST_LOOKUPS", 10, "more than 10 names would have to be looked up"),
        ("MOST_FILE_BYTES", 10, "cannot be read: it has more than 10 bytes"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(closure, name, value)
            assert why in of(source).why
    assert of(source).digest is not None


def test_a_change_right_after_a_look_is_seen(tmp_path: Path) -> None:
    """Sizes and times may be the same when a file changes twice within one step of the clock."""
    source = write(tmp_path / "a.cpp", '#include "x.h"\n')
    header = tmp_path / "x.h"
    seen = set()
    for number in range(1000, 1200):
        header.write_text(str(number))
        seen.add(of(source).digest)
    assert len(seen) == 200


def test_five_hundred_headers(tmp_path: Path) -> None:
    folders = [f"-Iinc{number}" for number in range(5)]
    for number in range(500):
        names = [f"#include <h{(number * 7 + more) % 500}.h>\n" for more in range(8)]
        write(tmp_path / f"inc{number % 5}" / f"h{number}.h", "".join(names) + "int x;\n" * 200)
    source = write(tmp_path / "a.cpp", "#include <h0.h>\n")
    time.sleep(0.15)
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        assert of(source, *folders).digest is not None
        seconds.append(time.monotonic() - began)
    print(f"first {seconds[0] * 1000:.1f} ms, again {min(seconds[1:]) * 1000:.1f} ms")
    assert seconds[0] < 10 and min(seconds[1:]) < 2


# --- the front ---


def test_the_front_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = write(
        tmp_path / "tools" / "bisheng",
        """
        #!/bin/sh
        printf '%s|' "$@"; cat; env | sort | grep -v '^_=\\|^SHLVL='; echo problem >&2; exit 7
        """,
    )
    tool.chmod(0o700)
    private = tmp_path / "a b' $x"
    private.mkdir()
    observed = Observation(private, private / "s.cpp", private / "o.so")
    plain = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "IFS": "x", "folder": "y", "real": "z"}
    arguments = ["", "a b", "new\nline", "*", "'", "\\n", "-n", "%s", os.fsdecode(b"\xff"), str(private / "s.cpp")]
    environment = observed.environment(dict(plain))
    shown = []
    for one in (plain, environment):
        done = subprocess.run(
            ["sh", "-c", 'bisheng "$@"', "x", *arguments], env=one, input=b"given", capture_output=True
        )
        assert done.returncode == 7 and done.stderr == b"problem\n"
        shown.append(done.stdout)
    added = {b"PATH", b"MSKPP_DEPENDENCIES"}
    lines = [[line for line in text.split(b"\n") if line.split(b"=")[0] not in added] for text in shown]
    assert lines[0] == lines[1]
    found = observed.reads()
    assert found is not None
    assert found.commands[0].arguments == (*arguments[:-1], SOURCE)
    assert found.commands[0].program == str(tool)
    assert Reads.from_json(found.to_json()) == found


def test_the_front_never_breaks_a_build(tmp_path: Path) -> None:
    tool = write(tmp_path / "tools" / "bisheng", "#!/bin/sh\nexit 3\n")
    tool.chmod(0o700)
    observed = Observation(tmp_path, tmp_path / "s.cpp", tmp_path / "o.so")
    environment = observed.environment({**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"})
    log = next(tmp_path.glob("observed-*/log"))
    log.rmdir()
    log.write_text("")
    done = subprocess.run(["sh", "-c", "bisheng x"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    assert observed.reads() is None and "was not noted as a whole" in observed.why
    tool.unlink()
    only = {**environment, "PATH": f"{environment['PATH'].split(':')[0]}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", "bisheng x"], env=only, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (127, "bisheng: not found on PATH\n")
    gone = Observation(tmp_path / "none" / "none" / ("x" * 300), tmp_path / "s.cpp", tmp_path / "o.so")
    assert gone.environment({"PATH": "x"}) == {"PATH": "x"}
    assert gone.reads() is None


def test_the_front_never_finds_itself(tmp_path: Path) -> None:
    tool = write(tmp_path / "tools" / "bisheng", "#!/bin/sh\nexit 5\n")
    tool.chmod(0o700)
    observed = Observation(tmp_path, tmp_path / "s.cpp", tmp_path / "o.so")
    environment = observed.environment({**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"})
    first, rest = environment["PATH"].split(":", 1)
    (tmp_path / "link").symlink_to(first)
    path = f"{first}/:{tmp_path}/link:{first}/../bin:{rest}"
    done = subprocess.run(["sh", "-c", "bisheng x"], env={**environment, "PATH": path}, check=False, timeout=60)
    assert done.returncode == 5 and observed.reads() is not None


def test_no_front_for_what_is_not_there_and_for_scripts_that_are_not_followed(host: Project) -> None:
    observed = Observation(host.folder, host.kernel, host.folder / "o.so")
    front = observed.environment({"PATH": "/none"})["PATH"].split(":")[0]
    assert not os.listdir(front)
    host.written("cmake --build x")
    observed = host.readings().observation(host.folder, host.kernel, host.folder / "o.so")
    assert observed.environment({"PATH": "/none"}) == {"PATH": "/none"}
    assert observed.reads() is None and observed.why


@pytest.mark.parametrize(
    "data", [b"", b"x", b"begin\0", b"begin\0a\0b\0\0\0\x005\0x\0end\0", b"begin\0a\0b\0\0\0\0n\0end\0"]
)
def test_a_damaged_log_is_unknown(tmp_path: Path, data: bytes) -> None:
    observed = Observation(tmp_path, tmp_path / "s.cpp", tmp_path / "o.so")
    observed.environment(dict(os.environ))
    (next(tmp_path.glob("observed-*/log")) / "1").write_bytes(data)
    assert observed.reads() is None and "was not noted as a whole" in observed.why


def test_many_calls_and_odd_arguments_are_unknown(tmp_path: Path) -> None:
    observed = Observation(tmp_path, tmp_path / "s.cpp", tmp_path / "o.so")
    observed.environment(dict(os.environ))
    log = next(tmp_path.glob("observed-*/log"))
    assert observed.reads() is None and "no compiler was seen" in observed.why
    (log / "1").write_bytes(b"begin\0a\0b\0\0\0\x000\0end\0" * 300)
    assert observed.reads() is None and "more than 200 times" in observed.why
    (log / "1").write_bytes(b"begin\0a\0b\0\0\0\x001\0\x01source\0end\0")
    assert observed.reads() is None and "control character" in observed.why


def test_the_front_costs_little(tmp_path: Path) -> None:
    tool = write(tmp_path / "tools" / "bisheng", "#!/bin/true\n")
    tool.chmod(0o700)
    observed = Observation(tmp_path, tmp_path / "s.cpp", tmp_path / "o.so")
    plain = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    environment = observed.environment(dict(plain))
    best = []
    for one in (plain, environment):
        times = []
        for _ in range(10):
            began = time.monotonic()
            subprocess.run(["sh", "-c", "exec bisheng x"], env=one, check=False)
            times.append(time.monotonic() - began)
        best.append(min(times))
    print(f"the front takes {(best[1] - best[0]) * 1000:.2f} ms")
    assert best[1] - best[0] < 0.5


# --- what is remembered ---


KEY = "0" * 64


def one_reads(*arguments: str) -> Reads:
    return Reads((Command("", "/x", ("", "", ""), (*arguments, SOURCE, "-o", OUTPUT)),))


def test_candidates_that_are_compiled_in_different_ways(host: Project) -> None:
    host.written('X=""\nif grep -q SPECIAL "$1"; then X=-DSPECIAL; fi\nbisheng -O0 -shared -Isecond $X "$1" -o "$2"\n')
    assert host.known_after_one()
    host.kernel = write(host.folder / "other.cpp", KERNEL)
    host.known_after_one()  # the key has the source, too
    readings = host.readings()
    _, key = readings._script()
    assert not host.manifest.remember(key, one_reads("-DOTHER"))
    assert "or it differed" in host.state().why
    found = host.compiled()
    assert found.digest is None and "does not compile every candidate in the same way" in found.why


def test_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "reads"
    first = Manifest(folder)
    assert first.known(KEY) is None
    assert first.remember(KEY, one_reads()) and first.remember(KEY, one_reads())
    assert Manifest(folder).known(KEY) == one_reads()
    assert Manifest(folder).known("1" * 64) is None
    file = folder / KEY
    assert file.stat().st_mode & 0o777 == 0o600
    whole = file.read_bytes()
    for end in range(len(whole)):
        file.write_bytes(whole[:end])
        assert Manifest(folder).known(KEY) is None
    file.write_bytes(whole.replace(b"/x", b"/y"))
    assert Manifest(folder).known(KEY) is None
    (folder / ("1" * 64)).write_bytes(whole)  # of another key
    assert Manifest(folder).known("1" * 64) is None
    assert Manifest(folder).remember(KEY, one_reads("-a"))
    assert not Manifest(folder).remember(KEY, one_reads("-b"))
    assert Manifest(folder).known(KEY) is None and not Manifest(folder).remember(KEY, one_reads("-a"))
    check = reads._check(KEY, "[]")
    file.write_text(f"{check}\n[]")
    assert Manifest(folder).known(KEY) is None


def test_a_manifest_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for folder in (None, tmp_path / "file" / "reads", tmp_path / "file"):
        one = Manifest(folder)
        assert one.remember(KEY, one_reads()) and one.known(KEY) == one_reads()
    monkeypatch.setenv("MSKPP_CACHE_DIR", str(tmp_path / "cache"))
    one = Manifest.open()  # the folder is made by the store, or not at all
    assert one.remember(KEY, one_reads()) and one.known(KEY) == one_reads()
    monkeypatch.setenv("MSKPP_CACHE_DIR", "relative")
    assert Manifest.open().known(KEY) is None


def test_a_manifest_forgets_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MOST_KEPT", 5)
    one = Manifest(tmp_path / "reads")
    for number in range(9):
        one.remember(f"{number:064x}", one_reads())
        os.utime(tmp_path / "reads" / f"{number:064x}", (number, number))
    assert sorted(int(path.name, 16) for path in (tmp_path / "reads").iterdir()) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", "[2,[]]", "[1,[[1,2,[],[]]]]", '[1,[["a","b",["c"]]]]', "[1,3]", "[" * 9999]
)
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(ValueError, match="it is no record of compilations"):
        Reads.from_json(text)


def test_the_names_of_launch_code_are_those_of_its_template() -> None:
    template = Path(reads.__file__).parents[1] / "launcher" / "templates" / "kernel.cpp.in"
    names = re.findall(r"#include <(.*)>", template.read_text())
    assert set(names) <= set(reads.LAUNCH_CODE_NAMES)


def test_a_failed_compilation_teaches_nothing(host: Project) -> None:
    host.deep.unlink()
    with pytest.raises(CompileError):
        host.compiled()
    assert host.state().digest is None


def test_launch_code_as_it_is_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its headers are known, and so is all that the backend's own command reads, before anything is compiled."""
    kernel = write(tmp_path / "kernel.cpp", "#include <mskpp/kernel.h>\nint a;\n")
    backend = backends.chosen("host")
    found = Readings(backend, None, [], kernel, Manifest(None), compiler="g++").state()
    assert found.digest is not None, found.why
