#!/usr/bin/env sysbench
-- STAMP Vacation for sysbench and PostgreSQL, written from the thesis's description (section 4.5.1). See README.md.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = folder .. "../tpcc/?.lua;" .. folder .. "?.lua;" .. package.path

local driver = require("tpcc_driver")
local random = require("tpcc_random")
local sql_files = require("tpcc_sql_files")

local KINDS = {"car", "flight", "room"}

-- ---- Inputs ------------------------------------------------------------------------------------

local function price()
   return 50 + 10 * random.uniform(0, 50)
end

-- Of n random items the different ones, of each kind in ascending order: {car = {3, 17}, flight = {}, ...}.
local function random_items(options)
   local chosen, seen = {car = {}, flight = {}, room = {}}, {}
   for _ = 1, options.n do
      local kind, item = KINDS[random.uniform(1, 3)], random.uniform(1, options.rows)
      if not seen[kind .. item] then
         seen[kind .. item] = true
         table.insert(chosen[kind], item)
      end
   end
   for _, items in pairs(chosen) do table.sort(items) end
   return chosen
end

local function customer(options)
   return random.uniform(1, options.rows)
end

-- ---- Tasks: cars, then flights, then rooms, so that two never wait for each other crosswise ---------------------

-- Looks at the prices of n items, and takes the dearest one of each kind that is left. The customer comes first: under
-- REPEATABLE READ, a transaction that meets another one which adds the same customer must begin again. So far it has done
-- nothing.
local function make_reservation(run, input)
   run("add_customer", input.customer)
   local kinds, items, prices = {}, {}, {}
   for _, kind in ipairs(KINDS) do
      if #input.items[kind] > 0 then
         local found = run("find_" .. kind, input.items[kind])
         if found.nrows > 0 then
            local item, its_price = unpack(found:fetch_row(), 1, 2)
            kinds[#kinds + 1], items[#items + 1], prices[#prices + 1] = kind, tonumber(item), tonumber(its_price)
         end
      end
   end
   if #kinds == 0 then
      return
   end
   run("add_reservations", input.customer, kinds, items, prices)
   for i, kind in ipairs(kinds) do
      run("reserve_" .. kind, items[i])
   end
end

-- What the customer has reserved is free again. The bill is what the agency would send.
local function delete_customer(run, input)
   local rs = run("delete_reservations", input.customer)
   local counts = {car = {}, flight = {}, room = {}}
   input.bill = 0
   for _ = 1, rs.nrows do
      local kind, item, its_price = unpack(rs:fetch_row(), 1, 3)
      counts[kind][tonumber(item)] = (counts[kind][tonumber(item)] or 0) + 1
      input.bill = input.bill + tonumber(its_price)
   end
   for _, kind in ipairs(KINDS) do
      local items, numbers = {}, {}
      for item in pairs(counts[kind]) do items[#items + 1] = item end
      table.sort(items)
      for i, item in ipairs(items) do numbers[i] = counts[kind][item] end
      if #items > 0 then
         run("release_" .. kind, items, numbers)
      end
   end
   run("delete_customer", input.customer)
end

local function add_items(run, input)
   for _, kind in ipairs(KINDS) do
      if #input.items[kind] > 0 then
         run("restock_" .. kind, input.items[kind], input.prices[kind])
      end
   end
end

local function delete_items(run, input)
   for _, kind in ipairs(KINDS) do
      if #input.items[kind] > 0 then
         run("withdraw_" .. kind, input.items[kind])
      end
   end
end

local function add_items_input(options)
   local input = {items = random_items(options), prices = {}}
   for kind, items in pairs(input.items) do
      input.prices[kind] = {}
      for i in ipairs(items) do input.prices[kind][i] = price() end
   end
   return input
end

-- A commit that is far away: the task's locks are held for so much longer.
local function committed_far_away(task)
   return function(run, input, options)
      task(run, input, options)
      if options.commit_wait_ms > 0 then run("wait", options.commit_wait_ms / 1000) end
   end
end

-- ---- The load ----------------------------------------------------------------------------------

-- A statement whose name ends with _kind becomes three.
local function for_each_kind(texts)
   local result = {}
   for name, statement in pairs(texts) do
      if name:match("_kind$") then
         for _, kind in ipairs(KINDS) do
            result[name:gsub("kind$", kind)] = {types = statement.types, text = statement.text:gsub("kind_", kind .. "_")}
         end
      else
         result[name] = statement
      end
   end
   return result
end

local function texts(options)
   local found = sql_files.read_named("../vacation/tasks.sql")
   if options.functions then
      for name, statement in pairs(sql_files.read_named("../vacation/tasks_functions.sql")) do
         found[name] = statement
      end
   end
   return for_each_kind(found)
end

driver.install{
   options = {
      rows = {"Rows of each table", 100},
      n = {"Items that a task looks at", 10},
      commit_wait_ms = {"How long each task waits before it commits, ms", 0},
      functions = {"Call the functions of Multi-Record Values", false},
   },
   check_options = function(o) assert(o.rows >= 1 and o.n >= 1, "--rows and --n must be at least 1") end,
   transactions = {
      {name = "make_reservation", writes = true, body = committed_far_away(make_reservation),
       input = function(o) return {customer = customer(o), items = random_items(o)} end},
      {name = "delete_customer", writes = true, body = committed_far_away(delete_customer),
       input = function(o) return {customer = customer(o)} end},
      {name = "add_items", writes = true, body = committed_far_away(add_items), input = add_items_input},
      {name = "delete_items", writes = true, body = committed_far_away(delete_items),
       input = function(o) return {items = random_items(o)} end},
   },
   mix = "80,10,5,5",
   texts = texts,
   report_fields = {"rows"},
   rollback_states = {["23514"] = true},  -- nothing is left of an item: the task ends without effect
}
