"""check.py finds a database that is broken, for each of the conditions."""

import json

import psycopg
import pytest

from benchmarks.tpcc import check

# What violates a condition (others may be violated with it).
BREAKS = {
    1: "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
    2: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1",
    3: "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 80",
    4: "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 5 AND ol_number = 1",
    5: "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 5",
    6: "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 5",
    7: "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 5",
    8: "DELETE FROM history WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 1",
    9: "UPDATE district SET d_ytd = d_ytd - 1 WHERE d_w_id = 1 AND d_id = 1",
    10: "UPDATE customer SET c_balance = c_balance - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    12: "UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
}


def test_every_condition_can_be_violated() -> None:
    numbers = [*range(1, 11), 12]
    assert sorted(BREAKS) == numbers


def test_a_good_database(tpcc: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([tpcc]) == 0
    assert "BAD" not in capsys.readouterr().out


@pytest.mark.parametrize("number", sorted(BREAKS))
def test_a_broken_database(tpcc: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(tpcc) as connection:
        connection.execute(BREAKS[number].encode())
    assert check.main([tpcc, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["conditions_hold"] is False
    violations = {c["condition"]: c["violations"] for c in found["conditions"]}
    assert violations[number] == 1


def test_nothing_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["host=127.0.0.1 port=1 dbname=nothing connect_timeout=2"]) == 2
    assert "check.py:" in capsys.readouterr().err
