# SPDX-License-Identifier: Apache-2.0
"""Paths, permissions and scripts: what is refused, what is let pass, and what the messages say."""

from __future__ import annotations

import builtins
import ctypes
import errno
import logging
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mskpp.errors import ArgumentError, BackendError, FileError, InputError, UnsafeError
from mskpp.launcher import checks, code_generator, script_scan


@pytest.fixture(autouse=True)
def usual_rights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("MSKPP_ALLOW_UNSAFE", raising=False)
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file.sh"
    path.write_text("echo hi\n")
    path.chmod(0o644)
    return path


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int, int], None]:
    """owner(path, user, caller): the path belongs to the user, and the caller is another one."""

    def set_up(path: Path, user: int, caller: int) -> None:
        real = Path.stat

        def with_owner(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
            status = real(self, follow_symlinks=follow_symlinks)
            if self != path:
                return status
            return os.stat_result([*status[:4], user, *status[5:10]])

        monkeypatch.setattr(Path, "stat", with_owner)
        monkeypatch.setattr(os, "geteuid", lambda: caller)

    return set_up


READERS: list[Callable[..., Any]] = [checks.readable_file, checks.script, checks.trusted, checks.output_path]
ALL = [*READERS, checks.folder, checks.make_folder]


# Path rules


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("path", [None, 3, b"bytes", True, ["a"]])
def test_what_is_no_path(check: Callable[..., Any], path: object) -> None:
    with pytest.raises(ArgumentError, match=r"^compile: the path is .*; give a string or a pathlib.Path$"):
        check(path, "compile")


def test_a_path_of_bytes_in_an_object() -> None:
    class Bytes:
        def __fspath__(self) -> bytes:
            return b"x"

    with pytest.raises(ArgumentError, match=r"^t: the path is b'x' \(bytes\)"):
        checks.readable_file(Bytes(), "t")  # type: ignore[arg-type]


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path(check: Callable[..., Any], path: str) -> None:
    with pytest.raises(InputError, match=r"^compile: the path is empty \('.*'\); give the name of a file or folder$"):
        check(path, "compile")


@pytest.mark.parametrize("check", ALL)
@pytest.mark.parametrize("character", ["\n", "\f", "\r", "\b", "\t", "\v", "\x7f", "\0"])
def test_control_characters(check: Callable[..., Any], character: str) -> None:
    with pytest.raises(InputError, match=r"^t: the path '.*' has the control character '.*'; rename the file without"):
        check(f"a{character}b", "t")


@pytest.mark.parametrize("check", ALL)
def test_long_names(check: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"^t: the name 'ééé.*'... in the path has 256 bytes; 255 are allowed, use a "):
        check("é" * 128, "t")
    with pytest.raises(
        InputError, match=r"^t: the path 'x/x/.*'... has \d+ bytes; 4096 are allowed, use a shorter one$"
    ):
        check("x/" * 2048 + "x", "t")


def test_names_of_255_bytes_are_used(tmp_path: Path) -> None:
    checks.write_file("x" * 255, "text", "t")
    assert checks.readable_file("x" * 255, "t") == tmp_path / ("x" * 255)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(
        InputError, match=r"^t: the path '\\ud800' has characters that no file name can have; check it$"
    ):
        checks.readable_file("\ud800", "t")


def test_a_relative_path_without_a_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileError, match=r"^t: the current folder is gone, and 'x' is relative to it$"):
        checks.readable_file("x", "t")


def test_ordinary_names_pass(tmp_path: Path) -> None:
    for name in ("a b", "ü", "x'y", 'x"y', "$x", "-rf", "x;y", os.fsdecode(b"\xff")):
        (tmp_path / name).write_text("x")
        assert checks.readable_file(name, "t") == tmp_path / name
        assert checks.readable_file(tmp_path / name, "t") == tmp_path / name


# Reading


@pytest.mark.parametrize("check", [checks.readable_file, checks.script, checks.trusted, checks.folder])
def test_absent(check: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(FileError, match=rf"^t: (file|folder) {tmp_path}/no cannot be used: it does not exist; check"):
        check("no", "t")
    (tmp_path / "link").symlink_to("no")
    with pytest.raises(FileError, match=r"it does not exist \(a link to nothing\); check the path$"):
        check("link", "t")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(FileError, match=r"cannot be used: Too many levels of symbolic links; check the path$"):
        check("circle", "t")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be used: Not a directory; check the path$"):
        check("file/x", "t")


def test_the_wrong_kind(tmp_path: Path, file: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path, "a folder"), (tmp_path / "pipe", "a pipe"), (Path("/dev/null"), "a device")):
        for check in (checks.readable_file, checks.script):
            with pytest.raises(FileError, match=rf"^t: {path} is {kind}; give a regular file$"):
                check(path, "t")
    with pytest.raises(FileError, match=rf"^t: {file} is a regular file; give a folder$"):
        checks.folder(file, "t")


def test_links_are_followed_on_reading(tmp_path: Path, file: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "folder").symlink_to(tmp_path)
    assert checks.readable_file("link", "t") == checks.script("folder/link", "t") == file
    assert checks.folder("folder", "t") == tmp_path


def test_rights_to_read(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileError, match=rf"^t: {file} cannot be read; allow it: chmod u\+r '{file}'$"):
        checks.readable_file(file, "t")
    with pytest.raises(FileError, match=rf"^t: folder {tmp_path} cannot be read; allow it: chmod u\+rx {tmp_path}$"):
        checks.folder(tmp_path, "t")


def test_an_owner_without_the_right_to_read(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root reads what its owner may not")
    file.chmod(0o200)
    with pytest.raises(
        UnsafeError, match=rf"refused: its owner may not read it; allow it: chmod u\+r '{file}'\. MSKPP_"
    ):
        checks.readable_file(file, "t")
    assert checks.readable_file(file, "t", allow_unsafe=True) == file
    assert "is used although it is not safe: its owner may not read it" in caplog.text


def test_size(file: Path) -> None:
    assert checks.readable_file(file, "t", limit_bytes=8) == file
    with pytest.raises(FileError, match=r"has 8 bytes; at most 7 are read here. Check that it is the right file$"):
        checks.readable_file(file, "t", limit_bytes=7)
    with open(file, "r+b") as big:
        big.truncate((100 << 20) + 1)
    with pytest.raises(FileError, match=r"has 104,857,601 bytes; at most 104,857,600 are read here"):
        checks.readable_file(file, "t")


def test_suffix(file: Path) -> None:
    assert checks.readable_file(file, "t", suffix=".sh") == file
    for check in (checks.readable_file, checks.output_path):
        with pytest.raises(InputError, match=r"^t: 'a file.sh' must end with '.so'; rename it$"):
            check(file, "t", suffix=".so")


# Owners and rights


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
@pytest.mark.parametrize(("user", "caller"), [(0, 1000), (1000, 1000), (0, 0)])
def test_files_of_root_and_of_the_caller(
    check: Callable[..., Any], user: int, caller: int, file: Path, owner: Callable[..., None]
) -> None:
    owner(file, user, caller)
    check(file, "t")


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_files_of_others_are_refused(
    check: Callable[..., Any], file: Path, owner: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    owner(file, 1001, 1000)
    with pytest.raises(UnsafeError) as caught:
        check(file, "compile")
    assert str(caught.value) == (
        f"compile: {file} is refused: it belongs to user 1001, who may change it at any time; if you know what is in "
        f"it: chown 1000 '{file}' (as root), or use a copy of your own. MSKPP_ALLOW_UNSAFE=1 accepts it as it is"
    )
    assert isinstance(caught.value, PermissionError)
    assert not caplog.records


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_root_is_warned_only(
    check: Callable[..., Any], file: Path, owner: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    owner(file, 1001, 0)
    check(file, "compile")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"compile: {file}: it belongs to user 1001" in caplog.text
    assert f"chown root '{file}'" in caplog.text


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_files_for_everybody_are_refused(check: Callable[..., Any], file: Path) -> None:
    file.chmod(0o646)
    with pytest.raises(
        UnsafeError, match=rf"^t: {file} is refused: everybody may write to it; look into it, then: chmod"
    ):
        check(file, "t")
    subprocess.run(["bash", "-c", f"chmod o-w '{file}'"], check=True)  # the cure of the message
    check(file, "t")


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_files_for_the_group_are_warned_of(
    check: Callable[..., Any], file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.chmod(0o664)
    check(file, "t")
    assert f"t: {file} may be written by its group; if that is not meant: chmod g-w '{file}'" in caplog.text


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_folders_for_everybody_are_refused(check: Callable[..., Any], file: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(
        UnsafeError, match=rf"everybody may replace it in {tmp_path}; chmod o-w {tmp_path}\. MSKPP_ALLOW"
    ):
        check(file, "t")
    tmp_path.chmod(0o1777)  # as /tmp: only its owner may replace a file
    check(file, "t")


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_folders_further_up_count(check: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "x.sh"
    file.write_text("ls\n")
    check(file, "t")
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(
        UnsafeError, match=rf"everybody may replace it in {tmp_path}/a; chmod o-w {tmp_path}/a\. MSKPP_"
    ):
        check(file, "t")
    (tmp_path / "a").chmod(0o1777)
    check(file, "t")
    assert not caplog.records
    (tmp_path / "a").chmod(0o775)
    check(file, "t")
    assert f"t: folder {tmp_path}/a may be written by its group; if not meant: chmod g-w {tmp_path}/a" in caplog.text


@pytest.mark.parametrize("check", [checks.trusted, checks.script])
def test_folders_of_others(
    check: Callable[..., Any],
    file: Path,
    tmp_path: Path,
    owner: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner(tmp_path, 1001, os.geteuid() or 1000)
    if os.getuid() == 0:  # the file is root's, which is right for every caller
        with pytest.raises(
            UnsafeError, match=rf"refused: folder {tmp_path} belongs to user 1001, who may replace what"
        ):
            check(file, "t")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check(file, "t")
    assert f"t: folder {tmp_path} belongs to user 1001" in caplog.text


def test_the_file_behind_a_link_counts(file: Path, tmp_path: Path) -> None:
    file.chmod(0o666)
    (tmp_path / "link.sh").symlink_to(file)
    with pytest.raises(UnsafeError, match=f"^t: {file} is refused"):
        checks.trusted("link.sh", "t")


@pytest.mark.parametrize("way", ["environment", "argument"])
def test_the_opt_out_gives_one_warning(
    way: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("sudo ls\nchown a b\n")
    file.chmod(0o646)
    tmp_path.chmod(0o777)
    if way == "environment":
        monkeypatch.setenv("MSKPP_ALLOW_UNSAFE", "1")
    assert checks.script(file, "t", allow_unsafe=way == "argument") == file
    (record,) = caplog.records
    assert f"t: {file} is used although it is not safe: everybody may write to it" in record.getMessage()
    assert "everybody may replace it" in record.getMessage()
    assert "line 1 runs 'sudo'" in record.getMessage()


@pytest.mark.parametrize("value", ["0", "", "yes", "11"])
def test_other_values_are_no_opt_out(value: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSKPP_ALLOW_UNSAFE", value)
    file.chmod(0o646)
    with pytest.raises(UnsafeError):
        checks.trusted(file, "t")


# Scripts

REFUSED = (
    r"""
sudo ls
sudo
su -
su - root -c x
pkexec x
doas x
run0 x
runuser -u x y
sudoedit x
setpriv --reuid 0 x
setcap cap_net_raw+ep f
newgrp x
capsh --x
chown a b
chown --reference=a b
chgrp a b
chmod u+s f
chmod g+s f
chmod +s f
chmod a+rs f
chmod u=rws f
chmod u+x,g+s f
chmod -R g+s d
chmod -- u+s f
chmod 4755 f
chmod 2755 f
chmod 6755 f
chmod 04755 f
chmod +4000 f
chmod --recursive 7777 f
MODE=4755; chmod $MODE f
install -m 4755 a b
install -m4755 a b
install --mode=u+s a b
install -o root a b
mkdir -m 2755 d
a=$(sudo x)
a=`sudo x`
echo "$(sudo x)"
echo "`sudo x`"
echo `echo \`sudo x\``
echo "$(echo "$(sudo x)")"
echo ${b:-$(sudo x)}
echo "${b:-`sudo x`}"
echo $(( $(sudo x) ))
a[0]=$(sudo x)
declare x=$(sudo y)
export x=$(sudo y)
diff <(sudo x) y
[ -n "$(sudo y)" ]
[[ $(sudo y) ]]
true; sudo x
true;sudo x
true && sudo x
true || sudo x
true | sudo x
true & sudo x
sudo x &
! sudo x
f() { sudo x; }
function f { sudo x; }
(sudo x)
{ sudo x; }
if sudo x; then :; fi
if x; then sudo y; fi
if x; then :; else sudo y; fi
while ! sudo x; do :; done
until sudo x; do :; done
for i in $(sudo e); do :; done
for i in a; do sudo $i; done
case a in a) sudo x;; esac
X=1 sudo x
>out sudo x
sudo x > /dev/null 2>&1
env X=1 sudo x
env -i -u Y X=1 sudo x
env -S "sudo x"
command sudo x
command -p sudo x
builtin command sudo
exec sudo x
exec -a q sudo x
nohup sudo x
time sudo x
time -p sudo x
nice sudo x
nice -n 5 sudo x
ionice -c 3 sudo x
stdbuf -oL sudo x
setsid -w sudo x
busybox su
coproc sudo x
timeout 5 sudo x
timeout -s KILL 5 sudo x
timeout --signal KILL 5 sudo x
timeout --signal=KILL 5 sudo x
flock lock sudo x
flock lock -c 'sudo x'
ls | xargs sudo rm
ls | xargs -n 1 -I {} sudo rm {}
nohup nice -n 5 env X=1 sudo x
find . -exec sudo rm {} \;
bash -c "sudo x"
sh -c 'sudo x'
sh -c 'true; sudo x'
bash -lc 'cd x && sudo y'
bash -o pipefail -e -c 'sudo y'
/bin/bash -c 'sudo x'
bash -c "bash -c 'sudo x'"
bash -c "bash -c \"sudo x\""
$SHELL -c "sudo x"
env bash -c 'sudo x'
eval "sudo x"
eval sudo x
eval 'X=1;' 'sudo x'
trap 'sudo x' EXIT
alias ll='sudo ls'
/usr/bin/sudo x
../../usr/bin/sudo x
\sudo x
s\udo x
's'udo x
"su"do x
s""udo x
"sudo" x
$'sudo' x
$'\x73udo' x
/usr/bin/su?o x
/usr/bin/sud[o] x
{sudo,ls}
X=sudo; $X ls
X=sudo; ${X} ls
X=sudo; "$X" ls
X=sudo; command $X ls
X="sudo -n"; $X ls
X=/usr/bin/sudo; $X x
A=su; B=do; $A$B ls
X=su; X+=do; $X ls
A=sudo; B=$A; $B ls
${X:-sudo} ls
X=(sudo -n); "${X[@]}" ls
declare X=sudo; $X
for c in ls sudo; do $c x; done
$(echo sudo) x
$(which sudo) x
run() { "$@"; }; run sudo x
run() { echo x; eval "$@"; }; run sudo x
bash <<< 'sudo x'
echo 'sudo x' | bash
echo "sudo x" | cat | sh -s a
printf 'a\nsudo x\n' | env X=1 sh
if [ $EUID -ne 0 ]; then exec sudo "$0" "$@"; fi
""".strip().split("\n")
    + [
        "bash <<'E'\nsudo x\nE",
        "bash <<E\nsudo x\nE",
        "bash -s a <<-E\n\tsudo x\n\tE",
        "cat <<E | bash\nsudo x\nE",
        "(cat | sh) <<E\nsudo x\nE",
        "bash << E1\nbash << E2\nsudo x\nE2\nE1",
        "cat <<E\n$(sudo x)\nE",
        "cat <<E\n`sudo x`\nE",
        "cat > x <<E\nhi\nE\nsudo y",
        "s\\\nudo x",
        "echo a \\\n; sudo b",
        "# c \\\nsudo x",
        "# c \\\ns\\\nudo x",
        "X=\\\nsudo\n$X y",
        "time -p \\\n  sudo x",
        "echo 'a\nb' && sudo x",
        "sudo\tx",
        "\tsudo x",
        "sudo x\r\n",
        "if x\r\nthen\r\n  sudo y\r\nfi\r\n",
        "if ] then ((\nsudo x\n",  # no script at all: each line is looked at
        "sudo x\n\0",
    ]
)

LET_PASS = (
    r"""
ls
echo sudo
echo sudo ls
# sudo x
echo hi # sudo x
grep chown file
cat su
man sudo
make su
make sudo
git commit -m "use sudo"
pip install sudo
su_dir=1
sudo=1
X=sudo
X=sudo; echo $X
export SUDO=1
unset sudo
echo ${sudo}
echo "sudo ls"
echo 'sudo ls'
echo "a; sudo ls"
echo a\;sudo
printf 'sudo\n'
sudoku
mysu x
su-exec x
sudo.sh x
chmod 755 f
chmod 0755 f
chmod 00755 f
chmod 1777 d
chmod u+x f
chmod +x f
chmod -s f
chmod u-s f
chmod ug-s,o-w f
chmod u=rwx,g=rx,o= f
chmod -R 755 d
chmod 755 4755
chmod 755 u+s
chmod --reference=a b
chmod --reference a u+s
chmod $MODE f
install -m 755 a b
mkdir -m 750 d
mkdir -p -m 0755 d
command -v sudo
command -V sudo
which sudo
type sudo
if command -v sudo >/dev/null; then echo y; fi
[ -x /usr/bin/sudo ]
test -f /usr/bin/sudo
xargs grep sudo
timeout 5 echo sudo
env X=sudo ls
env SUDO_USER=x ls
nice -n 5 make su
bash -c 'echo sudo'
bash sudo.sh
bash build.sh -c sudo
bash build.sh sudo
eval "echo sudo"
trap 'echo sudo' EXIT
alias ll='ls'
case $1 in sudo) echo x;; esac
for x in sudo su; do echo $x; done
a=(sudo su)
run() { echo "$@"; }; run sudo
$CC x
"$@"
${CXX:-g++} x
g++ -O3 -fPIC -shared -o "$2" "$1"
${CXX} -o $(basename "$2") `pwd`/x
echo 'sudo x' | grep x
echo sudo | tee x
cat <<< sudo
find . -name sudo
sed -i s/sudo/x/ f
echo x > sudo
cat < su
docker run --user su x
./*
""".strip().split("\n")
    + [
        "",
        "cat <<'E'\nsudo x\nE",
        "cat <<E\nsudo x\nE",
        "cat <<'E'\n$(sudo x)\n`sudo y`\nE",
        "cat > x.sh <<E\nsudo x\nE\nls",
        "python3 - <<E\nsudo = 1\nE",
        "bash x.sh <<E\nsudo x\nE",
        "echo a \\\n  sudo",
        "# c \\\n# sudo",
        "echo 'a\nsudo b\n'",
        "VAR='a\nsudo b\n'\necho $VAR",
    ]
)


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    assert script_scan.privileged_commands(text.encode())


@pytest.mark.parametrize("text", LET_PASS)
def test_let_pass(text: str) -> None:
    assert script_scan.privileged_commands(text.encode()) == []


ALSO_REFUSED = [
    "bin/???o ls",
    "bin/s??? ls",
    "s{udo,} ls",
    "{,sudo} ls",
    "s{u,}do ls",
    "su{d..d}o ls",
    ": ${S:=sudo}; $S ls",
    "${1:-sudo} ls",
    "${@:-sudo} ls",
    "a[0]=sudo; ${a[0]} ls",
    "declare -A m=([k]=sudo); ${m[k]} ls",
    "printf -v c sudo; $c ls",
    "read -r c <<< sudo; $c ls",
    "read c < <(echo sudo); $c ls",
    'mapfile -t l <<< "sudo"; ${l[0]} ls',
    "bash < <(echo sudo ls)",
    "source <(echo sudo ls)",
    "bash <(echo sudo ls)",
    "bash /dev/stdin <<X\nsudo ls\nX",
    "bash /dev/fd/3 3<<X\nsudo ls\nX",
    "exec 3<<X\nsudo ls\nX\nbash <&3",
    "f() { bash; }; f <<X\nsudo ls\nX",
    "f() { bash; }; echo sudo ls | f",
    "f() { echo sudo ls; }; f | bash",
    "f() { echo sudo ls; }; $(f)",
    "printf '%b' 'su\\144o ls\\n' | bash",
    "printf 'su\\144o ls\\n' | bash",
    "echo -e 'su\\x64o ls' | bash",
    "echo sudo ls > s.sh; bash s.sh",
    "echo sudo ls > s.sh; . ./s.sh",
    "cat > s.sh <<X\nsudo ls\nX\nbash s.sh",
    'echo "sudo ls" | tee x.sh >/dev/null; bash x.sh',
    'eval "$(cat <<X\nsudo ls\nX\n)"',
    "x=$(cat <<X\nsudo ls\nX\n); $x",
    "read -r -d '' x <<X\nsudo ls\nX\neval \"$x\"",
    "eval \"$(printf 'su%s ls' do)\"",
    "echo sudo ls | while read l; do $l; done",
    'while read l; do eval "$l"; done <<X\nsudo ls\nX',
    "echo sudo | xargs -I{} sh -c '{} ls'",
    "echo sudo ls | xargs env",
    "echo sudo ls | xargs -n2 env",
    "xargs --max-args 1 env sudo <<< ls",
    "xargs --max-args 1 bash -c 'sudo ls' <<< ls",
    'env -iS "PATH=$PATH sudo ls"',
    "env --chdir / env sudo ls",
    'env --chdir / bash -c "sudo ls"',
    'timeout --signal KILL 5 bash -c "sudo ls"',
    "timeout --signal KILL 5 env sudo ls",
    'nice --adjustment 5 bash -c "sudo ls"',
    "stdbuf --output L env sudo ls",
    "choom -n 0 -- sudo ls",
    "prlimit --nofile=100 sudo ls",
    "setarch -R sudo ls",
    "linux64 sudo ls",
    'script -qc "sudo ls" /dev/null',
    "f() { local c=$1; $c ls; }; f sudo",
    'f() { local c="$@"; $c; }; f sudo ls',
    'f() { shift; "$@"; }; f x sudo ls',
    'f() { "${@:2}"; }; f x sudo ls',
    'f() { bash -c "$*"; }; f sudo ls',
    "f() { $2 ls; }; f x sudo",
    'run() { local cmd=("$@"); "${cmd[@]}"; }; run sudo ls',
    'g() { "$@"; }; f() { g "$@"; }; f sudo ls',
    'f() { "$@"; }; x() { f "$1" ls; }; x sudo',
    'set -- sudo ls; "$@"',
    "set -- sudo ls; $1",
    "bash -c '\"$@\"' _ sudo ls",
    "bash -c '$0 ls' sudo",
    "c=xsudo; ${c#x} ls",
    "c=sudox; ${c%x} ls",
    "c=sudox; ${c:0:4} ls",
    "c=SUDO; ${c,,} ls",
    "c=sXdo; ${c/X/u} ls",
    "n=c; c=sudo; ${!n} ls",
    "declare -n r=c; c=sudo; $r ls",
    "eval 'c=sudo'; $c ls",
    "IFS=: ; c=sudo:ls; $c",
    "`echo \\`echo sudo\\`` ls",
    "trap -- 'sudo ls' EXIT",
    "hash -p /x/bin/sudo foo; foo ls",
    "PS4='$(sudo ls >&2)+'; set -x; :",
    "BASH_ENV=<(echo sudo ls) bash -c :",
    'BASH_ENV=/dev/stdin bash -c : <<< "sudo ls"',
    "compgen -C 'sudo ls' x",
    "mapfile -C 'sudo ls' -c 1 l <<< x",
    '/lib64/ld-linux-x86-64.so.2 /bin/bash -c "sudo ls"',
    "$(printf su%s do) ls",
    "\"$(printf '\\x73\\x75\\x64\\x6f')\" ls",
    "$(printf '\\163udo') ls",
    "$(<<<sudo cat) ls",
    '$(echo "sudo" | cat) ls',
    "$1sudo ls",
    "sudo${UNSET} ls",
    "su$@do ls",
    "su${x}do ls",
    "su$(true)do ls",
    "su``do ls",
    '"su"$(:)"do" ls',
    "$(:)sudo ls",
    "$(:) sudo ls",
    "$UNSET sudo ls",
    '"$@" sudo ls',
    '"${pre[@]}" sudo ls',
    "${DRY_RUN:+echo} sudo ls",
    "$TIME sudo ls",
    "`true` sudo ls",
    "cp bin/sudo x; ./x ls",
    "cat <<E; sudo ls\nx\nE",
    "coproc N { sudo ls; }; wait",
    "chmod $(printf 4%s 755) f",
    "chmod {u+s,g+s} f",
    "chmod $UNSET u+s f",
    "install --mod=4755 f g",
    "true \\\r\n sudo ls",
    "a=1;a=2;a=3;a=4;a='';b=1;b=2;b=3;b=4;b=sudo; $a$b ls",
    "v=1;v=2;v=3;v=4;v='';w=1;w=2;w=3;w='';eval $v $w sudo ls",
    'f() { local c=("$@"); "${c[@]}"; }; f sudo',
    "choom -n 0 -- sudo ls",
    "ionice --class 3 sudo ls",
    "chrt --sched-period 5 1 sudo ls",
    "nohup setsid nice -n 1 sudo ls",
    'watch "ls; sudo ls"',
    "parallel sudo ::: ls",
    "unshare -r sudo ls",
    "taskset 1 sudo ls",
    "x86_64 sudo x",
    "ln -s /usr/bin/sudo x; ./x ls",
    "X=ls; X=env; $X $UNSET sudo",
    'trap -- "$UNSET sudo" EXIT',
]
ALSO_REFUSED += [
    "{s,x}{u,y}do ls",
    "s{u,}{d,}o ls",
    "\n".join(f"c={number}" for number in range(20)) + "\nc=sudo\n$c ls",
    "for c in a b c d e f g h i j k l m n o p q r s t sudo; do $c ls; done",
    "cmd=(env " + '"$a" ' * 4 + 'sudo); a=1; a=2; a=3; a=4; a=5; a=6; a=7; "${cmd[@]}"',
]

ALSO_LET_PASS = [
    'cd "$(dirname "$0")"',
    'bisheng -O2 "$1" -o "$2"',
    '"$CXX" $FLAGS "$1" -o "$2" su',
    '${CXX:-g++} -c "$1"',
    'run() { echo "$@"; "$@"; }; run bisheng "$1" -o "$2"; run make su',
    'log() { echo "[$(date)] $*"; }; run() { log "$@"; "$@" || exit; }; log needs sudo; run make -j"$(nproc)"',
    'opts=(-O2); for f in a b c; do opts+=("-D$f"); done; opts+=(-I"$x"); c=("$CXX" "${opts[@]}" "$1"); "${c[@]}"',
    'F="-O2"\n' + 'F="$F -x"\n' * 20 + '[ a ] && F+=" -g"\n' * 10 + '$CXX $F "$1" -o "$2"',
    "C=cmake\n" + '[ a ] && C="$C -x$i"\n' * 20 + "$C .",
    'while [ $# -gt 0 ]; do case "$1" in -h) echo "no sudo"; shift;; *) break;; esac; done; "$A/bin/g++" $1',
    "cat > a.py <<E\nsudo x\nE\npython3 a.py; bash build.sh",
    'while read -r line; do echo "$line"; done <<E\nsudo x\nE',
    'eval "$(ssh-agent)"',
    "echo {a,sudo}",
    'source "$HOME/env.sh" && set -- a sudo && echo "$@"',
    "xargs -n 1 make su",
    "cp sudo.txt x",
]


@pytest.mark.parametrize("text", ALSO_REFUSED)
def test_also_refused(text: str) -> None:
    assert script_scan.privileged_commands(text.encode())


@pytest.mark.parametrize("text", ALSO_LET_PASS)
def test_also_let_pass(text: str) -> None:
    assert script_scan.privileged_commands(text.encode()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eval " * 10 + "sudo ls", "line 1 has scripts within scripts, more than 8 deep"),
        (
            "\n".join(f"c={n}" for n in range(300)) + "\nc=sudo\n$c ls",
            r"line 302 runs a command that may have more than",
        ),
        ("a=1;a=2\n" + "$a" * 5000, "line 2 runs a command that may have more than 256 values"),
        ("$(" * 3000 + "true" + ")" * 3000, "it has too many things within one another"),
        ("x=" + '"${a:-' * 3000 + "y" + '}"' * 3000, "it has too many things within one another"),
        ("# a\n" * (1 << 16) + "#", "it has 262,145 bytes, and at most 262,144 are checked"),
        ("{a,b}" * 20, "it has too many braces to expand"),
    ],
    ids=str.split,
)
def test_what_is_too_much_is_refused(text: str, message: str, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(text)
    with pytest.raises(
        UnsafeError,
        match=rf"is refused: it cannot be checked for commands that raise privileges: {message}.*; make it simpler\. "
        "MSKPP_ALLOW_UNSAFE=1 accepts it as it is$",
    ):
        checks.script(file, "t")
    assert checks.script(file, "t", allow_unsafe=True) == file
    assert "cannot be checked" in caplog.text


def test_the_time_of_a_scan(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_scan, "_MOST_SECONDS", 0.1)
    file.write_text("fi )\n" * 20000)
    with pytest.raises(UnsafeError, match=r"the check has not ended within 0\.1 s; make it simpler\. MSKPP_"):
        checks.script(file, "t")


@pytest.mark.parametrize("name", sorted(script_scan.PRIVILEGED))
def test_every_name(name: str) -> None:
    (found,) = script_scan.privileged_commands(f"cd x\n{name} y\necho {name}\n".encode())
    assert (found.line, found.name, found.shown) == (2, name, f"{name} y")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n\n  sudo x\n", 3),
        ("bash <<'E'\n\nsudo ls\nE", 3),
        ("a\n\ns\\\nudo x", 3),
        ("a\nbash -c 'b\nsudo x'\n", 3),
        ("x\nif a; then\n sudo \\\n  y\nfi", 3),
        ("a \\\n b \\\n c\nd\ns\\\nudo x\n", 5),
        ("a\nb | \\\n  sudo x", 3),
        ("a\ncat <<E\n1\n`sudo x`\nE", 4),
        ("a\r\nb\r\nsudo x\r\n", 3),
        ("a \\\n\\\nb; echo $(\\\n s\\\nudo y)", 4),
    ],
)
def test_lines(text: str, line: int) -> None:
    assert {found.line for found in script_scan.privileged_commands(text.encode())} == {line}


def test_the_message_of_a_script(file: Path) -> None:
    file.write_text("#!/bin/bash\nset -e\n/usr/bin/sudo apt install x\n")
    with pytest.raises(UnsafeError) as caught:
        checks.script(file, "compile")
    assert str(caught.value) == (
        f"compile: {file} is refused: line 3 runs 'sudo' (/usr/bin/sudo apt install x), which raises privileges; build "
        "scripts run with the rights of the caller only: remove that command, and do beforehand what needs it. "
        "MSKPP_ALLOW_UNSAFE=1 accepts it as it is"
    )


def test_an_ordinary_build_script(file: Path) -> None:
    file.write_text(
        textwrap.dedent("""\
        #!/bin/bash
        # needs no sudo
        set -euo pipefail
        source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
        options=(-O2 -fPIC -std=c++17 "-I${ASCEND_HOME_PATH:-/usr}/include")
        [[ $# -eq 2 ]] || { echo "usage: $0 SOURCE OUTPUT" >&2; exit 1; }
        for flag in a b; do options+=("-D$flag"); done
        bisheng "${options[@]}" "$1" -o "$2" --shared && chmod 755 "$2"
        """)
    )
    assert checks.script(file, "compile") == file


def test_a_script_of_odd_bytes(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfecho \xff\xfe\n\nsudo \xff\n")
    with pytest.raises(UnsafeError, match="line 3 runs 'sudo'"):
        checks.script(file, "t")


def test_a_script_that_cannot_be_read_any_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", gone)
    with pytest.raises(FileError, match=r"^t: .* cannot be read: Input/output error$"):
        checks.script(file, "t")


def test_the_scan_ends() -> None:
    """Command strings that hold themselves, and words of many values."""
    script_scan.privileged_commands(b'X=\'eval "$X"\'; eval "$X"')
    with pytest.raises(script_scan.TooMuch):
        script_scan.privileged_commands(b'X=\'eval "$X"\'; eval "$X" "$X"; trap "$X" EXIT')
    script_scan.privileged_commands(("X=nice; X=env; " + "$X " * 10 + "ls").encode())
    script_scan.privileged_commands(b"$(" * 300)


def test_without_the_parser(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No scan is no permission."""
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("tree_sitter"):
            raise ImportError("absent", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(
        BackendError, match=r"^script: build scripts cannot be checked without tree_sitter; pip install "
    ):
        checks.script(file, "t")


def test_the_parser_is_loaded_only_for_scripts() -> None:
    code = "import sys, mskpp.launcher.checks; print([m for m in sys.modules if m.startswith('tree_sitter')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


# Writing


def test_output_paths(tmp_path: Path, file: Path) -> None:
    assert checks.output_path("new.so", "t", suffix=".so") == tmp_path / "new.so"
    assert checks.output_path(file, "t") == file
    (tmp_path / "sub").mkdir()
    (tmp_path / "way").symlink_to("sub")
    assert checks.output_path("way/x", "t") == tmp_path / "sub" / "x"  # links on the way are the user's own
    with pytest.raises(
        FileError, match=rf"^t: output folder {tmp_path}/no cannot be used: it does not exist; check the"
    ):
        checks.output_path("no/x", "t")
    with pytest.raises(FileError, match=rf"^t: {file} is a regular file; give a path in a folder$"):
        checks.output_path(file / "x", "t")
    with pytest.raises(FileError, match=rf"^t: {tmp_path}/sub is a folder already; give the path of a file$"):
        checks.output_path("sub", "t")


def test_an_output_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(
        FileError, match=rf"^t: folder {tmp_path} cannot be written to; allow it: chmod u\+wx {tmp_path}, "
    ):
        checks.output_path("x", "t")


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_modes_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    os.umask(umask)
    checks.write_file("x", "text", "t")
    checks.make_folder("folder", "t")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_files_are_replaced_whole(tmp_path: Path, file: Path) -> None:
    with open(file) as reader:
        checks.write_file(file, "é\r\n", "t")
        assert reader.read() == "echo hi\n"  # who has the old one open, keeps it
    assert file.read_bytes() == b"\xc3\xa9\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    checks.write_file(file, b"\0\xff", "t")
    assert file.read_bytes() == b"\0\xff"
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("target", ["file", "absent", "folder"])
def test_links_are_not_followed_on_writing(target: str, tmp_path: Path, file: Path) -> None:
    points_to = {"file": file, "absent": tmp_path / "absent", "folder": tmp_path}[target]
    link = tmp_path / "link"
    link.symlink_to(points_to)
    for write in (lambda: checks.write_file(link, "x", "t"), lambda: checks.output_path(link, "t")):
        with pytest.raises(UnsafeError, match=rf"^t: {link} is a link, .* remove it \(rm {link}\) or give the path it"):
            write()
    with pytest.raises(UnsafeError, match=rf"^t: {link} is a link; remove it \(rm {link}\) or give its target$"):
        checks.make_folder(link, "t")
    assert link.is_symlink()
    assert file.read_text() == "echo hi\n"
    assert sorted(os.listdir(tmp_path)) == ["a file.sh", "link"]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match=r"pipe is a pipe already; give the path of a file$"):
        checks.write_file("pipe", "x", "t")


def test_a_link_that_appears_while_writing(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fchmod

    def plant(descriptor: int, mode: int) -> None:
        (tmp_path / "x").symlink_to(file)
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", plant)
    with pytest.raises(UnsafeError, match="is a link"):
        checks.write_file("x", "new", "t")
    assert file.read_text() == "echo hi\n"
    assert sorted(os.listdir(tmp_path)) == ["a file.sh", "x"]


@pytest.mark.parametrize("step", ["fchmod", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_failed_write_leaves_nothing(
    step: str, error: BaseException, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(*((os, "fchmod") if step == "fchmod" else (Path, "replace")), fail)
    if isinstance(error, OSError):
        with pytest.raises(FileError, match=rf"^t: {file} cannot be written: No space left on device$"):
            checks.write_file(file, "new", "t")
    else:
        with pytest.raises(KeyboardInterrupt):
            checks.write_file(file, "new", "t")
    assert os.listdir(tmp_path) == [file.name]
    assert file.read_text() == "echo hi\n"


def test_folders(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.make_folder("new", "t") == checks.make_folder("new", "t") == tmp_path / "new"
    (tmp_path / "new").chmod(0o700)
    checks.make_folder("new", "t")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700  # one that exists is not opened further
    with pytest.raises(FileError, match=rf"^t: folder {file} cannot be made or used: Not a directory; choose another"):
        checks.make_folder(file, "t")
    with pytest.raises(
        FileError, match=rf"^t: folder {tmp_path}/no cannot be used: it does not exist; check the path$"
    ):
        checks.make_folder("no/x", "t")
    (tmp_path / "new").chmod(0o757)
    with pytest.raises(UnsafeError, match=rf"is refused: everybody may write to it; chmod 750 {tmp_path}/new\. MSKPP_"):
        checks.make_folder("new", "t")
    (tmp_path / "new").chmod(0o750)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnsafeError, match=r"is refused: the folder belongs to user \d+; choose a folder of your own"):
        checks.make_folder("new", "t")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UnsafeError, match=r"the folder belongs to user \d+; set TMPDIR to a folder of your own"):
        checks.make_folder("new", "t")


# Names and strings


@pytest.mark.parametrize("name", ["x", "add_custom", "A1", "1x", "_"])
def test_names(name: str) -> None:
    assert checks.identifier(name, "t") == name


@pytest.mark.parametrize("name", ["", "a b", "a-b", "x\n", "é", "a;b", 'a"'])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^KernelInvokeConfig: the name '.*' is not allowed; it must match \^\[A-Za"):
        checks.identifier(name, "KernelInvokeConfig")


def test_names_of_other_types_and_patterns() -> None:
    with pytest.raises(ArgumentError, match=r"^t: the name is 3 \(int\); give a string$"):
        checks.identifier(3, "t")
    assert checks.identifier("a::b", "t", "[a-z:]+") == "a::b"


def test_c_strings() -> None:
    assert checks.c_string('a"b\\c\n\t\r?1') == 'a\\"b\\\\c\\n\\t\\r\\?1'
    assert checks.c_string("é1\x01\x7f\0" + os.fsdecode(b"\xff")) == "\\303\\2511\\001\\177\\000\\377"
    with pytest.raises(InputError, match=r"^c_string: '\\ud800' has half a surrogate pair, which has no UTF-8 form"):
        checks.c_string("\ud800")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_compiler_reads_c_strings_back(tmp_path: Path) -> None:
    text = "".join(map(chr, range(1, 128))) + '??/??="*/ 中é😀7\\n%s' + os.fsdecode(b"\xfe\xff")
    source = f'extern "C" const char* text() {{ return "{checks.c_string(text)}"; }}'
    (tmp_path / "x.cpp").write_text(source, encoding="ascii")
    subprocess.run(
        ["g++", "-std=c++11", "-trigraphs", "-w", "-shared", "-fPIC", "-o", "x.so", "x.cpp"], check=True, timeout=60
    )
    library = ctypes.CDLL(str(tmp_path / "x.so"))
    library.text.restype = ctypes.c_char_p
    assert library.text() == text.encode("utf-8", "surrogateescape")


# What generated code is made of


def _raises() -> str:
    raise ValueError("no")


@pytest.mark.parametrize("name", ["a; system(1)", "", "A<int>", "A\nB", "1a"])
def test_class_names_are_identifiers(name: str) -> None:
    with pytest.raises(
        InputError, match=r"^Launcher: the class is named '.*'; it must have the name of its C\+\+ type"
    ):
        code_generator.class_text(type(name, (ctypes.Structure,), {}))


def test_a_namespace_that_cannot_be_had() -> None:
    broken = type("Broken", (ctypes.Structure,), {"get_namespace": staticmethod(_raises)})
    with pytest.raises(
        InputError, match=r"^Launcher: Broken\.get_namespace\(\) raised ValueError: no; it must"
    ) as caught:
        code_generator.class_text(broken)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"source": 5, "kernel": "k"}', {"kernel": "k"}),
        ('{"source": null}', {}),
        ('{"source": ["a"]}', {}),
        ('{"source": "a\\u0000b"}', {}),
        ('{"source": "a\\ud800"}', {}),
        ('{"source": "a\\udcff"}', {"source": "a\udcff"}),
        ('{"kernel": "\\udcff", "declaration": 1}', {}),
        ('{"names": "ab", "types": ["a", 1]}', {}),
        ('{"names": ["a"], "types": []}', {"names": ["a"], "types": []}),
        ("[" * 60000, {}),
        ('{"a":' * 10000, {}),
    ],
    ids=lambda value: str(value)[:30].encode("ascii", "replace").decode(),
)
def test_second_lines_that_others_wrote(line: str, found: dict[str, Any], file: Path) -> None:
    file.write_text(f"// x\n// mskpp: {line}\n")
    assert code_generator.read_metadata(file) == found


def test_only_regular_files_have_a_second_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert code_generator.read_metadata(tmp_path / "pipe") == {}
    assert code_generator.read_metadata(Path("/dev/zero")) == {}
    assert code_generator.read_metadata(Path("a\0b")) == {}
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(OSError, match="directory"):
            code_generator.read_metadata(path)
