"""TPC-C's five transactions for psycopg, with the statements of benchmarks/tpcc.

sysbench ends when its server ends a connection. These clients go on, and know each error.
"""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from random import Random
from typing import Any

from benchmarks.tpcc.runner import SCRIPT, Scale

SCALE = Scale(warehouses=3, items=1000, customers=30)
"""A warehouse for each SP."""
DISTRICTS = 10
SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")

Run = Callable[..., list[tuple[Any, ...]]]
"""Runs the statement of that name with these parameters."""
Work = Callable[[Run, Random, int], None]
"""What one transaction does at its home warehouse. The same Random draws the same input."""


def read_statements() -> Mapping[str, str]:
    """The texts of transactions.sql by their names, with $1, $2 … for the parameters."""
    texts: dict[str, str] = {}
    for part in SCRIPT.with_name("transactions.sql").read_text().split("-- name: ")[1:]:
        title, _, text = part.partition("\n")
        texts[title.partition("(")[0]] = text.split("\n-- ----")[0].strip().removesuffix(";")
    return texts


def draw(random: Random) -> Work:
    """The next transaction, in the mix of the specification."""
    works = (new_order, payment, order_status, delivery, stock_level)
    return random.choices(works, weights=(45, 43, 4, 4, 4))[0]


def new_order(run: Run, random: Random, home: int) -> None:
    district, customer = random.randint(1, DISTRICTS), random.randint(1, SCALE.customers)
    items = random.sample(range(1, SCALE.items + 1), random.randint(5, 15))
    supplies = [_warehouse(random, home, remote_percent=1) for _ in items]
    lines = sorted(zip(supplies, items, strict=True))  # in the order of their stock rows: no deadlocks
    quantities = [random.randint(1, 10) for _ in lines]
    run("new_order_customer", home, district, customer)
    order = run("new_order_district", home, district)[0][0]
    all_local = int(all(supply == home for supply in supplies))
    run("new_order_order", order, district, home, customer, len(lines), all_local)
    run("new_order_queue", order, district, home)
    prices = {row[0]: row[1] for row in run("new_order_items", items)}
    supplies, items = ([line[at] for line in lines] for at in (0, 1))
    stock = run("new_order_stock", items, supplies, quantities, home, district)
    dist_info = {(row[0], row[1]): row[4] for row in stock}
    amounts = [prices[item] * quantity for item, quantity in zip(items, quantities, strict=True)]
    infos = [dist_info[line] for line in lines]
    numbers = list(range(1, len(lines) + 1))
    run("new_order_lines", order, district, home, numbers, items, supplies, quantities, amounts, infos)


def payment(run: Run, random: Random, home: int) -> None:
    district, amount = random.randint(1, DISTRICTS), Decimal(random.randint(100, 500_000)) / 100
    warehouse = _warehouse(random, home, remote_percent=15)
    customer_district = district if warehouse == home else random.randint(1, DISTRICTS)
    customer = _customer(run, random, warehouse, customer_district)
    run("payment_customer", warehouse, customer_district, customer, amount, home, district)
    run("payment_history", customer, customer_district, warehouse, district, home, amount)
    run("payment_district", home, district, amount)
    run("payment_warehouse", home, amount)


def order_status(run: Run, random: Random, home: int) -> None:
    district = random.randint(1, DISTRICTS)
    customer = _customer(run, random, home, district)
    run("order_status_customer", home, district, customer)
    for row in run("order_status_order", home, district, customer):
        run("order_status_lines", home, district, row[0])


def delivery(run: Run, random: Random, home: int) -> None:
    carrier = random.randint(1, 10)
    oldest = run("delivery_oldest", home)
    if not oldest:
        return
    districts, orders = ([row[at] for row in oldest] for at in (0, 1))
    customer_of = {row[0]: row[1] for row in run("delivery_orders", home, districts, orders, carrier)}
    amounts = run("delivery_lines", home, districts, orders)
    paying = [row[0] for row in amounts]
    customers = [customer_of[district] for district in paying]
    run("delivery_customers", home, paying, customers, [row[1] for row in amounts])


def stock_level(run: Run, random: Random, home: int) -> None:
    district, threshold = random.randint(1, DISTRICTS), random.randint(10, 20)
    next_order = run("stock_level_district", home, district)[0][0]
    run("stock_level_count", home, district, next_order, threshold)


def _warehouse(random: Random, home: int, remote_percent: int) -> int:
    if random.randint(1, 100) > remote_percent:
        return home
    return random.choice([other for other in range(1, SCALE.warehouses + 1) if other != home])


def _customer(run: Run, random: Random, warehouse: int, district: int) -> int:
    """60 % are asked for by name."""
    number = random.randint(1, SCALE.customers)
    if random.randint(1, 100) > 60:
        return number
    name = "".join(SYLLABLES[int(digit)] for digit in f"{number - 1:03}")
    found = run("customer_by_name", warehouse, district, name)
    return int(found[math.ceil(len(found) / 2) - 1][0])
