\set id random(1, :items)
SELECT stock FROM product WHERE id = :id;
