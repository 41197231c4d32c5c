-- SPDX-License-Identifier: PostgreSQL
-- Run by test_lua.py, in sysbench: commit requests that nobody answers.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
package.path = folder .. "../?.lua;" .. folder .. "?.lua;" .. package.path
local psp = require("psp_client")
local equal = require("equal")

local TX = "00112233-4455-6677-8899-aabbccddeeff"

-- Of a semi-primary in views mode, as far as connect needs one.
local connection = {}

function connection.query(_, query)
   local value = query:find("to_regprocedure", 1, true) and "t" or "inproc://nobody"
   return {nrows = 1, fetch_row = function() return {value} end}
end

local function test_who_gives_up_asks_no_more()
   local client = psp.connect(connection, {timeout_ms = 5})
   for _ = 1, 2 do
      local ok, failure = pcall(client.commit, client, TX)
      equal(ok, false, "commit")
      equal(failure.sql_state, "08007", "its SQLSTATE")
   end
   equal(next(client.requests), nil, "a request")
   client:close()
end

sysbench.cmdline.commands = {check = {function()
   test_who_gives_up_asks_no_more()
   print("all is well")
end}}
