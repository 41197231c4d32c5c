-- The microbenchmark's table (thesis, section 4.5.1): products with a stock.
CREATE TABLE product (
    id integer PRIMARY KEY,
    name text NOT NULL,
    stock bigint NOT NULL CHECK (stock >= 0)
);
