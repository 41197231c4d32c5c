#!/usr/bin/env sysbench
-- TPC-C for sysbench and PostgreSQL, written from the specification (5.11). See README.md.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = folder .. "?.lua;" .. folder .. "../../client_libs/lua/?.lua;" .. package.path

local check = require("tpcc_check")
local driver = require("tpcc_driver")
local load = require("tpcc_load")
local sql_files = require("tpcc_sql_files")
local transactions = require("tpcc_transactions")

local function check_options(o)
   if o.home_last == 0 then o.home_last = o.warehouses end
   assert(1 <= o.home_first and o.home_first <= o.home_last and o.home_last <= o.warehouses,
          "--home_first and --home_last must be a range of warehouses")
   assert(10 <= o.customers and 100 <= o.items, "--customers must be at least 10 and --items at least 100")
end

driver.install{
   options = {
      warehouses = {"Warehouses in the database", 1},
      home_first = {"First home warehouse of this client's zone", 1},
      home_last = {"Last home warehouse of this client's zone; 0: the last of all", 0},
      items = {"Items; less than 100000 is for quick demonstrations only", 100000},
      customers = {"Customers of each district; less than 3000 is for quick demonstrations only", 3000},
      foreign_keys = {"Make the specification's foreign keys when loading", false},
   },
   check_options = check_options,
   transactions = transactions.list,
   mix = "45,43,4,4,4",  -- new_order, payment, order_status, delivery, stock_level
   texts = function() return sql_files.read_named("transactions.sql") end,
   report_fields = {"warehouses"},
}

-- sysbench itself ends with 0 when a command fails in a thread.
local function command(work)
   return function()
      local ok, result = pcall(function()
         return work(sysbench.sql.driver():connect(), driver.read_options())
      end)
      if not ok then
         io.stderr:write(type(result) == "table" and result.sql_errmsg or tostring(result), "\n")
      end
      if not ok or result == false then
         os.exit(1)
      end
   end
end

sysbench.cmdline.commands = {
   prepare = {command(load.prepare), sysbench.cmdline.PARALLEL_COMMAND},
   check = {command(check.run)},
   cleanup = {command(load.cleanup)},
}
