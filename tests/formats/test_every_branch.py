"""Every branch of every sample file: the values of uproot, or `unsupported`; and the table of unsupported types.

The table is in docs/formats.md; HITHER_WRITE_TABLE=1 rewrites it.
"""

import os

import pytest
from needs import sample

import oracle

TABLE = oracle.REPOSITORY / "docs" / "formats.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
LEAST = 0.90


@pytest.fixture(scope="module")
def results():
    return list(oracle.compare_all(sorted(map(str, sample(oracle.DATA).glob("*.root")))))


def test_no_value_is_wrong(results):
    wrong = [f"{result.name}: {line}" for result in results for line in result.wrong]
    assert not wrong, "\n".join(wrong)


def test_nine_branches_in_ten_are_native(results):
    assert oracle.share(results) >= LEAST


def test_the_table_of_what_is_unsupported_is_that_of_the_docs(results):
    text = TABLE.read_text()
    before, _, rest = text.partition(BEGIN)
    committed, _, after = rest.partition(END)
    table = oracle.table(results)
    if os.environ.get("HITHER_WRITE_TABLE"):
        TABLE.write_text(before + BEGIN + table + END + after)
        committed = table
    assert committed == table, "HITHER_WRITE_TABLE=1 writes it anew"
