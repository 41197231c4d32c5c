-- Run by served.py, in sysbench: the Lua client library does what standard input says, one command in a line, and
-- answers each in a line. client_libs/cpp/client_fixture.cc has the commands.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
package.path = folder .. "../../../client_libs/lua/?.lua;" .. package.path
local psp = require("psp_client")

sysbench.hooks.sql_error_ignorable = function() return true end

local function text_of(tx_id, reply)
   return tx_id .. " " .. string.format("%d", reply.global_t)
end

local commands = {}

function commands.begin(client)
   return client:begin()
end

function commands.execute(client, statement)
   client.connection:query(statement)
end

function commands.commit(client, tx_id)
   tx_id = tx_id or client.open
   return text_of(tx_id, client:commit(tx_id))
end

function commands.commit_async(client)
   return client:commit_async()
end

function commands.get(client, tx_id)
   return text_of(tx_id, client:get(tx_id))
end

function commands.outcome(client, tx_id)
   return client:outcome(tx_id)
end

function commands.abort(client)
   client:abort()
end

local function answer(client, line)
   local command, argument = line:match("^(%S+) ?(.*)$")
   local ok, result = pcall(commands[command], client, argument ~= "" and argument or nil)
   if ok then
      return "ok " .. (result or "")
   end
   local failure = type(result) == "table" and result or {sql_errmsg = tostring(result)}
   return "error " .. (failure.sql_state or "XX000") .. " " .. tostring(failure.sql_errmsg):gsub("\n", " ")
end

sysbench.cmdline.commands = {serve = {function()
   local client = psp.connect(sysbench.sql.driver():connect(), {retry_interval_ms = 200})
   for line in io.lines() do
      io.stdout:write(answer(client, line), "\n")
      io.stdout:flush()
   end
   client:close()
end}}
