-- Run by test_lua.py, in sysbench: the Lua client library at a real semi-primary, in either mode.
-- Table item has stock 100 in each row; ids from 51 are for these tests.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
package.path = folder .. "../../../client_libs/lua/?.lua;" .. package.path
local psp = require("psp_client")

sysbench.hooks.sql_error_ignorable = function() return true end

local function equal(found, expected, what)
   if found ~= expected then
      error(what .. ": " .. tostring(found) .. " instead of " .. tostring(expected), 0)
   end
end

local function take(client, item)
   client.connection:query("UPDATE item SET stock = stock - 1 WHERE id = " .. item)
end

local function stock(client, item)
   return tonumber(client.connection:query("SELECT stock FROM item WHERE id = " .. item):fetch_row()[1])
end

local tests = {}

function tests.commit(client)
   client:begin()
   take(client, 51)
   equal(stock(client, 51), 99, "own write")
   equal(client:commit().status, "committed", "commit")
   equal(stock(client, 51), 99, "after commit")
end

function tests.abort(client)
   client:begin()
   take(client, 52)
   client:abort()
   equal(stock(client, 52), 100, "after abort")
   client:abort()
end

function tests.read_only(client)
   client:begin()
   stock(client, 53)
   client:commit()
end

function tests.read_only_transaction(client)
   local id = client:begin(true)
   equal(stock(client, 53), 100, "read")
   equal(client.connection:query("SELECT pg_current_xact_id_if_assigned()"):fetch_row()[1], nil, "its number")
   equal(client:commit().status, "committed", "commit")
   equal(pcall(client.outcome, client, id), false, "outcome")
   local ok, failure = pcall(client.run, client, function() take(client, 53) end, true)
   equal(ok, false, "a write")
   equal(failure.sql_state, "25006", "its SQLSTATE")
   equal(client:run(function() return stock(client, 53) end, true), 100, "run")
end

function tests.commit_async(client)
   local transactions = {}
   for item = 60, 63 do
      client:begin()
      take(client, item)
      transactions[#transactions + 1] = client:commit_async()
   end
   for i = #transactions, 1, -1 do
      equal(client:get(transactions[i]).status, "committed", "get")
   end
   equal(stock(client, 63), 99, "after get")
end

function tests.conflict(client, other)
   client:begin()
   stock(client, 70)
   other:run(function() take(other, 70) end)
   local ok, failure = pcall(function()
      take(client, 70)
      client:commit()
   end)
   equal(ok, false, "commit of the second writer")
   equal(failure.sql_state, "40001", "its SQLSTATE")
   client.open = nil  -- sysbench has rolled back, or it is committed in PostgreSQL and aborted by psp
   equal(stock(client, 70), 99, "after the conflict")
end

function tests.run_tries_again(client)
   local attempts = 0
   local result = client:run(function()
      attempts = attempts + 1
      take(client, 71)
      if attempts < 3 then error({sql_state = "40001", sql_errmsg = "again"}, 0) end
      return "done"
   end)
   equal(result, "done", "result")
   equal(attempts, 3, "attempts")
   equal(stock(client, 71), 99, "after run")
end

function tests.run_gives_up(client)
   local ok, failure = pcall(client.run, client, function() error("mine", 0) end)
   equal(ok, false, "run")
   equal(failure, "mine", "the error")
   client:begin()
   client:abort()
end

-- The outer transaction goes on as it was: its statements would each be committed by themselves otherwise.
function tests.run_in_run(client)
   local ok, failure = pcall(client.run, client, function()
      equal(pcall(client.run, client, function() end), false, "the inner run")
      take(client, 72)
      error("mine", 0)
   end)
   equal(ok, false, "the outer run")
   equal(failure, "mine", "its error")
   equal(stock(client, 72), 100, "after run")
end

function tests.begin_fails(client)
   local isolation = client.options.isolation
   client.options.isolation = isolation .. "; SELECT 1 / 0"
   local ok, failure = pcall(client.begin, client)
   equal(ok, false, "begin")
   equal(failure.sql_state, "22012", "its SQLSTATE")
   client.options.isolation = isolation
   client:begin()
   client:abort()
end

sysbench.cmdline.options = {mode = {"The mode that must be found", "native"}}
sysbench.cmdline.commands = {check = {function()
   local ok, failure = pcall(function()
      local driver = sysbench.sql.driver()
      local client, other = psp.connect(driver:connect()), psp.connect(driver:connect())
      equal(client.mode, sysbench.opt.mode, "mode")
      for name, test in pairs(tests) do
         test(client, other)
         print("passed: " .. name)
      end
      client:close()
      other:close()
   end)
   if not ok then
      io.stderr:write(type(failure) == "table" and failure.sql_errmsg or tostring(failure), "\n")
      os.exit(1)
   end
end}}
