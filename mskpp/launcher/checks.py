# SPDX-License-Identifier: Apache-2.0
"""What is looked at before mskpp reads, runs or writes a file: paths, owners, permissions, build scripts.

All functions take ``who``, the call that the message begins with. Raises ArgumentError (not a path), InputError (a
path that is not allowed), FileError (absent, of the wrong kind, not readable) and UnsafeError (refused for safety).
What is refused for safety alone is accepted, with one warning, where MSKPP_ALLOW_UNSAFE=1 is set or allow_unsafe given.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import stat
import tempfile
from pathlib import Path

from mskpp.errors import ArgumentError, FileError, InputError, UnsafeError
from mskpp.log import logger

Given = str | os.PathLike[str]

MOST_BYTES = 100 << 20
_MOST_PATH_BYTES = 4096
_MOST_NAME_BYTES = 255
_CONTROL = re.compile("[\n\f\r\b\t\v\x7f\0]")
_OPT_OUT = "MSKPP_ALLOW_UNSAFE"


def _allowed(allow_unsafe: bool) -> bool:
    return allow_unsafe or os.environ.get(_OPT_OUT, "").strip() == "1"


def _refuse(who: str, path: Path, problems: list[str], allow_unsafe: bool) -> None:
    """Raises UnsafeError with all the problems of the file, or warns where they are accepted."""
    if not problems:
        return
    text = "; ".join(problems)
    if _allowed(allow_unsafe):
        logger.warning("%s: %s is used although it is not safe: %s", who, path, text)
        return
    raise UnsafeError(f"{who}: {path} is refused: {text}. {_OPT_OUT}=1 accepts it as it is")


def _path(path: object, who: str) -> Path:
    """The path made absolute, links not followed. Only its text is looked at."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(text, str):
        raise ArgumentError(f"{who}: the path is {text!r} ({type(text).__name__}); give a string or a pathlib.Path")
    if not text.strip():
        raise InputError(f"{who}: the path is empty ({text!r}); give the name of a file or folder")
    found = _CONTROL.search(text)
    if found:
        raise InputError(f"{who}: the path {text!r} has the control character {found[0]!r}; rename the file without it")
    try:
        absolute = os.path.abspath(text)
        raw = os.fsencode(absolute)
    except UnicodeEncodeError:
        raise InputError(f"{who}: the path {text!r} has characters that no file name can have; check it") from None
    except OSError:
        raise FileError(f"{who}: the current folder is gone, and {text!r} is relative to it") from None
    if len(raw) > _MOST_PATH_BYTES:
        raise InputError(
            f"{who}: the path {text[:40]!r}... has {len(raw)} bytes; {_MOST_PATH_BYTES} are allowed, use a shorter one"
        )
    for name in raw.split(b"/"):
        if len(name) > _MOST_NAME_BYTES:
            raise InputError(
                f"{who}: the name {os.fsdecode(name)[:40]!r}... in the path has {len(name)} bytes; "
                f"{_MOST_NAME_BYTES} are allowed, use a shorter one"
            )
    return Path(absolute)


def _found(path: Path, who: str, kind: str) -> tuple[Path, os.stat_result]:
    """The path with all links followed, and what the system says of it."""
    try:
        resolved = path.resolve(strict=True)
        return resolved, resolved.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        code = (error.errno if isinstance(error, OSError) else None) or errno.ELOOP
        if code == errno.ENOENT:
            cure = "it does not exist" + (" (a link to nothing)" if path.is_symlink() else "")
        else:
            cure = os.strerror(code)
        raise FileError(f"{who}: {kind} {path} cannot be used: {cure}; check the path") from None


def _suffix(path: Path, who: str, suffix: str | None) -> None:
    if suffix is not None and not path.name.endswith(suffix):
        raise InputError(f"{who}: {path.name!r} must end with {suffix!r}; rename it")


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device")


def readable_file(
    path: Given, who: str, *, suffix: str | None = None, limit_bytes: int = MOST_BYTES, allow_unsafe: bool = False
) -> Path:
    """An existing regular file of at most limit_bytes that can be read; absolute, links followed."""
    given = _path(path, who)
    _suffix(given, who, suffix)
    resolved, status = _found(given, who, "file")
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{who}: {given} is {_kind(status.st_mode)}; give a regular file")
    if not os.access(resolved, os.R_OK):
        raise FileError(f"{who}: {given} cannot be read; allow it: chmod u+r {shlex.quote(str(resolved))}")
    if status.st_size > limit_bytes:
        raise FileError(
            f"{who}: {given} has {status.st_size:,} bytes; at most {limit_bytes:,} are read here. Check that it is the "
            "right file"
        )
    if not status.st_mode & stat.S_IRUSR:
        cure = f"its owner may not read it; allow it: chmod u+r {shlex.quote(str(resolved))}"
        _refuse(who, resolved, [cure], allow_unsafe)
    return resolved


def folder(path: Given, who: str) -> Path:
    """An existing folder that can be entered and listed; absolute, links followed."""
    given = _path(path, who)
    resolved, status = _found(given, who, "folder")
    if not stat.S_ISDIR(status.st_mode):
        raise FileError(f"{who}: {given} is {_kind(status.st_mode)}; give a folder")
    if not os.access(resolved, os.R_OK | os.X_OK):
        raise FileError(f"{who}: folder {given} cannot be read; allow it: chmod u+rx {shlex.quote(str(resolved))}")
    return resolved


def _untrusted(path: Path, status: os.stat_result, who: str) -> list[str]:
    """Who else could have put something else into the file; what is doubtful only is logged."""
    problems = []
    name = shlex.quote(str(path))
    caller = os.geteuid()
    if status.st_uid not in (0, caller):
        text = f"it belongs to user {status.st_uid}, who may change it at any time; if you know what is in it: chown"
        if caller == 0:
            logger.warning("%s: %s: %s root %s", who, path, text, name)
        else:
            problems.append(f"{text} {caller} {name} (as root), or use a copy of your own")
    if status.st_mode & stat.S_IWOTH:
        problems.append(f"everybody may write to it; look into it, then: chmod o-w {name}")
    elif status.st_mode & stat.S_IWGRP:
        logger.warning("%s: %s may be written by its group; if that is not meant: chmod g-w %s", who, path, name)
    for above in path.parents:
        problems += _untrusted_folder(above, who)
    return problems


def _untrusted_folder(above: Path, who: str) -> list[str]:
    """Who else could put another file, or another folder, in the place of what is in this folder."""
    problems = []
    name = shlex.quote(str(above))
    try:
        status = above.stat()
    except OSError as error:
        return [f"folder {above} cannot be looked at: {error.strerror}"]
    caller = os.geteuid()
    if status.st_uid not in (0, caller):
        text = f"folder {above} belongs to user {status.st_uid}, who may replace what is in it at any time"
        if caller == 0:
            logger.warning("%s: %s; if that is not meant: chown root %s", who, text, name)
        else:
            problems.append(f"{text}; use a copy in a folder of your own")
    if not status.st_mode & stat.S_ISVTX:
        if status.st_mode & stat.S_IWOTH:
            problems.append(f"everybody may replace it in {above}; chmod o-w {name}")
        elif status.st_mode & stat.S_IWGRP:
            logger.warning("%s: folder %s may be written by its group; if not meant: chmod g-w %s", who, above, name)
    return problems


def trusted(path: Given, who: str, *, allow_unsafe: bool = False) -> None:
    """A file that is to be executed or loaded: only root and the caller may have written it.

    Refuses what belongs to another user or lies in a folder of another user (a caller who is root is warned only),
    what everybody may write to, and what lies below a folder where everybody may replace it (not those like /tmp, where
    only owners may). That the group may write to it or to such a folder is only warned of.
    """
    resolved, status = _found(_path(path, who), who, "file")
    _refuse(who, resolved, _untrusted(resolved, status, who), allow_unsafe)


def script(path: Given, who: str, *, allow_unsafe: bool = False) -> Path:
    """A build script: readable_file and trusted, and no command in it raises privileges (see script_scan)."""
    resolved = readable_file(path, who, limit_bytes=10 << 20, allow_unsafe=allow_unsafe)
    problems = _untrusted(resolved, resolved.stat(), who)
    try:
        text = resolved.read_bytes()
    except OSError as error:
        raise FileError(f"{who}: {path} cannot be read: {error.strerror}") from None
    from mskpp.launcher import script_scan

    try:
        commands = script_scan.privileged_commands(text)
    except script_scan.TooMuch as error:
        commands = []
        problems.append(f"it cannot be checked for commands that raise privileges: {error}; make it simpler")
    for found in commands[:1]:
        problems.append(
            f"line {found.line} runs '{found.name}' ({found.shown}), which raises privileges; build scripts run with "
            "the rights of the caller only: remove that command, and do beforehand what needs it"
        )
    _refuse(who, resolved, problems, allow_unsafe)
    return resolved


def output_path(path: Given, who: str, *, suffix: str | None = None) -> Path:
    """Where a file will be written: nothing or a regular file, in a folder that can be written to; absolute."""
    given = _path(path, who)
    _suffix(given, who, suffix)
    above, status = _found(given.parent, who, "output folder")
    if not stat.S_ISDIR(status.st_mode):
        raise FileError(f"{who}: {given.parent} is {_kind(status.st_mode)}; give a path in a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise FileError(
            f"{who}: folder {above} cannot be written to; allow it: chmod u+wx {shlex.quote(str(above))}, "
            "or choose another",
        )
    target = above / given.name
    _replaceable(target, who)
    return target


def _replaceable(target: Path, who: str) -> None:
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"{who}: {target} cannot be looked at: {error.strerror}") from None
    if stat.S_ISLNK(mode):
        raise UnsafeError(
            f"{who}: {target} is a link, and links are not followed on writing; remove it "
            f"(rm {shlex.quote(str(target))}) or give the path it points to"
        )
    if not stat.S_ISREG(mode):
        raise FileError(f"{who}: {target} is {_kind(mode)} already; give the path of a file")


def write_file(path: Given, text: str | bytes, who: str) -> None:
    """Writes a whole file of mode 0600, whatever the umask, in place of nothing or of a regular file.

    It appears under its name only when it is whole; on any failure, an interrupt too, nothing is left.
    """
    target = output_path(path, who)
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    part = target.with_name(f".mskpp-{os.getpid()}-{os.urandom(8).hex()}.part")
    try:
        with open(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask
            file.write(data)
        _replaceable(target, who)  # once more, as late as can be
        part.replace(target)  # a link that appears now would be replaced, not followed
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        if isinstance(error, OSError) and not isinstance(error, (FileError, UnsafeError)):
            raise FileError(f"{who}: {target} cannot be written: {error.strerror}") from error
        raise


def make_folder(path: Given, who: str) -> Path:
    """A folder of mode 0750, whatever the umask; absolute. One that exists must be the caller's and real."""
    given = _path(path, who)
    above, _ = _found(given.parent, who, "folder")
    target = above / given.name
    try:
        try:
            target.mkdir(mode=0o700)
            made = True
        except FileExistsError:
            made = False
        if target.is_symlink():
            raise UnsafeError(
                f"{who}: {target} is a link; remove it (rm {shlex.quote(str(target))}) or give its target"
            )
        descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if made:
                os.fchmod(descriptor, 0o750)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except UnsafeError:
        raise
    except OSError as error:
        raise FileError(
            f"{who}: folder {target} cannot be made or used: {error.strerror}; choose another place"
        ) from None
    problems = []
    if status.st_uid != os.geteuid():
        cure = "set TMPDIR to" if above == Path(tempfile.gettempdir()).resolve() else "choose"
        problems.append(f"the folder belongs to user {status.st_uid}; {cure} a folder of your own")
    if status.st_mode & stat.S_IWOTH:
        problems.append(f"everybody may write to it; chmod 750 {shlex.quote(str(target))}")
    _refuse(who, target, problems, False)
    return target


def identifier(text: object, who: str, pattern: str = "[A-Za-z0-9_]+") -> str:
    """A name that matches the whole pattern."""
    if not isinstance(text, str):
        raise ArgumentError(f"{who}: the name is {text!r} ({type(text).__name__}); give a string")
    if not re.fullmatch(pattern, text):
        raise InputError(f"{who}: the name {text!r} is not allowed; it must match ^{pattern}$")
    return text


def c_string(text: str) -> str:
    """The text between the quotes of a C++ string literal that means this text, in printable ASCII.

    Everything else is three octal digits a byte of its UTF-8 form: no digit that follows can be taken for a part of it.
    """
    simple = {'"': '\\"', "\\": "\\\\", "?": "\\?", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    try:
        return "".join(
            simple.get(c)
            or (c if " " <= c <= "~" else "".join(f"\\{b:03o}" for b in c.encode("utf-8", "surrogateescape")))
            for c in text
        )
    except UnicodeEncodeError:
        raise InputError(f"c_string: {text!r} has half a surrogate pair, which has no UTF-8 form; remove it") from None
