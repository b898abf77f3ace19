# SPDX-License-Identifier: Apache-2.0
"""Programs under a supervisor: results as of subprocess, and nothing left of any tree, whatever ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mskpp.errors import ArgumentError, FileError, InputError, LaunchError, TimeLimitError
from mskpp.launcher import process, supervisor
from mskpp.launcher.process import run, start

# A process that names itself in a file, is in a session of its own, has lost its parents and ignores SIGTERM.
DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".part", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(60)
"""


def alive(number: int) -> bool:
    """Whether the process runs; a zombie whose parent does not reap it does not."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def number_in(path: Path) -> int:
    assert wait_until(path.exists), f"{path.name} was never written"
    return int(path.read_text())


def bash(text: str) -> list[str]:
    return ["bash", "-c", text]


@pytest.fixture
def daemon(tmp_path: Path) -> list[str]:
    """The words that start a daemon which writes its number to daemon.pid."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    return [sys.executable, "-S", str(tmp_path / "daemon.py"), str(tmp_path / "daemon.pid")]


@pytest.fixture
def tree(tmp_path: Path, daemon: list[str]) -> list[str]:
    """A program with children of every sort; all write their numbers, and the program stays."""
    quoted = " ".join(f"'{word}'" for word in daemon)
    return bash(
        f"""
        trap '' TERM
        {quoted} &
        (echo $BASHPID > group.part; mv group.part group.pid; exec sleep 60) &
        setsid bash -c 'echo $$ > session.part; mv session.part session.pid; exec sleep 60' &
        until [ -e daemon.pid ] && [ -e group.pid ] && [ -e session.pid ]; do sleep 0.01; done
        echo $$ > main.part; mv main.part main.pid
        echo ready
        sleep 60 & wait; wait; sleep 60
        """
    )


TREE = ("daemon.pid", "group.pid", "session.pid", "main.pid")


def tree_numbers(folder: Path) -> list[int]:
    number_in(folder / "main.pid")
    return [number_in(folder / name) for name in TREE]


# Results


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**400, None])
def test_a_time_limit_of_years_is_none(timeout: float | None) -> None:
    assert run(["true"], timeout=timeout, who="t").returncode == 0


def test_output_and_code() -> None:
    done = run(bash("echo out; echo err >&2; exit 3"), timeout=10, who="t")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert 0 < done.seconds < 10


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_is_a_negative_code(number: signal.Signals) -> None:
    assert run(bash(f"ulimit -c 0; kill -{int(number)} $$"), timeout=10, who="t").returncode == -number


def test_environment_folder_and_words_arrive_as_given(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    words = ["a b", "", "$x", "é", "'\"\\"]
    code = "import os, sys; print(sys.argv[1:], dict(os.environ)['X'], 'HOME' in os.environ, os.getcwd())"
    done = run([sys.executable, "-c", code, *words], timeout=10, who="t", env={"X": "1"}, cwd=tmp_path / "sub")
    assert done.stdout == f"{words} 1 False {tmp_path / 'sub'}\n"


def test_paths_are_words_and_stdin_is_empty() -> None:
    assert run([Path("/bin/cat")], timeout=10, who="t").stdout == ""


def test_the_program_has_default_signals_and_a_group_of_its_own() -> None:
    """Without the default SIGPIPE, "yes | head" in a build script would complain; "kill 0" ends no supervisor."""
    assert run(bash("yes | head -1; echo ${PIPESTATUS[0]}"), timeout=10, who="t").stdout == f"y\n{128 + 13}\n"
    assert run(bash("trap 'exit 7' TERM; kill 0; sleep 5"), timeout=10, who="t").returncode == 7


def test_undecodable_output() -> None:
    assert run(bash(r"printf 'a\xffb'"), timeout=10, who="t").stdout == "a�b"


def test_large_output_keeps_head_and_tail() -> None:
    done = run(bash("echo begin; head -c 20000000 /dev/zero; echo end"), timeout=20, who="t", limit_output=1 << 20)
    assert done.stdout.startswith("begin\n")
    assert done.stdout.endswith("end\n")
    left_out = 20_000_010 - (1 << 20)
    assert f"[mskpp: {left_out:,} bytes left out]" in done.stdout
    assert len(done.stdout) < (1 << 20) + 100


def test_output_within_the_limit_is_whole() -> None:
    done = run(bash("seq 100000; seq 100000 >&2"), timeout=20, who="t")
    expected = "".join(f"{n}\n" for n in range(1, 100_001))
    assert done.stdout == done.stderr == expected


def test_start_up_is_short() -> None:
    """What a run costs more than the program; generous, for busy machines. 25 ms where it was written."""
    assert min(run(["true"], timeout=10, who="t").seconds for _ in range(5)) < 0.2


def test_memory_limit() -> None:
    code = "x = bytearray(1 << 30)"
    done = run([sys.executable, "-c", code], timeout=20, who="t", memory_bytes=256 << 20)
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


def test_threads_do_not_disturb_each_other() -> None:
    """Neither output nor lifelines leak from one run into another that starts at the same moment."""
    results: dict[int, str] = {}

    def one(number: int) -> None:
        seconds = 0.6 if number == 0 else 0
        results[number] = run(bash(f"sleep {seconds}; echo {number}; ls /proc/self/fd"), timeout=20, who="t").stdout

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # 3 is the folder that ls reads.
    assert results == {number: f"{number}\n0\n1\n2\n3\n" for number in range(12)}


def test_this_process_keeps_nothing_open() -> None:
    run(["true"], timeout=10, who="t")
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(["true"], timeout=10, who="t")
        with contextlib.suppress(TimeLimitError):
            run(["sleep", "5"], timeout=0.05, who="t")
        with contextlib.suppress(FileError):
            run(["./absent"], timeout=10, who="t")
    assert sorted(os.listdir("/proc/self/fd")) == before


# Messages


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("ls -l", ArgumentError, "compile: command is str; give a list of the program and its arguments"),
        ([], InputError, "compile: command is empty; the first word is the program"),
        (["ls", 3], ArgumentError, "compile: word 1 of the command is 3; each is a string or a path"),
        (["ls", "a\0b"], InputError, "compile: word 1 of the command has a NUL character"),
        (["no-such-program"], FileError, r"compile: program 'no-such-program' is not found on PATH \(.*\); install it"),
        (["./absent"], FileError, r"compile: ./absent cannot be started: No such file or directory; give an exec"),
        (["/etc/passwd"], FileError, r"compile: /etc/passwd cannot be started: Permission denied; give an exec"),
    ],
)
def test_commands_that_cannot_be(command: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(command, timeout=10, who="compile")


def test_a_script_without_first_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("echo hi\n")
    (tmp_path / "x").chmod(0o700)
    with pytest.raises(FileError, match=r"t: ./x cannot be started: Exec format error; .*#!/bin/bash"):
        run(["./x"], timeout=10, who="t")


def test_a_command_that_is_too_long() -> None:
    with pytest.raises(
        FileError, match=r"t: true xx.* cannot be started: Argument list too long; the words of the comm"
    ):
        run(["true", "x" * (1 << 20)], timeout=10, who="t")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"t: true cannot be started: No such file or directory; the folder to run in"):
        run(["true"], timeout=10, who="t", cwd=tmp_path / "absent")


@pytest.mark.parametrize(
    ("value", "error"), [(0, InputError), (-1, InputError), (True, ArgumentError), ("5", ArgumentError)]
)
def test_time_and_memory_must_be_positive(value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"t: timeout is .*None for no limit"):
        run(["true"], timeout=value, who="t")  # type: ignore[arg-type]
    with pytest.raises(error, match=r"t: memory_bytes is .*None for no limit"):
        run(["true"], timeout=1, who="t", memory_bytes=value)  # type: ignore[arg-type]


def test_an_interpreter_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(
        FileError, match=r"t: true cannot be started: No such file .* sys.executable, which is '/no/python'"
    ):
        run(["true"], timeout=10, who="t")


# The end of trees


def test_time_limit_message_has_the_last_lines() -> None:
    with pytest.raises(TimeLimitError) as caught:
        run(bash("seq 50; sleep 60"), timeout=0.3, who="compile")
    text = str(caught.value)
    assert text.startswith("compile: bash -c 'seq 50; sleep 60' did not end within 0.3 s and was ended with all it")
    assert text.endswith("\n  49\n  50")
    assert "\n  30\n" not in text


def test_time_limit_ends_the_whole_tree(tree: list[str], tmp_path: Path) -> None:
    """The program ignores SIGTERM; children sit in other groups and sessions, one is a daemon."""
    began = time.monotonic()
    with pytest.raises(TimeLimitError, match="ready"):
        run(tree, timeout=1.0, who="t")
    assert time.monotonic() - began < 1.0 + supervisor.GRACE_SECONDS + 1.0
    assert [alive(number) for number in tree_numbers(tmp_path)] == [False] * 4


def test_time_limit_while_megabytes_are_written() -> None:
    began = time.monotonic()
    with pytest.raises(TimeLimitError):
        run(bash("trap '' TERM PIPE; yes & yes >&2 & wait; sleep 9"), timeout=0.4, who="t", limit_output=1 << 16)
    assert time.monotonic() - began < 2


def test_a_polite_program_may_clean_up(tmp_path: Path) -> None:
    with pytest.raises(TimeLimitError):
        run(bash("trap 'touch cleaned; exit' TERM; sleep 60 & wait"), timeout=0.3, who="t")
    assert (tmp_path / "cleaned").exists()


def test_what_is_left_after_a_normal_end_is_ended(daemon: list[str], tmp_path: Path) -> None:
    """The daemon holds stdout open, which is waited for by nobody."""
    quoted = " ".join(f"'{word}'" for word in daemon)
    began = time.monotonic()
    done = run(bash(f"{quoted}; until [ -e daemon.pid ]; do sleep 0.01; done; echo done"), timeout=20, who="t")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert time.monotonic() - began < 5
    assert not alive(number_in(tmp_path / "daemon.pid"))


def test_a_program_that_forks_without_end(tmp_path: Path) -> None:
    code = """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end = time.monotonic() + 20
        while time.monotonic() < end:   # each child goes on where its parent ends
            if os.fork():
                os.setsid() if os.getpid() % 3 == 0 and os.getpgrp() != os.getpid() else None
                os._exit(0)
            open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
        """
    began = time.monotonic()
    # Each parent ends at once, so the program has ended, and a chain of orphans is left behind.
    run([sys.executable, "-S", "-c", textwrap.dedent(code), str(tmp_path / "all")], timeout=10, who="t")
    assert time.monotonic() - began < 5
    lines = (tmp_path / "all").read_text()
    assert not any(alive(int(line)) for line in lines.split())
    assert (tmp_path / "all").read_text() == lines


def test_a_tree_that_doubles(tmp_path: Path) -> None:
    code = "import os, time\nfor _ in range(7): os.fork()\nopen('all', 'a').write(f'{os.getpid()}\\n')\ntime.sleep(60)"
    with pytest.raises(TimeLimitError):
        run([sys.executable, "-S", "-c", code], timeout=1.0, who="t")
    assert not any(alive(int(line)) for line in (tmp_path / "all").read_text().split())


def in_python(body: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Another Python process that uses this module."""
    code = "import sys\nfrom mskpp.launcher.process import run, start\n" + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE)


def test_kill_of_the_parent_ends_the_tree(tree: list[str], tmp_path: Path) -> None:
    with in_python("run(sys.argv[1:], timeout=None, who='t')", *tree) as parent:
        numbers = tree_numbers(tmp_path)
        parent.kill()
        killed = time.monotonic()
        assert wait_until(lambda: not any(alive(number) for number in numbers))
        assert time.monotonic() - killed < 2


def test_kill_of_the_parent_while_a_fork_of_it_lives(tree: list[str], tmp_path: Path) -> None:
    """The fork holds the lifeline open; the supervisor looks at the parent itself."""
    body = """
        import os, threading, time
        def fork():
            while not os.path.exists("main.pid"):
                time.sleep(0.01)
            if os.fork() == 0:
                with open("fork.part", "w") as file: file.write(str(os.getpid()))
                os.rename("fork.part", "fork.pid")
                time.sleep(60)
        threading.Thread(target=fork, daemon=True).start()
        run(sys.argv[1:], timeout=None, who='t')
        """
    with in_python(body, *tree) as parent:
        numbers = tree_numbers(tmp_path)
        fork = number_in(tmp_path / "fork.pid")
        try:
            parent.kill()
            killed = time.monotonic()
            assert wait_until(lambda: not any(alive(number) for number in numbers))
            assert time.monotonic() - killed < 2
        finally:
            os.kill(fork, signal.SIGKILL)


def test_interrupt_of_the_parent(tree: list[str], tmp_path: Path) -> None:
    with in_python("run(sys.argv[1:], timeout=None, who='t')", *tree) as parent:
        numbers = tree_numbers(tmp_path)
        pressed = time.monotonic()
        parent.send_signal(signal.SIGINT)
        parent.wait(timeout=10)
        assert time.monotonic() - pressed < 1
        assert not any(alive(number) for number in numbers)
        assert parent.stderr is not None
        assert parent.stderr.read().endswith(b"KeyboardInterrupt\n")


def test_interrupt_at_any_moment() -> None:
    """From before the start to after the end: the interrupt comes through, no child and no descriptor is left."""
    for _ in range(2):
        with contextlib.suppress(KeyboardInterrupt):
            run(["true"], timeout=10, who="t")
    before, children = set(os.listdir("/proc/self/fd")), children_of_this()
    for number in range(30):
        moment = 0.001 + number * 0.0015
        began = time.monotonic()
        timer = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            run(["sleep", "60"], timeout=30, who="t")
        assert time.monotonic() - began < 1 + moment
        timer.join()
        assert wait_until(lambda: children_of_this() <= children), f"left at {moment * 1000:.1f} ms"
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("waiting", [lambda words: run(words, timeout=None, who="t"), lambda words: waited_for(words)])
def test_an_interrupt_that_does_not_end_the_wait(waiting: Callable[[list[str]], object]) -> None:
    """Another thread takes the signal, so the wait goes on. The same comes to pass now and then, on a busy machine,
    where the signal finds the main thread just about to wait."""

    def interrupt() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    began = time.monotonic()
    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        waiting(["sleep", "30"])
    assert time.monotonic() - began < 15
    thread.join()


def waited_for(words: list[str]) -> int:
    with start(words, who="t") as running:
        return running.wait()


def test_an_interrupt_of_the_start_while_a_fork_holds_the_lifeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor has no order yet, and Python has no process yet that could be ended."""
    started: list[subprocess.Popen[bytes]] = []
    held: list[int] = []

    def interrupted(*arguments: object, **keywords: object) -> None:
        started.append(popen(*arguments, **keywords))
        for name in os.listdir("/proc/self/fd"):  # as a fork would
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    held.append(os.dup(int(name)))
        raise KeyboardInterrupt

    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    monkeypatch.setattr(process.subprocess, "Popen", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(["sleep", "60"], timeout=30, who="t")
        assert started[0].wait(10) == 0
    finally:
        for one in started:
            one.kill()
            one.wait()
        for descriptor in held:
            os.close(descriptor)


def test_kill_of_the_parent_before_the_order_while_a_fork_of_it_lives() -> None:
    """The fork holds the lifeline open; the supervisor looks at the parent itself."""
    code = """
        import fcntl, os, socket, subprocess, sys, termios, time
        ours, its = socket.socketpair()
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", sys.argv[1], str(its.fileno()), "1", str(os.getpid())], pass_fds=[its.fileno()]
        )
        its.close()
        ours.sendall(bytes(3))  # of the eight
        while any(fcntl.ioctl(ours, termios.TIOCOUTQ, bytes(4))):
            time.sleep(0.01)  # until they are read
        fork = os.fork()
        if fork == 0:
            time.sleep(60)
            os._exit(0)
        print(supervisor.pid, fork, flush=True)
        time.sleep(60)
        """
    words = [sys.executable, "-c", textwrap.dedent(code), supervisor.__file__]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        number, fork = map(int, parent.stdout.readline().split())
        try:
            assert alive(number)
            parent.kill()
            assert wait_until(lambda: not alive(number), 10)
        finally:
            for one in (number, fork):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)


def test_what_is_stopped_before_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.subprocess, "Popen", lambda *a, **k: pytest.fail("it was started"))
    stop = process.Stop()
    stop.set()
    assert run(["sleep", "60"], timeout=None, who="t", stop=stop).returncode == -signal.SIGKILL


def children_of_this() -> set[str]:
    """Living children of this process, as their numbers; other tests may keep some."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            fields = text[text.rindex(")") + 2 :].split()
            if int(fields[1]) == os.getpid() and fields[0] not in "ZX":
                found.add(stat.parent.name)
    return found


def test_kill_of_the_supervisor_by_its_program(tmp_path: Path) -> None:
    """The caller does not hang, learns of it, and what shares the supervisor's session is ended still."""
    command = bash("sleep 60 & echo $! > child.pid; kill -9 $PPID; sleep 60")
    began = time.monotonic()
    with pytest.raises(LaunchError, match=r"t: bash .* its supervisor \(process \d+\) ended early with signal 9; run"):
        run(command, timeout=20, who="t")
    assert time.monotonic() - began < 5
    assert wait_until(lambda: not alive(number_in(tmp_path / "child.pid")))


def test_the_supervisor_asked_to_end(tree: list[str], tmp_path: Path) -> None:
    running = start(tree, who="t")
    numbers = tree_numbers(tmp_path)
    running.process.terminate()
    assert running.wait(10) == -signal.SIGKILL
    assert not any(alive(number) for number in numbers)


# Long-living programs


def test_start_and_stop(tree: list[str], tmp_path: Path) -> None:
    with start(tree, who="t", stdout=subprocess.DEVNULL) as running:
        numbers = tree_numbers(tmp_path)
        assert running.poll() is None
        assert all(alive(number) for number in numbers)
        with pytest.raises(TimeLimitError, match=r"(?s)t: bash .* still runs after 0.05 s"):
            running.wait(0.05)
        running.stop()
        assert not any(alive(number) for number in numbers)
    running.stop()
    assert running.poll() == running.wait(1) == -signal.SIGKILL


def test_start_passes_descriptors_and_no_others() -> None:
    reader, writer = os.pipe()
    other = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(other, True)
    code = f"import os; os.write({writer}, str(sorted(map(int, os.listdir('/proc/self/fd')))).encode())"
    try:
        with start([sys.executable, "-c", code], who="t", pass_fds=(writer,)) as running:
            assert running.wait(10) == 0
        # One more: the folder that is listed.
        shown = eval(os.read(reader, 1000))
        assert set(shown) >= {0, 1, 2, writer}
        assert len(shown) == 5
    finally:
        for descriptor in (reader, writer, other):
            os.close(descriptor)


def test_what_cannot_be_started_shows_at_the_first_look() -> None:
    running = start(["./absent"], who="t")
    with pytest.raises(FileError, match=r"t: ./absent cannot be started"):
        running.wait(10)
    running.stop()


def test_a_forgotten_program_is_ended(tmp_path: Path) -> None:
    running = start(bash("echo $$ > x.part; mv x.part x.pid; exec sleep 60"), who="t")
    number = number_in(tmp_path / "x.pid")
    supervisor_process = running.process
    del running
    assert wait_until(lambda: not alive(number))
    assert supervisor_process.wait(5) == 1  # nobody took its report


def test_a_program_that_outlives_its_supervisors_stop_is_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor's word for it is read as it stands: here from a stand-in."""
    stand_in = "import os, sys; os.read(int(sys.argv[1]), 9); os.write(int(sys.argv[2]), b'exit 4 2\\n')"
    Path("stand_in.py").write_text(stand_in)
    monkeypatch.setattr(process, "_SUPERVISOR", Path("stand_in.py").resolve())
    assert run(["true"], timeout=10, who="t").returncode == 4
    assert "t: 2 processes of true could not be ended: they belong to another user" in caplog.text


def test_a_supervisor_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_SUPERVISOR", Path("stand_in.py").resolve())
    monkeypatch.setattr(process, "_END_SECONDS", 0.2)
    Path("stand_in.py").write_text("import time; time.sleep(60)")
    began = time.monotonic()
    with pytest.raises(TimeLimitError):
        run(["true"], timeout=0.2, who="t")
    assert time.monotonic() - began < 3


def test_without_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before 5.3."""

    def absent(number: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", absent)
    assert run(bash("echo x; exit 2"), timeout=10, who="t").returncode == 2
    with pytest.raises(TimeLimitError):
        run(["sleep", "60"], timeout=0.1, who="t")
    with start(["sleep", "60"], who="t") as running, pytest.raises(TimeLimitError):
        running.wait(0.1)


def test_where_this_process_ignores_its_children() -> None:
    """SIGCHLD ignored: the kernel reaps them, and the report alone tells how the program ended."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run(bash("exit 5"), timeout=10, who="t").returncode == 5
    finally:
        signal.signal(signal.SIGCHLD, before)
