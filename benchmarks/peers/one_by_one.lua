#!/usr/bin/env sysbench
-- TPC-C with a statement for each row, for PostgreSQL, psp and MariaDB. The database is loaded by ../tpcc/.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = folder .. "?.lua;" .. folder .. "../tpcc/?.lua;" .. package.path

local driver = require("tpcc_driver")
local options = require("tpcc_options")
local sql_files = require("tpcc_sql_files")

-- The column of a district cannot be a parameter: a statement for each.
local function texts()
   local all = sql_files.read_named("one_by_one.sql", folder)
   for d = 1, 10 do
      all["new_order_stock_" .. d] = {text = (all.new_order_stock.text:gsub("%$3", string.format("%02d", d)))}
   end
   all.new_order_stock = nil
   return all
end

driver.install{
   options = options.list,
   check_options = options.check,
   transactions = require("one_by_one_transactions"),
   mix = options.MIX,
   texts = texts,
   report_fields = {"warehouses"},
}
