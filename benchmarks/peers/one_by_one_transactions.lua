-- The five transactions of ../tpcc/tpcc_transactions.lua with the same inputs, as a client writes them that asks for and
-- changes one row after the other: one_by_one.sql.
local driver = require("tpcc_driver")
local large = require("tpcc_transactions")

local DISTRICTS = 10
local C_DATA_LENGTH = 500

local function one_row(rs, columns)
   return unpack(assert(rs:fetch_row(), "a row is missing"), 1, columns)
end

-- ---- New-Order ---------------------------------------------------------------------------------

local function take_stock(run, input, line)
   -- The district's column is part of the statement: a number of two digits.
   local quantity, data, dist_info = one_row(run("new_order_stock_" .. input.d, line.supply, line.item), 3)
   quantity = tonumber(quantity) - line.quantity
   if quantity < 10 then quantity = quantity + 91 end
   run("new_order_take", line.supply, line.item, quantity, line.quantity, line.supply == input.w and 0 or 1)
   line.brand = line.original and data:find("ORIGINAL", 1, true) and "B" or "G"
   return dist_info
end

-- False when the item does not exist.
local function order_line(run, input, o, line)
   local item = run("new_order_item", line.item)
   if item.nrows == 0 then
      return false
   end
   local price, _, data = one_row(item, 3)
   line.original = data:find("ORIGINAL", 1, true)
   local dist_info = take_stock(run, input, line)
   line.cents = large.cents(price) * line.quantity
   run("new_order_line", o, input.d, input.w, line.number, line.item, line.supply, line.quantity,
       line.cents / 100, dist_info)
   return true
end

local function new_order(run, input)
   local discount = one_row(run("new_order_customer", input.w, input.d, input.c), 1)
   local w_tax = one_row(run("new_order_warehouse", input.w), 1)
   local o, d_tax = one_row(run("new_order_district", input.w, input.d), 2)
   o = tonumber(o)
   run("new_order_next", input.w, input.d, o + 1)
   run("new_order_order", o, input.d, input.w, input.c, #input.lines, input.all_local)
   run("new_order_queue", o, input.d, input.w)
   for _, line in ipairs(input.lines) do
      if not order_line(run, input, o, line) then
         return driver.ROLLBACK
      end
   end
   input.total = large.total_amount(input.lines, discount, w_tax, d_tax)
end

-- ---- Payment -----------------------------------------------------------------------------------

local function pay(run, input, c, amount)
   local customer = {one_row(run("payment_customer", input.c_w, input.c_d, c), 15)}
   if customer[11] == "BC" then
      local data = table.concat({c, input.c_d, input.c_w, input.d, input.w, input.amount, customer[15]}, " ")
      run("payment_pay_bad_credit", input.c_w, input.c_d, c, amount, data:sub(1, C_DATA_LENGTH))
   else
      run("payment_pay", input.c_w, input.c_d, c, amount)
   end
end

local function payment(run, input)
   local c = large.customer_id(run, input)
   -- A number: of a text MariaDB would make a binary fraction.
   local amount = tonumber(input.amount)
   pay(run, input, c, amount)
   local w_name = one_row(run("payment_warehouse_name", input.w), 1)
   local d_name = one_row(run("payment_district_name", input.w, input.d), 1)
   run("payment_history", c, input.c_d, input.c_w, input.d, input.w, amount, w_name .. "    " .. d_name)
   run("payment_district", input.w, input.d, amount)
   run("payment_warehouse", input.w, amount)
end

-- ---- Delivery ----------------------------------------------------------------------------------

local function delivery(run, input)
   for d = 1, DISTRICTS do
      local oldest = run("delivery_oldest", input.w, d)
      if oldest.nrows > 0 then
         local o = tonumber((one_row(oldest, 1)))
         run("delivery_take", input.w, d, o)
         local c = tonumber((one_row(run("delivery_customer", input.w, d, o), 1)))
         run("delivery_order", input.w, d, o, input.carrier)
         run("delivery_lines", input.w, d, o)
         local amount = one_row(run("delivery_amount", input.w, d, o), 1)
         run("delivery_balance", input.w, d, c, tonumber(amount))
      end
   end
end

local BODIES = {new_order = new_order, payment = payment, delivery = delivery}

-- Order-Status and Stock-Level are small queries in the large form, too.
local list = {}
for i, transaction in ipairs(large.list) do
   list[i] = {name = transaction.name, input = transaction.input, writes = transaction.writes,
              body = BODIES[transaction.name] or transaction.body}
end

return list
