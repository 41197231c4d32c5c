#!/usr/bin/env sysbench
-- TPC-C for sysbench and PostgreSQL, written from the specification (5.11). See README.md.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = folder .. "?.lua;" .. package.path

local ffi = require("ffi")
local check = require("tpcc_check")
local load = require("tpcc_load")
local random = require("tpcc_random")
local report = require("tpcc_report")
local statements = require("tpcc_statements")
local transactions = require("tpcc_transactions")

ffi.cdef("int usleep(unsigned int microseconds);")

sysbench.cmdline.options = {
   warehouses = {"Warehouses in the database", 1},
   home_first = {"First home warehouse of this client's zone", 1},
   home_last = {"Last home warehouse of this client's zone; 0: the last of all", 0},
   items = {"Items; less than 100000 is for quick demonstrations only", 100000},
   customers = {"Customers of each district; less than 3000 is for quick demonstrations only", 3000},
   foreign_keys = {"Make the specification's foreign keys when loading", false},
   isolation = {"Isolation level: 'read committed' or 'repeatable read'", "read committed"},
   mix = {"Percentages of new_order, payment, order_status, delivery, stock_level", "45,43,4,4,4"},
   prepared = {"Use prepared statements", false},
   retries_max = {"Give a transaction up after so many serialization failures", 100},
   warmup = {"Seconds at the start, inside --time, that are not measured", 0},
   report_json = {"File for the results", ""},
}

local BACKOFF_MS_MAX = 64
-- Serialization failure, deadlock: nothing has happened, and trying again is the client's business.
local RETRYABLE = {["40001"] = true, ["40P01"] = true}

local options, connection, run, cards, measure_from_ms

local function read_options()
   local o = {}
   for name, value in pairs(sysbench.opt) do
      o[name] = value
   end
   if o.home_last == 0 then o.home_last = o.warehouses end
   assert(o.isolation == "read committed" or o.isolation == "repeatable read",
          "--isolation must be 'read committed' or 'repeatable read'")
   assert(1 <= o.home_first and o.home_first <= o.home_last and o.home_last <= o.warehouses,
          "--home_first and --home_last must be a range of warehouses")
   assert(10 <= o.customers and 100 <= o.items, "--customers must be at least 10 and --items at least 100")
   return o
end

-- One entry for each percent: cards[uniform(1, 100)] is the next transaction.
local function read_mix(text)
   local deck, i = {}, 0
   for percent in text:gmatch("%d+") do
      i = i + 1
      local transaction = assert(transactions.list[i], "--mix has more than five numbers")
      for _ = 1, tonumber(percent) do deck[#deck + 1] = transaction end
   end
   assert(#deck == 100, "--mix must add up to 100")
   return deck
end

-- Every SQL error becomes a Lua error with its SQLSTATE, for attempt() to judge.
sysbench.hooks.sql_error_ignorable = function() return true end

local function connect()
   connection = connection or sysbench.sql.driver():connect()
   connection:query("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL " .. options.isolation)
   run = statements.open(connection, options.prepared)
end

local function attempt(transaction, input)
   connection:query("BEGIN")
   if transaction.body(run, input, options) == transactions.ROLLBACK then
      connection:query("ROLLBACK")
      return transactions.ROLLBACK
   end
   local commit_ms = report.now_ms()
   connection:query("COMMIT")
   return "committed", report.now_ms() - commit_ms
end

-- Exponential, with jitter, bounded.
local function back_off(failures)
   local most_ms = math.min(BACKOFF_MS_MAX, 2 ^ math.min(failures, 10))
   ffi.C.usleep(random.uniform(0, most_ms * 1000))
end

-- Runs until it is committed or given up. Returns "committed", "rollback", "gave_up" or "errors", and the COMMIT's time.
local function run_with_retries(transaction, input, counters)
   for failures = 1, options.retries_max do
      local ok, outcome, commit_ms = pcall(attempt, transaction, input)
      if ok then
         return outcome, commit_ms
      elseif type(outcome) ~= "table" then
         error(outcome, 0)
      elseif not RETRYABLE[outcome.sql_state] then
         counters.state = outcome.sql_state
         connection:query("ROLLBACK")
         return "errors"
      end
      counters.aborts = counters.aborts + 1
      back_off(failures)
   end
   return "gave_up"
end

local function record(transaction, outcome, counters, start_ms, commit_ms)
   local end_ms = report.now_ms()
   if start_ms < measure_from_ms then
      return
   end
   report.span(start_ms, end_ms)
   report.add("aborts/" .. transaction.name, counters.aborts)
   report.add("retries/" .. transaction.name, outcome == "gave_up" and counters.aborts - 1 or counters.aborts)
   if outcome == "errors" then
      report.add("errors/" .. transaction.name)
      report.add("state/" .. counters.state)
   elseif outcome == "gave_up" then
      report.add("gave_up/" .. transaction.name)
   else
      report.add("committed/" .. transaction.name)
      if outcome == transactions.ROLLBACK then report.add("rollbacks/" .. transaction.name) end
      report.time(transaction.name, end_ms - start_ms)
      report.time("all", end_ms - start_ms)
      if commit_ms and transaction.writes then report.time("commit", commit_ms) end
   end
end

function thread_init()
   options = read_options()
   cards = read_mix(options.mix)
   connect()
   measure_from_ms = report.now_ms() + options.warmup * 1000
end

function event()
   local transaction = cards[random.uniform(1, 100)]
   local input = transaction.input(options)
   local counters = {aborts = 0}
   local start_ms = report.now_ms()
   local outcome, commit_ms = run_with_retries(transaction, input, counters)
   record(transaction, outcome, counters, start_ms, commit_ms)
end

function thread_done(thread_id)
   if options.report_json ~= "" then
      report.write_thread(options.report_json, thread_id)
   end
   connection:disconnect()
end

-- In the main thread, when all others have ended.
function done()
   if sysbench.opt.report_json ~= "" then
      local names = {}
      for i, transaction in ipairs(transactions.list) do names[i] = transaction.name end
      report.merge(sysbench.opt.report_json, sysbench.opt, names)
   end
end

-- sysbench itself ends with 0 when a command fails in a thread.
local function command(work)
   return function()
      local ok, result = pcall(function()
         return work(sysbench.sql.driver():connect(), read_options())
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
