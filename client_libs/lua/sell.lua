-- SPDX-License-Identifier: PostgreSQL
-- README.md's example.
package.path = "client_libs/lua/?.lua;" .. package.path
local psp = require("psp_client")
local client

sysbench.hooks.sql_error_ignorable = function() return true end  -- every SQL error becomes a Lua error

function thread_init()
   client = psp.connect(sysbench.sql.driver():connect(), {isolation = "repeatable read"})
end

function event()
   client:run(function(connection)
      connection:query("UPDATE item SET stock = stock - 1 WHERE id = 7 AND stock > 0")
   end)
end
