\set id random(1, :items)
UPDATE product SET stock = stock - 1 WHERE id = :id AND stock > 0;
