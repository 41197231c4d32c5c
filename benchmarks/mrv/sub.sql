\set id random(1, :items)
SELECT psp_mrv.product_stock_sub(:id, 1);
