# SPDX-License-Identifier: Apache-2.0
"""What is tuned: a kernel that is launched, or a program that is run. How its candidates are made and measured."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from mskpp.errors import BackendError, FileError, InputError, LaunchError
from mskpp.launcher import backend as backends
from mskpp.launcher import checks, process, record
from mskpp.launcher.arguments import byte_bounds, is_array, is_memory, is_tensor
from mskpp.launcher.code_generator import check_values, generate_kernel
from mskpp.launcher.kernel import CompiledExecutable, CompiledKernel, ending
from mskpp.launcher.reading import regular_bytes
from mskpp.launcher.signature import read_signature
from mskpp.optune import device, tunable
from mskpp.optune.candidate import Candidate, ProgramError
from mskpp.optune.compiling import Job
from mskpp.optune.measure import is_time
from mskpp.optune.outputs import Arguments, Outputs, WrongResultError, contents, digest_of
from mskpp.optune.plan import Plan
from mskpp.optune.recorder import Recording
from mskpp.optune.space import Space

LAUNCH_MS = 60000  # when the user's launch gives no timeout
PROGRAM_SECONDS = 600.0
LITTLE_BYTES = 4096
MOST_FILES = 10_000
TABLE = "MSKPP_AUTOTUNE_RESULTS_"
# Variables of a shell and a terminal, which change from one to the next.
SESSION_VARIABLES = frozenset(
    ("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "WINDOWID", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY")
)
SAVED = re.compile(r"Profiling results saved in\s+(\S+)")
DURATION = "Task Duration(us)"
MOST_CSV_BYTES = 16 << 20


class Target(Protocol):
    """Used by the threads of a search: one a device for check() and sample(), others for generate()."""

    recording: Recording
    markers: tunable.Markers
    backend: str
    name: str
    devices: int
    """How many candidates are measured at a time."""
    disturbed: bool
    """Whether compiling disturbs measuring."""

    def open(self, limits: process.Limits) -> None: ...

    def close(self) -> None:
        """Ends the candidates' processes."""
        ...

    def generate(self, candidate: Candidate, folder: Path, tuner: Path) -> Job:
        """Writes the candidate's source into its folder; what is to be compiled."""
        ...

    def check(self, candidate: Candidate) -> None:
        """Runs it once, and takes its output. Raises what its ending is."""
        ...

    def sample(self, candidate: Candidate) -> float:
        """One sample of its time, in us. Raises what its ending is."""
        ...

    def wrong(self) -> dict[int, WrongResultError]:
        """Of those that were checked, by number, whose output is not the right one."""
        ...

    def verdict(self) -> str | None:
        """As Outputs.verdict(); None where outputs are not looked at."""
        ...

    def trusted(self) -> set[int] | None:
        """Those whose output others have too, so far; None where outputs are not compared with each other."""
        ...

    def vouch(self, number: int, others: list[int]) -> None:
        """The output of ``number``, which was checked, is that of the others too."""
        ...

    def reopen(self, device: int) -> None:
        """The next candidate on that device finds it as new."""
        ...

    def parts(self) -> dict[str, object]:
        """What the time of a candidate depends on, as store.PARTS names it, without sources and config."""
        ...

    def winner(self, candidate: Candidate) -> Any:
        """What the user's function gets in place of what it compiles."""
        ...


def made(recording: Recording, space: Space, plan: Plan) -> Target:
    """The target for what was recorded. InputError or ArgumentError where names, values or arguments do not fit."""
    return Kernel(recording, space, plan) if recording.config is not None else Program(recording, space, plan)


def prepared(recording: Recording, folder: Path, who: str) -> Path:
    """The candidate's folder, made; the folder for the compiler's temporary files."""
    checks.make_folder(folder, who)
    return checks.make_folder(folder / "tmp", who)


class Kernel:
    """A kernel with launch code, its arguments and outputs."""

    def __init__(self, recording: Recording, space: Space, plan: Plan) -> None:
        assert recording.config is not None
        self.recording = recording
        self._plan = plan
        who = plan.who
        self._backend = backends.chosen(recording.compilation.backend, who)
        self.backend = self._backend.name
        if self.backend == "host" and plan.device_ids != (0,):
            raise InputError(f"{who}: device_ids is {list(plan.device_ids)}; the backend host has one device, 0")
        if recording.compilation.build_script is not None:
            checks.script(recording.compilation.build_script, who)
        self.name = recording.config.kernel_name
        signature = read_signature(recording.source, self.name)
        check_values(signature, recording.args, who)
        self.markers = tunable.read_markers(recording.source)
        tunable.check(self.markers, list(space.samples()), who)
        self._arguments = Arguments(recording.args)
        # What is left in a workspace is nobody's result.
        is_scratch = ["workspace" in parameter.name.lower() for parameter in signature.parameters]
        self._outputs = Outputs(self._arguments, plan.reference, is_scratch)
        self._keywords = {"blockdim": recording.keywords["blockdim"]}
        self._keywords["timeout"] = recording.keywords.get("timeout", LAUNCH_MS)
        self._devices: list[device.Device] = []
        self.devices = len(plan.device_ids)
        self.disturbed = self.backend == "host"

    def open(self, limits: process.Limits) -> None:
        self._devices = device.devices(self.backend, self._plan.device_ids, limits)

    def close(self) -> None:
        for one in self._devices:
            one.close()

    def generate(self, candidate: Candidate, folder: Path, tuner: Path) -> Job:
        recording, who = self.recording, self._plan.who
        scratch = prepared(recording, folder, who)
        source = tunable.instance(recording.source, self.markers, candidate.config, folder)
        launch = folder / "launch.cpp"
        checks.write_file(launch, generate_kernel(source, self.name, recording.callers), who)
        compilation = recording.compilation
        return Job(
            who,
            compilation.build_script,
            launch,
            folder / "kernel.so",
            compilation.options,
            self.backend,
            compilation.timeout,
            scratch,
            True,
            self._plan.memory_bytes,
            tuner,
        )

    def check(self, candidate: Candidate) -> None:
        assert candidate.library is not None
        values = self._devices[candidate.device].launch(candidate.library, self._arguments.fresh(), **self._keywords)
        self._outputs.add(candidate.number, values)

    def sample(self, candidate: Candidate) -> float:
        """The mean of ``repeat`` launches after the warm-up, each on the arguments as they were."""
        assert candidate.library is not None
        times = self._devices[candidate.device].measure(
            candidate.library,
            self._arguments.fresh(),
            **self._keywords,
            warmup_us=self._plan.warmup,
            repeat=self._plan.repeat,
            flush_cache=self._plan.flush_cache,
        )
        if len(times) != self._plan.repeat:
            raise LaunchError(f"{self.name}: {len(times)} times were measured for {self._plan.repeat} launches")
        for one in times:
            if not is_time(one):
                raise LaunchError(f"{self.name}: the measured time of a launch is {one} ns, which cannot be")
        return sum(times) / len(times) / 1000

    def wrong(self) -> dict[int, WrongResultError]:
        return self._outputs.wrong()

    def verdict(self) -> str | None:
        return self._outputs.verdict()

    def trusted(self) -> set[int] | None:
        return self._outputs.trusted() if self._plan.reference is None else None

    def vouch(self, number: int, others: list[int]) -> None:
        self._outputs.vouch(number, others)

    def reopen(self, device: int) -> None:
        self._devices[device].close()

    def parts(self) -> dict[str, object]:
        recording, plan = self.recording, self._plan
        launch = generate_kernel(recording.source, self.name, recording.callers).replace(str(recording.source), "")
        return {
            **common_parts(recording, self._backend, shared=True),
            "device": sorted({one.name() for one in self._devices}),
            "arguments": [[described(value) for value in recording.args], shared(recording.args)],
            "blockdim": recording.keywords["blockdim"],
            "kernel": self.name,
            "template": hashlib.sha256(launch.encode()).hexdigest(),
            "method": {
                "what": "kernel",
                "warmup": plan.warmup,
                "repeat": plan.repeat,
                "flush_cache": plan.flush_cache,
            },
        }

    def winner(self, candidate: Candidate) -> CompiledKernel:
        return CompiledKernel(str(candidate.library), backend=self.backend)


class Program:
    """A program, compiled from the marked source, that is run with arguments of the command line.

    On an NPU its time is the duration of its first kernel as ``msprof op`` reports it. On the host it is what the
    launches of its first kernel took, which kernels compiled by mskpp-cc tell.
    """

    def __init__(self, recording: Recording, space: Space, plan: Plan) -> None:
        self.recording = recording
        self._plan = plan
        who = plan.who
        self._backend = backends.chosen(recording.compilation.backend, who)
        self.backend = self._backend.name
        if recording.compilation.build_script is not None:
            checks.script(recording.compilation.build_script, who)
        self.name = recording.source.stem
        self.markers = tunable.read_markers(recording.source)
        tunable.check(self.markers, list(space.samples()), who)
        self._words = [str(value) for value in recording.args]
        self._timeout = recording.keywords.get("timeout", PROGRAM_SECONDS)
        self._profiler = profiler(who) if self.backend == "ascend" else None
        self._limits = process.Limits()
        self.devices = 1
        self.disturbed = self.backend == "host"

    def open(self, limits: process.Limits) -> None:
        self._limits = limits

    def close(self) -> None:
        pass

    def generate(self, candidate: Candidate, folder: Path, tuner: Path) -> Job:
        recording, who = self.recording, self._plan.who
        scratch = prepared(recording, folder, who)
        source = tunable.instance(recording.source, self.markers, candidate.config, folder)
        compilation = recording.compilation
        return Job(
            who,
            compilation.build_script,
            source,
            folder / self.name,
            compilation.options,
            self.backend,
            compilation.timeout,
            scratch,
            False,
            self._plan.memory_bytes,
            tuner,
        )

    def check(self, candidate: Candidate) -> None:
        """A program checks its output itself, and says so by its exit code: with the first sample."""

    def sample(self, candidate: Candidate) -> float:
        assert candidate.library is not None
        times = checks.make_folder(candidate.library.parent / "times", self._plan.who)
        try:
            time_us = (
                self._profiled(candidate.library, times) if self._profiler else self._timed(candidate.library, times)
            )
        finally:
            shutil.rmtree(times, ignore_errors=True)
        if not is_time(time_us):
            raise LaunchError(f"{self.name}: the measured time is {time_us} us, which cannot be; is the device in use?")
        return time_us

    def _run(self, command: list[str], environment: Mapping[str, str]) -> process.Completed:
        done = process.run(
            command,
            timeout=self._timeout,
            who=self.name,
            env=environment,
            memory_bytes=self._limits.memory_bytes,
            stop=self._limits.stop,
        )
        if done.returncode != 0:
            who = "" if os.path.basename(command[0]) == self.name else f"{os.path.basename(command[0])} "
            how = f"{self.name}: {who}ended with {ending(done.returncode)}"
            kind = LaunchError if done.returncode < 0 else ProgramError
            raise kind(f"{how}{process.last_lines(done.stdout, done.stderr)}")
        return done

    def _profiled(self, program: Path, folder: Path) -> float:
        assert self._profiler is not None
        options = [f"--warm-up={self._plan.warmup_times}", f"--output={folder}"]
        done = self._run([str(self._profiler), "op", *options, str(program), *self._words], os.environ)
        return task_duration(done.stdout, folder, self.name)

    def _timed(self, program: Path, folder: Path) -> float:
        times = folder / "times"
        environment = {**os.environ, "MSKPP_KERNEL_TIMES": str(times)}
        for _ in range(self._plan.warmup_times + 1):
            times.unlink(missing_ok=True)
            self._run([str(program), *self._words], environment)
        try:
            lines = regular_bytes(times, MOST_CSV_BYTES, follow_links=False).decode().splitlines()
            first = lines[0].rpartition(" ")[0]
            taken = [int(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == first]
        except (OSError, ValueError, IndexError):
            raise ProgramError(
                f"{self.name}: it launched no kernel: nothing to measure; launch one with <<<>>>, compiled by mskpp-cc"
            ) from None
        return taken[0] / 1000

    def wrong(self) -> dict[int, WrongResultError]:
        return {}

    def verdict(self) -> str | None:
        return None

    def trusted(self) -> set[int] | None:
        return None

    def vouch(self, number: int, others: list[int]) -> None:
        pass

    def reopen(self, device: int) -> None:
        pass

    def parts(self) -> dict[str, object]:
        # What a program reads is known only as far as its words, its folder and its environment go.
        return {
            **common_parts(self.recording, self._backend, shared=False),
            "device": [self._backend.device_name(0)],
            "folder": folder_state(Path.cwd()),
            "variables": {
                n: v for n, v in os.environ.items() if n not in SESSION_VARIABLES and not n.startswith("MSKPP_")
            },
            "arguments": [[word, record.digest(word) if os.path.isfile(word) else None] for word in self._words],
            "blockdim": None,
            "kernel": self.name,
            "template": None,
            "method": {"what": "program", "warmup_times": self._plan.warmup_times},
        }

    def winner(self, candidate: Candidate) -> CompiledExecutable:
        return CompiledExecutable(str(candidate.library))


def variables() -> Iterator[tuple[str, str]]:
    """Of the environment what a program may look at."""
    for name, value in os.environ.items():
        if name not in SESSION_VARIABLES and not name.startswith("MSKPP_"):
            yield name, value


def folder_state(folder: Path) -> list[object]:
    """The folder's path and the files in it, with their sizes and times; our own tables left out."""
    found: list[object] = [str(folder)]
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(itertools.islice(entries, MOST_FILES), key=lambda entry: entry.name):
            if not entry.name.startswith(TABLE):
                status = entry.stat(follow_symlinks=True)
                found.append([entry.name, status.st_size, status.st_mtime_ns])
    return found


def common_parts(recording: Recording, backend: backends.Backend, *, shared: bool) -> dict[str, object]:
    script = recording.compilation.build_script
    return {
        "script": None if script is None else hashlib.sha256(Path(script).read_bytes()).hexdigest(),
        "options": list(recording.compilation.options),
        "compiler": backend.identity(),
        "backend": backend.name,
        "environment": list(backends.environment_key()),
        "shared": shared,
    }


def described(value: Any) -> object:
    """Of an argument what a time depends on: of memory its shape and type, of little memory what it holds too (it may
    be sizes, as in a tiling buffer), of the rest the value."""
    if is_array(value):
        return ["array", str(value.dtype), list(value.shape), list(value.strides), held(value, value.nbytes)]
    if is_tensor(value):
        return ["tensor", str(value.dtype), [int(n) for n in value.shape]]
    if isinstance(value, list | tuple):
        return ["list", *map(described, value)] if any(map(is_array, value)) else ["list", len(value), held(value, 0)]
    if isinstance(value, bool | int | float | str) or value is None:
        return [type(value).__name__, value]
    if isinstance(value, bytearray | memoryview):
        return ["bytes", len(value), held(value, len(value))]
    if hasattr(value, "item"):
        return [str(value.dtype), value.item()]
    return [type(value).__qualname__, held(value, 0)]


def held(value: Any, size: int) -> object:
    """A digest of what the memory holds where it is little."""
    parts = [] if size > LITTLE_BYTES else contents(value)
    return b"".join(map(digest_of, parts))


def shared(values: Sequence[Any]) -> list[int]:
    """For each argument the first whose memory it shares, itself where none does."""
    bounds = [byte_bounds(value) if is_array(value) else (id(value), id(value) + 1) for value in values]

    def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one[0] < other[1] and other[0] < one[1]

    return [
        next(
            (i for i in range(n) if is_memory(values[i]) and is_memory(values[n]) and overlap(bounds[i], bounds[n])), n
        )
        for n in range(len(values))
    ]


def profiler(who: str) -> Path:
    """The program msprof. BackendError where there is none."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    places = [os.environ.get("PATH", os.defpath)]
    if home:
        places += [os.path.join(home, "bin"), os.path.join(home, "tools", "profiler", "bin")]
    found = shutil.which("msprof", path=os.pathsep.join(places))
    if found is None:
        raise BackendError(
            f"{who}: msprof, which measures, is neither on PATH nor in ASCEND_HOME_PATH; install the toolkit"
        )
    return Path(found)


def task_duration(said: str, folder: Path, who: str) -> float:
    """The duration of the first kernel, in us, from what ``msprof op`` said and wrote below the folder.

    LaunchError where it cannot be known.
    """
    saved = [Path(path.rstrip(".")) for path in SAVED.findall(said)]
    found = [path for path in [*saved, *sorted(folder.glob("OPPROF_*"))] if path.name.startswith("OPPROF_")]
    if not found:
        raise LaunchError(f"{who}: msprof op wrote no folder OPPROF_*: no kernel ran, or it was not profiled")
    path = found[0] / "OpBasicInfo.csv"
    try:
        rows = list(
            csv.DictReader(regular_bytes(path, MOST_CSV_BYTES, follow_links=False).decode("utf-8-sig").splitlines())
        )
    except (OSError, FileError, UnicodeDecodeError, csv.Error) as error:
        raise LaunchError(f"{who}: {path.name} of msprof op cannot be read: {error}") from None
    if not rows or DURATION not in rows[0]:
        columns = ", ".join(map(str, rows[0])) if rows else "no rows"
        raise LaunchError(f"{who}: {path.name} of msprof op has no {DURATION}; it has {columns}")
    text = str(rows[0][DURATION]).strip()
    try:
        return float(text)
    except ValueError:
        raise LaunchError(f"{who}: {DURATION} in {path.name} of msprof op is {text!r}; it must be a number") from None
