# SPDX-License-Identifier: Apache-2.0
"""Files of profilers: every format and oddity read, every other file refused with its reason, and the pipe table."""

from __future__ import annotations

import codecs
import csv
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mskpp import Chip, Core, Tensor, mmad, vadd
from mskpp.errors import ArgumentError, FileError, InputError
from mskpp.report import profiler
from mskpp.report.compare import Comparison
from mskpp.report.profiler import Profile, read_profile

# A file of each kind, small and with figures of our own.
OP_SUMMARY = """Device_id,Model ID,Task ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Num,\
Input Shapes,aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),aic_mte1_time(us),\
aic_mte2_time(us),aic_fixpipe_time(us),aic_fixpipe_ratio,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,\
aiv_scalar_time(us),aiv_mte2_time(us),aiv_mte3_time(us),cube_utilization(%)
0,4294967295,1,random,Random,DSA_SQE,1700000000000001.125\t,9.5,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,\
N/A,N/A,N/A,N/A,N/A
0,4294967295,2,fused,Fused,MIX_AIC,1700000000000101.125\t,31.0,8,\"\"\"64,64;64,64;\"\"\",20.5,99000,4.25,0.207,1.5,3.0,\
15.75,2.0,0.098,22.25,88000,6.5,0.292,2.5,5.0,1.25,40.1
0,4294967295,3,fused,Fused,MIX_AIC,1700000000000201.125\t,30.0,8,\"\"\"64,64;64,64;\"\"\",19.5,99000,4.25,0.207,1.0,3.0,\
14.75,2.0,0.098,19.25,88000,6.5,0.292,2.5,4.0,1.25,40.1
0,4294967295,4,fused,Fused,MIX_AIC,1700000000000301.125\t,29.0,8,\"\"\"64,64;64,64;\"\"\",18.5,99000,4.25,0.207,0.5,3.0,\
13.75,2.0,0.098,18.25,88000,6.5,0.292,2.5,3.0,1.25,40.1
"""
PIPE_UTILIZATION = """block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_time(us),aic_cube_ratio,\
aic_mte1_time(us),aic_mte2_time(us),aic_mte3_time(us),aic_mte3_active_bw(GB/s),aic_fixpipe_time(us),\
aic_scalar_time(us),aic_scalar_single_time(us),aic_scalar_mte1_stall_time(us),aic_scalar_wait_id3_time(us),aiv_time(us),\
aiv_vec_time(us),aiv_mte2_time(us),aiv_mte3_time(us),aiv_scalar_time(us),aiv_scalar_stall_by_ub_time(us),
0,cube0,11.5,18000,3.5,0.3,2.5,9.5,0.25,390.5,0.5,5.5,0.75,16.5,33.0,NA,NA,NA,NA,NA,NA,
0,vector0,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,12.5,1.5,0.75,0.5,2.75,8.0,
0,vector1,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,NA,13.5,1.75,0.7,0.6,2.5,8.0,
1,cube0,10.5,17000,3.25,0.3,2.5,9.0,0.25,390.5,0.5,5.75,0.75,16.5,33.0,NA,NA,NA,NA,NA,NA,
"""
KERNEL_DETAILS = """Step Id,Model ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),\
aicore_time(us),aic_mac_time(us),aic_mte2_time(us),aiv_time(us),aiv_vec_time(us)
3,1,hcom_1,hcom_,N/A,HCCL,"1700000000000001.5\t",900.5,0,N/A,N/A,N/A,N/A,N/A
3,1,matmul_7,MatMulV2,dynamic,AI_CORE,"1700000000000901.5\t",12.5,1.5,11.25,8.5,9.75,0,0
"""
BASIC_INFO = """Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq,
fused_0_mix_aic,mix,45.25,8,16,0,4711,1800,1800,
"""
PRE_910B = """Model ID,Op Name,OP Type,Task Start Time,Task Duration(us),aicore_time(us),total_cycles,vec_time(us),\
vec_ratio,mac_time(us),mac_ratio,scalar_time(us),mte1_time(us),mte2_time(us),mte3_time(us),icache_miss_rate,memory_bound
1,add_1,Add,1700000000000001,82.5,9.75,9750,1.25,0.1,0,0,2.5,0,3.75,1.5,0.01,2.5
"""


def written(text: str | bytes, name: str = "op_summary.csv") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(text: str | bytes, operator: str | None = None) -> Profile:
    return read_profile(written(text), operator=operator)


def refusal(text: str | bytes, operator: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(text, operator)
    return str(caught.value)


# --- the formats ---


def test_op_summary() -> None:
    found = read(OP_SUMMARY)
    assert (found.operator, found.what, found.left_out, found.is_of_blocks) == ("fused", "median of 3 calls", 0, False)
    assert [row.line for row in found.rows] == [3, 4, 5]
    assert [row.total_us for row in found.rows] == [22.25, 19.5, 18.5]
    assert found.summary == found.rows[1]
    first = found.rows[0]
    assert first.cube == {
        "Total": 20.5, "PIPE-M": 4.25, "PIPE-S": 1.5, "PIPE-MTE1": 3.0, "PIPE-MTE2": 15.75, "PIPE-FIX": 2.0,
    }  # fmt: skip
    assert first.vector == {"Total": 22.25, "PIPE-V": 6.5, "PIPE-S": 2.5, "PIPE-MTE2": 5.0, "PIPE-MTE3": 1.25}
    assert first.plain == {} and not first.is_task and first.block == ""
    assert first.pipes == {
        "PIPE-M": 4.25, "PIPE-S": 2.5, "PIPE-MTE1": 3.0, "PIPE-MTE2": 15.75, "PIPE-FIX": 2.0, "PIPE-V": 6.5,
        "PIPE-MTE3": 1.25,
    }  # fmt: skip


def test_pipe_utilization_has_a_row_for_each_core_of_a_block() -> None:
    found = read(PIPE_UTILIZATION)
    assert (found.operator, found.what, found.is_of_blocks) == ("", "longest of 4 rows of blocks", True)
    assert [row.block for row in found.rows] == ["0 cube0", "0 vector0", "0 vector1", "1 cube0"]
    assert [row.total_us for row in found.rows] == [11.5, 12.5, 13.5, 10.5]
    assert found.rows[0].cube == {
        "Total": 11.5, "PIPE-M": 3.5, "PIPE-MTE1": 2.5, "PIPE-MTE2": 9.5, "PIPE-MTE3": 0.25, "PIPE-FIX": 0.5,
        "PIPE-S": 5.5,
    }  # fmt: skip
    assert found.rows[0].vector == {} and found.rows[1].cube == {}
    assert found.summary.cube == found.rows[0].cube and found.summary.vector == found.rows[2].vector
    assert found.summary.total_us == 13.5
    lines = PIPE_UTILIZATION.splitlines(keepends=True)
    assert read("".join(lines[:2])).what == "1 block"


def test_kernel_details() -> None:
    found = read(KERNEL_DETAILS)
    assert (found.operator, found.what) == ("matmul_7", "1 call")
    assert found.rows[0].cube == {"Total": 11.25, "PIPE-M": 8.5, "PIPE-MTE2": 9.75}
    assert found.rows[0].vector == {}, "a core that did not run has zeros"
    hcom = read(KERNEL_DETAILS, "hcom_1")
    assert hcom.rows[0].is_task and hcom.summary.total_us == 900.5 and hcom.summary.pipes == {}
    assert hcom.caution.startswith("Total is the task's duration, which has the launch in it")
    assert read(KERNEL_DETAILS, "matmulv2").operator == "matmul_7"  # by type


def test_basic_info() -> None:
    found = read(BASIC_INFO)
    assert found.operator == "fused_0_mix_aic" and found.rows[0].is_task and found.rows[0].total_us == 45.25


def test_chips_with_one_kind_of_core() -> None:
    row = read(PRE_910B).rows[0]
    assert row.total_us == 9.75 and row.cube == {"Total": 9.75}
    assert row.plain == {
        "PIPE-V": 1.25, "PIPE-M": 0.0, "PIPE-S": 2.5, "PIPE-MTE1": 0.0, "PIPE-MTE2": 3.75, "PIPE-MTE3": 1.5,
    }  # fmt: skip
    assert read(PRE_910B.replace("_time(us)", "_exe_time(us)").replace("aicore_exe", "aicore")).rows[0] == row


def test_only_a_total() -> None:
    found = read("block_id,sub_block_id,aiv_time(us),aiv_total_cycles,aiv_vec_ratio\n0,vector0,4.5,7000,0.5\n")
    assert found.summary.total_us == 4.5 and found.summary.pipes == {}
    assert found.caution == "the file has no times of pipes; PipeUtilization.csv has them"


def test_only_pipes() -> None:
    """Without a core's time the task's is the total, where there is one."""
    row = read("aic_mte2_time(us),aic_mac_time(us)\n4.5,3.5\n").summary
    assert row.total_us is None and row.pipes == {"PIPE-MTE2": 4.5, "PIPE-M": 3.5}
    row = read("Op Name,Task Duration(us),aic_mte2_time(us)\nx,9.5,4.5\n").summary
    assert row.total_us == 9.5 and not row.is_task
    found = read("block_id,aic_mte2_time(us)\n0,4.5\n1,5.5\n2,5\n")
    assert found.summary.pipes == {"PIPE-MTE2": 5.5} and found.summary.total_us is None


# --- oddities ---


@pytest.mark.parametrize(
    "change",
    [
        lambda text: codecs.BOM_UTF8 + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
        lambda text: text.encode("utf-32"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.replace("\n", "\n\n").encode(),
        lambda text: b"\n \n" + text.encode(),
        lambda text: text.rstrip("\n").encode(),
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.replace(",", ";").encode(),
        lambda text: ("sep=;\n" + text.replace(",", ";")).encode(),
        lambda text: ("exported by hand\n" + text).encode(),
        lambda text: text.replace(",", " , ").encode(),
        lambda text: text.replace("(us)", " (us)").encode(),
        lambda text: text.replace("(us)", "( US )").encode(),
        lambda text: text.replace("(us)", "\uff08us\uff09").encode(),
        lambda text: text.replace("(us)", "").encode(),
        lambda text: text.replace("(us)", "(\u03bcs)").encode(),
        lambda text: text.replace("NA", "N/A").encode(),
        lambda text: text.replace("NA", "").encode(),
        lambda text: text.replace("NA", "UNKNOWN").encode(),
        lambda text: text.replace(",\n", "\n").encode(),
        lambda text: text.replace("aic_time", "aicore_time").replace("cube_time", "mac_time").encode(),
        lambda text: (text + text.splitlines()[0] + "\n").encode(),  # files put together
        lambda text: text.replace("9.5,", "9.5\t,").encode(),
        lambda text: text.replace("9.5,", '"9.5\t",').encode(),
        lambda text: text.replace("9.5,", "+0.95e1,").encode(),
        lambda text: text.replace("390.5", "-1,").replace(",,", ",").encode(),  # of a column that is not read
        lambda text: text.replace("block_id,", "block_id,\u540d\u5b57,", 1).replace("\n", "\n\u503c,", 0).encode(),
    ],
)  # fmt: skip
def test_text_of_every_kind(change: Callable[[str], bytes]) -> None:
    expected = read(PIPE_UTILIZATION.splitlines(keepends=True)[0] + PIPE_UTILIZATION.splitlines(keepends=True)[1])
    text = "".join(PIPE_UTILIZATION.splitlines(keepends=True)[:2])
    changed = change(text)
    if "\u540d".encode() in changed:
        changed = changed.replace(b"\n0,", "\n0,\u503c,".encode())
    found = read(changed)
    assert found.rows[0].cube == expected.rows[0].cube and found.rows[0].total_us == 11.5
    assert len(found.rows) == 1


def test_other_encodings_do_no_harm() -> None:
    text = BASIC_INFO.replace("fused", "\u4e58\u6cd5")
    assert read(text.encode("gb18030")).summary.total_us == 45.25
    assert read(text).operator == "\u4e58\u6cd5_0_mix_aic"


@pytest.mark.parametrize(
    ("unit", "factor"), [("(ns)", 1e-3), ("(us)", 1), ("(ms)", 1e3), ("(s)", 1e6), ("", 1), ("( Ms )", 1e3)]
)
def test_units(unit: str, factor: float) -> None:
    row = read(f"aic_time{unit},aic_mte2_time{unit}\n2.5,1.5\n").summary
    assert row.total_us == pytest.approx(2.5 * factor) and row.pipes["PIPE-MTE2"] == pytest.approx(1.5 * factor)


@pytest.mark.parametrize("unit", ["(%)", "(KB)", "(GB/s)", "(us)(estimate)"])
def test_what_is_no_time_is_left_alone(unit: str) -> None:
    row = read(f"aic_time(us),aic_mte2_time{unit}\n2.5,x\n").summary
    assert row.total_us == 2.5 and row.pipes == {}


def test_thousands() -> None:
    row = read('aic_time(us),aic_mte2_time(us),aic_mac_time(us)\n"1,234.5","1,234,567","12"\n').summary
    assert row.cube == {"Total": 1234.5, "PIPE-MTE2": 1234567.0, "PIPE-M": 12.0}


def test_columns_anywhere_and_twice() -> None:
    text = "aic_mte2_time(us),what,Block Dim,aic_time(us),aic_mte2_ratio,aic_mte2_time(us),aicore_time(us)\n"
    row = read(text + "4.5,x,9,5.5,0.8,4.5,N/A\n").summary
    assert row.cube == {"Total": 5.5, "PIPE-MTE2": 4.5}
    said = refusal(text + "4.5,x,9,5.5,0.8,4.5,N/A\n4.5,x,9,5.5,0.8,4.5,5.25\n")
    assert said == (
        "profile: op_summary.csv:3: aic_time(us) and aicore_time(us) mean the same and say 5.5 us and 5.25 us; leave "
        "one of the columns"
    )


def test_a_star_of_the_documentation() -> None:
    assert read("ai*_vec_time(us),ai*_mte2_time(us)\n4.5,3.5\n").summary.plain == {"PIPE-V": 4.5, "PIPE-MTE2": 3.5}


def test_short_rows() -> None:
    assert read("aic_time(us),aic_mte2_time(us),x,\n4.5,3.5\n").summary.cube == {"Total": 4.5, "PIPE-MTE2": 3.5}
    assert read("aic_time(us),aic_mte2_time(us),x\n4.5\n").summary.cube == {"Total": 4.5}
    assert read("aic_time(us),aic_mte2_time(us)\n4.5,3.5,,,\n").summary.cube == {"Total": 4.5, "PIPE-MTE2": 3.5}


def test_rows_that_end_too_early_are_said() -> None:
    said = refusal("a,b,aic_time(us)\n1,2\n1,2\n")
    assert "are 0, N/A or empty; line 2 has 2 cells under 3 columns. Measure on a device" in said


def test_rows_without_times_are_left_out() -> None:
    text = "Op Name,Task Duration(us),aic_time(us),aiv_time(us)\nx,9,N/A,N/A\nx,8,7.5,0.0\nx,7,0,0\nx,6,,5.5\n"
    found = read(text)
    assert [(row.line, row.total_us) for row in found.rows] == [(3, 7.5), (5, 5.5)]


# --- which operator ---

SEVERAL = (
    "Op Name,OP Type,Task Duration(us),aic_time(us)\n"
    "matmul_1,MatMul,9,8\nmatmul_2,MatMul,19,18\ncast_1,Cast,4,3\nhost_1,AICPU,70,N/A\nCAST_1,Cast,5,4\n"
)


@pytest.mark.parametrize(
    ("operator", "total"),
    [
        ("matmul_1", 8),
        ("MATMUL_2", 18),
        (" matmul_2 ", 18),
        ("cast_1", 3),
        ("CAST_1", 4),
        ("host_1", 70),
        ("aicpu", 70),
    ],
)
def test_an_operator_by_name_or_type(operator: str, total: float) -> None:
    found = read(SEVERAL, operator)
    assert [row.total_us for row in found.rows] == [total]


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (None, "has 4 operators; give one as operator: 'matmul_1', 'matmul_2', 'cast_1', 'CAST_1'"),
        ("MatMul", "has 2 operators of type 'MatMul'; give one as operator: 'matmul_1', 'matmul_2'"),
        ("Cast_1", "has 2 operators of type 'Cast_1'; give one as operator: 'cast_1', 'CAST_1'"),
        ("matmul_3", "has no operator 'matmul_3'; did you mean 'matmul_2'? It has 'matmul_1', 'matmul_2', 'cast_1',"),
        ("MUL_", "has no operator 'MUL_'; did you mean 'matmul_2'? It has"),
        ("ost", "has no operator 'ost'; did you mean 'host_1'? It has"),
        ("zzz", "has no operator 'zzz'. It has 'matmul_1', 'matmul_2', 'cast_1', 'host_1', 'CAST_1'"),
    ],
)
def test_an_operator_that_is_not_clear(operator: str | None, words: str) -> None:
    assert f"profile: op_summary.csv {words}" in refusal(SEVERAL, operator)


def test_many_operators_are_listed_shortly() -> None:
    rows = "".join(f"{'n' * 200}{i},{i}\n" for i in range(1, 501))
    said = refusal(f"Op Name,aic_time(us)\n{rows}")
    assert said.startswith(f"profile: op_summary.csv has 500 operators; give one as operator: '{'n' * 100}...', ")
    assert said.endswith(" ... (488 more)") and len(said) < 1500


def test_no_operator_has_a_name() -> None:
    said = refusal(PIPE_UTILIZATION, "fused")
    assert said == (
        "profile: op_summary.csv has no column of operators' names, and operator is 'fused'; leave it out for this file"
    )


def test_many_rows_are_cut() -> None:
    rows = "".join(f"x,{i}\n" for i in range(1, 2502))
    found = read(f"Op Name,aic_time(us)\n{rows}")
    assert (len(found.rows), found.left_out, found.what) == (1000, 1501, "median of the first 1,000 of 2,501 calls")
    assert found.summary.total_us == 500
    blocks = "".join(f"{i},{i + 1}\n" for i in range(2501))
    assert read(f"block_id,aic_time(us)\n{blocks}").summary.total_us == 2501, "the longest, wherever it is"


# --- what is refused ---

NEEDED = (
    "needed are aicore_time(us), aic_time(us), aiv_time(us), a pipe's time as aic_mte2_time(us) or vec_time(us), or "
    "Op Name with Task Duration(us); PipeUtilization.csv, op_summary*.csv, kernel_details*.csv and OpBasicInfo.csv "
    "have them"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Device_id,Level,Time(us)\n0,acl,3\n",
            f" has no time of an operator. It has 'Device_id', 'Level', 'Time(us)'; {NEEDED}",
        ),
        (
            "Device_id,task_time(us)\n0,3\n",
            f" has no time of an operator. It has 'Device_id', 'task_time(us)'; {NEEDED}",
        ),
        (
            "Pipe,Duration(us),Cycle\nTotal,3,4\n",
            f" has no time of an operator. It has 'Pipe', 'Duration(us)', 'Cycle'; {NEEDED}",
        ),
        ("\n\n , \n", f" has no columns; {NEEDED}"),
        (",".join(f"column {i} {'x' * 99}" for i in range(40)), "' ... (28 more); needed are"),
        ("\x1b[31m,b\n", "It has '?[31m', 'b'; needed are"),
        ('"a,b\n1,2\n', " has no time of an operator. It has '1', '2'; needed are"),
        ("aic_time(us)\n", " has no row below its columns; export it again"),
        (
            "aic_time(us),aiv_time(us)\nN/A,0\nNA,\n",
            " has no time in any row; 'aic_time(us)', 'aiv_time(us)' are 0, N/A or empty. Measure on a device, "
            "with PipeUtilization as the metric",
        ),
        ("aic_time(us)\n1\n-1\n", ":3: aic_time(us) is '-1'; a time is a number from 0 to 10^15, or N/A"),
        ("aic_time(us)\n1\n\nnan\n", ":4: aic_time(us) is 'nan'; a time is a number from 0 to 10^15, or N/A"),
        ("aic_time(us)\ninf\n", ":2: aic_time(us) is 'inf'; a time is a number"),
        ("aic_time(us)\n1e999\n", ":2: aic_time(us) is '1e999'; a time is a number"),
        ("aic_time(us)\n1_0\n", ":2: aic_time(us) is '1_0'; a time is a number"),
        ("aic_time(us)\n\uff11\n", ":2: aic_time(us) is '\uff11'; a time is a number"),
        ("aic_time(us)\n\"1,23\"\n", ":2: aic_time(us) is '1,23'; a time is a number"),
        (
            "aic_time(us);x\n\"1,234\";2\n",
            ":2: aic_time(us) is '1,234'; in a file with semicolons the comma is ambiguous, write a decimal point",
        ),
        ("aic_time(us),x\n1,234,5\n", ":2: 3 cells under 2 columns; a cell with a comma needs quotes"),
        (
            "aic_time(us),aiv_time(us)\n1,2\n3",
            ":3: the file ends in the middle of a row; export it again, or remove the row",
        ),
        ('aic_time(us),x\n1,"2\n3,4\n', ":2: unexpected end of data; is a quote not closed?"),
        ('aic_time(us),x\n1,"' + "2\n" * 70_000, ":2: field larger than field limit (131072); is a quote not closed?"),
        (
            "aic_time(us)\n1\n\0\n",
            ":3: a NUL byte; the file is no text, or UTF-16 without a mark. Save it as UTF-8, comma separated",
        ),
        ("aic_time(us)\n1\n".encode("utf-16-le"), ":1: a NUL byte; the file is no text"),
        ("aic_time(us)\n" + "1" * (1 << 20), ":2: the line or file does not end; is it a .csv file of msprof?"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str | bytes, said: str) -> None:
    message = refusal(text)
    assert message.startswith("profile: op_summary.csv") and said in message
    assert message.isprintable() and len(message) < 1200


def test_a_quote_that_is_not_closed_where_the_limit_of_csv_was_raised() -> None:
    before = csv.field_size_limit(1 << 40)
    try:
        said = refusal('aic_time(us),x\n1,2\n1,"' + "2\n" * (3 << 20))
    finally:
        csv.field_size_limit(before)
    assert said == "profile: op_summary.csv:3: a row of more than 4,194,304 letters; is a quote not closed?"


def test_rows_of_others_are_not_judged() -> None:
    text = "Op Name,aic_time(us)\nx,1\ny,-1\n"
    assert read(text, "x").summary.total_us == 1
    assert ":3: aic_time(us) is '-1'" in refusal(text)
    assert "has no time in any row of 'z'; 'aic_time(us)' are 0" in refusal("Op Name,aic_time(us)\nx,1\nz,0\n", "z")


@pytest.mark.parametrize(
    ("path", "operator", "error", "words"),
    [
        (5, None, ArgumentError, "profile: the path must be a str or a path, got int"),
        (b"x.csv", None, ArgumentError, "profile: the path must be a str or a path, got bytes"),
        ("x.csv", 5, ArgumentError, "profile: operator must be a str, got int"),
        ("x.csv", " ", InputError, "profile: operator is empty; give the name of one, or leave it out"),
        ("", None, InputError, "profile: the path is empty or has a NUL character"),
        ("a\0", None, InputError, "profile: the path is empty or has a NUL character"),
        ("x.csv", None, FileError, "profile: x.csv cannot be read: No such file or directory"),
        ("/dev/null", None, InputError, "profile: null is no regular file; give a .csv file of msprof"),
    ],
)
def test_arguments(path: Any, operator: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        read_profile(path, operator=operator)
    assert str(caught.value) == words


def test_empty_and_huge_files() -> None:
    assert refusal("") == "profile: op_summary.csv is empty or larger than 1 GiB; export fewer operators"
    with open("op_summary.csv", "wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(InputError, match="is empty or larger than 1 GiB"):
        read_profile("op_summary.csv")


def test_a_file_that_fails_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(OP_SUMMARY)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(profiler.csv, "reader", fail)
    with pytest.raises(FileError, match=r"^profile: op_summary\.csv cannot be read: Input/output error$"):
        read_profile(path)


def test_a_large_file_is_read_in_passing() -> None:
    import tracemalloc

    header, *rows = SEVERAL.splitlines(keepends=True)
    with open("op_summary.csv", "w") as file:
        file.write(header.replace("\n", ",shapes\n"))
        for _ in range(1000):
            file.writelines(row.replace("\n", f",{'1;' * 500}\n") for row in rows)
    tracemalloc.start()
    with pytest.raises(InputError, match="has 4 operators"):
        read_profile("op_summary.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20 < Path("op_summary.csv").stat().st_size


# --- folders ---


def test_the_folder_of_the_profiler() -> None:
    written(BASIC_INFO, "OPPROF_1/OpBasicInfo.csv")
    assert read_profile("OPPROF_1").summary.total_us == 45.25
    written(PIPE_UTILIZATION, "OPPROF_1/dump/PipeUtilization.csv")
    written("x", "OPPROF_1/L2Cache.csv")
    found = read_profile(Path("OPPROF_1"))
    assert found.path == "OPPROF_1/dump/PipeUtilization.csv" and found.is_of_blocks
    written(OP_SUMMARY, "PROF_1/mindstudio_profiler_output/op_summary_20260102.csv")
    assert read_profile("PROF_1").operator == "fused"
    written(OP_SUMMARY, "PROF_1/device_1/summary/op_summary_1.csv")
    with pytest.raises(InputError) as caught:
        read_profile("PROF_1")
    assert str(caught.value) == (
        "profile: folder PROF_1 has 2 such files; give one of 'device_1/summary/op_summary_1.csv', "
        "'mindstudio_profiler_output/op_summary_20260102.csv'"
    )


def test_folders_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written(OP_SUMMARY, "empty/1/2/3/4/5/op_summary_deep.csv")
    with pytest.raises(InputError) as caught:
        read_profile("empty")
    assert str(caught.value) == (
        "profile: folder empty has no PipeUtilization.csv, op_summary*.csv, kernel_details*.csv or OpBasicInfo.csv; "
        "give the folder that msprof wrote, or the file itself"
    )
    monkeypatch.setattr(profiler, "_MOST_ENTRIES", 3)
    with pytest.raises(InputError, match="folder empty has more than 3 entries; give the file itself"):
        read_profile("empty")


def test_a_folder_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written(OP_SUMMARY, "PROF_3/op_summary_1.csv")

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(FileError, match=r"^profile: PROF_3 cannot be read: Permission denied$"):
        read_profile("PROF_3")


# --- the comparison ---


def comparison(text: str, **pipes_us: float) -> Comparison:
    return Comparison.of(10.0, {name.replace("_", "-"): time_us for name, time_us in pipes_us.items()}, read(text))


def test_pipes_are_compared_with_those_of_their_core() -> None:
    found = comparison(OP_SUMMARY, aic0_PIPE_MTE2=5.0, AIV1_PIPE_MTE2=2.5, PIPE_MTE3=0.0, x_PIPE_S=5.0, aic0_PIPE_V=1.0)
    pipes = found.pipes
    assert pipes["Total"].predicted_us == 10 and pipes["Total"].measured_us == (22.25, 19.5, 18.5)
    assert pipes["Total"].ratios == (2.225, 1.95, 1.85) and pipes["Total"].summary_ratio == 1.95
    assert pipes["aic0-PIPE-MTE2"].measured_us == (15.75, 14.75, 13.75)
    assert pipes["aic0-PIPE-MTE2"].ratios == (3.15, 2.95, 2.75)
    assert pipes["AIV1-PIPE-MTE2"].measured_us == (5.0, 4.0, 3.0) and pipes["AIV1-PIPE-MTE2"].summary_us == 4
    assert pipes["PIPE-MTE3"].measured_us == (1.25,) * 3 and pipes["PIPE-MTE3"].ratios == (None,) * 3
    assert pipes["x-PIPE-S"].measured_us == (2.5,) * 3, "of any core the larger"
    assert pipes["aic0-PIPE-V"].measured_us == (None,) * 3
    assert list(pipes)[6:] == ["aic-PIPE-M", "aic-PIPE-MTE1", "aic-PIPE-FIX", "aiv-PIPE-V"]
    assert pipes["aiv-PIPE-V"].predicted_us is None and pipes["aiv-PIPE-V"].ratios == (None,) * 3
    assert found.headings()[:3] == ["ProfDuration(us)_0", "ProfRatio_0", "ProfDuration(us)_1"]
    assert found.cells("aic0-PIPE-MTE2")[:2] == ["15.750000", "3.1500"] and found.cells("PIPE-MTE3")[:2] == [
        "1.250000",
        "-",
    ]


def test_a_model_of_one_kind_of_core_takes_that_kinds_times() -> None:
    mixed = "aic_time(us),aic_mte2_time(us),aiv_time(us),aiv_mte2_time(us),aiv_vec_time(us)\n9,8,5,4,3\n"
    vector = comparison(mixed, aiv0_PIPE_MTE2=1.0, aiv0_PIPE_V=1.0).pipes
    assert vector["Total"].measured_us == (5.0,) and vector["Total"].summary_us == 5
    cube = comparison(mixed, aic0_PIPE_MTE2=1.0).pipes
    assert cube["Total"].measured_us == (9.0,) and cube["aic0-PIPE-MTE2"].measured_us == (8.0,)
    unnamed = comparison(mixed, PIPE_MTE2=1.0, PIPE_V=1.0).pipes
    assert unnamed["Total"].measured_us == (5.0,) and unnamed["PIPE-MTE2"].measured_us == (4.0,)
    both = comparison(mixed, aic0_PIPE_MTE2=1.0, aiv0_PIPE_V=1.0).pipes
    assert both["Total"].measured_us == (9.0,)
    unclear = comparison(mixed, PIPE_MTE2=1.0).pipes
    assert unclear["Total"].measured_us == (9.0,) and unclear["PIPE-MTE2"].measured_us == (8.0,)
    blocks = comparison(PIPE_UTILIZATION, aiv0_PIPE_MTE2=0.1).pipes["Total"]
    rows = read(PIPE_UTILIZATION).rows
    assert blocks.measured_us == tuple(row.vector.get("Total") for row in rows) and None in blocks.measured_us


def test_cores_that_the_measurement_does_not_tell_apart() -> None:
    found = comparison(PRE_910B, aic0_PIPE_MTE2=1.0, aiv0_PIPE_V=0.5)
    assert found.pipes["aic0-PIPE-MTE2"].measured_us == (3.75,) and found.pipes["aiv0-PIPE-V"].ratios == (2.5,)
    assert list(found.pipes) == ["Total", "aic0-PIPE-MTE2", "aiv0-PIPE-V", "PIPE-S", "PIPE-MTE3"], "what ran, once"
    found = comparison("aiv_time(us),aiv_vec_time(us),aiv_mte2_time(us)\n9,4,3\n", aic0_PIPE_MTE2=1.0)
    assert found.pipes["aic0-PIPE-MTE2"].measured_us == (3.0,)


def test_rows_of_single_cores() -> None:
    found = comparison(PIPE_UTILIZATION, aic0_PIPE_MTE2=1.0, aiv0_PIPE_MTE2=0.1)
    assert found.pipes["aic0-PIPE-MTE2"].measured_us == (9.5, None, None, 9.0)
    assert found.pipes["aiv0-PIPE-MTE2"].measured_us == (None, 0.75, 0.7, None)
    assert found.pipes["aic0-PIPE-MTE2"].summary_us == 9.5 and found.pipes["aiv0-PIPE-MTE2"].summary_us == 0.7


# --- a chip ---


def modelled(path: Any, operator: str | None = None, metrics: bool = True) -> Chip:
    with Chip("Ascend910B1") as chip:
        if metrics:
            chip.enable_metrics()
        chip.set_prof_summary_path(path, operator=operator)
        with Core("aic0"):
            x = Tensor("L1", format="NZ")
            x.load(Tensor("GM", "FP16", [64, 64], format="ND"))
            l0a, l0b = Tensor("L0A"), Tensor("L0B")
            l0a.load(x)
            l0b.load(x)
            (out,) = mmad(l0a, l0b, Tensor("L0C", "FP32", [64, 64], format="NZ"), is_inited=True)()
            Tensor("GM", "FP32", [64, 64], format="ND").load(out)
        with Core("aiv0"):
            y = Tensor("UB")
            y.load(Tensor("GM", "FP16", [4096]))
            vadd(y, y, Tensor("UB"))()
    return chip


def table_of(chip: Chip) -> list[dict[str, str]]:
    with open(Path(chip.output_dir) / "Pipe_statistic.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_pipe_table_has_the_measurement_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    chip = modelled(written(OP_SUMMARY))
    rows = table_of(chip)
    more = [text for i in range(3) for text in (f"ProfDuration(us)_{i}", f"ProfRatio_{i}")]
    assert list(rows[0]) == ["Pipe", "Duration(us)", "Cycle", "Size(B)", "Ops", *more]
    measured = {row["Pipe"]: [row[f"ProfDuration(us)_{i}"] for i in range(3)] for row in rows}
    assert measured == {
        "Total": ["22.250000", "19.500000", "18.500000"],
        "aic0-PIPE-MTE2": ["15.750000", "14.750000", "13.750000"],
        "aic0-PIPE-MTE1": ["3.000000"] * 3,
        "aic0-PIPE-M": ["4.250000"] * 3,
        "aic0-PIPE-FIX": ["2.000000"] * 3,
        "aiv0-PIPE-MTE2": ["5.000000", "4.000000", "3.000000"],
        "aiv0-PIPE-V": ["6.500000"] * 3,
    }
    for row in rows:
        for i in range(3):
            ratio = float(row[f"ProfDuration(us)_{i}"]) / float(row["Duration(us)"])
            assert float(row[f"ProfRatio_{i}"]) == pytest.approx(ratio, abs=1e-3)
    shown = capsys.readouterr().out.splitlines()
    headings = [cell.strip() for cell in shown[1].split("┃")]
    assert headings == [
        "pipe / instruction", "us", "cycles", "busy", "measured us", "ratio", "ProfDuration(us)_0", "ProfRatio_0",
    ]  # fmt: skip
    total = [cell.strip() for cell in shown[3].split("│")]
    assert total[0] == "Total" and total[4] == "19.500" and total[6] == "22.250"
    assert "measured: fused, median of 3 calls, op_summary.csv" in shown
    assert "... 2 more of its rows in Pipe_statistic.csv" in shown
    assert max(map(len, shown[:-1])) <= 110
    instructions = (Path(chip.output_dir) / "Instruction_statistic.csv").read_text()
    assert "Prof" not in instructions
    assert chip.result.comparison is not None and chip.result.comparison.profile.operator == "fused"


def test_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    chip = modelled(written(BASIC_INFO))
    rows = {row["Pipe"]: row for row in table_of(chip)}
    assert rows["Total"]["ProfDuration(us)_0"] == "45.250000" and rows["aic0-PIPE-M"]["ProfRatio_0"] == "-"
    shown = capsys.readouterr().out
    assert "ProfDuration(us)_0" in shown and "measured us" not in shown
    assert "Total is the task's duration, which has the launch in it" in shown.replace("\n", " ")


def test_without_a_profile_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with Chip("Ascend910B1") as chip:
        chip.enable_metrics()
        Tensor("UB").load(Tensor("GM", "FP16", [4096]))
    assert list(table_of(chip)[0]) == ["Pipe", "Duration(us)", "Cycle", "Size(B)", "Ops"]
    assert chip.result.comparison is None and "Prof" not in capsys.readouterr().out


def test_an_empty_program() -> None:
    with Chip("Ascend910B1") as chip:
        chip.set_prof_summary_path(written(BASIC_INFO))
    assert chip.result.comparison is not None
    assert chip.result.comparison.pipes["Total"].ratios == (None,)


def test_the_chip_takes_a_folder_and_an_operator() -> None:
    written(SEVERAL, "PROF_2/op_summary_1.csv")
    found = modelled("PROF_2", "cast_1", metrics=False).result.comparison
    assert found is not None and found.pipes["Total"].measured_us == (3.0,)


@pytest.mark.parametrize(
    ("text", "operator", "error", "words"),
    [
        (
            "a,b\n1,2\n",
            None,
            InputError,
            "Chip: op_summary.csv has no time of an operator. It has 'a', 'b'; needed are",
        ),
        (SEVERAL, None, InputError, "Chip: op_summary.csv has 4 operators; give one as operator: 'matmul_1',"),
        (SEVERAL, 5, ArgumentError, "Chip: operator must be a str, got int"),
        ("aic_time(us)\n-1\n", None, InputError, "Chip: op_summary.csv:2: aic_time(us) is '-1'; a time is a number"),
    ],
)
def test_errors_come_at_the_call(text: str, operator: Any, error: type[Exception], words: str) -> None:
    path = written(text)
    with pytest.raises(error) as caught:
        Chip("Ascend910B1").set_prof_summary_path(path, operator=operator)
    assert str(caught.value).startswith(words) and "(test_profiler_files.py:" in str(caught.value)
