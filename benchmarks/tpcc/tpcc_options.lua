-- The options of TPC-C, for each form of its transactions.
local options = {}

options.MIX = "45,43,4,4,4"  -- new_order, payment, order_status, delivery, stock_level

options.list = {
   warehouses = {"Warehouses in the database", 1},
   home_first = {"First home warehouse of this client's zone", 1},
   home_last = {"Last home warehouse of this client's zone; 0: the last of all", 0},
   items = {"Items; less than 100000 is for quick demonstrations only", 100000},
   customers = {"Customers of each district; less than 3000 is for quick demonstrations only", 3000},
   foreign_keys = {"Make the specification's foreign keys when loading", false},
}

function options.check(o)
   if o.home_last == 0 then o.home_last = o.warehouses end
   assert(1 <= o.home_first and o.home_first <= o.home_last and o.home_last <= o.warehouses,
          "--home_first and --home_last must be a range of warehouses")
   assert(10 <= o.customers and 100 <= o.items, "--customers must be at least 10 and --items at least 100")
end

return options
