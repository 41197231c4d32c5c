-- What any load of transactions on sysbench does: draws a transaction, tries until it commits, counts. tpcc.lua is made
-- of it, and ../vacation/vacation.lua:
--    driver.install{
--       options = {name = {"help", default}},  besides those below
--       check_options = function(o) end,        raises an error; may change o
--       transactions = {{name =, input = f(o), body = f(run, input, o), writes = true}},  in the order of --mix
--       mix = "50,50",                          its default
--       texts = function(o) end,                the statements, as sql_files.read_named gives them
--       report_fields = {"warehouses"},         options that the report repeats
--       rollback_states = {["23514"] = true},   errors that are the application's answer: the transaction ends
--    }
-- input() is drawn once, body() runs once for each try; it returns nothing, or driver.ROLLBACK.
local ffi = require("ffi")
local random = require("tpcc_random")
local report = require("tpcc_report")
local statements = require("tpcc_statements")

ffi.cdef("int usleep(unsigned int microseconds);")

local driver = {}

driver.ROLLBACK = "rollback"

local OPTIONS = {
   isolation = {"Isolation level: 'read committed' or 'repeatable read'", "read committed"},
   prepared = {"Use prepared statements", false},
   retries_max = {"Give a transaction up after so many serialization failures", 100},
   warmup = {"Seconds at the start, inside --time, that are not measured", 0},
   psp_mode = {"'views': begin and commit through psp's client library; '': plain SQL, in psp's native mode too", ""},
   by_second = {"Report how many transactions were committed in each second", false},
   report_json = {"File for the results", ""},
}

local BACKOFF_MS_MAX = 64
local OUTAGE_PAUSE_MS = 100
-- Serialization failure, deadlock: nothing has happened, and trying again is the client's business.
local RETRYABLE = {["40001"] = true, ["40P01"] = true}
-- How a session's isolation level is set, by sysbench's driver; the other statements here are the same for both.
local ISOLATION = {
   pgsql = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL ",
   mysql = "SET SESSION TRANSACTION ISOLATION LEVEL ",
}

local load, options, connection, session, run, cards, measure_from_ms

function driver.read_options()
   local o = {}
   for name, value in pairs(sysbench.opt) do
      o[name] = value
   end
   assert(o.isolation == "read committed" or o.isolation == "repeatable read",
          "--isolation must be 'read committed' or 'repeatable read'")
   assert(o.psp_mode == "" or o.psp_mode == "views", "--psp-mode must be 'views', or nothing")
   load.check_options(o)
   return o
end

-- One entry for each percent: cards[uniform(1, 100)] is the next transaction.
local function read_mix(text)
   local deck, i = {}, 0
   for percent in text:gmatch("%d+") do
      i = i + 1
      local transaction = assert(load.transactions[i], "--mix has too many numbers")
      for _ = 1, tonumber(percent) do deck[#deck + 1] = transaction end
   end
   assert(#deck == 100, "--mix must add up to 100")
   return deck
end

-- How a transaction begins and ends.
local function plain_session()
   connection:query(ISOLATION[sysbench.sql.driver():name()] .. options.isolation)
   return {begin = function(read_only) connection:query(read_only and "START TRANSACTION READ ONLY" or "BEGIN") end,
           commit = function() connection:query("COMMIT") end,
           rollback = function() connection:query("ROLLBACK") end,
           close = function() end}
end

local function psp_session()
   local client = require("psp_client").connect(connection, {isolation = options.isolation})
   assert(client.mode == options.psp_mode, "--psp-mode=" .. options.psp_mode .. ": the database is not in that mode")
   return {begin = function(read_only)
              client.open = nil  -- after a serialization failure sysbench has rolled back by itself
              client:begin(read_only)
           end,
           commit = function() client:commit() end,
           rollback = function() client:abort() end,
           close = function() client:close() end}
end

local function connect()
   connection = connection or sysbench.sql.driver():connect()
   session = options.psp_mode == "" and plain_session() or psp_session()
   run = statements.open(connection, options.prepared, load.texts(options))
end

local function attempt(transaction, input)
   session.begin(not transaction.writes)
   if transaction.body(run, input, options) == driver.ROLLBACK then
      session.rollback()
      return driver.ROLLBACK
   end
   local commit_ms = report.now_ms()
   session.commit()
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
         session.rollback()
         if outcome.sql_state:sub(1, 2) == "08" then  -- the server is cut off from its cluster
            ffi.C.usleep(OUTAGE_PAUSE_MS * 1000)
         end
         return load.rollback_states[outcome.sql_state] and driver.ROLLBACK or "errors"
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
      if outcome == driver.ROLLBACK then report.add("rollbacks/" .. transaction.name) end
      report.time(transaction.name, end_ms - start_ms)
      report.time("all", end_ms - start_ms)
      if options.by_second then report.add("second/" .. math.floor(end_ms / 1000)) end
      if commit_ms and transaction.writes then report.time("commit", commit_ms) end
   end
end

local function thread_init()
   options = driver.read_options()
   cards = read_mix(options.mix)
   connect()
   measure_from_ms = report.now_ms() + options.warmup * 1000
end

local function event()
   local transaction = cards[random.uniform(1, 100)]
   local input = transaction.input(options)
   local counters = {aborts = 0}
   local start_ms = report.now_ms()
   local outcome, commit_ms = run_with_retries(transaction, input, counters)
   record(transaction, outcome, counters, start_ms, commit_ms)
end

local function thread_done(thread_id)
   if options.report_json ~= "" then
      report.write_thread(options.report_json, thread_id)
   end
   session.close()
   connection:disconnect()
end

-- In the main thread, when all others have ended.
local function done()
   if sysbench.opt.report_json ~= "" then
      local names = {}
      for i, transaction in ipairs(load.transactions) do names[i] = transaction.name end
      report.merge(sysbench.opt.report_json, sysbench.opt, load.report_fields, names)
   end
end

-- Makes the functions and options that sysbench looks for.
function driver.install(the_load)
   load = the_load
   load.rollback_states = load.rollback_states or {}
   local all = {mix = {"Percentages of the transactions, in order", load.mix}}
   for _, some in ipairs({OPTIONS, load.options}) do
      for name, option in pairs(some) do all[name] = option end
   end
   sysbench.cmdline.options = all
   -- Every SQL error becomes a Lua error with its SQLSTATE, for attempt() to judge.
   sysbench.hooks.sql_error_ignorable = function() return true end
   _G.thread_init, _G.event, _G.thread_done, _G.done = thread_init, event, thread_done, done
end

return driver
