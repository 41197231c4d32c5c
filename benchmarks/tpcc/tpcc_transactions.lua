-- The five transactions. Each has input(), drawn once, and body(run, input, options), which may run several times when
-- the server asks for a retry. A body returns nothing, or ROLLBACK for the one percent of New-Orders that end so.
-- What another form of these transactions needs, too (../peers/), is in the module's table.
local driver = require("tpcc_driver")
local random = require("tpcc_random")

local transactions = {}

local DISTRICTS = 10

-- "12.34" from 1234: money is counted in cents, exactly.
function transactions.money(cents)
   return string.format("%d.%02d", math.floor(cents / 100), cents % 100)
end

function transactions.cents(text)
   local whole, fraction = text:match("^(%d+)%.(%d%d)$")
   return tonumber(whole) * 100 + tonumber(fraction)
end

local function home_warehouse(options)
   return random.uniform(options.home_first, options.home_last)
end

-- Any warehouse but this one, in any zone.
local function other_warehouse(w, options)
   local other = random.uniform(1, options.warehouses - 1)
   return other < w and other or other + 1
end

-- 60 % of the customers are asked for by name (clauses 2.5.1.2 and 2.6.1.2).
local function customer(input, options)
   if random.chance(60) then
      input.c_last = random.last_name(options.customers)
   else
      input.c = random.customer_id(options.customers)
   end
   return input
end

-- The middle one, rounded up, of those with the name, in the order of their first names.
function transactions.customer_id(run, input)
   if input.c then
      return input.c
   end
   local rs = run("customer_by_name", input.c_w, input.c_d, input.c_last)
   local c
   for _ = 1, math.ceil(rs.nrows / 2) do
      c = tonumber(rs:fetch_row()[1])
   end
   return assert(c, "no customer is called " .. input.c_last)
end

-- ---- New-Order ---------------------------------------------------------------------------------

local function order_line(w, number, options)
   local line = {number = number, item = random.item_id(options.items), supply = w, quantity = random.uniform(1, 10)}
   if options.warehouses > 1 and random.chance(1) then
      line.supply = other_warehouse(w, options)
   end
   return line
end

-- In the order of their stock rows: two orders never wait for each other crosswise.
local function in_lock_order(lines)
   table.sort(lines, function(a, b)
      if a.supply ~= b.supply then return a.supply < b.supply end
      if a.item ~= b.item then return a.item < b.item end
      return a.number < b.number
   end)
   return lines
end

local function new_order_input(options)
   local w = home_warehouse(options)
   local input = {w = w, d = random.uniform(1, DISTRICTS), c = random.customer_id(options.customers), lines = {}}
   input.all_local = 1
   for number = 1, random.uniform(5, 15) do
      local line = order_line(w, number, options)
      input.lines[number] = line
      if line.supply ~= w then input.all_local = 0 end
   end
   if random.chance(1) then
      input.lines[#input.lines].item = options.items + 1
   end
   in_lock_order(input.lines)
   return input
end

local function column(lines, name)
   local values = {}
   for i, line in ipairs(lines) do
      values[i] = line[name]
   end
   return values
end

-- Prices and names; false when an item does not exist.
local function fetch_items(run, lines)
   local rs = run("new_order_items", column(lines, "item"))
   local items = {}
   for _ = 1, rs.nrows do
      local row = rs:fetch_row()
      items[tonumber(row[1])] = {price = transactions.cents(row[2]), original = row[4]:find("ORIGINAL", 1, true)}
   end
   for _, line in ipairs(lines) do
      local item = items[line.item]
      if not item then return false end
      line.cents = item.price * line.quantity
      line.amount = transactions.money(line.cents)
      line.original = item.original
   end
   return true
end

-- The lines in groups in which no stock row occurs twice: one UPDATE changes a row only once.
local function distinct_groups(lines)
   local groups, occurrences = {}, {}
   for _, line in ipairs(lines) do
      local key = line.supply .. "/" .. line.item
      occurrences[key] = (occurrences[key] or 0) + 1
      local group = groups[occurrences[key]] or {}
      groups[occurrences[key]] = group
      group[#group + 1] = line
      group[key] = line
   end
   return groups
end

local function update_stock(run, input)
   for _, group in ipairs(distinct_groups(input.lines)) do
      local rs = run("new_order_stock", column(group, "item"), column(group, "supply"), column(group, "quantity"),
                     input.w, input.d)
      assert(rs.nrows == #group, "stock rows are missing")
      for _ = 1, rs.nrows do
         local row = rs:fetch_row()
         local line = group[row[1] .. "/" .. row[2]]
         line.dist_info = row[5]
         line.brand = line.original and row[4]:find("ORIGINAL", 1, true) and "B" or "G"
      end
   end
end

-- What the terminal would show (clause 2.4.3.3).
function transactions.total_amount(lines, discount, w_tax, d_tax)
   local sum = 0
   for _, line in ipairs(lines) do
      sum = sum + line.cents
   end
   return sum * (1 - tonumber(discount)) * (1 + tonumber(w_tax) + tonumber(d_tax)) / 100
end

local function new_order(run, input)
   local lines = input.lines
   local discount, _, _, w_tax = unpack(run("new_order_customer", input.w, input.d, input.c):fetch_row(), 1, 4)
   local o, d_tax = unpack(run("new_order_district", input.w, input.d):fetch_row(), 1, 2)
   o = tonumber(o)
   run("new_order_order", o, input.d, input.w, input.c, #lines, input.all_local)
   run("new_order_queue", o, input.d, input.w)
   if not fetch_items(run, lines) then
      return driver.ROLLBACK
   end
   update_stock(run, input)
   run("new_order_lines", o, input.d, input.w, column(lines, "number"), column(lines, "item"),
       column(lines, "supply"), column(lines, "quantity"), column(lines, "amount"), column(lines, "dist_info"))
   input.total = transactions.total_amount(lines, discount, w_tax, d_tax)
end

-- ---- Payment -----------------------------------------------------------------------------------

local function payment_input(options)
   local w = home_warehouse(options)
   local input = {w = w, d = random.uniform(1, DISTRICTS), amount = transactions.money(random.uniform(100, 500000))}
   input.c_w, input.c_d = w, input.d
   if options.warehouses > 1 and random.chance(15) then
      input.c_w, input.c_d = other_warehouse(w, options), random.uniform(1, DISTRICTS)
   end
   return customer(input, options)
end

local function payment(run, input)
   local c = transactions.customer_id(run, input)
   run("payment_customer", input.c_w, input.c_d, c, input.amount, input.w, input.d)
   run("payment_history", c, input.c_d, input.c_w, input.d, input.w, input.amount)
   run("payment_district", input.w, input.d, input.amount)
   run("payment_warehouse", input.w, input.amount)
end

-- ---- Order-Status ------------------------------------------------------------------------------

local function order_status_input(options)
   return customer({c_w = home_warehouse(options), c_d = random.uniform(1, DISTRICTS)}, options)
end

local function order_status(run, input)
   local c = transactions.customer_id(run, input)
   run("order_status_customer", input.c_w, input.c_d, c)
   local orders = run("order_status_order", input.c_w, input.c_d, c)
   if orders.nrows > 0 then
      run("order_status_lines", input.c_w, input.c_d, tonumber(orders:fetch_row()[1]))
   end
end

-- ---- Delivery ----------------------------------------------------------------------------------

local function delivery_input(options)
   return {w = home_warehouse(options), carrier = random.uniform(1, 10)}
end

-- Two columns of a result as {first} and {second}; numbers, but for those that `convert` leaves as they are.
local function two_columns(rs, convert)
   local first, second = {}, {}
   for i = 1, rs.nrows do
      local row = rs:fetch_row()
      first[i], second[i] = tonumber(row[1]), convert(row[2])
   end
   return first, second
end

local function delivery(run, input)
   local districts, orders = two_columns(run("delivery_oldest", input.w), tonumber)
   if #districts == 0 then
      return
   end
   local customer_of = {}
   local order_districts, customers = two_columns(
      run("delivery_orders", input.w, districts, orders, input.carrier), tonumber)
   for i, d in ipairs(order_districts) do
      customer_of[d] = customers[i]
   end
   local line_districts, amounts = two_columns(run("delivery_lines", input.w, districts, orders), tostring)
   local line_customers = {}
   for i, d in ipairs(line_districts) do
      line_customers[i] = customer_of[d]
   end
   run("delivery_customers", input.w, line_districts, line_customers, amounts)
end

-- ---- Stock-Level -------------------------------------------------------------------------------

local function stock_level_input(options)
   return {w = home_warehouse(options), d = random.uniform(1, DISTRICTS), threshold = random.uniform(10, 20)}
end

local function stock_level(run, input)
   local next_o = tonumber(run("stock_level_district", input.w, input.d):fetch_row()[1])
   run("stock_level_count", input.w, input.d, next_o, input.threshold)
end

-- In the order of the option --mix.
transactions.list = {
   {name = "new_order", input = new_order_input, body = new_order, writes = true},
   {name = "payment", input = payment_input, body = payment, writes = true},
   {name = "order_status", input = order_status_input, body = order_status, writes = false},
   {name = "delivery", input = delivery_input, body = delivery, writes = true},
   {name = "stock_level", input = stock_level_input, body = stock_level, writes = false},
}

return transactions
