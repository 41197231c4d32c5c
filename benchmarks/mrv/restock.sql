\set id random(1, :items)
\set amount random(1, 3) * (1 - 2 * random(0, 1))
UPDATE product SET stock = stock + :amount WHERE id = :id;
