#!/usr/bin/env sysbench
-- TPC-C for sysbench and PostgreSQL, written from the specification (5.11). See README.md.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = folder .. "?.lua;" .. folder .. "../../client_libs/lua/?.lua;" .. package.path

local check = require("tpcc_check")
local driver = require("tpcc_driver")
local load = require("tpcc_load")
local options = require("tpcc_options")
local sql_files = require("tpcc_sql_files")
local transactions = require("tpcc_transactions")

driver.install{
   options = options.list,
   check_options = options.check,
   transactions = transactions.list,
   mix = options.MIX,
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
